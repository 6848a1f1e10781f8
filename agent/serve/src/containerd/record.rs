//! What was changed in containerd's folder of hosts, written before it is changed.
//!
//! What comes in: `outhaul-mirror.json` in that folder. What goes out: for each registry's folder whether it and its
//! `hosts.toml` were there before, and the digest of what was written. It lies beside what it describes, so that it is
//! found where the state folder is another one, or gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use outhaul_kit::durable;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::ServeError;

/// The file's name.
pub(super) const FILE: &str = "outhaul-mirror.json";
const FORMAT: &str = "outhaul-containerd-v1";
const MAX_OWN_RECORD_BYTES: u64 = 1 << 20;

/// All that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    format: String,
    /// Whether the folder of all was made.
    pub(super) made_folder: bool,
    /// By the name of a registry's folder.
    pub(super) entries: BTreeMap<String, HostsRecord>,
}

/// One `hosts.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostsRecord {
    /// Whether one was there before.
    pub(super) existed: bool,
    /// Whether its folder was made.
    pub(super) made_folder: bool,
    /// Digests of what was written: after a change of the mirror's address that was cut off, either may be there.
    pub(super) written: BTreeSet<String>,
}

impl HostsRecord {
    /// Whether `current`, what the file holds now, was written here.
    pub(super) fn wrote(&self, current: Option<&str>) -> bool {
        let digest = current.map(|text| Digest::of(text.as_bytes()).to_string());
        digest.is_some_and(|digest| self.written.contains(&digest))
    }
}

impl Default for Record {
    fn default() -> Self {
        Self {
            format: FORMAT.to_owned(),
            made_folder: false,
            entries: BTreeMap::new(),
        }
    }
}

impl Record {
    /// The record in `folder`, if there is one.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, ServeError> {
        let path = folder.join(FILE);
        let Some(bytes) = durable::read_if_present(&path, MAX_OWN_RECORD_BYTES)? else {
            return Ok(None);
        };
        let wrong = |problem: String| ServeError::Record {
            path: path.clone(),
            problem,
        };
        let record: Self =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if record.format != FORMAT {
            return Err(wrong(format!("its format is not `{FORMAT}`")));
        }
        // A name becomes a path.
        let strange =
            |name: &&String| name.is_empty() || name.contains('/') || name.starts_with('.');
        match record.entries.keys().find(strange) {
            Some(name) => Err(wrong(format!(
                "`{name}` is not the name of a registry's folder"
            ))),
            None => Ok(Some(record)),
        }
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), ServeError> {
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| ServeError::Record {
            path: folder.join(FILE),
            problem: error.to_string(),
        })?;
        Ok(durable::write(&folder.join(FILE), &bytes, 0o644)?)
    }

    pub(super) fn remove(folder: &Path) -> Result<(), ServeError> {
        durable::remove_file(&folder.join(FILE))?;
        Ok(durable::sync_folder(folder)?)
    }
}
