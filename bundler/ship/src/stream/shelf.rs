//! The bundle that each stream shipped last, kept whole in the fleet's folder.
//!
//! What comes in: a bundle file that was just signed, and from what it was made. What goes out: the same
//! bytes again for another stick, when nothing changed since. Kept because neither signatures nor seals
//! can be made twice alike. One bundle a stream, and the one before it, with which copies are compared; a copy that is
//! missing or was changed is not handed out: the record beside it is not signed, so that each byte is compared with what is.

use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_attest::inspect;
use outhaul_bundle::Digest;
use outhaul_bundle::Index;
use outhaul_bundle::digest::HashingReader;
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::BundleReader;
use outhaul_signer::durable::{self, FileError, SECRET_MODE};
use outhaul_signer::fleet::{Fleet, FleetError};
use outhaul_signer::publish::Latest;
use serde::{Deserialize, Serialize};

use crate::deliver::{self, DeliverError, medium};

const FORMAT: &str = "outhaul.dev/last-bundle/v1";
const MAX_BYTES: u64 = 1024 * 1024;

/// What the kept bundle is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredBundle {
    format: String,
    number: u64,
    /// Digest of what it holds and for whom, before it was sealed: equal for equal content.
    content: Digest,
    /// Digest of the file.
    file: Digest,
}

impl StoredBundle {
    /// What is to be said of a bundle file at `path`.
    ///
    /// # Errors
    /// [`DeliverError`] when it cannot be read.
    pub(super) fn of(number: u64, content: Digest, path: &Path) -> Result<Self, DeliverError> {
        Ok(Self {
            format: FORMAT.to_owned(),
            number,
            content,
            file: deliver::digest_of(path)?,
        })
    }

    /// What is kept of the stream `role`; `None` when nothing is, or nothing that can be used.
    ///
    /// # Errors
    /// [`FileError`] when what is there is not a file, or cannot be read.
    pub fn read(fleet: &Path, role: &str) -> Result<Option<Self>, FileError> {
        let bytes = durable::read_if_present(&record(fleet, role), MAX_BYTES)?;
        let kept = bytes.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        Ok(kept.filter(|kept| kept.format == FORMAT))
    }

    /// Remembers it, durably, and lets go of the bundles before it but for the last one, which copies are compared with.
    pub(super) fn write(&self, fleet: &Path, role: &str) -> Result<(), FileError> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        durable::write(&record(fleet, role), &bytes, SECRET_MODE)?;
        let entries = std::fs::read_dir(folder(fleet)).into_iter().flatten();
        let number = |name: &str| -> Option<Option<u64>> {
            let number = name.strip_prefix(role)?.strip_prefix('.')?;
            let number = number.strip_suffix(".outhaul")?;
            Some(number.parse().ok())
        };
        let others = entries.flatten().filter_map(|entry| {
            let number = number(entry.file_name().to_str()?)?;
            (number != Some(self.number)).then(|| (number, entry.path()))
        });
        let others: Vec<_> = others.collect();
        let earlier = others.iter().filter_map(|(number, _)| *number);
        let last = earlier.filter(|number| *number < self.number).max();
        for (number, path) in others {
            if number.is_none() || number != last {
                // It is only in the way; the next bundle tries again.
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(())
    }

    /// The number of the kept bundle.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The digest of the kept bundle's file.
    pub fn file(&self) -> Digest {
        self.file
    }

    /// Whether a bundle of this content is the one that is kept.
    pub(super) fn is_of(&self, number: u64, content: Digest) -> bool {
        self.number == number && self.content == content
    }

    /// Puts the kept bundle at `to`. `Some(true)` when it was written, `Some(false)` when it is there
    /// already, `None` when the kept one is missing or is not what it was.
    ///
    /// # Errors
    /// [`DeliverError`] when it cannot be written.
    pub(super) fn hand_out(
        &self,
        fleet: &Path,
        role: &str,
        signed: &Signed,
        to: &Path,
    ) -> Result<Option<bool>, DeliverError> {
        // Read from the medium: whoever is informed that it is there pulls the stick out.
        if signed.there(to).is_some_and(|(file, _)| file == self.file) {
            return Ok(Some(false));
        }
        let from = bundle(fleet, role, self.number);
        if signed.file(&from) != Some(self.file) {
            return Ok(None);
        }
        deliver::create(to.parent().unwrap_or(Path::new(".")))?;
        deliver::copy_verified(&from, to, self.file)?;
        Ok(Some(true))
    }
}

/// What the last bundle of a stream was signed as: no record beside it counts where the two differ.
#[derive(Debug, Clone)]
pub struct Signed {
    root: Vec<u8>,
    index: Digest,
}

impl Signed {
    /// As `latest`, by the keys of `fleet`.
    ///
    /// # Errors
    /// [`FleetError`] when the fleet's root metadata cannot be read.
    pub fn of(fleet: &Fleet, latest: &Latest) -> Result<Self, FleetError> {
        Ok(Self {
            root: fleet.root_bytes()?,
            index: Digest::from_bytes(latest.index),
        })
    }

    /// The digest of the file at `path`, when it is what was signed.
    pub fn file(&self, path: &Path) -> Option<Digest> {
        let file = durable::open_file(path).ok()?;
        self.digest(file).map(|(digest, _)| digest)
    }

    /// The digest and size of what lies at `path`, as the medium gives it back, when it is what was signed.
    pub fn there(&self, path: &Path) -> Option<(Digest, u64)> {
        medium::found(path, |file| self.digest(file))
    }

    /// The digest and size of the whole bundle in `input`, which is read once: its signatures hold, its index is the one that was
    /// signed, and each blob has the digest that the index states.
    fn digest(&self, input: impl Read) -> Option<(Digest, u64)> {
        let mut input = HashingReader::new(input);
        self.index(&mut input)?;
        Some(input.finish())
    }

    /// The index of the whole bundle in `input`, when it is what was signed.
    pub(super) fn index(&self, input: impl Read) -> Option<Index> {
        // Dates are no matter: a site decides by them.
        let found = inspect::inspect(input, Some(&self.root), Timestamp::UNIX_EPOCH).ok()?;
        let is_whole = found.volume.is_none() && found.parity.is_none();
        let is_it = is_whole && Digest::of(&found.index.to_bytes()) == self.index;
        is_it.then_some(found.index)
    }
}

/// The name of a bundle's file, where it is not kept but travels.
pub fn file_name(environment: &str, cluster_type: &str, number: u64) -> String {
    format!("{environment}-{cluster_type}-{number}.outhaul")
}

/// The index of the bundle at `path`; `None` when there is none that can be read. Nothing but its digests is compared.
pub fn index_of(path: &Path) -> Option<Index> {
    let file = durable::open_file(path).ok()?;
    let mut reader = BundleReader::new(file, Limits::default());
    let metadata = reader.read_metadata().ok()?;
    let named = inspect::index_named(&metadata).ok()?;
    let (index, _) = reader.read_index(&named).ok()?;
    Some(index)
}

/// Where the bundle `number` of `role` is kept.
pub fn bundle(fleet: &Path, role: &str, number: u64) -> PathBuf {
    folder(fleet).join(format!("{role}.{number}.outhaul"))
}

/// Opens the kept bundle's folder, for this fleet's people only.
pub(super) fn prepare(fleet: &Path) -> Result<(), FileError> {
    durable::create_private_folder(&folder(fleet))
}

/// Removes what a run left in the kept bundles' folder that was killed while it wrote there. Only for who has the fleet to
/// themselves. What cannot be removed is tried again by the next run.
pub(super) fn sweep(fleet: &Path) {
    for entry in std::fs::read_dir(folder(fleet))
        .into_iter()
        .flatten()
        .flatten()
    {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(deliver::TEMPORARY)
        {
            let removed = std::fs::remove_file(entry.path());
            tracing::debug!(?removed, file = ?entry.path(), "a killed run left this");
        }
    }
}

fn folder(fleet: &Path) -> PathBuf {
    fleet.join("bundles")
}

fn record(fleet: &Path, role: &str) -> PathBuf {
    folder(fleet).join(format!("{role}.json"))
}
