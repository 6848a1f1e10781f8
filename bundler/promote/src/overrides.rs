//! Gate overrides that were given when a bundle was made: kept in the fleet's folder, shown later.
//!
//! What comes in: an environment, a base commit, the commit of the environment's branch that moved the base there, who overrides the
//! gate before it and why. What goes out: one file for each (`overrides/<environment>-<commit>-<moved by>.json`), written
//! durably before anything is signed, and the same when it is asked for. A file is never changed, and counts for one move.

use std::path::{Path, PathBuf};

use outhaul_kit::text;
use outhaul_signer::durable::{self, FileError, PUBLIC_MODE};
use serde::{Deserialize, Serialize};

use outhaul_control::overriding::Override;

const FORMAT: &str = "outhaul.dev/override/v1";
const MAX_BYTES: u64 = 64 * 1024;
const FOLDER: &str = "overrides";

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// The file system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// A link is in its place.
    #[error(
        "`{}` is a symbolic link to `{}`, and not a record of a gate override: no link is followed there\nhelp: remove the link; give the \
         override again, or put back the file itself, from a backup",
        text::path(path),
        text::path(target)
    )]
    Link {
        /// Where it is.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
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
    /// The commit that moved the base there; absent for two folders, and where it was not recorded yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moved_by: Option<String>,
    by: String,
    reason: String,
}

/// The override that was given for the move to `commit` in `environment` that `moved_by` made, if any.
///
/// # Errors
/// [`OverrideError`] for a record that cannot be read.
pub fn find(
    fleet: &Path,
    environment: &str,
    commit: &str,
    moved_by: Option<&str>,
) -> Result<Option<Override>, OverrideError> {
    let path = path(fleet, environment, commit, moved_by);
    let found = read(&path, environment, commit)?;
    match found {
        Some((_, by)) if by.as_deref() != moved_by => {
            let problem = "it is about something else".to_owned();
            Err(OverrideError::Damaged { path, problem })
        }
        found => Ok(found.map(|(given, _)| given)),
    }
}

/// An override, and the commit that moved the base; without it, it was given before that was recorded.
pub type ForMove = (Override, Option<String>);

/// The override that was given last for any move to `commit` in `environment`, if any, with the move that it was given for.
///
/// # Errors
/// [`OverrideError`] for a record that cannot be read.
pub fn newest(
    fleet: &Path,
    environment: &str,
    commit: &str,
) -> Result<Option<ForMove>, OverrideError> {
    let any = path(fleet, environment, commit, None);
    let stem = any
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let is_of = |name: &str| {
        let rest = name
            .strip_prefix(&stem)
            .and_then(|rest| rest.strip_suffix(".json"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let entries = std::fs::read_dir(fleet.join(FOLDER)).into_iter().flatten();
    let files = entries.flatten().filter_map(|entry| {
        is_of(entry.file_name().to_str()?).then_some(())?;
        // Of a link, its own time: `read` refuses it.
        Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
    });
    let Some((_, path)) = files.max() else {
        return Ok(None);
    };
    read(&path, environment, commit)
}

fn read(path: &Path, environment: &str, commit: &str) -> Result<Option<ForMove>, OverrideError> {
    if let Ok(target) = std::fs::read_link(path) {
        let path = path.to_owned();
        return Err(OverrideError::Link { path, target });
    }
    let Some(bytes) = durable::read_if_present(path, MAX_BYTES)? else {
        return Ok(None);
    };
    let damaged = |problem: String| OverrideError::Damaged {
        path: path.to_owned(),
        problem,
    };
    let record: Record =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if record.format != FORMAT || record.environment != environment || record.base_commit != commit
    {
        return Err(damaged("it is about something else".to_owned()));
    }
    let given = Override::new(&record.by, &record.reason);
    let given = given.map_err(|error| damaged(error.to_string()))?;
    Ok(Some((given, record.moved_by)))
}

/// Keeps an override.
///
/// # Errors
/// [`OverrideError`] when it cannot be written.
pub fn keep(
    fleet: &Path,
    environment: &str,
    commit: &str,
    moved_by: Option<&str>,
    given: &Override,
) -> Result<(), OverrideError> {
    let path = path(fleet, environment, commit, moved_by);
    if find(fleet, environment, commit, moved_by)?.is_some() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        durable::create_folder(folder)?;
    }
    let record = Record {
        format: FORMAT.to_owned(),
        environment: environment.to_owned(),
        base_commit: commit.to_owned(),
        moved_by: moved_by.map(str::to_owned),
        by: given.by.clone(),
        reason: given.reason.clone(),
    };
    let mut bytes = serde_json::to_vec_pretty(&record).unwrap_or_default();
    bytes.push(b'\n');
    Ok(durable::write(&path, &bytes, PUBLIC_MODE)?)
}

fn path(fleet: &Path, environment: &str, commit: &str, moved_by: Option<&str>) -> PathBuf {
    // A plain folder's commit is a digest with a colon in it.
    let commit = commit.replace(':', "-");
    let moved_by = moved_by.map_or_else(String::new, |by| format!("-{by:.12}"));
    fleet
        .join(FOLDER)
        .join(format!("{environment}-{commit}{moved_by}.json"))
}
