//! What a bundle file is: read whole, every digest checked, and its signatures where a root is at hand.
//!
//! What comes in: a stream of bytes and, when the person has it, a fleet's root metadata. What goes
//! out: an [`Inspection`]. Without a root the digests hold but nobody has verified them, and the result
//! says so. Nothing is written, nothing but the provenance is decompressed, memory does not grow with the bundle.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use jiff::Timestamp;
use outhaul_bundle::decode::{self, InMemory};
use outhaul_bundle::index::{Blob, Content, Index};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::patch;
use outhaul_bundle::read::{BlobSink, BundleReader, ReadError};
use outhaul_bundle::{Digest, Parity, Volume, digest::DigestError};
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_signer::clock::TimePolicy;
use outhaul_signer::trust::{self, TrustError, TrustedMetadata};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::PROVENANCE;
use crate::verified::{self, VerifiedImage};

/// What was found.
#[derive(Debug)]
pub struct Inspection {
    /// What the bundle says.
    pub index: Index,
    /// Which part of the bundle the file is; `None` for a whole bundle.
    pub volume: Option<Volume>,
    /// Which parity part it is, of which lost parts are made again; it holds no blob.
    pub parity: Option<Parity>,
    /// How many layers it carries as patches of twins, their uncompressed archives: only a site that brings images into containerd takes it.
    pub twins: usize,
    /// Bytes of the whole file.
    pub bytes: u64,
    /// The images whose signatures were verified when it was made; `None` where its provenance cannot be read: it is sealed, or in another
    /// part.
    pub verified: Option<Vec<VerifiedImage>>,
    /// Each metadata file.
    pub metadata: Vec<MetadataFile>,
    /// Whether signatures hold against the root given; `None` when none was given.
    pub trusted: Option<Trusted>,
}

/// One metadata file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetadataFile {
    /// File name.
    pub file: String,
    /// Version.
    pub version: u64,
    /// Until when it holds.
    pub expires: String,
    /// First 8 digits of the id of each key that signed.
    pub signed_by: Vec<String>,
}

/// What a site that was enrolled with the given root would say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    /// When it was issued.
    pub issued: Timestamp,
    /// Until when it may be installed.
    pub expires: Timestamp,
    /// Whether that has passed.
    pub expired: bool,
}

/// Why a file is not a bundle to be accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// Its bytes are not what they are said to be.
    #[error("it is damaged or was changed")]
    Read(#[from] ReadError),
    /// Its metadata has not the expected form.
    #[error("its metadata is not that of a bundle: {problem}")]
    Metadata {
        /// What is wrong.
        problem: String,
    },
    /// A site of this fleet would refuse it.
    #[error("a site of this fleet would refuse it (rule `{}`)", .0.rule())]
    Trust(#[from] TrustError),
}

impl Classified for InspectError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Read(read) if read.is_environment() => FailureClass::Environment,
            Self::Read(_) | Self::Metadata { .. } | Self::Trust(_) => FailureClass::Trust,
        }
    }
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    signatures: Vec<Signature>,
    signed: Signed,
}

#[derive(Deserialize)]
struct Signature {
    keyid: String,
}

#[derive(Deserialize)]
struct Signed {
    version: u64,
    expires: String,
    #[serde(default)]
    targets: BTreeMap<String, Target>,
}

#[derive(Deserialize)]
struct RootEnvelope {
    signed: RootKeys,
}

#[derive(Deserialize)]
#[expect(
    clippy::zero_sized_map_values,
    reason = "the keys' names are read; what follows them is skipped"
)]
struct RootKeys {
    keys: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct Target {
    length: u64,
    hashes: BTreeMap<String, String>,
}

/// Reads the whole bundle. `root` is a fleet's root metadata, any version; `now` is the reader's clock.
///
/// # Errors
/// [`InspectError`] at the first thing that does not hold.
pub fn inspect(
    input: impl Read,
    root: Option<&[u8]>,
    now: Timestamp,
) -> Result<Inspection, InspectError> {
    let mut reader = BundleReader::new(input, Limits::default());
    let files = reader.read_metadata()?;
    let parsed = parse_all(&files)?;
    let (role, unverified) = index_target(&parsed)?;
    let mut trusted = None;
    let (index, _) = match root {
        None => reader.read_index(&unverified)?,
        Some(root) => {
            let policy = TimePolicy {
                lower_bound: now,
                wall: now,
                wall_trusted: false,
            };
            let enrolled = TrustedMetadata::enrol(root)?;
            let accepted = trust::verify(&enrolled, &BTreeMap::new(), &files, &role, policy)?;
            trusted = Some(Trusted {
                issued: accepted.issued,
                expires: accepted.expires,
                expired: accepted.expired,
            });
            let content = |(size, sha256)| Content {
                digest: Digest::from_bytes(sha256),
                size,
            };
            let expected = content((accepted.index_length, accepted.index_sha256));
            reader.read_verified_index(&expected, accepted.index_compressed.map(content))?
        }
    };
    let volume = reader.read_volume(&index)?;
    let parity = reader.read_parity(&index)?;
    let mut blobs = BlobCheck::new(&index);
    match &parity {
        Some(_) => reader.read_parity_bytes(&index, &mut io::sink())?,
        None => reader.read_blobs(&index, &mut blobs)?,
    }
    let twins = blobs.twins;
    let verified = blobs.verified();
    let metadata = parsed
        .into_iter()
        .map(|(file, envelope)| MetadataFile {
            file,
            version: envelope.signed.version,
            expires: envelope.signed.expires,
            signed_by: envelope
                .signatures
                .into_iter()
                .map(|signature| signature.keyid.chars().take(8).collect())
                .collect(),
        })
        .collect();
    Ok(Inspection {
        index,
        volume,
        parity,
        twins,
        bytes: reader.offset(),
        verified,
        metadata,
        trusted,
    })
}

/// Whether `input` is a bundle, or a part of one, of another fleet: none of the keys in `root`, root metadata, signed anything of it. What
/// cannot be read is of none.
pub fn is_of_another_fleet(input: impl Read, root: &[u8], now: Timestamp) -> bool {
    let found = inspect(input, None, now);
    found.is_ok_and(|found| is_signed_by_none(&found.metadata, root))
}

/// Whether `root` is root metadata that has none of the keys that signed `metadata`.
fn is_signed_by_none(metadata: &[MetadataFile], root: &[u8]) -> bool {
    let Ok(root) = serde_json::from_slice::<RootEnvelope>(root) else {
        return false;
    };
    let has = |signer: &String| {
        let mut keys = root.signed.keys.keys();
        keys.any(|key| key.starts_with(signer.as_str()))
    };
    !metadata.iter().flat_map(|file| &file.signed_by).any(has)
}

/// The index that the metadata of a bundle names; nobody has verified it here.
///
/// # Errors
/// [`InspectError`] for metadata that is not a bundle's.
pub fn index_named(files: &BTreeMap<String, Vec<u8>>) -> Result<Content, InspectError> {
    Ok(index_target(&parse_all(files)?)?.1)
}

fn parse_all(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<(String, Envelope)>, InspectError> {
    files
        .iter()
        .map(|(name, bytes)| match serde_json::from_slice(bytes) {
            Ok(envelope) => Ok((name.clone(), envelope)),
            Err(error) => Err(InspectError::Metadata {
                problem: format!("`{name}`: {error}"),
            }),
        })
        .collect()
}

/// The one target called `<role>/index.json`.
fn index_target(parsed: &[(String, Envelope)]) -> Result<(String, Content), InspectError> {
    let bad = |problem: String| InspectError::Metadata { problem };
    for (file, envelope) in parsed {
        for (path, target) in &envelope.signed.targets {
            let Some(role) = path.strip_suffix("/index.json") else {
                continue;
            };
            let hex = target.hashes.get("sha256").map_or("", String::as_str);
            let digest = Digest::from_hex(hex)
                .map_err(|error: DigestError| bad(format!("`{file}`: {error}")))?;
            return Ok((
                role.to_owned(),
                Content {
                    digest,
                    size: target.length,
                },
            ));
        }
    }
    Err(bad("no file of it names an `index.json`".to_owned()))
}

/// Largest blob, and largest text, in which provenance is looked for, in bytes.
const MAX_PROVENANCE_BYTES: u64 = 16 * 1024 * 1024;

/// Checks every blob, keeps the provenance, and counts twins.
struct BlobCheck {
    digest: Option<Digest>,
    open: Option<Vec<u8>>,
    found: InMemory<Digest>,
    /// The first bytes of the patch that is read.
    patch: Vec<u8>,
    twins: usize,
}

impl BlobCheck {
    fn new(index: &Index) -> Self {
        let mut attestations = index.attestations.iter();
        let file = attestations.find(|file| file.path.as_str() == PROVENANCE);
        Self {
            digest: file.map(|file| file.content),
            open: None,
            found: InMemory::default(),
            patch: Vec::new(),
            twins: 0,
        }
    }

    fn verified(self) -> Option<Vec<VerifiedImage>> {
        let bytes = self.found.take().remove(&self.digest?)?;
        let statement = outhaul_signer::Envelope::from_json(&bytes).ok()?;
        verified::verified(statement.unverified_payload()).ok()
    }
}

impl BlobSink for BlobCheck {
    fn begin(&mut self, blob: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        let mut contents = blob.contents.iter();
        let has_it = contents.any(|content| Some(content.digest) == self.digest);
        let plain: u64 = blob.contents.iter().map(|content| content.size).sum();
        let is_small = blob.size.max(plain) <= MAX_PROVENANCE_BYTES;
        self.open = None;
        if !has_it || blob.sealed.is_some() || !is_small {
            return Ok(None);
        }
        Ok(Some(Box::new(self.open.insert(Vec::new()))))
    }

    fn commit(&mut self, blob: &Blob) -> io::Result<()> {
        let Some(bytes) = self.open.take() else {
            return Ok(());
        };
        let mut each = |content: &Content| {
            let is_it = Some(content.digest) == self.digest;
            Ok(is_it.then(|| self.found.writer(content.digest)))
        };
        decode::decode(blob, &*bytes, &Limits::default(), &mut each)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    fn discard(&mut self, _blob: &Blob) {
        self.open = None;
    }

    fn begin_patch(&mut self, _: &Blob, _: u64) -> io::Result<Option<Box<dyn Write + '_>>> {
        self.patch.clear();
        Ok(Some(Box::new(FirstBytes(&mut self.patch))))
    }

    fn commit_patch(&mut self, _: &Blob) -> io::Result<()> {
        self.twins += usize::from(patch::makes_twin(&self.patch));
        Ok(())
    }
}

/// Keeps as many bytes of a patch as tell its kind.
struct FirstBytes<'a>(&'a mut Vec<u8>);

impl Write for FirstBytes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let missing = patch::KIND_BYTES.saturating_sub(self.0.len());
        self.0.extend(bytes.iter().take(missing));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks every blob and keeps nothing.
#[derive(Debug, Default)]
pub struct CheckOnly;

impl BlobSink for CheckOnly {
    fn begin(&mut self, _blob: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        Ok(None)
    }

    fn commit(&mut self, _blob: &Blob) -> io::Result<()> {
        Ok(())
    }

    fn discard(&mut self, _blob: &Blob) {}

    fn begin_patch(&mut self, _: &Blob, _: u64) -> io::Result<Option<Box<dyn Write + '_>>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::index::Encoding;

    use super::*;

    #[test]
    fn a_bundle_is_of_another_fleet_when_no_key_of_the_root_signed_any_of_it() {
        let file = |name: &str, signers: &[&str]| MetadataFile {
            file: name.to_owned(),
            version: 1,
            expires: String::new(),
            signed_by: signers.iter().map(|&id| id.to_owned()).collect(),
        };
        let root = br#"{"signed": {"keys": {"11111111aa": {}, "22222222bb": {}}}}"#;
        let ours = [
            file("a", &["99999999"]),
            file("b", &["88888888", "22222222"]),
        ];
        let others = [file("a", &["99999999"])];
        assert!(!is_signed_by_none(&ours, root));
        assert!(is_signed_by_none(&others, root));
        // Whose it is cannot be told by what is no root metadata, nor of what is no bundle.
        assert!(!is_signed_by_none(&others, b"{}"));
        assert!(!is_of_another_fleet(
            &b"no bundle"[..],
            root,
            Timestamp::UNIX_EPOCH
        ));
    }

    #[test]
    fn a_patch_that_makes_a_twin_is_known_by_its_first_bytes() {
        let blob = Blob {
            digest: Digest::of(b"layer"),
            size: 5,
            encoding: Encoding::Identity,
            contents: Vec::new(),
            sealed: None,
        };
        let mut check = BlobCheck {
            digest: None,
            open: None,
            found: InMemory::default(),
            patch: Vec::new(),
            twins: 0,
        };
        for start in ["outhaul patch 1\n", "outhaul patch 2\n", "outhaul pat"] {
            let mut out = check.begin_patch(&blob, 40).unwrap().unwrap();
            // However the reader parts it.
            for byte in start.bytes().chain(*b"and what follows") {
                out.write_all(&[byte]).unwrap();
            }
            drop(out);
            check.commit_patch(&blob).unwrap();
        }
        assert_eq!(check.twins, 1);
    }
}
