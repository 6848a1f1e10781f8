//! The record that lies beside what was rendered into a folder or branch: its formats, and what a reader of a commit takes from it.
//!
//! What comes in: the bytes of `.outhaul/platform.json`, which the centre writes. What goes out: the environment, the commits that it was
//! rendered from, and the names of what it holds for a cluster type. Whoever fetched it says where it came from; nothing here is signed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::digest::Digest;
use crate::index::Snapshot;

/// The format that is written.
pub const FORMAT: &str = "outhaul.dev/output/v1";
/// The format of a branch's record before it.
pub const BRANCH_BEFORE: &str = "outhaul.dev/platform/v1";
/// The formats that are read: the one that is written now, and the one before it.
const READ: [&str; 2] = [FORMAT, BRANCH_BEFORE];
/// Largest record in bytes: a path and a digest for each of some ten thousand files.
pub const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;
/// Most bytes of a format's name that a message repeats.
const SHOWN_BYTES: usize = 100;

/// What a record states of the commit that it lies in, as far as a reader uses it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PlatformRecord {
    format: String,
    /// The environment.
    pub environment: String,
    /// The commits that it was rendered from.
    pub snapshot: Snapshot,
    /// Each file with its digest, by path.
    pub files: BTreeMap<String, Digest>,
}

impl PlatformRecord {
    /// A record from its bytes.
    ///
    /// # Errors
    /// What is wrong with them, as the end of a sentence that begins with where they are.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let record: Self =
            serde_json::from_slice(bytes).map_err(|error| format!("is not the record: {error}"))?;
        if READ.contains(&record.format.as_str()) {
            return Ok(record);
        }
        let found: String = record.format.chars().take(SHOWN_BYTES).collect();
        let known = READ.join("` and `");
        Err(format!(
            "is of format `{found}`, this program reads `{known}`"
        ))
    }

    /// The names of what it holds for a cluster type, as they are written: they are checked by whoever uses them.
    pub fn assignments(&self, cluster_type: &str) -> BTreeSet<&str> {
        let names = self.files.keys().filter_map(|path| {
            let rest = path.strip_prefix(cluster_type)?.strip_prefix('/')?;
            rest.split_once('/').map(|(name, _)| name)
        });
        names.collect()
    }
}
