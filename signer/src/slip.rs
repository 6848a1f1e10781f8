//! The freshness slip: a fleet's newest signed metadata and nothing else, small enough for paper.
//!
//! It revokes keys, raises floors and brings time to a site that no bundle reaches: as a file, as a QR
//! code, or typed. What comes in: the metadata files of a publication, or bytes and text of unknown
//! origin. What goes out: at most a few KiB, or the same files byte for byte, which
//! [`crate::trust::verify`] then verifies like those of any other transport. The slip itself proves nothing:
//! its checksum finds typing errors, and the names in its head are hints for messages.
//!
//! Nothing unverified may be decompressed, so this is not compression: each value of canonical JSON has one
//! shorter spelling and back ([`json`]), with bounds on input, output and depth, and a slip that is
//! spelled in any other way is refused.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::trust::MAX_VERSION;

mod json;
mod make;
mod text;
mod words;

pub use make::NewSlip;

/// The first bytes of every slip; the last of them is the version of the spelling.
pub const MAGIC: [u8; 4] = *b"OHS\x01";
/// Largest slip in bytes. 64 KiB: a fleet of some thousand streams; one of ten needs less than 2 KiB.
pub const MAX_SLIP_BYTES: usize = 64 * 1024;
/// Most bytes of all files of a slip together.
pub const MAX_FILES_BYTES: usize = 1024 * 1024;
/// Longest text that is taken for a slip, in bytes: the largest slip, spaced out twice over.
pub const MAX_TEXT_BYTES: usize = 4 * MAX_SLIP_BYTES;

/// What a scanned slip begins with, so that a text states what it is for.
pub const PREFIX: &str = "OUTHAUL:";

const CHECKSUM_BYTES: usize = 4;

/// A freshness slip. Whether it may be accepted is for [`crate::trust::verify`] to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slip {
    fleet: String,
    role: String,
    files: BTreeMap<String, Vec<u8>>,
}

/// Why there is no slip.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlipError {
    /// The checksum is wrong.
    #[error(
        "the slip is damaged: its checksum is {expected}, what was read gives {found}\n\
         help: copy, scan or type it again; nothing was changed"
    )]
    Damaged {
        /// As the slip states.
        expected: String,
        /// As computed.
        found: String,
    },
    /// Not spelled as this program spells slips.
    #[error("this is not a slip that Outhaul wrote: {problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// Something else.
    #[error("this is not a freshness slip")]
    NotASlip,
    /// More than fits.
    #[error("a slip of {bytes} bytes, the limit is {max_bytes}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
    /// A typing error in the text form.
    #[error("line {line} of the slip has a typing error: {problem}")]
    Typing {
        /// Which line of 42 characters, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Of a later version.
    #[error(
        "a slip of version {found}, this program reads version {}\n\
         help: update this program, or ask the centre for a slip of this version",
        MAGIC[3]
    )]
    UnknownVersion {
        /// The version.
        found: u8,
    },
}

impl SlipError {
    /// One stable word for the rule that refused, for reports and tests.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "damaged-slip",
            Self::Malformed { .. } => "malformed",
            Self::NotASlip => "not-a-slip",
            Self::TooLarge { .. } => "oversized",
            Self::Typing { .. } => "typing-error",
            Self::UnknownVersion { .. } => "unknown-version",
        }
    }
}

fn malformed(problem: impl Into<String>) -> SlipError {
    SlipError::Malformed {
        problem: problem.into(),
    }
}

impl Slip {
    /// A slip of the publication `files` for the stream `role` of the fleet `fleet`. Root versions up to
    /// and including `since_root` are left out: the site is known to have them. Files that no site of
    /// this stream needs are left out as well.
    ///
    /// # Errors
    /// [`SlipError`] when a name is not a name of metadata or it gets too large.
    pub fn new(
        fleet: &str,
        role: &str,
        files: &[(String, Vec<u8>)],
        since_root: u64,
    ) -> Result<Self, SlipError> {
        let mut kept = BTreeMap::new();
        for (name, bytes) in files {
            match FileKind::of(name, role) {
                Some(FileKind::Root(version)) if version <= since_root => {}
                Some(_) => drop(kept.insert(name.clone(), bytes.clone())),
                None => return Err(malformed(format!("`{name}` is not metadata of `{role}`"))),
            }
        }
        let slip = Self {
            fleet: fleet.to_owned(),
            role: role.to_owned(),
            files: kept,
        };
        slip.check_size()?;
        Ok(slip)
    }

    /// The fleet that the slip names. An unverified hint.
    pub fn fleet(&self) -> &str {
        &self.fleet
    }

    /// The stream's role that the slip names. An unverified hint.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// The oldest root version in it, if it carries any: a site must know the one before, or a later one.
    pub fn oldest_root(&self) -> Option<u64> {
        let roots = self
            .files
            .keys()
            .filter_map(|name| match FileKind::of(name, &self.role) {
                Some(FileKind::Root(version)) => Some(version),
                _ => None,
            });
        roots.min()
    }

    /// Its files, by name: a source for [`crate::trust::verify`] like a bundle's metadata.
    pub fn source(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// The bytes of the slip's file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = json::Writer::new(MAGIC.to_vec());
        writer.text(&self.fleet);
        writer.text(&self.role);
        // In this order each file's digest is known before the file that pins it.
        let mut files: Vec<(FileKind, &[u8])> = self
            .files
            .iter()
            .filter_map(|(name, bytes)| Some((FileKind::of(name, &self.role)?, &bytes[..])))
            .collect();
        files.sort_unstable();
        writer.count(files.len() as u64);
        for (kind, bytes) in files {
            let (tag, version) = kind.to_parts();
            writer.byte(tag);
            writer.count(version);
            writer.file(bytes);
        }
        let mut bytes = writer.into_bytes();
        let checksum = checksum(&bytes);
        bytes.extend(checksum);
        bytes
    }

    /// The slip in a file's bytes: in its own form, or as text.
    ///
    /// # Errors
    /// [`SlipError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SlipError> {
        if bytes.starts_with(&MAGIC[..3]) {
            return Self::from_binary(bytes);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if bytes.len() <= MAX_TEXT_BYTES => Self::from_text(text),
            _ => Err(SlipError::NotASlip),
        }
    }

    /// The slip as text, for typing and for QR codes: lines of 40 characters and 2 check characters.
    pub fn to_text(&self) -> String {
        text::encode(&self.to_bytes())
    }

    /// The slip as one line without spaces: what its QR code holds. It begins with [`PREFIX`].
    pub fn to_line(&self) -> String {
        let text = self.to_text();
        std::iter::once(PREFIX)
            .chain(text.split_ascii_whitespace())
            .collect()
    }

    /// The slip in a text that was scanned or typed, with [`PREFIX`] or without. Case, spaces, hyphens and
    /// line breaks do not count.
    ///
    /// # Errors
    /// [`SlipError::Typing`] names the first wrong line; other [`SlipError`]s.
    pub fn from_text(text: &str) -> Result<Self, SlipError> {
        let bytes = text::decode(without_prefix(text))?;
        if !bytes.starts_with(&MAGIC[..3]) {
            return Err(SlipError::NotASlip);
        }
        Self::from_binary(&bytes)
    }

    fn from_binary(bytes: &[u8]) -> Result<Self, SlipError> {
        if bytes.len() > MAX_SLIP_BYTES {
            return Err(SlipError::TooLarge {
                bytes: bytes.len(),
                max_bytes: MAX_SLIP_BYTES,
            });
        }
        let version = bytes.get(3).copied().ok_or(SlipError::NotASlip)?;
        if version != MAGIC[3] {
            return Err(SlipError::UnknownVersion { found: version });
        }
        let (body, expected) = bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .filter(|(body, _)| body.len() > MAGIC.len())
            .ok_or(SlipError::NotASlip)?;
        let found = checksum(body);
        if found != *expected {
            let (expected, found) = (hex::encode(expected), hex::encode(found));
            return Err(SlipError::Damaged { expected, found });
        }
        let slip = Self::from_body(&body[MAGIC.len()..])?;
        // One slip, one spelling: nothing rides along in a choice that the reader does not see.
        if slip.to_bytes() != bytes {
            return Err(malformed("it is not spelled in its one form"));
        }
        Ok(slip)
    }

    fn from_body(body: &[u8]) -> Result<Self, SlipError> {
        let mut reader = json::Reader::new(body, MAX_FILES_BYTES);
        let (fleet, role) = (reader.text()?, reader.text()?);
        let mut files = BTreeMap::new();
        for _ in 0..reader.count()? {
            let (tag, version) = (reader.byte()?, reader.count()?);
            let kind = FileKind::from_parts(tag, version).ok_or_else(|| {
                malformed(format!(
                    "there is no file of kind {tag} and version {version}"
                ))
            })?;
            files.insert(kind.name(&role), reader.file()?);
        }
        reader.end()?;
        Ok(Self { fleet, role, files })
    }

    fn check_size(&self) -> Result<(), SlipError> {
        let too_large = |bytes, max_bytes| Err(SlipError::TooLarge { bytes, max_bytes });
        let files: usize = self.files.values().map(Vec::len).sum();
        if files > MAX_FILES_BYTES {
            return too_large(files, MAX_FILES_BYTES);
        }
        let bytes = self.to_bytes().len();
        if bytes > MAX_SLIP_BYTES {
            return too_large(bytes, MAX_SLIP_BYTES);
        }
        Ok(())
    }
}

/// Which metadata a file is. The order is that of the files in a slip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FileKind {
    Root(u64),
    Targets(u64),
    Stream(u64),
    Snapshot(u64),
    Timestamp,
}

impl FileKind {
    /// The kind of the file `name` in a slip for the stream `role`.
    fn of(name: &str, role: &str) -> Option<Self> {
        if name == "timestamp.json" {
            return Some(Self::Timestamp);
        }
        let (version, rest) = name.split_once('.')?;
        let number: u64 = version.parse().ok()?;
        if number.to_string() != version || number > MAX_VERSION {
            return None;
        }
        match rest.strip_suffix(".json")? {
            "root" => Some(Self::Root(number)),
            "targets" => Some(Self::Targets(number)),
            "snapshot" => Some(Self::Snapshot(number)),
            other if other == role && other != "timestamp" => Some(Self::Stream(number)),
            _ => None,
        }
    }

    fn name(self, role: &str) -> String {
        match self {
            Self::Root(version) => format!("{version}.root.json"),
            Self::Targets(version) => format!("{version}.targets.json"),
            Self::Stream(version) => format!("{version}.{role}.json"),
            Self::Snapshot(version) => format!("{version}.snapshot.json"),
            Self::Timestamp => "timestamp.json".to_owned(),
        }
    }

    fn to_parts(self) -> (u8, u64) {
        match self {
            Self::Root(version) => (0, version),
            Self::Targets(version) => (1, version),
            Self::Stream(version) => (2, version),
            Self::Snapshot(version) => (3, version),
            Self::Timestamp => (4, 0),
        }
    }

    fn from_parts(tag: u8, version: u64) -> Option<Self> {
        if version > MAX_VERSION {
            return None;
        }
        match tag {
            0 => Some(Self::Root(version)),
            1 => Some(Self::Targets(version)),
            2 => Some(Self::Stream(version)),
            3 => Some(Self::Snapshot(version)),
            4 => Some(Self::Timestamp),
            _ => None,
        }
    }
}

fn without_prefix(text: &str) -> &str {
    let text = text.trim_start();
    match text.split_at_checked(PREFIX.len()) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case(PREFIX) => rest,
        _ => text,
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let digest = Sha256::digest(bytes);
    [digest[0], digest[1], digest[2], digest[3]]
}

#[cfg(test)]
mod tests;
