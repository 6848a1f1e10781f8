//! Copies of the database: made whole, and checked before one becomes a hub's.
//!
//! What comes in: an open store and a file to copy it to; or a file that claims to be such a copy. What goes out: a copy of
//! one moment, also while a server writes; or what is wrong with the file. Nothing of a file is trusted before its
//! schema is the very one that this program makes: no trigger, view or table of someone else is ever run.

use std::path::Path;
use std::time::Duration;

use outhaul_gate::audit::Link;
use outhaul_gate::facts::Restored;
use rusqlite::OpenFlags;
use rusqlite::backup::{Backup, StepResult};

use super::db::Connection;
use super::{Session, Store, StoreError, soundness};

/// How often, and with which pause, a copy is tried while another program holds the database.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(50);

/// What a backup states of the database in it.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The fleet.
    pub fleet: &'a str,
    /// The hub's public key, SPKI PEM.
    pub hub_key: &'a str,
    /// The version of the tables.
    pub version: u64,
}

/// One entry of a schema: its kind, name, table and text.
type Entry = (String, String, String, String);

impl Store {
    /// Copies everything, as one moment has it, to `path`: a file that exists, for its owner only, and is empty.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read or written.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let Connection::Sqlite(db) = &self.connection else {
            return self.copy_to_file(path);
        };
        let mut copy = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        {
            let backup = Backup::new(db, &mut copy)?;
            let mut left = TRIES;
            // All pages in one step: nothing that is written meanwhile comes between them.
            while !matches!(backup.step(-1)?, StepResult::Done) {
                left = left.checked_sub(1).ok_or_else(busy)?;
                std::thread::sleep(PAUSE);
            }
        }
        // Pages are copied as they are: what is damaged in the database would be found when the copy is needed.
        if let Some(found) = soundness::damage(&copy)? {
            let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            return Err(rusqlite::Error::SqliteFailure(corrupt, Some(found)).into());
        }
        alone(copy)?;
        let copy = Connection::Sqlite(open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?);
        (Session { db: &copy }).every_report_has_its_envelope()
    }

    /// Checks a file that claims to be a copy of a hub's database, and changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Unsound`] with what is wrong, [`StoreError::Newer`] when a newer program wrote it.
    pub fn check_copy(path: &Path, expected: Expected<'_>) -> Result<(), StoreError> {
        let known = usize::try_from(Self::newest_version()).unwrap_or(usize::MAX);
        let version = usize::try_from(expected.version).unwrap_or(usize::MAX);
        if version > known {
            let found = i64::try_from(expected.version).unwrap_or(i64::MAX);
            return Err(StoreError::Newer { found, known });
        }
        let db = Connection::Sqlite(open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?);
        db.execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; PRAGMA cell_size_check = ON;",
        )?;
        let mut fresh = Self::prepared(
            ":memory:".into(),
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        )?;
        fresh.migrate_to(version)?;
        same_schema(&schema(&db)?, &schema(&fresh.connection)?)?;
        let sound: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if sound != "ok" {
            return Err(unsound(format!("SQLite reports of it: {sound}")));
        }
        let session = Session { db: &db };
        let found = session.version()?;
        if u64::try_from(found) != Ok(expected.version) {
            return Err(unsound(format!(
                "its tables are of version {found}, the backup states {}",
                expected.version
            )));
        }
        for (name, stated) in [("fleet", expected.fleet), ("public-key", expected.hub_key)] {
            // A state from before the public key was kept apart has none.
            let found = session.setting(name)?;
            let is_older = found.is_none() && name == "public-key";
            if !is_older && found.as_deref() != Some(stated) {
                return Err(unsound(format!(
                    "its `{name}` is another one than the backup states"
                )));
            }
        }
        session.check_chains()?;
        // An older copy has other tables: its states are worked out again when it is brought up to date.
        if version == known && session.site_states()? != session.site_states_from_history()? {
            return Err(unsound(
                "the present state that it keeps of a site does not follow from its reports"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Notes in a checked copy that it was restored, brings its tables up to date, and leaves it as one file.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be written.
    pub fn finish_restore(path: &Path, restored: Restored, digest: &str) -> Result<(), StoreError> {
        let mut store = Self::connect(path.to_owned(), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        store.write(|session| session.add_restore(restored, digest))?;
        alone_store(store)
    }
}

impl Session<'_> {
    /// Holds the chains of decisions and of what people decided to their digests.
    fn check_chains(&self) -> Result<(), StoreError> {
        let mut head = String::new();
        for (act, previous, digest) in self.act_chain()? {
            if previous != head || act.digest(&previous) != digest {
                return Err(unsound(format!(
                    "entry {} of what people decided is not what its digest was made of",
                    act.id
                )));
            }
            head = digest;
        }
        let mut head = String::new();
        for (id, content, chain) in self.chained()? {
            let broken = || unsound(format!("decision {id} is not what its digest was made of"));
            let Some((verdict, link)) = chain else {
                // Those of before the chain come first.
                if head.is_empty() {
                    continue;
                }
                return Err(broken());
            };
            let content = content.unwrap_or_default();
            let is_whole = self.recorded(id)?.is_none_or(|one| one.digest() == content);
            let digest = Link::digest_of(&link.previous, id, &verdict, &content);
            if link.previous != head || digest != link.digest || !is_whole {
                return Err(broken());
            }
            head = link.digest;
        }
        Ok(())
    }
}

fn open(path: &Path, flags: OpenFlags) -> Result<rusqlite::Connection, StoreError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    rusqlite::Connection::open_with_flags(path, flags).map_err(|source| StoreError::Open {
        doing: "be opened",
        path: path.to_owned(),
        source: source.into(),
    })
}

/// Closes a database so that the one file holds all of it.
fn alone(db: rusqlite::Connection) -> Result<(), StoreError> {
    db.execute_batch("PRAGMA journal_mode = DELETE")?;
    Ok(db.close().map_err(|(_, error)| error)?)
}

/// The same for a store of a file.
pub(super) fn alone_store(store: Store) -> Result<(), StoreError> {
    match store.connection {
        Connection::Sqlite(db) => alone(db),
        Connection::Postgres(_) => Ok(()),
    }
}

fn busy() -> StoreError {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    rusqlite::Error::SqliteFailure(code, None).into()
}

fn schema(db: &Connection) -> Result<Vec<Entry>, StoreError> {
    let mut query = db.prepare_cached(
        "SELECT type, name, tbl_name, COALESCE(sql, '') FROM sqlite_schema ORDER BY type, name",
    )?;
    let rows = query.query_map([], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn same_schema(found: &[Entry], known: &[Entry]) -> Result<(), StoreError> {
    let of = |(kind, name, ..): &Entry| format!("{kind} `{name}`");
    if let Some(foreign) = found.iter().rev().find(|one| !known.contains(one)) {
        return Err(unsound(format!(
            "its {} was not made by this program",
            of(foreign)
        )));
    }
    match known.iter().rev().find(|one| !found.contains(one)) {
        None => Ok(()),
        Some(missing) => Err(unsound(format!("its {} is missing", of(missing)))),
    }
}

fn unsound(what: String) -> StoreError {
    StoreError::Unsound { what }
}
