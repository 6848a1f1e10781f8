//! What became of a database that a process worked with, where another one or none is at its path; and where a removed one is saved.
//!
//! What comes in: a database's path. What goes out: the copies that were saved beside it. It opens none.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::folder_identity::FolderIdentity;
use crate::durable;
use crate::state_folder::RESCUED;

/// How the names of saved databases end.
pub(super) const DATABASE: &str = "db";

/// What became of the database that a process worked with, where another one or none is at its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Former {
    /// It has another name somewhere.
    Elsewhere,
    /// It was removed, and all of it is saved here.
    Rescued(PathBuf),
    /// It was removed, and only the reports that had not reached the hub could be saved.
    ReportsSaved {
        /// Where they are.
        folder: PathBuf,
        /// Why the rest is not.
        problem: String,
    },
    /// It was removed and could not be saved, and no report waited in it.
    NotSaved(String),
    /// It was removed, and could not be saved.
    Lost(String),
}

/// The databases that were saved beside `database` and may take its place, the best one first: that with the most reports of the numbering that
/// `site.json` names, or where that file is missing, the last one. None that is older than what this site worked with last. Whether one is whole is
/// not checked.
pub(super) fn best_first(database: &Path) -> Vec<PathBuf> {
    let mut saved = databases(&database.with_file_name(RESCUED));
    let Some(known) = FolderIdentity::beside(database) else {
        let modified = |path: &PathBuf| std::fs::metadata(path).and_then(|found| found.modified());
        saved.sort_by_key(|path| Reverse(modified(path).ok()));
        return saved;
    };
    let of = |path: PathBuf| {
        let (epoch, last) = path.file_stem()?.to_str()?.rsplit_once('-')?;
        let last: u64 = last.parse().ok()?;
        let is_own = epoch == known.epoch.as_str();
        (!known.is_newer_than(epoch, last)).then(|| (is_own, last, path.clone()))
    };
    let mut fitting: Vec<_> = saved.into_iter().filter_map(of).collect();
    fitting.sort_by(|one, other| other.cmp(one));
    fitting.into_iter().map(|(.., path)| path).collect()
}

/// The databases that are saved in `folder`.
pub(crate) fn databases(folder: &Path) -> Vec<PathBuf> {
    let mut found = durable::list(folder).unwrap_or_default();
    found.retain(|path| path.extension().is_some_and(|end| end == DATABASE));
    found
}
