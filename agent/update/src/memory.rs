//! A copy of the agent's database before a program is tried, and its way back.
//!
//! What comes in: the database's path. What goes out: a consistent copy beside the slots, made once before the first attempt; and,
//! when the tried program has changed the schema, that copy in the database's place. What a trial wrote and
//! nobody has seen is lost with it: a trial sends and applies nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use outhaul_kit::durable::{self, FileError, at};
use rusqlite::{Connection, OpenFlags};

/// Why the database cannot be copied or put back.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The disk.
    #[error(transparent)]
    File(#[from] FileError),
    /// SQLite.
    #[error("the database cannot be {doing}: {source}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

fn doing(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> MemoryError {
    move |source| MemoryError::Database { doing, source }
}

fn copy_of(state: &Path) -> PathBuf {
    crate::slots::folder(state).join("before-trial.db")
}

fn open(path: &Path) -> Result<Connection, MemoryError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(doing("opened"))?;
    db.busy_timeout(Duration::from_secs(10))
        .map_err(doing("opened"))?;
    Ok(db)
}

fn version(db: &Connection) -> Result<i64, MemoryError> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(doing("read"))
}

/// Makes the copy, when there is none.
pub(crate) fn keep(state: &Path, database: &Path) -> Result<(), MemoryError> {
    let to = copy_of(state);
    if to.exists() || !database.exists() {
        return Ok(());
    }
    let new = to.with_extension("new");
    durable::remove_file(&new)?;
    let target = new.to_string_lossy().into_owned();
    open(database)?
        .execute("VACUUM INTO ?1", [target])
        .map_err(doing("copied"))?;
    let file = durable::open_file(&new).map_err(at("open", &new))?;
    file.sync_all().map_err(at("write", &new))?;
    Ok(durable::rename(&new, &to)?)
}

/// Puts the copy back, when the schema has changed since; says whether it did.
pub(crate) fn put_back(state: &Path, database: &Path) -> Result<bool, MemoryError> {
    let copy = copy_of(state);
    if !copy.exists() {
        return Ok(false);
    }
    let before = version(&open(&copy)?)?;
    {
        let db = open(database)?;
        if version(&db)? == before {
            drop(db);
            durable::remove_file(&copy)?;
            return Ok(false);
        }
        // Without its log the database is one file, which one rename replaces.
        db.pragma_update(None, "journal_mode", "DELETE")
            .map_err(doing("put back"))?;
    }
    for beside in ["-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(beside);
        durable::remove_file(Path::new(&name))?;
    }
    durable::rename(&copy, database)?;
    Ok(true)
}

/// The copy is not needed any more.
pub(crate) fn forget(state: &Path) -> Result<(), MemoryError> {
    Ok(durable::remove_file(&copy_of(state))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(folder: &Path) -> PathBuf {
        let path = folder.join("agent.db");
        let db = Connection::open(&path).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        db.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1); PRAGMA user_version = 4;")
            .unwrap();
        path
    }

    fn rows(path: &Path) -> (i64, i64) {
        let db = Connection::open(path).unwrap();
        let count = db
            .query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0))
            .unwrap();
        (version(&db).unwrap(), count)
    }

    #[test]
    fn a_schema_that_changed_is_put_back_with_all_that_was_there_before() {
        let folder = tempfile::tempdir().unwrap();
        durable::make_folder(&crate::slots::folder(folder.path())).unwrap();
        let path = database(folder.path());
        keep(folder.path(), &path).unwrap();
        let db = Connection::open(&path).unwrap();
        db.execute_batch(
            "INSERT INTO t VALUES (2); ALTER TABLE t ADD COLUMN y; PRAGMA user_version = 5;",
        )
        .unwrap();
        // A second attempt keeps the first copy.
        keep(folder.path(), &path).unwrap();
        drop(db);
        assert!(put_back(folder.path(), &path).unwrap());
        assert_eq!(rows(&path), (4, 1));
        assert!(!put_back(folder.path(), &path).unwrap());
    }

    #[test]
    fn a_schema_that_is_as_it_was_keeps_what_was_written_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        durable::make_folder(&crate::slots::folder(folder.path())).unwrap();
        let path = database(folder.path());
        keep(folder.path(), &path).unwrap();
        Connection::open(&path)
            .unwrap()
            .execute("INSERT INTO t VALUES (2)", [])
            .unwrap();
        assert!(!put_back(folder.path(), &path).unwrap());
        assert_eq!(rows(&path), (4, 2));
        assert!(!copy_of(folder.path()).exists());
    }
}
