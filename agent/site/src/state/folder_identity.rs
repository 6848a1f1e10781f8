//! What `site.json` beside a database holds: which site the folder is, and how far its reports were numbered.
//!
//! What comes in: the file. What goes out: what it has, where it can be read. It compares it with no database, and writes nothing but a
//! higher number of reports.

use std::path::{Path, PathBuf};

use outhaul_bundle::name::Name;
use serde::{Deserialize, Serialize};

use super::to_json;
use crate::durable::{self, FileError};
use crate::state_folder::StateFolder;

pub(crate) const FORMAT: &str = "outhaul.dev/site-identity/v1";
/// A few short values.
const MAX_BYTES: u64 = 64 * 1024;

/// What `site.json` holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderIdentity {
    pub(crate) format: String,
    /// The fleet's id.
    pub fleet: Name,
    /// The site's name.
    pub site: Name,
    /// The numbering of its reports.
    pub(crate) epoch: Name,
    /// The numberings before that, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) before: Vec<Name>,
    /// At least so many reports were made under it.
    pub(crate) reports: u64,
    /// Id of the key that signs them; absent in a file of an earlier agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl FolderIdentity {
    /// What the file at `path` has; `None` where it is not there or cannot be read.
    pub fn read(path: &Path) -> Option<Self> {
        let bytes = durable::read_if_present(path, MAX_BYTES).ok()??;
        let found: Self = serde_json::from_slice(&bytes).ok()?;
        (found.format == FORMAT).then_some(found)
    }

    /// What the file beside `database` has.
    pub(crate) fn beside(database: &Path) -> Option<Self> {
        Self::read(&path_beside(database))
    }

    /// Notes in the file beside `database` that at least `reports` reports were made under the numbering `epoch`, where it has fewer of the same one.
    ///
    /// # Errors
    /// [`FileError`] where it cannot be written.
    pub(crate) fn raise(database: &Path, epoch: &Name, reports: u64) -> Result<(), FileError> {
        let path = path_beside(database);
        match Self::read(&path) {
            Some(mut known) if known.epoch == *epoch && known.reports < reports => {
                known.reports = reports;
                let text = to_json(&known) + "\n";
                durable::write(&path, text.as_bytes(), durable::SECRET_MODE)
            }
            _ => Ok(()),
        }
    }

    /// Whether a database with `reports` reports of the numbering `epoch` is older than the one that this site worked with last.
    pub(crate) fn is_newer_than(&self, epoch: &str, reports: u64) -> bool {
        match epoch == self.epoch.as_str() {
            true => reports < self.reports,
            false => self.before.iter().any(|before| before.as_str() == epoch),
        }
    }

    /// Which site it is and what it reported, for people.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "site `{}` of fleet {}, which had made at least {} reports",
            self.site, self.fleet, self.reports
        )
    }
}

fn path_beside(database: &Path) -> PathBuf {
    StateFolder::new(database.parent().unwrap_or(database)).identity()
}
