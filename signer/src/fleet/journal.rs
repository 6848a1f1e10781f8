//! Publications of several files that must count together: all of them, or none.
//!
//! What comes in: the files of a change of keys. What goes out: the same files in `metadata/`, also when the
//! power went in between: they are first written to one journal, and whoever opens the fleet next
//! finishes what the journal lists. Writing them twice does no harm.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{Fleet, FleetError, MAX_STATE_BYTES};
use crate::durable::{self, FileError, PUBLIC_MODE};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    /// Name and base64 content, in the order in which they are written.
    files: Vec<(String, String)>,
}

impl Fleet {
    /// Publishes `files` together. `timestamp.json` is written last: it leads to the others.
    pub(crate) fn publish_together(&self, files: &[(String, Vec<u8>)]) -> Result<(), FleetError> {
        let (last, first): (Vec<_>, Vec<_>) =
            files.iter().partition(|(name, _)| name == "timestamp.json");
        let encoded = first.into_iter().chain(last);
        let journal = Journal {
            files: encoded
                .map(|(name, bytes)| (name.clone(), STANDARD.encode(bytes)))
                .collect(),
        };
        let bytes = serde_json::to_vec(&journal).unwrap_or_default();
        durable::write(&self.folder.join("journal.json"), &bytes, PUBLIC_MODE)?;
        self.recover()
    }

    /// Whether a publication was cut off, or is being written at this moment.
    pub(super) fn is_cut_off(&self) -> bool {
        self.folder.join("journal.json").exists()
    }

    /// Finishes a publication that was cut off. Without a journal it does nothing.
    pub(super) fn recover(&self) -> Result<(), FleetError> {
        let path = self.folder.join("journal.json");
        let Some(bytes) = durable::read_if_present(&path, MAX_STATE_BYTES)? else {
            return Ok(());
        };
        let damaged = |problem: String| FleetError::Damaged {
            folder: self.folder.clone(),
            problem,
        };
        let journal: Journal = serde_json::from_slice(&bytes)
            .map_err(|error| damaged(format!("`journal.json`: {error}")))?;
        for (name, content) in &journal.files {
            let content = STANDARD
                .decode(content)
                .map_err(|error| damaged(format!("`journal.json`: {error}")))?;
            durable::write(&self.metadata_folder().join(name), &content, PUBLIC_MODE)?;
        }
        fs::remove_file(&path).map_err(|source| FileError {
            doing: "remove",
            path: path.clone(),
            source,
        })?;
        Ok(())
    }
}
