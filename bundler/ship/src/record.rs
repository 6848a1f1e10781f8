//! Record: which files of a folder or a branch Outhaul wrote, and from which commits.
//!
//! What comes in: what a run wrote, or the bytes of a record: of this format, or of one of the two that a folder and a
//! branch had before it. What goes out: the same bytes for the same output, and a [`Record`]. A record that cannot be
//! read is an error and never means "nothing is ours". Where it lies is decided by each destination.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;
use outhaul_plane::render::{PROMOTED_COMMIT_FILE, assignment_of};
use serde::{Deserialize, Serialize};

use crate::isolation::Kept;

/// The format.
const FORMAT: &str = "outhaul.dev/output/v1";
/// The format of a folder's record before it; it names the environment in its snapshot only.
const FOLDER_BEFORE: &str = "outhaul.dev/render/v1";
/// The format of a branch's record before it.
const BRANCH_BEFORE: &str = "outhaul.dev/platform/v1";

/// What was written, from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// As it was read: an older record differs from a new one of the same output.
    format: String,
    /// The environment.
    #[serde(default)]
    pub environment: String,
    /// The commits that it was rendered from.
    pub snapshot: Snapshot,
    /// The promoted commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted_commit: Option<String>,
    /// Digest of every file by path, relative to the folder or the published path.
    pub files: BTreeMap<String, Digest>,
    /// Assignments that have the files of an earlier snapshot, because the newest does not render to
    /// any; by `<cluster type>/<target>`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<String, Kept>,
}

impl Record {
    /// A record that lists no files yet.
    pub fn new(
        environment: &str,
        snapshot: &Snapshot,
        promoted_commit: Option<&str>,
        kept: BTreeMap<String, Kept>,
    ) -> Self {
        Self {
            format: FORMAT.to_owned(),
            environment: environment.to_owned(),
            snapshot: snapshot.clone(),
            promoted_commit: promoted_commit.map(str::to_owned),
            files: BTreeMap::new(),
            kept,
        }
    }

    /// The assignments that have files in it, as `<cluster type>/<target>`.
    pub fn assignments(&self) -> BTreeSet<String> {
        let paths = self.files.keys();
        let paths = paths.filter(|path| *path != PROMOTED_COMMIT_FILE);
        let names = paths.filter_map(|path| assignment_of(path));
        names.map(str::to_owned).collect()
    }

    /// Its bytes.
    ///
    /// # Errors
    /// A text, should it ever not be possible.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|error| error.to_string())?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The record in `bytes`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut record: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match record.format.as_str() {
            FORMAT | BRANCH_BEFORE if record.environment.is_empty() => {
                Err("it names no environment".to_owned())
            }
            FORMAT | BRANCH_BEFORE => Ok(record),
            FOLDER_BEFORE => {
                let environment = record.snapshot.environment.name.clone();
                record.environment = environment;
                Ok(record)
            }
            other => Err(format!("its format is `{other}`, not `{FORMAT}`")),
        }
    }
}

#[cfg(test)]
mod tests;
