//! The hub's state: one SQLite file, append-only where it tells what happened.
//!
//! What comes in: facts that `ingest`, `desired` and the command line have checked. What goes out: rows,
//! and the current state, which follows from the reports and is kept beside them (`current`, `kept`). Every statement is written so that
//! PostgreSQL would run it too: `$n` parameters in the order of first use, `BIGINT` milliseconds, `ON
//! CONFLICT`, no `rowid`. It checks no signature and reads no clock, and never changes a report.

mod access_log;
mod acts;
mod audit;
mod conflicts;
mod copies;
mod current;
mod decisions;
mod desired;
mod history;
mod kept;
mod orders;
mod outcomes;
mod refusals;
mod refused;
mod reports;
mod requests;
mod sites;
mod soak;
mod timeline;
mod tokens;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, params};

pub use access_log::AccessEntry;
pub use audit::ChainedDecision;
pub use conflicts::{LaterEpoch, NamedReport, NewConflict};
pub use copies::Expected;
pub use current::{SiteFilter, SitePage};
pub use decisions::{PastDecision, StepRules};
pub use orders::Carrier;
pub use outcomes::{SiteOrder, TakenSlip};
pub use outhaul_gate::facts::{
    Act, ActKind, Attempt, DesiredAssignment, DesiredBundle, Newest, ObservedAssignment, Restored,
    Running, Signed, SiteState,
};
pub use refusals::{IngestRefusal, NETWORK};
pub use refused::SiteRefusal;
pub use reports::{NewReport, ReportPosition, StoredReport};
pub use requests::{PendingRequest, RequestOrigin};
pub use sites::{Registration, SiteKey};
pub use timeline::{EpochOfSite, ReceivedReport, TimelinePlace};
pub use tokens::Token;

/// The database's name in the state folder.
pub const FILE_NAME: &str = "hub.db";
/// How long a write waits for another program's write before it gives up.
const BUSY: Duration = Duration::from_secs(20);
/// Each entry is run once, in order, and never changed after a release.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_overlays.sql"),
    include_str!("migrations/0003_orders.sql"),
    include_str!("migrations/0004_signing_order.sql"),
    include_str!("migrations/0005_order_outcomes.sql"),
    include_str!("migrations/0006_siege.sql"),
    include_str!("migrations/0007_signers.sql"),
    include_str!("migrations/0008_sites_of_assignments.sql"),
    include_str!("migrations/0009_current_states.sql"),
    include_str!("migrations/0010_gate_records.sql"),
    include_str!("migrations/0011_refused_files.sql"),
    include_str!("migrations/0012_audit.sql"),
    include_str!("migrations/0013_conflicts_and_restores.sql"),
    include_str!("migrations/0014_access.sql"),
];

/// After this migration older reports are read for what its new table holds.
const READS_OLDER_REFUSALS: usize = 5;
/// After this one the present state of each site is worked out from what was reported before.
const KEEPS_CURRENT_STATES: usize = 8;
/// After this one waivers are entries beside approvals and deferrals.
const RECORDS_GATE_ACTS: usize = 9;

/// The store, open.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// Device and number of the file that is open; `None` in memory.
    file: Option<(u64, u64)>,
}

/// What can be asked of an open store; inside [`Store::write`], all of it in one transaction.
#[derive(Debug)]
pub struct Session<'a> {
    db: &'a Connection,
}

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A row holds what this program never wrote.
    #[error("the store holds a value that cannot be read: {what}")]
    Corrupt {
        /// Which one.
        what: String,
    },
    /// `init` on a state that exists.
    #[error("`{}` is a hub's state already", path.display())]
    Exists {
        /// The database.
        path: PathBuf,
    },
    /// No database there.
    #[error("`{}` does not exist", path.display())]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// A file that is to become a hub's database is none.
    #[error("the database in the backup is not one that this program wrote: {what}")]
    Unsound {
        /// What is wrong with it.
        what: String,
    },
    /// Written by a newer hub.
    #[error("the store has version {found}, this program knows versions up to {known}")]
    Newer {
        /// Its version.
        found: i64,
        /// The newest that this program knows.
        known: usize,
    },
    /// The store cannot be kept from others.
    #[error("`{}` cannot be made readable for its owner only", path.display())]
    Private {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// `SQLite` failed: a full disk, a damaged file, a folder that cannot be written.
    #[error("the store `{}` cannot {doing}", path.display())]
    Open {
        /// What was tried.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// What `SQLite` says.
        source: rusqlite::Error,
    },
    /// A statement failed.
    #[error("the store failed")]
    Sql {
        /// What `SQLite` says.
        #[from]
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Whether the file is not a database any more, or a damaged one.
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        matches!(self.code(), Some(DatabaseCorrupt | NotADatabase))
    }

    /// Whether another program holds it.
    pub fn is_busy(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
        matches!(self.code(), Some(DatabaseBusy | DatabaseLocked))
    }

    /// Whether it cannot be written: a full disk, or a file system that is read-only or fails.
    pub fn is_unwritable(&self) -> bool {
        use rusqlite::ErrorCode::{CannotOpen, DiskFull, ReadOnly, SystemIoFailure};
        matches!(
            self.code(),
            Some(DiskFull | SystemIoFailure | ReadOnly | CannotOpen)
        )
    }

    fn code(&self) -> Option<rusqlite::ErrorCode> {
        let (Self::Open { source, .. } | Self::Sql { source }) = self else {
            return None;
        };
        source.sqlite_error_code()
    }
}

impl Store {
    /// Makes a new store in `folder`, which exists.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when there is one, [`StoreError::Open`] when it cannot be written.
    pub fn create(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(FILE_NAME);
        if path.exists() {
            return Err(StoreError::Exists { path });
        }
        private_file(&path)?;
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    /// Opens the store of `folder` and brings its tables up to date.
    ///
    /// # Errors
    /// [`StoreError`] when it is missing, cannot be opened, or is newer than this program.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(FILE_NAME);
        if !path.exists() {
            return Err(StoreError::Missing { path });
        }
        make_private(folder, &path)?;
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    /// One more connection to a store that is open and up to date, for reading only. Such connections wait
    /// neither for one another nor for a writer.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be opened.
    pub fn reader(folder: &Path) -> Result<Self, StoreError> {
        let store = Self::prepared(folder.join(FILE_NAME), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        store.connection.execute_batch("PRAGMA query_only = ON")?;
        Ok(store)
    }

    /// A store in memory, for tests.
    ///
    /// # Errors
    /// [`StoreError`] when `SQLite` cannot make one.
    pub fn in_memory() -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        Self::connect(PathBuf::from(":memory:"), flags)
    }

    /// Runs `work` in one transaction: all of it happens, durably, or nothing.
    ///
    /// # Errors
    /// What `work` returns, or [`StoreError`] when the transaction cannot start or end.
    pub fn write<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&Session<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(StoreError::from)?;
        let done = work(&Session { db: &transaction })?;
        transaction.commit().map_err(StoreError::from)?;
        Ok(done)
    }

    /// Runs `work` on one unchanging view of the data.
    ///
    /// # Errors
    /// What `work` returns, or [`StoreError`] when the transaction cannot start.
    pub fn read<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&Session<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let transaction = self.connection.transaction().map_err(StoreError::from)?;
        work(&Session { db: &transaction })
    }

    /// The connection, for tests: of a full disk, of a damaged store, of one that an older program wrote.
    #[doc(hidden)]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Whether the file that is open is still the one at its path: not removed, and not replaced by another.
    pub fn is_in_place(&self) -> bool {
        self.file.is_none() || file_of(&self.path) == self.file
    }

    /// Where the database lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connect(path: PathBuf, flags: OpenFlags) -> Result<Self, StoreError> {
        let mut store = Self::prepared(path, flags)?;
        store.migrate_to(MIGRATIONS.len())?;
        Ok(store)
    }

    fn prepared(path: PathBuf, flags: OpenFlags) -> Result<Self, StoreError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = |doing| {
            let path = path.clone();
            move |source| StoreError::Open {
                doing,
                path,
                source,
            }
        };
        let connection = Connection::open_with_flags(&path, flags).map_err(open("be opened"))?;
        connection.busy_timeout(BUSY).map_err(open("be opened"))?;
        // FULL: what was acknowledged to a site is on the disk, because the site then forgets it.
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
                 PRAGMA trusted_schema = OFF; PRAGMA cache_size = -16384;",
            )
            .map_err(open("be prepared"))?;
        connection.set_prepared_statement_cache_capacity(64);
        let file = file_of(&path);
        Ok(Self {
            connection,
            path,
            file,
        })
    }

    fn migrate_to(&mut self, newest: usize) -> Result<(), StoreError> {
        let version = |db: &Connection| -> Result<i64, StoreError> {
            db.execute_batch("CREATE TABLE IF NOT EXISTS migrations (version BIGINT PRIMARY KEY)")?;
            let newest = "SELECT COALESCE(MAX(version), 0) FROM migrations";
            Ok(db.query_row(newest, [], |row| row.get(0))?)
        };
        self.write(|session| {
            let found = version(session.db)?;
            let done = usize::try_from(found).unwrap_or(usize::MAX);
            if done > MIGRATIONS.len() {
                return Err(StoreError::Newer {
                    found,
                    known: MIGRATIONS.len(),
                });
            }
            for (at, text) in MIGRATIONS.iter().enumerate().take(newest).skip(done) {
                session.db.execute_batch(text)?;
                if at == READS_OLDER_REFUSALS {
                    session.read_older_refusals()?;
                }
                let number = to_sql(at as u64 + 1);
                session.db.execute(
                    "INSERT INTO migrations (version) VALUES ($1)",
                    params![number],
                )?;
            }
            // With all tables as they are now.
            if (done..newest).contains(&KEEPS_CURRENT_STATES) {
                session.keep_all_current()?;
            }
            if (done..newest).contains(&RECORDS_GATE_ACTS) {
                session.carry_waivers_over()?;
            }
            Ok(())
        })
    }
}

impl Session<'_> {
    /// A setting by its name, such as `fleet`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let mut query = self
            .db
            .prepare_cached("SELECT value FROM settings WHERE name = $1")?;
        Ok(query
            .query_row(params![name], |row| row.get(0))
            .optional()?)
    }

    /// Sets a setting.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn set_setting(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let text = "INSERT INTO settings (name, value) VALUES ($1, $2)
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.db
            .prepare_cached(text)?
            .execute(params![name, value])?;
        Ok(())
    }

    /// The next number of a table that counts its rows; safe because writers come one at a time.
    fn next_id(&self, table: &str) -> Result<i64, StoreError> {
        let text = format!("SELECT COALESCE(MAX(id), 0) + 1 FROM {table}");
        Ok(self.db.query_row(&text, [], |row| row.get(0))?)
    }
}

/// Device and number of the file at a path.
fn file_of(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// The file, for its owner only; what `SQLite` puts beside it gets the same mode.
fn private_file(path: &Path) -> Result<(), StoreError> {
    let made = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    made.map(drop).map_err(|source| StoreError::Private {
        path: path.to_owned(),
        source,
    })
}

/// Takes away what others may do with a store of before.
fn make_private(folder: &Path, path: &Path) -> Result<(), StoreError> {
    let besides = ["-wal", "-shm"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    });
    let files = [path.to_owned()].into_iter().chain(besides);
    let files = files.filter(|path| path.exists()).map(|path| (path, 0o600));
    for (path, mode) in files.chain([(folder.to_owned(), 0o700)]) {
        let open = fs::metadata(&path).map(|found| found.permissions().mode() & 0o077 != 0);
        let made = match open {
            Ok(false) => Ok(()),
            Ok(true) => fs::set_permissions(&path, fs::Permissions::from_mode(mode)),
            Err(error) => Err(error),
        };
        made.map_err(|source| StoreError::Private { path, source })?;
    }
    Ok(())
}

/// Numbers in the store are signed 64-bit; readers refuse larger ones before they come here.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn json<T: serde::Serialize>(value: &T, what: &str) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|_| StoreError::Corrupt {
        what: what.to_owned(),
    })
}

fn parse<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Corrupt {
        what: what.to_owned(),
    })
}
