//! Gate overrides that were given when a bundle was made: kept in the fleet's folder, shown later.
//!
//! What comes in: an environment, a base commit, who overrides the gate before it and why. What goes out:
//! one file for each (`overrides/<environment>-<commit>.json`), written durably before anything is signed, and
//! the same when it is asked for. A file is never changed.

use std::path::{Path, PathBuf};

use outhaul_signer::durable::{self, FileError, PUBLIC_MODE};
use serde::{Deserialize, Serialize};

use outhaul_control::overriding::Override;

const FORMAT: &str = "outhaul.dev/override/v1";
const MAX_BYTES: u64 = 64 * 1024;

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// The file system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file says something else.
    #[error(
        "`{}` is not a record of a gate override: {problem}\nhelp: restore it from a backup, or move it away and \
         give the override again", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: String,
    environment: String,
    base_commit: String,
    by: String,
    reason: String,
}

/// The override that was given for `commit` in `environment`, if any.
///
/// # Errors
/// [`OverrideError`] for a record that cannot be read.
pub fn find(
    fleet: &Path,
    environment: &str,
    commit: &str,
) -> Result<Option<Override>, OverrideError> {
    let path = path(fleet, environment, commit);
    let Some(bytes) = durable::read_if_present(&path, MAX_BYTES)? else {
        return Ok(None);
    };
    let damaged = |problem: String| OverrideError::Damaged {
        path: path.clone(),
        problem,
    };
    let record: Record =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if record.format != FORMAT || record.environment != environment || record.base_commit != commit
    {
        return Err(damaged("it is about something else".to_owned()));
    }
    let given = Override::new(&record.by, &record.reason);
    given.map(Some).map_err(|error| damaged(error.to_string()))
}

/// Keeps an override.
///
/// # Errors
/// [`OverrideError`] when it cannot be written.
pub fn keep(
    fleet: &Path,
    environment: &str,
    commit: &str,
    given: &Override,
) -> Result<(), OverrideError> {
    let path = path(fleet, environment, commit);
    if find(fleet, environment, commit)?.is_some() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        durable::create_folder(folder)?;
    }
    let record = Record {
        format: FORMAT.to_owned(),
        environment: environment.to_owned(),
        base_commit: commit.to_owned(),
        by: given.by.clone(),
        reason: given.reason.clone(),
    };
    let mut bytes = serde_json::to_vec_pretty(&record).unwrap_or_default();
    bytes.push(b'\n');
    Ok(durable::write(&path, &bytes, PUBLIC_MODE)?)
}

fn path(fleet: &Path, environment: &str, commit: &str) -> PathBuf {
    // A plain folder's commit is a digest with a colon in it.
    let commit = commit.replace(':', "-");
    fleet
        .join("overrides")
        .join(format!("{environment}-{commit}.json"))
}
