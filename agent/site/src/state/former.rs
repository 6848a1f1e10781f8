//! What became of a database that a process worked with, where another one or none is at its path; and where a removed one is saved.
//!
//! What comes in: a database's path. What goes out: the copy that was saved beside it last. It opens none.

use std::path::{Path, PathBuf};

use crate::durable;

/// The folder of what was saved, in the state folder.
pub(crate) const FOLDER: &str = "rescued";
/// How the names of saved databases end.
pub(crate) const DATABASE: &str = "db";
/// The folder of saved reports, in that folder.
pub(crate) const REPORTS: &str = "reports";

/// What became of the database that a process worked with, where another one or none is at its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Former {
    /// It has another name somewhere.
    Elsewhere,
    /// It was removed, and all of it is saved here.
    Rescued(PathBuf),
    /// It was removed, and could not be saved.
    Lost(String),
}

/// The database that was saved last beside `database`, if any was.
pub(super) fn saved_beside(database: &Path) -> Option<PathBuf> {
    let folder = database.with_file_name(FOLDER);
    let mut saved = durable::list(&folder).ok()?;
    saved.retain(|path| path.extension().is_some_and(|end| end == DATABASE));
    let modified = |path: &PathBuf| std::fs::metadata(path).and_then(|found| found.modified());
    saved.into_iter().max_by_key(|path| modified(path).ok())
}
