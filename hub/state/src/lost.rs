//! Whether a folder was a hub's of which the database is gone.
//!
//! What comes in: a state folder. What goes out: what is left of a hub there, so that no command takes it for a folder in
//! which nothing ever was; and what is left put aside, where someone begins with nothing on purpose. It removes nothing
//! that holds reports.

use std::fs;
use std::path::{Path, PathBuf};

use outhaul_kit::durable::{self, FileError};

use super::{KEY_FILE, LOCK_FILE};
use outhaul_store as store;

/// Stands in the folder while `init` makes a hub: a set-up that was interrupted goes on, and a lost database does not look
/// like one.
pub(crate) const BEGUN: &str = "hub.init";
/// A database on its way back from a backup, under this name until it was checked.
pub const RESTORING: &str = "hub.db.restoring";
/// What SQLite puts beside a database.
pub const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The set-up is complete: its mark goes, also where `init` was ended just before.
///
/// # Errors
/// [`FileError`]
pub(crate) fn set_up(folder: &Path) -> Result<(), FileError> {
    let begun = folder.join(BEGUN);
    if begun.exists() {
        durable::remove_file(&begun)?;
    }
    Ok(())
}

/// Whether the database is there and holds something, or is on a server.
pub fn has_database(folder: &Path) -> bool {
    folder.join(store::SERVER_FILE).exists() || has_file(folder)
}

/// Whether the database is there as a file that holds something.
pub fn has_file(folder: &Path) -> bool {
    fs::metadata(folder.join(store::FILE_NAME)).is_ok_and(|found| found.len() > 0)
}

/// What is left of a hub in `folder`, by name; empty where its database is there, where nothing of a hub is, and where a
/// set-up was interrupted.
///
/// # Errors
/// [`FileError`] when the folder cannot be read.
pub fn remains(folder: &Path) -> Result<Vec<String>, FileError> {
    if !folder.is_dir() || has_database(folder) || folder.join(BEGUN).exists() {
        return Ok(Vec::new());
    }
    let names = durable::list(folder)?.into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        is_of_a_hub(&name).then_some(name)
    });
    let mut found: Vec<String> = names.collect();
    found.sort();
    Ok(found)
}

fn is_of_a_hub(name: &str) -> bool {
    name == KEY_FILE
        || name == LOCK_FILE
        || name == RESTORING
        || name.starts_with(store::FILE_NAME)
        || (name.starts_with(".hub.") && name.ends_with(".tmp"))
}

/// Puts what lies beside a database that is gone where the next one does not take it for its own: a journal of before
/// would be played into it. An empty database and leftovers of an interrupted restore are removed.
///
/// # Errors
/// [`FileError`]
pub fn put_aside(folder: &Path, now_ms: i64) -> Result<(), FileError> {
    let database = folder.join(store::FILE_NAME);
    if !has_file(folder) {
        durable::remove_file(&database)?;
        for end in BESIDE {
            let path = beside(&database, end);
            if path.exists() {
                durable::rename(&path, &beside(&database, &format!("{end}.lost-{now_ms}")))?;
            }
        }
    }
    remove_restoring(folder)?;
    for path in durable::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(".hub.") && name.ends_with(".tmp") {
            durable::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Removes a database that was on its way back.
///
/// # Errors
/// [`FileError`]
pub fn remove_restoring(folder: &Path) -> Result<(), FileError> {
    let restoring = folder.join(RESTORING);
    durable::remove_file(&restoring)?;
    BESIDE
        .iter()
        .try_for_each(|end| durable::remove_file(&beside(&restoring, end)))
}

/// `path` with `end` added to its name.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// The names as a sentence has them.
pub(crate) fn named(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
