//! The agent's state: one SQLite file that survives a power cut at any instant.
//!
//! What comes in: values to remember, always inside a transaction. What goes out: what was committed.
//! `WAL` with `synchronous=FULL`: with less, SQLite may lose committed rows when the power goes.
//! A report row is written in the transaction of the change that it reports, so that neither can exist
//! without the other. A damaged file is never replaced silently: the floors in it guard the site.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use outhaul_kit::percent;

use crate::durable::{self, at};
use crate::state_folder::StateFolder;

pub mod clock;
pub mod delays;
mod error;
pub mod events;
pub mod floors;
pub mod generations;
pub mod holds;
pub mod inventory;
mod migrate;
pub mod note;
pub mod outbox;
mod place;
pub mod refusal;
pub mod returns;
pub mod soak;

pub use error::StateError;
pub use holds::Hold;
pub use migrate::{shape, shape_of};
pub use note::Note;

use place::Place;

/// Who this site is: fixed at enrolment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteIdentity {
    /// The fleet's id.
    pub fleet: Name,
    /// The site's name.
    pub name: Name,
    /// The stream that it takes bundles of.
    pub stream: Stream,
    /// The hub's URL, from the kit; empty when there is none.
    pub hub_url: String,
    /// The hub's public key, PEM; empty when there is none.
    pub hub_key: String,
    /// The life of this store: reports are numbered within it.
    pub epoch: Name,
    /// SHA-256 of the one-time token of the kit: what orders for this enrolment name. Absent on sites
    /// that were enrolled before there were orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<Digest>,
    /// The certificate authority of the hub, PEM, from the kit; empty for the system's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hub_ca: String,
}

/// Names of single values in the `meta` table.
pub mod key {
    /// [`super::SiteIdentity`]
    pub const SITE: &str = "site";
    /// `Bound` of the agent
    pub const CLOCK: &str = "clock";
    /// Number of the active generation.
    pub const ACTIVE: &str = "active";
    /// [`super::holds::Hold`]
    pub const HOLD: &str = "hold";
    /// [`super::outbox::Cursor`]
    pub const OUTBOX: &str = "outbox";
    /// Who ordered the rollback that is under way.
    pub const ROLLBACK: &str = "rollback";
    /// Number of the earlier generation that the rollback of the active one goes to.
    pub const ROLLBACK_TO: &str = "rollback-to";
    /// [`super::holds::AssignmentHold`], by the assignment's name.
    pub const HELD: &str = "held-assignments";
    /// Number of the generation that a person had applied again: what others changed in it is taken back.
    pub const TAKES_BACK: &str = "takes-back";
    /// Number of the active generation while what differs of it on the host is put back.
    pub const CORRECTING: &str = "correcting";
    /// Number of the active generation while going back to it or repairing it has failed.
    pub const BROKEN: &str = "broken";
    /// Number of the waiting generation that only a person lets through, after a rollback.
    pub const NEEDS_APPROVAL: &str = "needs-approval";
    /// Milliseconds since 1970 of the last look for drift.
    pub const OBSERVED: &str = "observed";
    /// The refusal that was last reported about the repository: asked again, it says the same again.
    pub const REFUSED: &str = "refused";
    /// The number of the last order that was carried out.
    pub const ORDERS: &str = "orders";
    /// [`orders::executed::ExecutedOrders`]: orders, with the keys that signed them.
    pub const CARRIED: &str = "carried-orders";
    /// Ids of this site's own earlier keys.
    pub const FORMER_KEYS: &str = "former-keys";
    /// `Renumbered` of the agent: why reports are numbered anew.
    pub const RENUMBERED: &str = "renumbered";
    /// `Approved` of the agent: what the centre said of a key of this site.
    pub const APPROVED: &str = "approved";
    /// The number of the order by which this site was revoked.
    pub const REVOKED: &str = "revoked";
    /// Id of the key in use, once an order changed it.
    pub const KEY_ID: &str = "key-id";
    /// The public half of the key that opens what is sealed for this site, once an order changed it.
    pub const SEAL_KEY: &str = "seal-key";
    /// The request is brought home until the hub has acknowledged this report.
    pub const REQUEST_UNTIL: &str = "request-until";
    /// `PastRefusal` of the agent, the latest last, for `status`.
    pub const REFUSALS: &str = "refusals";
    /// `NotTaken` of the agent: what on this machine kept a bundle from being taken in.
    pub const NOT_TAKEN: &str = "not-taken";
    /// `Visit` of the agent: the sticks and folders that were read, the latest last.
    pub const MEDIA: &str = "media";
    /// [`inventory::Item`]s of an earlier memory whose files somebody changed: whose they are, a person says.
    pub const DISPUTED: &str = "disputed";
    /// The folder that the folder reconciler wrote to, as `agent.toml` named it then.
    pub const TARGET: &str = "target";
    /// `FormerTarget`s of the runner: where it wrote before.
    pub const FORMER_TARGETS: &str = "former-targets";
    /// [`super::delays::Delays`]: what asks for a bundle that waits to be applied later.
    pub const DELAYS: &str = "delays";
    /// `GivenValues` of the crate `values`: what a person on site set for keys that the centre opens.
    pub const SITE_VALUES: &str = "site-values";
    /// The values as they were reported last, each with whether the active bundle takes it.
    pub const SITE_VALUES_TOLD: &str = "site-values-told";
    /// The bundle that was taken in last, and when it was issued, milliseconds since 1970.
    pub const ISSUED: &str = "issued";
    /// Digests of the agents that bundles brought and that failed here, of which it was reported.
    pub const AGENTS_TOLD: &str = "agents-told";
    /// Until when the bundle that was applied last is looked at.
    pub const SOAK: &str = "soak";
    /// Number of the generation of which it was reported that it is looked at.
    pub const WATCHED: &str = "watched";
    /// How often content was applied and left again: see [`super::returns`].
    pub const RETURNS: &str = "returns";
    /// `IncompleteBundle` of the agent: a bundle of which some parts are here.
    pub const INCOMPLETE: &str = "incomplete";
    /// What the cluster of a site shows that follows the platform repository directly: the event that was reported last.
    pub const CLUSTER: &str = "cluster";
    /// How far the hub's clock was ahead of this machine's when it answered last, milliseconds; absent when they agree.
    pub const HUB_CLOCK: &str = "hub-clock";
    /// `HubRefusal` of the agent: why the hub takes nothing of this site.
    pub const HUB_REFUSAL: &str = "hub-refusal";
    /// `Lost` of the agent: what an enrolment after a lost database could not know again.
    pub const LOST: &str = "lost";
    /// [`crate::backup::restore::Restored`]: that this memory came from a backup.
    pub const RESTORED: &str = "restored";
    /// The bundle, and which of its parts are missing, that was reported as incomplete last.
    pub const INCOMPLETE_TOLD: &str = "incomplete-told";
    /// What was reported last of a generation: a look that finds the same is not reported each time.
    pub const REPORTED: &str = "reported";
    /// Latest result of each assignment, for `status`.
    pub const RESULTS: &str = "results";
}

/// Whether there is a site here. A folder that this user may not enter is distinguished from one that
/// holds nothing.
///
/// # Errors
/// [`StateError::NotEnrolled`], or [`StateError::File`] when it cannot be known.
pub fn check_enrolled(state_folder: &StateFolder) -> Result<(), StateError> {
    let path = state_folder.database();
    if let Some(found) = state_folder.instead_of_database() {
        return Err(StateError::Instead { path, found });
    }
    let how = match std::fs::symlink_metadata(&path) {
        Ok(about) if about.len() > 0 => return Ok(()),
        Ok(_) => "is empty (0 bytes)",
        Err(error) if error.kind() == io::ErrorKind::NotFound => "is gone",
        Err(error) => return Err(at("open", &path)(error).into()),
    };
    Err(match state_folder.shows_site() {
        Some(beside) => StateError::Gone { path, how, beside },
        None => StateError::NotEnrolled {
            folder: state_folder.root().to_owned(),
        },
    })
}

/// A new life of a store: reports are numbered within it.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn new_epoch() -> Result<Name, StateError> {
    let mut bytes = [0u8; 8];
    let problem = |problem: String| StateError::Key { problem };
    getrandom::fill(&mut bytes).map_err(|error| problem(error.to_string()))?;
    hex::encode(bytes)
        .parse()
        .map_err(|_| problem("no epoch".into()))
}

/// Attaches what was being done to an SQLite error.
pub fn doing(what: &'static str) -> impl FnOnce(rusqlite::Error) -> StateError {
    move |source| StateError::Database {
        doing: what,
        source,
    }
}

/// What SQLite writes to open a database, in bytes, and a little more.
const NEEDED_TO_OPEN: u64 = 64 * 1024;

/// The open database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    /// The file that was opened; absent for a copy in memory, and where nothing is written.
    place: Option<Place>,
}

impl Drop for Store {
    /// SQLite tidies up by name when the last one closes a database: the files of another one in its place are not this one's.
    fn drop(&mut self) {
        if self.check_place().is_err() {
            let without = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            // It is closed either way, and there is nobody to tell.
            let _ = self.connection.set_db_config(without, true);
        }
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
        // SQLite would let others read a new one; what it writes beside it gets the mode of this. What is wrong with the place, it says.
        let mut new = OpenOptions::new();
        let _ = new
            .write(true)
            .create_new(true)
            .mode(durable::SECRET_MODE)
            .open(path);
        let open = || -> Result<Connection, rusqlite::Error> {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            // The agent's rows are few; SQLite's default cache of 2 MiB is memory for nothing.
            connection.pragma_update(None, "cache_size", -256)?;
            Ok(connection)
        };
        let mut connection = open().map_err(|error| damaged(path, "open", error))?;
        match migrate::migrate(&mut connection) {
            Err(StateError::Database { doing, source }) => Err(damaged(path, doing, source)),
            Err(other) => Err(other),
            Ok(()) => Ok(Self {
                connection,
                place: Some(Place::of(path)?),
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
        Ok(Self::unplaced(connection))
    }

    /// Opens the database on a file system that is mounted read-only: nothing is written. What was committed and stands beside the
    /// database only, such as after a power cut, would be left out: then it is not opened.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn open_read_only(path: &Path) -> Result<Self, StateError> {
        let beside = path.with_file_name("agent.db-wal");
        if std::fs::metadata(&beside).is_ok_and(|found| found.len() > 0) {
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
        }
    }

    /// For reading outside a transaction.
    pub fn read(&self) -> &Connection {
        &self.connection
    }

    /// Whether the file at the path is still the one that was opened.
    ///
    /// # Errors
    /// [`StateError::Exchanged`] where it is not: what is committed then is in no file that anybody finds again.
    pub fn check_place(&self) -> Result<(), StateError> {
        self.place.as_ref().map_or(Ok(()), Place::check)
    }

    /// Runs `work` in one transaction: all of it is committed, and durable, or none of it.
    ///
    /// # Errors
    /// What `work` or the commit says; [`StateError::Exchanged`] where the database is not at its path any more.
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
        // Somebody may have waited for others, or have worked for a while.
        self.place.as_ref().map_or(Ok(()), Place::check)?;
        transaction.commit().map_err(doing("commit"))?;
        Ok(value)
    }
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

/// One value by its name.
///
/// # Errors
/// [`StateError`]
pub fn meta<T: DeserializeOwned>(db: &Connection, name: &str) -> Result<Option<T>, StateError> {
    let text: Option<String> = db
        .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| {
            row.get(0)
        })
        .optional()
        .map_err(doing("read a value"))?;
    text.map(|text| from_json(name, &text)).transpose()
}

/// Stores one value under its name; `None` removes it.
///
/// # Errors
/// [`StateError`]
pub fn set_meta<T: Serialize>(
    db: &Connection,
    name: &str,
    value: Option<&T>,
) -> Result<(), StateError> {
    match value {
        Some(value) => db.execute(
            "INSERT INTO meta (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            [name, &to_json(value)],
        ),
        None => db.execute("DELETE FROM meta WHERE name = ?1", [name]),
    }
    .map_err(doing("store a value"))?;
    Ok(())
}

/// The site's identity.
///
/// # Errors
/// [`StateError::NotEnrolled`] before enrolment.
pub fn site(db: &Connection) -> Result<SiteIdentity, StateError> {
    let database = Path::new(db.path().unwrap_or_default());
    meta(db, key::SITE)?.ok_or_else(|| StateError::NotEnrolled {
        folder: database.parent().unwrap_or(database).to_owned(),
    })
}

pub fn to_json<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).unwrap_or_default().to_string()
}

///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StateError> {
    serde_json::from_str(text).map_err(|error| StateError::Value {
        what: what.to_owned(),
        problem: error.to_string(),
    })
}

///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn digest(text: &str) -> Result<Digest, StateError> {
    text.parse().map_err(
        |error: outhaul_bundle::digest::DigestError| StateError::Value {
            what: "digest".into(),
            problem: error.to_string(),
        },
    )
}

/// SQLite's integers are signed; the agent's numbers never reach the difference.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// See [`signed`].
pub fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests;
