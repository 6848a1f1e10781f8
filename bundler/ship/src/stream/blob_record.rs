//! Which blobs a bundle has that the fleet keeps no more, for copies that leave out what a site has of it.
//!
//! What comes in: the bundle that is kept when a newer one takes its place. What goes out: a small file beside it, and the record again by
//! number. It is not signed, and decides nothing: a site compares what a copy leaves out with the digests of the signed index.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outhaul_bundle::{Digest, Index};
use outhaul_signer::durable::{self, SECRET_MODE};
use serde::{Deserialize, Serialize};

use super::shelf::{self, StoredBundle};

const FORMAT: &str = "outhaul.dev/earlier-bundle/v1";
const ENDING: &str = ".blobs.json";
/// Earlier bundles of one stream whose blobs are remembered.
const KEPT: usize = 32;
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The blobs of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobRecord {
    format: String,
    /// The bundle's number.
    pub number: u64,
    /// Digest of its index.
    pub index: Digest,
    /// Digest of its file.
    pub file: Digest,
    /// The digests of its blobs.
    pub blobs: BTreeSet<Digest>,
}

impl BlobRecord {
    /// Of the bundle with `index` whose file has the digest `file`.
    pub fn of(index: &Index, file: Digest) -> Self {
        Self {
            format: FORMAT.to_owned(),
            number: index.number,
            index: Digest::of(&index.to_bytes()),
            file,
            blobs: index.blobs.iter().map(|blob| blob.digest).collect(),
        }
    }

    /// What is on record of bundle `number` of `role` in the folder `fleet`; `None` when nothing is that can be read.
    pub fn read(fleet: &Path, role: &str, number: u64) -> Option<Self> {
        let bytes = durable::read_if_present(&record(fleet, role, number), MAX_BYTES).ok()??;
        let known: Self = serde_json::from_slice(&bytes).ok()?;
        (known.format == FORMAT).then_some(known)
    }
}

/// Writes down which blobs the kept bundle of `role` has, before the fleet lets go of it. Without it, copies since that
/// bundle need its file: that this cannot be done keeps no bundle from being made.
pub(super) fn remember(fleet: &Path, role: &str) {
    let Ok(Some(kept)) = StoredBundle::read(fleet, role) else {
        return;
    };
    let path = shelf::bundle(fleet, role, kept.number());
    let Some(index) = shelf::index_of(&path) else {
        tracing::debug!(path = %path.display(), "which blobs it has is not remembered");
        return;
    };
    let known = BlobRecord::of(&index, kept.file());
    let mut bytes = serde_json::to_vec(&known).unwrap_or_default();
    bytes.push(b'\n');
    let to = record(fleet, role, known.number);
    if let Err(error) = durable::write(&to, &bytes, SECRET_MODE) {
        tracing::warn!(
            "`copy --since {}` will need `--since-file`: {error}",
            known.number
        );
        return;
    }
    let mut numbers = remembered(fleet, role);
    let surplus = numbers.len().saturating_sub(KEPT);
    for number in numbers.drain(..surplus) {
        // It is only in the way; the next bundle tries again.
        let _ = std::fs::remove_file(record(fleet, role, number));
    }
}

/// Numbers of the earlier bundles of `role` of which there is a [`BlobRecord`], ascending.
pub fn remembered(fleet: &Path, role: &str) -> Vec<u64> {
    let folder = record(fleet, role, 0);
    let entries = folder.parent().map(std::fs::read_dir);
    let names = entries.into_iter().flatten().flatten().flatten();
    let number = |name: &str| -> Option<u64> {
        let rest = name.strip_prefix(role)?.strip_prefix('.')?;
        rest.strip_suffix(ENDING)?.parse().ok()
    };
    let mut numbers: Vec<u64> = names
        .filter_map(|entry| number(entry.file_name().to_str()?))
        .collect();
    numbers.sort_unstable();
    numbers
}

fn record(fleet: &Path, role: &str, number: u64) -> PathBuf {
    let bundle = shelf::bundle(fleet, role, number);
    bundle.with_file_name(format!("{role}.{number}{ENDING}"))
}
