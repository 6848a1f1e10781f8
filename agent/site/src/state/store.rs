//! The open database: opened, created or migrated, copied, and committed to.
//!
//! What comes in: its path, and work for a transaction. What goes out: what was committed, durably, or an error and none of it. A file of which
//! any page is damaged is refused before anything is read from it, and stays as it is. Each
//! transaction begins and ends with a look at whether this process still works where others look: the file at the path is the one that is
//! open, and the lock is the one that is held. `WAL` with `synchronous=FULL`: with less, SQLite may lose committed rows when the power goes. A
//! damaged file is never replaced silently: the floors in it guard the site. It knows no rows.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use outhaul_kit::percent;
use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::{StateError, doing, migrate, place, rescue};
use crate::aside;
use crate::durable;
use crate::same_file::SameFile;

/// What SQLite writes to open a database, in bytes, and a little more.
const NEEDED_TO_OPEN: u64 = 64 * 1024;

/// The open database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    /// The file that was opened; absent for a copy in memory, and where nothing is written.
    place: Option<SameFile>,
    /// The file of the lock under which this process changes what is applied, where it does.
    lock: Option<SameFile>,
    /// Whether the database was removed or cut short, and saved as far as it could be.
    has_saved: Cell<bool>,
    /// How long the file of the database was when it was longest: it never becomes shorter by what SQLite does.
    longest: Cell<u64>,
}

impl Drop for Store {
    /// SQLite tidies up by name when the last one closes a database: the files of another one in its place are not this one's. One that was
    /// removed ends here: what nobody has saved is saved.
    fn drop(&mut self) {
        let Some(Err(error)) = self.place.as_ref().map(|at| same_file(at, &self.longest)) else {
            return;
        };
        if !self.has_saved.get()
            && let error @ (StateError::Exchanged { .. } | StateError::Shortened { .. }) =
                self.saved(error)
            && self.has_saved.get()
        {
            tracing::warn!("{error}; {}", error.help());
        }
        let without = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        // It is closed either way, and there is nobody to tell.
        let _ = self.connection.set_db_config(without, true);
    }
}

impl Store {
    /// Opens the database, creating or migrating it.
    ///
    /// # Errors
    /// [`StateError`]; a damaged file is an error and stays as it is.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let without = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        let written_before = wal_bytes(path);
        // SQLite takes it for a new one, and removes what is beside it.
        if written_before > 0 && std::fs::metadata(path).is_ok_and(|found| found.len() == 0) {
            return Err(StateError::Damaged {
                path: path.to_owned(),
                problem: "it has no bytes any more".to_owned(),
            });
        }
        // SQLite would let others read a new one; what it writes beside it gets the mode of this. What is wrong with the place, it says.
        let mut new = OpenOptions::new();
        let _ = new
            .write(true)
            .create_new(true)
            .mode(durable::SECRET_MODE)
            .open(path);
        let open = || -> Result<Connection, rusqlite::Error> {
            let connection = Connection::open_with_flags(path, flags)?;
            // What stands beside it only, such as after a power cut, stays there until it is known to be sound: closing would write it into
            // what is damaged, or remove it.
            connection.set_db_config(without, written_before > 0)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            // The agent's rows are few; SQLite's default cache of 2 MiB is memory for nothing.
            connection.pragma_update(None, "cache_size", -256)?;
            Ok(connection)
        };
        let mut connection = open().map_err(|error| damaged(path, "open", error))?;
        sound(&connection, path)?;
        connection
            .set_db_config(without, false)
            .map_err(doing("open"))?;
        match migrate::migrate(&mut connection) {
            Err(StateError::Database { doing, source }) => Err(damaged(path, doing, source)),
            Err(other) => Err(other),
            Ok(()) => Ok(Self {
                connection,
                place: Some(place::of(path)?),
                lock: None,
                has_saved: Cell::new(false),
                longest: Cell::new(0),
            }),
        }
    }

    /// Opens the database where there is no space to open it as always: nothing is written, and no other process may
    /// have it open.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn open_without_space(path: &Path) -> Result<Self, StateError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> Result<Connection, rusqlite::Error> {
            let connection = Connection::open_with_flags(path, flags)?;
            // With this, what is shared between processes is in memory, and no file.
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.pragma_update(None, "query_only", true)?;
            Ok(connection)
        };
        let connection = open().map_err(doing("open"))?;
        sound(&connection, path)?;
        Ok(Self::unplaced(connection))
    }

    /// Opens the database on a file system that is mounted read-only: nothing is written. What was committed and stands beside the
    /// database only, such as after a power cut, would be left out: then it is not opened.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn open_read_only(path: &Path) -> Result<Self, StateError> {
        if wal_bytes(path) > 0 {
            let folder = path.parent().unwrap_or(path).to_owned();
            return Err(StateError::ReadOnly {
                folder,
                doing: "read what is beside it",
            });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let named = percent::encoded_bytes(path.as_os_str().as_encoded_bytes());
        let uri = format!("file:{named}?immutable=1");
        let connection = Connection::open_with_flags(uri, flags).map_err(doing("open"))?;
        sound(&connection, path)?;
        Ok(Self::unplaced(connection))
    }

    /// A copy of all that is committed, in memory: what is written into it is gone with it.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn copy(&self) -> Result<Self, StateError> {
        let mut connection = Connection::open_in_memory().map_err(doing("copy"))?;
        {
            let backup = Backup::new(&self.connection, &mut connection).map_err(doing("copy"))?;
            backup
                .run_to_completion(1024, Duration::ZERO, None)
                .map_err(doing("copy"))?;
        }
        connection
            .pragma_update(None, "foreign_keys", true)
            .map_err(doing("copy"))?;
        Ok(Self::unplaced(connection))
    }

    fn unplaced(connection: Connection) -> Self {
        Self {
            connection,
            place: None,
            lock: None,
            has_saved: Cell::new(false),
            longest: Cell::new(0),
        }
    }

    /// For reading outside a transaction.
    pub fn read(&self) -> &Connection {
        &self.connection
    }

    /// From now on nothing is committed once the lock at its path is not `lock` any more.
    pub fn work_under(&mut self, lock: SameFile) {
        self.lock = Some(lock);
    }

    /// Whether the database at the path is still the one that was opened, and the lock the one that is held.
    ///
    /// # Errors
    /// [`StateError::Exchanged`] where it is not: what is committed then is in no file that anybody finds again. A database that was
    /// removed is saved first. [`StateError::LockLost`]
    pub fn check_place(&self) -> Result<(), StateError> {
        unchanged(self.place.as_ref(), &self.longest, self.lock.as_ref())
            .map_err(|error| self.saved(error))
    }

    /// The error, once what it would lose is saved.
    fn saved(&self, error: StateError) -> StateError {
        match (error, &self.place) {
            (StateError::Exchanged { path, how, .. }, Some(database)) if database.is_removed() => {
                self.has_saved.set(true);
                StateError::Exchanged {
                    former: rescue::save(&self.connection, &path),
                    path,
                    how,
                }
            }
            (
                StateError::Shortened {
                    path, before, now, ..
                },
                Some(_),
            ) => {
                self.has_saved.set(true);
                StateError::Shortened {
                    former: rescue::save_shortened(&self.connection, &path),
                    path,
                    before,
                    now,
                }
            }
            (other, _) => other,
        }
    }

    /// Runs `work` in one transaction: all of it is committed, and durable, or none of it.
    ///
    /// # Errors
    /// What `work` or the commit says; [`StateError::Exchanged`] where the database is not at its path any more, and
    /// [`StateError::LockLost`] where the lock is not.
    pub fn commit<T, E: From<StateError>>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.check_place()?;
        // Immediate: two processes queue up here instead of failing in the middle.
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(doing("begin"))?;
        let value = work(&transaction)?;
        // Someone may have waited for others, or have worked for a while.
        if let Err(error) = unchanged(self.place.as_ref(), &self.longest, self.lock.as_ref()) {
            transaction.rollback().map_err(doing("take back"))?;
            return Err(self.saved(error).into());
        }
        transaction.commit().map_err(doing("commit"))?;
        Ok(value)
    }
}

fn unchanged(
    database: Option<&SameFile>,
    longest: &Cell<u64>,
    lock: Option<&SameFile>,
) -> Result<(), StateError> {
    database.map_or(Ok(()), |at| same_file(at, longest))?;
    lock.map_or(Ok(()), place::check_lock)
}

/// Refuses another file than the one that was opened, and that one where it was cut short.
fn same_file(database: &SameFile, longest: &Cell<u64>) -> Result<(), StateError> {
    place::check(database)?;
    place::check_length(database.path(), longest)
}

/// What is committed and stands beside a database only, in bytes.
fn wal_bytes(path: &Path) -> u64 {
    std::fs::metadata(aside::ending(path, "-wal")).map_or(0, |found| found.len())
}

/// Refuses a database of which any page is damaged. SQLite looks at a page when it needs it: without this a command that needs only whole ones
/// does its work on a memory of which others are lost, and the next command fails. The agent's rows are few: all are read here.
fn sound(connection: &Connection, path: &Path) -> Result<(), StateError> {
    let failed = |error| damaged(path, "check what is in it", error);
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(failed)?;
    let page: u32 = connection
        .query_row("PRAGMA page_size", [], |row| row.get(0))
        .map_err(failed)?;
    // SQLite takes the end of a page that is missing for zeros. What is beside the database may have the page whole.
    let length = std::fs::metadata(path).map_or(0, |found| found.len());
    let problem = match verdict.as_str() {
        "ok" if length.is_multiple_of(u64::from(page.max(1))) || wal_bytes(path) > 0 => {
            return Ok(());
        }
        "ok" => "its last page is not whole",
        other => {
            tracing::debug!("{}: {other}", path.display());
            "its pages do not fit together"
        }
    };
    Err(StateError::Damaged {
        path: path.to_owned(),
        problem: problem.to_owned(),
    })
}

fn damaged(path: &Path, what: &'static str, source: rusqlite::Error) -> StateError {
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StateError::Damaged {
            path: path.to_owned(),
            problem: source.to_string(),
        },
        _ if has_no_space(path, source.sqlite_error_code()) => StateError::NoSpace {
            folder: path.parent().unwrap_or(path).to_owned(),
            doing: what,
        },
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::SystemIoFailure)
            if durable::is_read_only(path.parent().unwrap_or(path)) =>
        {
            StateError::ReadOnly {
                folder: path.parent().unwrap_or(path).to_owned(),
                doing: what,
            }
        }
        _ => StateError::Database {
            doing: what,
            source,
        },
    }
}

/// Whether a full disk explains what SQLite says: to open a database it makes a small file beside it, and calls it an I/O
/// error when there is no room for that.
fn has_no_space(path: &Path, code: Option<ErrorCode>) -> bool {
    let fits = [
        ErrorCode::DiskFull,
        ErrorCode::CannotOpen,
        ErrorCode::SystemIoFailure,
    ];
    let folder = path.parent().unwrap_or(path);
    code.is_some_and(|code| fits.contains(&code))
        && durable::free_bytes(folder).is_ok_and(|free| free < NEEDED_TO_OPEN)
}
