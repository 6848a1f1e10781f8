//! Which files of a branch are Outhaul's: `.outhaul/platform.json`, in the branch itself.
//!
//! What comes in: the rendered tree and its snapshot. What goes out: one JSON file below the published
//! path, the same bytes for the same tree. It is read back from any clone; a record that cannot be read
//! is an error and never means "nothing is ours".

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;
use serde::{Deserialize, Serialize};

use crate::isolation::Kept;

/// Where it lies, below the published path.
pub const PATH: &str = ".outhaul/platform.json";
/// The record's format.
const FORMAT: &str = "outhaul.dev/platform/v1";

/// What was published there, from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchRecord {
    format: String,
    /// The environment.
    pub environment: String,
    /// The commits that it was rendered from.
    pub snapshot: Snapshot,
    /// The promoted commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted_commit: Option<String>,
    /// Digest of every file by path, relative to the published path.
    pub files: BTreeMap<String, Digest>,
    /// Assignments whose files are those of an earlier snapshot, because the newest does not render to
    /// any; by `<cluster type>/<target>`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<String, Kept>,
}

impl BranchRecord {
    /// A record of `files`.
    pub fn new(
        environment: &str,
        snapshot: &Snapshot,
        promoted_commit: Option<&str>,
        files: BTreeMap<String, Digest>,
        kept: BTreeMap<String, Kept>,
    ) -> Self {
        Self {
            format: FORMAT.to_owned(),
            environment: environment.to_owned(),
            snapshot: snapshot.clone(),
            promoted_commit: promoted_commit.map(str::to_owned),
            files,
            kept,
        }
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
        let record: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if record.format != FORMAT {
            return Err(format!("its format is `{}`, not `{FORMAT}`", record.format));
        }
        Ok(record)
    }
}
