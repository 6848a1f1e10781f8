//! TUF metadata as Outhaul writes it: root, targets, snapshot, timestamp, and the role of a stream.
//!
//! What comes in: typed values and signers. What goes out: the file's bytes; the signed part is encoded
//! once, canonically, and these same bytes are signed and shipped. Reading back is for files that this
//! module wrote itself: what others wrote is verified by [`crate::trust`] and never here.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::canonical::{self, CanonicalError};
use crate::key::{KeyError, PublicKey, SigningKey};

/// The TUF specification that is followed.
pub const SPEC_VERSION: &str = "1.0.34";

/// Something that signs: a key in memory, or a program that holds one.
pub trait Signs {
    /// The public half.
    fn public(&self) -> PublicKey;

    /// The signature over `bytes`.
    ///
    /// # Errors
    /// [`KeyError`] when the holder of the key does not sign.
    fn signature(&self, bytes: &[u8]) -> Result<[u8; 64], KeyError>;
}

impl Signs for SigningKey {
    fn public(&self) -> PublicKey {
        Self::public(self)
    }

    fn signature(&self, bytes: &[u8]) -> Result<[u8; 64], KeyError> {
        Ok(self.sign(bytes))
    }
}

/// A public key in metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// `ed25519`.
    pub keytype: String,
    /// The key's value: `public` in hexadecimal.
    pub keyval: BTreeMap<String, String>,
    /// `ed25519`.
    pub scheme: String,
}

impl Key {
    /// The metadata form of `key`.
    pub fn new(key: &PublicKey) -> Self {
        Self {
            keytype: "ed25519".to_owned(),
            keyval: BTreeMap::from([("public".to_owned(), key.to_hex())]),
            scheme: "ed25519".to_owned(),
        }
    }
}

/// Who signs a role, and how many must.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleKeys {
    /// Ids of the keys, sorted.
    pub keyids: Vec<String>,
    /// Distinct keys that must sign, at least 1.
    pub threshold: usize,
}

/// What people call a key, and who holds it. Words of those who signed the metadata; the id is what counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The key's name, such as `vault-b`; a label by [`is_label`], or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Who holds it, such as `Ana Lima`; a label by [`is_label`], or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub holder: String,
}

/// Names and holders, by key id.
pub type Holders = BTreeMap<String, Holder>;

/// Most characters of a name or holder.
const MAX_LABEL: usize = 64;

/// Whether `text` can be shown to people as it is: 1 to 64 letters, digits, blanks and `. , _ - + @ ' ( ) / :`.
pub fn is_label(text: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || " .,_-+@'()/:".contains(c);
    !text.trim().is_empty() && text.chars().count() <= MAX_LABEL && text.chars().all(allowed)
}

/// Root metadata: which signatures count for what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// `root`.
    #[serde(rename = "_type")]
    pub kind: String,
    /// [`SPEC_VERSION`].
    pub spec_version: String,
    /// 1, 2, 3 …
    pub version: u64,
    /// When it expires, whole seconds.
    pub expires: Timestamp,
    /// Always true: file names carry versions and digests.
    pub consistent_snapshot: bool,
    /// Every key of a role, by id.
    pub keys: BTreeMap<String, Key>,
    /// `root`, `snapshot`, `targets`, `timestamp`.
    pub roles: BTreeMap<String, RoleKeys>,
    /// What people call the keys.
    #[serde(
        default,
        rename = "x-outhaul-holders",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub holders: Holders,
}

impl Root {
    /// Whether all four top-level roles are there, so that they can be looked up by name.
    pub fn is_complete(&self) -> bool {
        let roles = ["root", "snapshot", "targets", "timestamp"];
        roles.iter().all(|role| self.roles.contains_key(*role))
    }
}

/// Targets metadata: the fleet's streams, or one stream's index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Targets {
    /// `targets`.
    #[serde(rename = "_type")]
    pub kind: String,
    /// [`SPEC_VERSION`].
    pub spec_version: String,
    /// 1, 2, 3 …; for a stream, the bundle's number.
    pub version: u64,
    /// When it expires, whole seconds.
    pub expires: Timestamp,
    /// Files, by path.
    pub targets: BTreeMap<String, TargetFile>,
    /// The streams' roles; only the fleet's own targets metadata has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegations: Option<Delegations>,
}

/// One file that targets metadata lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFile {
    /// Size in bytes.
    pub length: u64,
    /// `sha256` in hexadecimal.
    pub hashes: BTreeMap<String, String>,
    /// Outhaul's own words about it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub custom: Value,
}

/// Roles that targets metadata hands parts of its names to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Delegations {
    /// Every key of a role, by id.
    pub keys: BTreeMap<String, Key>,
    /// The roles, in order of preference.
    pub roles: Vec<DelegatedRole>,
    /// What people call the keys.
    #[serde(
        default,
        rename = "x-outhaul-holders",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub holders: Holders,
}

/// One delegated role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegatedRole {
    /// Its name.
    pub name: String,
    /// Ids of its keys, sorted.
    pub keyids: Vec<String>,
    /// Distinct keys that must sign, at least 1.
    pub threshold: usize,
    /// Whether the search ends at it.
    pub terminating: bool,
    /// The names that it may list.
    pub paths: Vec<String>,
}

/// A pin of another metadata file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaFile {
    /// Its version.
    pub version: u64,
    /// Its size in bytes.
    pub length: u64,
    /// `sha256` in hexadecimal.
    pub hashes: BTreeMap<String, String>,
}

impl MetaFile {
    /// The pin of the file `bytes`.
    pub fn of(version: u64, bytes: &[u8]) -> Self {
        Self {
            version,
            length: bytes.len() as u64,
            hashes: sha256_of(bytes),
        }
    }
}

/// Snapshot metadata: which versions belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// `snapshot`.
    #[serde(rename = "_type")]
    pub kind: String,
    /// [`SPEC_VERSION`].
    pub spec_version: String,
    /// 1, 2, 3 …
    pub version: u64,
    /// When it expires, whole seconds.
    pub expires: Timestamp,
    /// `targets.json` and every stream's role file.
    pub meta: BTreeMap<String, MetaFile>,
}

/// Timestamp metadata: which snapshot is the newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimestampRole {
    /// `timestamp`.
    #[serde(rename = "_type")]
    pub kind: String,
    /// [`SPEC_VERSION`].
    pub spec_version: String,
    /// 1, 2, 3 …
    pub version: u64,
    /// When it expires, whole seconds.
    pub expires: Timestamp,
    /// When it was signed: the time that a site may learn from.
    pub issued: Timestamp,
    /// `snapshot.json` alone.
    pub meta: BTreeMap<String, MetaFile>,
}

/// A signature in metadata.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataSignature {
    /// The key's id.
    pub keyid: String,
    /// 128 hexadecimal digits.
    pub sig: String,
}

/// Why metadata could not be written or read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// It has no canonical form.
    #[error("the metadata cannot be encoded")]
    Canonical(#[from] CanonicalError),
    /// A key does not sign.
    #[error("the metadata cannot be signed")]
    Key(#[from] KeyError),
    /// A file that this program wrote is not as it wrote it.
    #[error("not metadata of the expected kind: {problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
}

/// `sha256` of `bytes`, as metadata has it.
pub fn sha256_of(bytes: &[u8]) -> BTreeMap<String, String> {
    BTreeMap::from([("sha256".to_owned(), hex::encode(Sha256::digest(bytes)))])
}

/// The canonical bytes of `signed`: what signatures cover.
///
/// # Errors
/// [`MetadataError::Canonical`].
pub fn signed_bytes<T: Serialize>(signed: &T) -> Result<Vec<u8>, MetadataError> {
    Ok(canonical::to_bytes(signed)?)
}

/// The signature of `signer` over the canonical bytes `signed`.
///
/// # Errors
/// [`MetadataError::Key`].
pub fn sign_one(signed: &[u8], by: &dyn Signs) -> Result<MetadataSignature, MetadataError> {
    let sig = hex::encode(by.signature(signed)?);
    Ok(MetadataSignature {
        keyid: by.public().id(),
        sig,
    })
}

/// The file of the canonical bytes `signed` with `signatures`, sorted and each key once.
///
/// # Errors
/// [`MetadataError::Canonical`].
pub fn assemble(signed: &[u8], signatures: &[MetadataSignature]) -> Result<Vec<u8>, MetadataError> {
    let by_key: BTreeMap<_, _> = signatures.iter().map(|s| (&s.keyid, s)).collect();
    let list = canonical::to_bytes(&json!(by_key.values().collect::<Vec<_>>()))?;
    Ok([
        b"{\"signatures\":",
        &list[..],
        b",\"signed\":",
        signed,
        b"}\n",
    ]
    .concat())
}

/// `signed`, signed by every one of `signers`: the file's bytes.
///
/// # Errors
/// [`MetadataError`].
pub fn sign<T: Serialize>(signed: &T, signers: &[&dyn Signs]) -> Result<Vec<u8>, MetadataError> {
    let bytes = signed_bytes(signed)?;
    let signatures: Result<Vec<_>, _> = signers.iter().map(|s| sign_one(&bytes, *s)).collect();
    assemble(&bytes, &signatures?)
}

/// The signed part of a file that this program wrote. Signatures are not checked.
///
/// # Errors
/// [`MetadataError::Malformed`].
pub fn parse_own<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, MetadataError> {
    #[derive(Deserialize)]
    struct File<T> {
        signed: T,
    }
    let file: File<T> =
        serde_json::from_slice(bytes).map_err(|error| MetadataError::Malformed {
            problem: error.to_string(),
        })?;
    Ok(file.signed)
}

/// `time` in whole seconds, rounded down: the only form that all TUF clients read.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// `days` after `time`, in whole seconds; the end of time when that is beyond it.
pub fn days_after(time: Timestamp, days: u32) -> Timestamp {
    let later = time.checked_add(SignedDuration::from_hours(i64::from(days) * 24));
    whole_seconds(later.unwrap_or(Timestamp::MAX))
}

/// The version of a metadata file, unverified.
pub(crate) fn version_of(bytes: &[u8]) -> Option<u64> {
    let file: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    file.get("signed")?.get("version")?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_is_shipped_byte_for_byte() {
        let key = SigningKey::generate().unwrap();
        let signed = json!({"_type": "snapshot", "version": 1, "meta": {}});
        let file = sign(&signed, &[&key, &key]).unwrap();
        let text = String::from_utf8(file.clone()).unwrap();
        let part = text
            .split_once("\"signed\":")
            .unwrap()
            .1
            .strip_suffix("}\n")
            .unwrap();
        let value: Value = serde_json::from_slice(&file).unwrap();
        let signatures = value["signatures"].as_array().unwrap();
        assert_eq!(signatures.len(), 1, "each key signs once");
        let sig = hex::decode(signatures[0]["sig"].as_str().unwrap()).unwrap();
        key.public().verify(part.as_bytes(), &sig).unwrap();
        assert_eq!(parse_own::<Value>(&file).unwrap(), signed);
    }

    #[test]
    fn times_are_whole_seconds() {
        let time: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(whole_seconds(time).to_string(), "2026-01-02T03:04:05Z");
        assert_eq!(days_after(time, 365).to_string(), "2027-01-02T03:04:05Z");
    }
}
