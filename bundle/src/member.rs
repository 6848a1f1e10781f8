//! The members of a bundle's tar: their names, their one way of being written, and its check.
//!
//! What comes in: a name of ours and a size, or a foreign block of 512 bytes. What goes out: the one
//! header that this name and size have, or which member a block announces. A foreign block is read by
//! our own few lines, then written again and compared byte for byte: a link, a device, an extension
//! header, an owner, a time or a second spelling of anything cannot get through. Names are parsed into
//! [`Member`] and are never used as paths of a file system.

use std::fmt;

use crate::digest::Digest;
use crate::index;

/// Tar's unit: headers take one block, content is filled up with zeros to a whole one.
pub const BLOCK: usize = 512;
/// Longest role name inside a metadata file's name; keeps every member name below ustar's 100 bytes.
const MAX_ROLE_BYTES: usize = 32;
/// Most digits of a version: enough for every signed 64-bit number.
const MAX_VERSION_DIGITS: usize = 19;

/// Where metadata of streams stands among the files of metadata.
const STREAM_RANK: u8 = 4;

const FOLDER_METADATA: &str = "metadata/";
const FOLDER_BLOBS: &str = "blobs/sha256/";
const FOLDER_PATCHES: &str = "patches/sha256/";
const VOLUME: &str = "volume.json";
const PARITY_JSON: &str = "parity.json";
const PARITY: &str = "parity";
const COMPRESSED_INDEX: &str = "index.json.zst";

/// One member of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Member {
    Metadata(MetadataName),
    Index,
    /// The index in compressed form, in its place.
    CompressedIndex,
    /// Which part of a bundle the file is; only such a file has it.
    Volume,
    /// Which parity part the file is; only such a file has it, and what follows.
    ParityJson,
    /// The bytes of a parity part, and their digest.
    Parity,
    Blob(Digest),
    /// How the blob of this digest is made of blobs that a site has; only a copy for such sites has it.
    Patch(Digest),
}

/// A metadata file's name: `timestamp.json` or `<version>.<role>.json`. Its order is the order in
/// the tar: roots, timestamp, snapshot, targets, then the other roles; versions ascend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MetadataName {
    rank: u8,
    role: String,
    version: u64,
}

impl MetadataName {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let stem = text.strip_suffix(".json")?;
        if stem == "timestamp" {
            return Some(Self {
                rank: 1,
                role: stem.to_owned(),
                version: 0,
            });
        }
        let (digits, role) = stem.split_once('.')?;
        let plain_number = (1..=MAX_VERSION_DIGITS).contains(&digits.len())
            && digits.bytes().all(|b| b.is_ascii_digit())
            && !digits.starts_with('0');
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let plain_role = (1..=MAX_ROLE_BYTES).contains(&role.len())
            && role.bytes().all(allowed)
            && role.as_bytes()[0].is_ascii_lowercase();
        if !plain_number || !plain_role || role == "timestamp" {
            return None;
        }
        let rank = match role {
            "root" => 0,
            "snapshot" => 2,
            "targets" => 3,
            _ => STREAM_RANK,
        };
        Some(Self {
            rank,
            role: role.to_owned(),
            version: digits.parse().ok()?,
        })
    }
}

impl MetadataName {
    /// Whether it is the metadata of a stream, which lists the index.
    pub(crate) fn is_of_a_stream(&self) -> bool {
        self.rank == STREAM_RANK
    }
}

impl fmt::Display for MetadataName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            0 => write!(f, "{}.json", self.role),
            version => write!(f, "{version}.{}.json", self.role),
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata(name) => write!(f, "{FOLDER_METADATA}{name}"),
            Self::Index => f.write_str(index::FILE),
            Self::CompressedIndex => f.write_str(COMPRESSED_INDEX),
            Self::Volume => f.write_str(VOLUME),
            Self::ParityJson => f.write_str(PARITY_JSON),
            Self::Parity => f.write_str(PARITY),
            Self::Blob(digest) => write!(f, "{FOLDER_BLOBS}{}", digest.hex()),
            Self::Patch(digest) => write!(f, "{FOLDER_PATCHES}{}", digest.hex()),
        }
    }
}

impl Member {
    /// The member of this name, if bundles have one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix(FOLDER_METADATA) {
            MetadataName::parse(name).map(Self::Metadata)
        } else if let Some(hex) = text.strip_prefix(FOLDER_BLOBS) {
            Digest::from_hex(hex).ok().map(Self::Blob)
        } else if let Some(hex) = text.strip_prefix(FOLDER_PATCHES) {
            Digest::from_hex(hex).ok().map(Self::Patch)
        } else {
            match text {
                VOLUME => Some(Self::Volume),
                PARITY_JSON => Some(Self::ParityJson),
                PARITY => Some(Self::Parity),
                index::FILE => Some(Self::Index),
                COMPRESSED_INDEX => Some(Self::CompressedIndex),
                _ => None,
            }
        }
    }

    /// The one header of this member at this size.
    pub(crate) fn header(&self, size: u64) -> [u8; BLOCK] {
        let mut header = tar::Header::new_ustar();
        let name = self.to_string();
        // Written straight into the field: every name of ours is shorter than it.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(size);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_device_major(0).ok();
        header.set_device_minor(0).ok();
        header.set_cksum();
        *header.as_bytes()
    }
}

/// The content of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    /// A member follows, of so many bytes.
    Member(Member, u64),
    /// A block of zeros: the end.
    Zeros,
}

/// Why a block is not a header of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The checksum does not fit the block.
    #[error("a tar header with checksum {expected}, its bytes sum up to {found}")]
    Checksum {
        /// The sum that the header states.
        expected: u64,
        /// The sum of its bytes.
        found: u64,
    },
    /// Not a POSIX ustar header.
    #[error("no POSIX (ustar) tar header")]
    NotUstar,
    /// A link, device, folder or extension header.
    #[error("`{name}` is a {found}, a bundle holds regular files only")]
    Kind {
        /// The member's name, made printable.
        name: String,
        /// What it is.
        found: &'static str,
    },
    /// A name that bundles do not have.
    #[error(
        "a member is called `{name}`, a bundle holds `metadata/<file>`, `index.json` and \
         `blobs/sha256/<digest>` only"
    )]
    Name {
        /// The name, made printable.
        name: String,
    },
    /// A header with the right content in a spelling that no bundle has.
    #[error("`{name}`: the header's {field} is not as a bundle's writer sets it")]
    NotCanonical {
        /// The member's name.
        name: String,
        /// The first field that differs.
        field: &'static str,
    },
}

impl HeaderError {
    /// The rule that it breaks, as a short word.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Checksum { .. } => "checksum",
            Self::Kind { .. } => "member-kind",
            Self::Name { .. } => "member-name",
            Self::NotUstar | Self::NotCanonical { .. } => "header",
        }
    }
}

/// The fields of a ustar header: where each ends, and its name.
const FIELDS: [(usize, &str); 16] = [
    (100, "name"),
    (108, "mode"),
    (116, "user id"),
    (124, "group id"),
    (136, "size"),
    (148, "modification time"),
    (156, "checksum"),
    (157, "type"),
    (257, "link name"),
    (263, "magic"),
    (265, "version"),
    (297, "user name"),
    (329, "group name"),
    (337, "device major"),
    (345, "device minor"),
    (512, "prefix or padding"),
];

/// Reads one block.
pub(crate) fn parse(block: &[u8; BLOCK]) -> Result<Block, HeaderError> {
    if block.iter().all(|b| *b == 0) {
        return Ok(Block::Zeros);
    }
    let found = block.iter().enumerate().fold(0u64, |sum, (at, byte)| {
        // The checksum field itself counts as spaces.
        sum + u64::from(if (148..156).contains(&at) {
            b' '
        } else {
            *byte
        })
    });
    let expected = number(&block[148..156]).unwrap_or(0);
    if expected != found {
        return Err(HeaderError::Checksum { expected, found });
    }
    let text = until_nul(&block[..100]);
    let name = printable(text);
    if &block[257..262] != b"ustar" {
        return Err(HeaderError::NotUstar);
    }
    if let Some(found) = kind(block[156]) {
        return Err(HeaderError::Kind { name, found });
    }
    let member = std::str::from_utf8(text).ok().and_then(Member::parse);
    let Some(member) = member else {
        return Err(HeaderError::Name { name });
    };
    let Some(size) = number(&block[124..136]) else {
        return Err(HeaderError::NotCanonical {
            name,
            field: "size",
        });
    };
    let canonical = member.header(size);
    if *block == canonical {
        return Ok(Block::Member(member, size));
    }
    // The checksum differs with any other field: it is named only when it alone does.
    let differs = |at: &usize| block[*at] != canonical[*at] && !(148..156).contains(at);
    let at = (0..BLOCK).find(differs).unwrap_or(148);
    let field = FIELDS
        .iter()
        .find(|(end, _)| at < *end)
        .map_or("padding", |field| field.1);
    Err(HeaderError::NotCanonical { name, field })
}

/// A number of a header: octal digits, or, for what they cannot hold, base 256.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let (head, tail) = field.split_at(field.len().checked_sub(8)?);
        let small = head
            .iter()
            .enumerate()
            .all(|(at, b)| *b == if at == 0 { 0x80 } else { 0 });
        return small.then(|| tail.iter().fold(0, |n, b| (n << 8) | u64::from(*b)));
    }
    let digits: &[u8] = until_nul(field);
    let digits = digits.strip_suffix(b" ").unwrap_or(digits);
    if digits.is_empty() || !digits.iter().all(|b| (b'0'..=b'7').contains(b)) {
        return None;
    }
    // At most 12 octal digits: 36 bits.
    Some(digits.iter().fold(0, |n, b| (n << 3) | u64::from(b - b'0')))
}

fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|b| *b == 0).next().unwrap_or_default()
}

/// A foreign name for a message: no control characters, not endless.
pub(crate) fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name)
        .escape_debug()
        .take(120)
        .collect()
}

/// What a type flag stands for, if it is not a regular file.
fn kind(flag: u8) -> Option<&'static str> {
    Some(match flag {
        b'0' => return None,
        b'1' => "hard link",
        b'2' => "symbolic link",
        b'3' => "character device",
        b'4' => "block device",
        b'5' => "folder",
        b'6' => "named pipe",
        b'g' | b'x' => "pax extension header",
        b'L' | b'K' => "GNU long-name header",
        b'S' => "GNU sparse file",
        _ => "member of an unknown kind",
    })
}

#[cfg(test)]
mod tests;
