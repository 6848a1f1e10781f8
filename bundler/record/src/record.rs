//! Record: what was shipped last to a folder, to a branch or in a stream, and from which commits.
//!
//! What comes in: what a run shipped, or the bytes of a record: of this format, or of one of the three that a folder, a
//! branch and a stream had before it. What goes out: the same bytes for the same output, and a [`Record`]. A record that
//! cannot be read is an error and never means "nothing was shipped". Where it lies is decided by each destination.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;
use outhaul_bundle::output_record::{BRANCH_BEFORE, FORMAT};
use outhaul_plane::render::{PROMOTED_COMMIT_FILE, assignment_of};
use serde::{Deserialize, Serialize};

use crate::isolation::Kept;

mod before;
mod stream;

pub use stream::ShippedAssignment;
use stream::StreamContents;

/// The format of a folder's record before it; it names the environment in its snapshot only.
const FOLDER_BEFORE: &str = "outhaul.dev/render/v1";

/// What was shipped, from what.
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
    /// Digest of every file by path, relative to the folder or the published path; of a stream as they would lie there.
    pub files: BTreeMap<String, Digest>,
    /// Assignments that have the files of an earlier snapshot, because the newest does not render to
    /// any; by `<cluster type>/<target>`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<String, Kept>,
    /// What only the record of a stream has, because a bundle does not show it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stream: Option<StreamContents>,
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
            stream: None,
        }
    }

    /// The assignments that are in it, as `<cluster type>/<target>`: those with files.
    pub fn assignments(&self) -> BTreeSet<String> {
        if let Some(stream) = &self.stream {
            return stream.assignments.keys().cloned().collect();
        }
        let paths = self.files.keys();
        let paths = paths.filter(|path| *path != PROMOTED_COMMIT_FILE);
        let names = paths.filter_map(|path| assignment_of(path));
        names.map(str::to_owned).collect()
    }

    /// The files of one, without those of single sites.
    pub fn files_of(&self, id: &str) -> impl Iterator<Item = (&String, &Digest)> {
        let prefix = format!("{id}/");
        let from = self.files.range(prefix.clone()..);
        from.take_while(move |(path, _)| path.starts_with(&prefix))
    }

    /// Digest of the snapshot that the content of an assignment is from.
    pub fn origin(&self, assignment: &str) -> Digest {
        let kept = self.kept.get(assignment);
        kept.map_or(self.snapshot.digest, |kept| kept.from)
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

    /// The record of a folder or a branch in `bytes`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let record = Self::read(bytes)?;
        match record.stream {
            None => Ok(record),
            Some(_) => Err("it is the record of a stream".to_owned()),
        }
    }

    /// The record of a stream in `bytes`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_stream(bytes: &[u8]) -> Result<Self, String> {
        let record = Self::read(bytes)?;
        match record.stream {
            Some(_) => Ok(record),
            None => Err("it is not the record of a stream".to_owned()),
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut record: Self = match serde_json::from_slice(bytes) {
            Ok(record) => record,
            Err(error) => {
                let read = before::stream(bytes).unwrap_or(Err(error));
                return read.map_err(|error| error.to_string());
            }
        };
        match record.format.as_str() {
            FOLDER_BEFORE => record.environment = record.snapshot.environment.name.clone(),
            FORMAT | BRANCH_BEFORE if record.environment.is_empty() => {
                return Err("it names no environment".to_owned());
            }
            FORMAT | BRANCH_BEFORE => {}
            other => return Err(format!("its format is `{other}`, not `{FORMAT}`")),
        }
        let stream = record.stream.as_ref();
        stream.map_or(Ok(()), |stream| stream.check(&record.files))?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests;
