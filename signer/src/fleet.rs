//! A fleet: one folder with its keys, its settings and the metadata that it has published.
//!
//! What comes in: a folder and, for what signs, the passphrase of its keys. What goes out: ids, the state
//! of streams, signed metadata ([`crate::publish`]) and changes of keys ([`crate::ceremony`]).
//!
//! In the folder: `fleet.json` (written last when a fleet is made: its presence means a whole fleet),
//! `keys/<role>-<id>.pem` (encrypted) with `.pub` beside it, `metadata/` (the TUF repository as served),
//! `marks.json` (every version ever signed, whether published or not: none is used twice).
//! It never changes a file in place, and never a published version.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_kit::console;
use outhaul_kit::interrupt::{self, Finishing};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::durable::{self, FileError, PUBLIC_MODE};
use crate::key::{PublicKey, Secret};
use crate::metadata::version_of;
use crate::trust::walk::Walk;

mod attest;
mod clock;
mod error;
mod journal;
mod ring;
mod state;
mod waiting;

pub use attest::{StatementSigner, statement_keys};
pub use error::FleetError;
pub use ring::{KeyEntry, Ring};
pub(crate) use state::{Marks, PublishedRoles, StreamMark};

/// The format's name; another is refused.
pub const FORMAT: &str = "outhaul.dev/fleet/v1";
/// Most versions or numbers that were used and never published: `outhaul-signer restored` leaves out up to a million.
const MAX_UNPUBLISHED: u64 = 10_000_000;
/// Largest settings or marks file in bytes.
const MAX_STATE_BYTES: u64 = 16 * 1024 * 1024;

/// How a fleet is made.
#[derive(Debug, Clone)]
pub struct InitOptions {
    /// Encrypts the keys at rest.
    pub passphrase: Secret,
    /// The time that goes into the first metadata.
    pub now: Timestamp,
    /// Root keys to make, 1 to 16; move all but one to other places.
    pub root_keys: usize,
    /// Root keys that must sign a change of keys, 1 to `root_keys`.
    pub root_threshold: usize,
    /// Days until root metadata expires.
    pub root_days: u32,
    /// Days until the list of streams expires.
    pub targets_days: u32,
    /// Days until the first snapshot and timestamp expire; bundles bring their own dates.
    pub online_days: u32,
    /// Where the hub is; may be empty.
    pub hub_url: String,
    /// The hub's public key, SPKI PEM; may be empty.
    pub hub_key: String,
}

impl InitOptions {
    /// One root key of one, root and streams for two years, the first publication for one.
    pub fn new(passphrase: Secret, now: Timestamp) -> Self {
        Self {
            passphrase,
            now,
            root_keys: 1,
            root_threshold: 1,
            root_days: 730,
            targets_days: 730,
            online_days: 365,
            hub_url: String::new(),
            hub_key: String::new(),
        }
    }
}

/// `fleet.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FleetSettings {
    pub(crate) format: String,
    pub(crate) id: String,
    /// Random, so that nobody guesses a stream's names from its role. 32 hexadecimal digits.
    pub(crate) salt: String,
    #[serde(default)]
    pub(crate) hub_url: String,
    #[serde(default)]
    pub(crate) hub_key: String,
    pub(crate) root_days: u32,
    pub(crate) targets_days: u32,
    /// Names of the streams, by role.
    #[serde(default)]
    pub(crate) streams: BTreeMap<String, StreamSettings>,
}

/// What a fleet knows of one stream beyond its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSettings {
    /// The environment.
    pub environment: String,
    /// The cluster type.
    pub cluster_type: String,
}

/// The right to change a fleet, for one program at a time.
#[derive(Debug)]
pub(crate) struct Lock {
    _whole: Finishing,
    _file: File,
}

/// A fleet's folder.
#[derive(Debug, Clone)]
pub struct Fleet {
    pub(crate) folder: PathBuf,
    pub(crate) settings: FleetSettings,
}

impl Fleet {
    /// The fleet in `folder`.
    ///
    /// # Errors
    /// [`FleetError`] when there is none or it cannot be read.
    pub fn open(folder: &Path) -> Result<Self, FleetError> {
        let none = |problem: String| FleetError::NotAFleet {
            folder: folder.to_owned(),
            problem,
        };
        let path = folder.join("fleet.json");
        let bytes = durable::read_if_present(&path, MAX_STATE_BYTES)?;
        let bytes = bytes.ok_or_else(|| none("there is no `fleet.json`".to_owned()))?;
        let settings: FleetSettings =
            serde_json::from_slice(&bytes).map_err(|error| FleetError::Damaged {
                folder: folder.to_owned(),
                problem: format!("`fleet.json`: {error}"),
            })?;
        if settings.format != FORMAT {
            return Err(none(format!(
                "its format is `{}`, not `{FORMAT}`",
                settings.format
            )));
        }
        let fleet = Self {
            folder: folder.to_owned(),
            settings,
        };
        if fleet.is_cut_off() {
            // Whoever holds the lock finishes it, so that nothing newer is overwritten.
            drop(fleet.lock()?);
        }
        Ok(fleet)
    }

    /// Where it lies: what else is known of its streams is kept there, too.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The fleet's id: the first 16 hexadecimal digits of its first root metadata's digest.
    pub fn id(&self) -> &str {
        &self.settings.id
    }

    /// Where the hub is; may be empty.
    pub fn hub_url(&self) -> &str {
        &self.settings.hub_url
    }

    /// The hub's public key, SPKI PEM; may be empty.
    pub fn hub_key(&self) -> &str {
        &self.settings.hub_key
    }

    /// Remembers where the hub is and what its key is, for the kits of new sites.
    ///
    /// # Errors
    /// [`FleetError`] when the key is not a key or the settings cannot be written.
    pub fn set_hub(&mut self, url: &str, key_pem: &str) -> Result<(), FleetError> {
        if !key_pem.is_empty() {
            PublicKey::from_pem(key_pem)?;
        }
        let _lock = self.lock()?;
        *self = Self::open(&self.folder)?;
        url.clone_into(&mut self.settings.hub_url);
        key_pem.clone_into(&mut self.settings.hub_key);
        self.write_settings()
    }

    /// The opaque role of a stream: the same names give the same role in this fleet, and in no other.
    pub fn role(&self, environment: &str, cluster_type: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(self.settings.salt.as_bytes());
        // Names hold no NUL: two different pairs cannot run together.
        hash.update([environment.as_bytes(), cluster_type.as_bytes()].join(&0));
        format!("s-{}", hex::encode(&hash.finalize()[..8]))
    }

    /// The names behind the streams' roles, of streams that were signed at least once.
    pub fn streams(&self) -> &BTreeMap<String, StreamSettings> {
        &self.settings.streams
    }

    /// The roles of the streams of `environment`, of streams that were signed at least once.
    pub fn roles_of<'f>(&'f self, environment: &'f str) -> impl Iterator<Item = &'f str> {
        let streams = self.settings.streams.iter();
        let ours = streams.filter(move |(_, names)| names.environment == environment);
        ours.map(|(role, _)| role.as_str())
    }

    /// The first root metadata: what the fleet's id is the digest of.
    ///
    /// # Errors
    /// [`FleetError`] when it cannot be read.
    pub fn root_bytes(&self) -> Result<Vec<u8>, FleetError> {
        Ok(durable::read(
            &self.metadata_folder().join("1.root.json"),
            MAX_STATE_BYTES,
        )?)
    }

    /// The newest root metadata: what a new site's kit carries.
    ///
    /// # Errors
    /// [`FleetError`] when it cannot be read.
    pub fn newest_root_bytes(&self) -> Result<Vec<u8>, FleetError> {
        let version = self.published()?.root.version;
        let name = format!("{version}.root.json");
        Ok(durable::read(
            &self.metadata_folder().join(name),
            MAX_STATE_BYTES,
        )?)
    }

    /// Whether this fleet signed these bytes as a timestamp: by the keys of its newest root metadata, or, up to the version that it published
    /// last, by those of an earlier one. A rotation of keys takes effect with the next bundle or slip; a key that was removed signs no newer one.
    ///
    /// # Errors
    /// [`FleetError`] when what is published cannot be read.
    pub fn has_signed_timestamp(&self, bytes: &[u8]) -> Result<bool, FleetError> {
        let by =
            |root: &[u8]| Walk::from_root(root).is_ok_and(|walk| walk.has_signed_timestamp(bytes));
        if by(&self.newest_root_bytes()?) {
            return Ok(true);
        }
        let last = self.published()?.timestamp.version;
        if version_of(bytes).is_none_or(|version| version > last) {
            return Ok(false);
        }
        Ok(self.root_chain()?.iter().any(|root| by(root.as_bytes())))
    }

    /// Every published root metadata, version 1 first: what a new site's kit carries, so that the fleet can
    /// be distinguished from the first one.
    ///
    /// # Errors
    /// [`FleetError`] when one cannot be read.
    pub fn root_chain(&self) -> Result<Vec<String>, FleetError> {
        let mut roots: Vec<_> = self.published_roots()?.into_iter().collect();
        let version = |(name, _): &(String, String)| {
            let digits = name.split('.').next().unwrap_or_default();
            digits.parse::<u64>().unwrap_or_default()
        };
        roots.sort_by_key(version);
        Ok(roots.into_iter().map(|(_, text)| text).collect())
    }

    /// The folder of the published TUF metadata, as a web server may serve it.
    pub fn metadata_folder(&self) -> PathBuf {
        self.folder.join("metadata")
    }

    /// The keys in this fleet's folder.
    pub fn ring(&self) -> Ring {
        Ring::of(&self.folder)
    }

    pub(crate) fn published(&self) -> Result<PublishedRoles, FleetError> {
        let damaged = |problem: String| FleetError::Damaged {
            folder: self.folder.clone(),
            problem,
        };
        // A file that is gone or cannot be understood; a disk that cannot be read is another matter.
        PublishedRoles::read(&self.metadata_folder()).map_err(|error| match error {
            FleetError::File(error) if error.is_missing() => damaged(error.to_string()),
            FleetError::Metadata { file, source } => damaged(format!("`{file}`: {source}")),
            other => other,
        })
    }

    /// What was ever signed. A fleet that has signed a bundle has marks.
    pub(crate) fn marks(&self) -> Result<Marks, FleetError> {
        match Marks::read(&self.folder)? {
            Some(marks) => self.plausible(marks),
            None if self.settings.streams.is_empty() => Ok(Marks::default()),
            None => Err(FleetError::Forgotten {
                folder: self.folder.clone(),
                problem: "`marks.json` is gone".to_owned(),
            }),
        }
    }

    /// Refuses marks far above what is signed: someone wrote them, and no site could ever be sent something newer than what would
    /// be signed above them.
    fn plausible(&self, marks: Marks) -> Result<Marks, FleetError> {
        let published = self.published()?;
        let roles = [
            ("timestamp", published.timestamp.version),
            ("snapshot", published.snapshot.version),
            ("targets", published.targets.version),
        ];
        let mut compared = Vec::new();
        for (role, signed) in roles {
            let marked = marks.versions.get(role).copied().unwrap_or_default();
            compared.push((format!("version {marked} of `{role}.json`"), marked, signed));
        }
        for (role, mark) in &marks.streams {
            let stream = published.stream(&self.metadata_folder(), role)?;
            let signed = stream.map_or(0, |(stream, _)| stream.version);
            compared.push((
                format!("number {} of stream `{role}`", mark.number),
                mark.number,
                signed,
            ));
        }
        let far = compared
            .into_iter()
            .find(|(_, marked, signed)| marked.saturating_sub(*signed) > MAX_UNPUBLISHED);
        match far {
            None => Ok(marks),
            Some((what, _, signed)) => Err(FleetError::Forgotten {
                folder: self.folder.clone(),
                problem: format!(
                    "`marks.json` says that {what} was used, and {signed} is the newest that is signed: it was changed"
                ),
            }),
        }
    }

    pub(crate) fn write_marks(&self, marks: &Marks) -> Result<(), FleetError> {
        marks.write(&self.folder.join("marks.json"))
    }

    pub(crate) fn write_settings(&self) -> Result<(), FleetError> {
        let mut bytes = serde_json::to_vec_pretty(&self.settings).unwrap_or_default();
        bytes.push(b'\n');
        Ok(durable::write(
            &self.folder.join("fleet.json"),
            &bytes,
            PUBLIC_MODE,
        )?)
    }

    /// Removes the temporary files of programs that were killed while they wrote into the fleet's folder, and into those in it.
    ///
    /// # Errors
    /// [`FleetError`] when the fleet cannot be locked, or its folder not be listed.
    pub fn remove_leftovers(&self) -> Result<Vec<PathBuf>, FleetError> {
        let _lock = self.lock()?;
        let mut removed = durable::remove_leftovers(&self.folder);
        for path in durable::list(&self.folder)? {
            // A link leads to where others may write.
            if path.is_dir() && !path.is_symlink() {
                removed.extend(durable::remove_leftovers(&path));
            }
        }
        Ok(removed)
    }

    /// One program at a time changes a fleet; the lock ends with the returned value. While it is held, an
    /// interruption waits: a change is made whole or not at all.
    pub(crate) fn lock(&self) -> Result<Lock, FleetError> {
        let path = self.folder.join("lock");
        let doing = "lock";
        let failed = |source| FileError {
            doing,
            path: path.clone(),
            source,
        };
        let file = waiting::locked(&path, console::message).map_err(failed)?;
        let lock = Lock {
            _whole: interrupt::finishing(),
            _file: file,
        };
        self.recover()?;
        Ok(lock)
    }
}
