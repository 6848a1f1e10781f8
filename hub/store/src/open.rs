//! Opening the database, and transactions.
//!
//! What comes in: a hub's state folder. What goes out: a store with the newest tables, of the file there or of the server that the
//! folder names. A file is for its owner only, and what is written into one that was replaced meanwhile is refused. A
//! connection to a server that broke is made again when the next transaction begins.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::OpenFlags;

use super::db::{
    Access, Address, Connection, DbError, DbErrorKind, Server, ServerError, Transaction,
};
use super::place::{self, Located};
use super::{Session, StoreError, soundness, to_sql};
use outhaul_kit::text;

/// How long a write waits for another program's write before it gives up.
const BUSY: Duration = Duration::from_secs(20);

/// The store, open.
#[derive(Debug)]
pub struct Store {
    pub(super) connection: Connection,
    path: PathBuf,
    /// Device and number of the file that is open; `None` in memory, and of a server.
    file: Option<(u64, u64)>,
    /// What is wrong with the file, where it is damaged: it is only read then.
    damage: Option<String>,
    /// Whether all of the file is looked at before the first thing is written to it.
    is_unchecked: bool,
    /// Whether its tables are those of this program: then those of a newer one, which migrated them since, are not written to.
    pub(super) is_migrated: bool,
}

impl Store {
    /// Makes a new store for the hub in `folder`, which exists. Where the folder names a server, the tables are made there, or
    /// found.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when there is a file, [`StoreError::Open`] when it cannot be written,
    /// [`StoreError::Server`].
    pub fn create(folder: &Path) -> Result<Self, StoreError> {
        let path = match Located::of(folder)? {
            Located::Server(address) => return Self::on_server(&address),
            Located::File(path) => path,
        };
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
        let path = match Located::of(folder)? {
            Located::Server(address) => return Self::on_server(&address),
            Located::File(path) => path,
        };
        if !path.exists() {
            return Err(StoreError::Missing {
                near: place::near(folder),
                folder: folder.to_owned(),
                path,
            });
        }
        make_private(folder, &path)?;
        match Self::connect(path.clone(), OpenFlags::SQLITE_OPEN_READ_WRITE) {
            Err(error) if error.is_damage() => Self::only_read(path, error),
            opened => opened,
        }
    }

    /// What is left of a damaged file, to be read. Nothing is written, not even what lies beside it is played in.
    fn only_read(path: PathBuf, damage: StoreError) -> Result<Self, StoreError> {
        let Ok(connection) = read_damaged(&path) else {
            return Err(damage);
        };
        let store = Self {
            file: file_of(&path),
            connection: Connection::Sqlite(connection),
            damage: Some(text::chain(&damage)),
            is_unchecked: false,
            is_migrated: false,
            path,
        };
        let version = Session {
            db: &store.connection,
        }
        .version();
        match version {
            // Tables of another program are not what the questions of this one are about.
            Ok(found) if found != to_sql(Self::newest_version()) => Err(damage),
            Err(error) if !error.is_damage() => Err(damage),
            _ => Ok(store),
        }
    }

    /// What is wrong with the file, where it is damaged and only read.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Looks at all of the file before the first thing is written to it. What a command puts on record rests on what it reads, which
    /// may be whole where the rest is not: it would be lost with the file when the hub comes back from a backup.
    pub fn check_before_writing(&mut self) {
        self.is_unchecked = true;
    }

    /// Writes until it meets damage: for a server, which would keep everyone waiting while it looks at a large file.
    pub fn write_until_damage_is_met(&mut self) {
        self.is_unchecked = false;
    }

    /// That the file is not damaged, as far as is known; looked at once where it is to be.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or [`StoreError`] when it cannot be read.
    pub fn refuse_damaged(&mut self) -> Result<(), StoreError> {
        if let (true, Connection::Sqlite(db)) = (self.is_unchecked, &self.connection) {
            self.damage = soundness::damage(db)?;
        }
        self.is_unchecked = false;
        match &self.damage {
            None => Ok(()),
            Some(problem) => Err(StoreError::Damaged {
                path: self.path.clone(),
                problem: problem.clone(),
            }),
        }
    }

    /// One more connection to a store that is open and up to date, for reading only. Such connections wait
    /// neither for one another nor for a writer.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be opened.
    pub fn reader(folder: &Path) -> Result<Self, StoreError> {
        let path = match Located::of(folder)? {
            Located::Server(address) => return Self::connected(&address),
            Located::File(path) => path,
        };
        let store = match Self::prepared(path.clone(), OpenFlags::SQLITE_OPEN_READ_WRITE) {
            Err(error) if error.is_damage() => return Self::only_read(path, error),
            prepared => prepared?,
        };
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

    /// The store on a server, with its tables brought up to date.
    ///
    /// # Errors
    /// [`StoreError::Server`], or [`StoreError`] when its tables cannot be made or are newer than this program.
    pub fn on_server(address: &Address) -> Result<Self, StoreError> {
        let mut store = Self::connected(address)?;
        store.migrate()?;
        Ok(store)
    }

    fn connected(address: &Address) -> Result<Self, StoreError> {
        let server = Server::connect(address).map_err(|source| of_server(address, source))?;
        Ok(Self {
            connection: Connection::Postgres(server),
            path: PathBuf::from(address.as_str()),
            file: None,
            damage: None,
            is_unchecked: false,
            is_migrated: false,
        })
    }

    /// Runs `work` in one transaction: all of it happens, durably, or nothing. Who writes waits for others who write, also for
    /// those of other processes.
    ///
    /// # Errors
    /// What `work` returns, [`StoreError::Newer`] where a newer program has changed the tables since they were opened, or
    /// [`StoreError`] when the transaction cannot start or end.
    pub fn write<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&Session<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.refuse_damaged()?;
        let transaction = self.begin(Access::Write)?;
        if !self.is_in_place() {
            let path = self.path.clone();
            return Err(StoreError::Replaced { path }.into());
        }
        let db = &self.connection;
        let session = Session { db };
        if self.is_migrated {
            session.refuse_newer()?;
        }
        let done = work(&session)?;
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
        let _transaction = self.begin(Access::Read)?;
        let db = &self.connection;
        work(&Session { db })
    }

    /// As [`Self::read`], of the envelopes of all reports: what is removed meanwhile is removed around it, and no part of them is
    /// dropped.
    ///
    /// # Errors
    /// What `work` returns, or [`StoreError`] when the transaction cannot start.
    pub fn read_all<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&Session<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let _transaction = self.begin(Access::ReadAll)?;
        let db = &self.connection;
        work(&Session { db })
    }

    /// Begins a transaction, on a connection that is made again where it broke since the last one.
    fn begin(&self, access: Access) -> Result<Transaction<'_>, StoreError> {
        let db = &self.connection;
        let begun = db.begin(access);
        if let (Err(error), Connection::Postgres(server)) = (&begun, db)
            && error.trouble() == DbErrorKind::Gone
        {
            let address = server.address();
            server
                .reconnect()
                .map_err(|source| of_server(address, source))?;
            return Ok(db.begin(access)?);
        }
        Ok(begun?)
    }

    /// Makes the file as small as its rows allow, in one transaction; nothing on a server, whose space is its own affair.
    ///
    /// # Errors
    /// [`StoreError`] when it fails, for want of space among others: the file is as it was then.
    pub fn compact(&mut self) -> Result<(), StoreError> {
        if self.is_on_server() {
            return Ok(());
        }
        self.refuse_damaged()?;
        let text = "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)";
        Ok(self.connection.execute_batch(text)?)
    }

    /// The connection, for tests: of a full disk, of a damaged store, of one that an older program wrote.
    #[doc(hidden)]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Whether the file that is open is still the one at its path: not removed, and not replaced by another. A server's database
    /// is where it is.
    pub fn is_in_place(&self) -> bool {
        self.file.is_none() || file_of(&self.path) == self.file
    }

    /// Whether it is on a server.
    pub fn is_on_server(&self) -> bool {
        self.connection.is_server()
    }

    /// Where the database lies: its file, or its address.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn connect(path: PathBuf, flags: OpenFlags) -> Result<Self, StoreError> {
        let mut store = Self::prepared(path, flags)?;
        store.migrate()?;
        Ok(store)
    }

    pub(super) fn prepared(path: PathBuf, flags: OpenFlags) -> Result<Self, StoreError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = |doing| {
            let path = path.clone();
            move |source: rusqlite::Error| StoreError::Open {
                doing,
                path,
                source: DbError::from(source),
            }
        };
        let connection =
            rusqlite::Connection::open_with_flags(&path, flags).map_err(open("be opened"))?;
        connection.busy_timeout(BUSY).map_err(open("be opened"))?;
        // FULL: what was acknowledged to a site is on the disk, because the site then forgets it.
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
                 PRAGMA trusted_schema = OFF; PRAGMA cache_size = -16384;",
            )
            .map_err(open("be prepared"))?;
        connection.set_prepared_statement_cache_capacity(128);
        let file = file_of(&path);
        Ok(Self {
            connection: Connection::Sqlite(connection),
            path,
            file,
            damage: None,
            is_unchecked: false,
            is_migrated: false,
        })
    }
}

fn of_server(address: &Address, source: ServerError) -> StoreError {
    StoreError::Server {
        address: address.to_string(),
        source,
    }
}

/// A connection to a damaged file that writes nothing: not to the file, and where it has no journal nothing beside it.
fn read_damaged(path: &Path) -> Result<rusqlite::Connection, rusqlite::Error> {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-wal");
    let has_journal = fs::metadata(journal).is_ok_and(|found| found.len() > 0);
    let way = if has_journal {
        "mode=ro"
    } else {
        "immutable=1"
    };
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                address.push(char::from(*byte));
            }
            other => address.push_str(&format!("%{other:02X}")),
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(format!("{address}?{way}"), flags)?;
    connection.busy_timeout(BUSY)?;
    // The first lets a file be read that was cut, and tables beside one whose description is damaged.
    connection.execute_batch(
        "PRAGMA writable_schema = ON; PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cache_size = -16384;",
    )?;
    connection.query_row("SELECT COUNT(*) FROM settings", [], |_| Ok(()))?;
    Ok(connection)
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
