//! The agent's memory: one SQLite file that survives a power cut at any instant.
//!
//! What comes in: values to remember, always inside a transaction. What goes out: what was committed.
//! `WAL` with `synchronous=FULL`: with less, SQLite may lose committed rows when the power goes.
//! A report row is written in the transaction of the change that it tells, so that neither can exist
//! without the other. A damaged file is never replaced silently: the floors in it guard the site.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use outhaul_kit::text;
use outhaul_signer::KeyError;
use rusqlite::backup::Backup;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::durable::{FileError, at};
use crate::state_folder::{LockError, StateFolder};

pub mod clock;
pub mod events;
pub mod floors;
pub mod generations;
pub mod holds;
pub mod inventory;
mod migrate;
pub mod outbox;

pub use holds::Hold;

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
    /// Number of the active generation while going back to it or repairing it has failed.
    pub const BROKEN: &str = "broken";
    /// Number of the waiting generation that only a person lets through, after a rollback.
    pub const NEEDS_APPROVAL: &str = "needs-approval";
    /// Milliseconds since 1970 of the last look for drift.
    pub const OBSERVED: &str = "observed";
    /// The refusal that was last told of the repository: asked again, it says the same again.
    pub const REFUSED: &str = "refused";
    /// The number of the last order that was carried out.
    pub const ORDERS: &str = "orders";
    /// [`orders::executed::ExecutedOrders`]: orders, with the keys that vouched for them.
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
    /// `Visit` of the agent: the sticks and folders that were read, the latest last.
    pub const MEDIA: &str = "media";
    /// [`inventory::Item`]s of an earlier memory whose files somebody changed: whose they are, a person says.
    pub const DISPUTED: &str = "disputed";
    /// Latest result of each assignment, for `status`.
    pub const RESULTS: &str = "results";
}

/// Why the memory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file beside the database.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another agent.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// SQLite failed.
    #[error("the database failed to {doing}: {source}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: rusqlite::Error,
    },
    /// The database file is no database any more.
    #[error("the database `{}` is damaged ({problem}); what runs on this site was not touched", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        problem: String,
    },
    /// Written by a newer agent.
    #[error("the database is of version {found}; this agent knows versions up to {known}")]
    Newer {
        /// Its version.
        found: i64,
        /// The newest known.
        known: i64,
    },
    /// A stored value that this agent did not write.
    #[error("the stored {what} cannot be read: {problem}")]
    Value {
        /// Which value.
        what: String,
        /// What is wrong.
        problem: String,
    },
    /// The site has no identity yet.
    #[error("this site is not enrolled: there is no identity in the state folder")]
    NotEnrolled,
    /// The database of a machine that was a site is not there.
    #[error(
        "the database `{}` is gone, though `{beside}` beside it shows that this machine was a site; what runs on it \
         was not touched", path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
        /// What shows it.
        beside: String,
    },
    /// The memory of the highest versions was tampered with or lost.
    #[error("{problem}; no bundle is accepted until that is put right, what runs goes on running")]
    Floors {
        /// What contradicts what.
        problem: String,
    },
    /// A report could not be signed.
    #[error("the site's key cannot be used: {problem}")]
    Key {
        /// What is wrong.
        problem: String,
    },
}

impl StateError {
    /// The exit code of the table in the design.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotEnrolled => 2,
            Self::Floors { .. } => 4,
            Self::Value { .. } => 5,
            _ => 3,
        }
    }

    /// What to do next.
    pub fn help(&self) -> String {
        match self {
            Self::File(error) | Self::Lock(LockError::File(error)) => error.help(),
            Self::Lock(LockError::Busy { .. }) => {
                "if that is the service, put the bundle into a folder that it watches, or stop it \
                 first: `systemctl stop outhaul-agent`"
                    .into()
            }
            Self::Database { source, .. } => database_help(source.sqlite_error_code()).into(),
            Self::Damaged { path, .. } => format!(
                "copy the folder away for analysis, move `{}` aside, and enrol this site with a new kit \
                 (`outhaul site enrol` at the centre); leave all else in the folder: `floors.json` keeps older \
                 bundles out, and what the kept bundles applied is known again",
                path.display()
            ),
            Self::Gone { .. } => {
                "restore the whole state folder from one backup, or enrol this site with a new kit (`outhaul site \
                 enrol` at the centre); leave all else in the folder: `floors.json` keeps older bundles out, and \
                 what the kept bundles applied is known again"
                    .into()
            }
            Self::Newer { .. } => "install the newer agent again".into(),
            Self::NotEnrolled => {
                "run `outhaul-agent --state DIR enrol SITE.kit` first; if this machine was enrolled, name its \
                 state folder with `--state`"
                    .into()
            }
            Self::Floors { .. } => {
                "import a freshness slip that is newer than both (`outhaul slip` at the centre writes \
                 one), or restore the whole state folder from one backup; report it: somebody may have \
                 put old files back"
                    .into()
            }
            Self::Value { .. } => "this is a defect, or the file was edited; report it".into(),
            Self::Key { .. } => {
                "what runs goes on; restore `site.key` from a backup of the state folder, or ask the centre \
                 for a new kit (`outhaul site enrol`)"
                    .into()
            }
        }
    }
}

/// Space, permission, damage and somebody else at work: each has its own way out.
fn database_help(code: Option<ErrorCode>) -> &'static str {
    match code {
        Some(ErrorCode::DiskFull) => {
            "free some space on the state folder's file system (`df -h` shows it) and repeat the command"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            "run the command as the user that owns the state folder (usually with `sudo`), and check that \
             its file system is mounted writable"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another command is at work on it: wait for it and repeat this one"
        }
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => {
            "check the space (`df -h`) and the permissions of the state folder, then the disk (`dmesg`), \
             and repeat the command"
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "the database is damaged, and repeating does not help: copy the folder away for analysis, move `agent.db` \
             in it aside, and enrol this site with a new kit (`outhaul site enrol` at the centre); leave all else in \
             the folder"
        }
        _ => "look at the disk, then repeat the command",
    }
}

impl From<KeyError> for StateError {
    /// A key file that cannot be read or written is the disk's matter; one that is gone or damaged the
    /// key's.
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::File(error) if !error.is_missing() => Self::File(error),
            other => Self::Key {
                problem: text::chain(&other),
            },
        }
    }
}

/// Whether there is a site here. A folder that this user may not enter is told apart from one that
/// holds nothing.
///
/// # Errors
/// [`StateError::NotEnrolled`], or [`StateError::File`] when it cannot be known.
pub fn check_enrolled(state_folder: &StateFolder) -> Result<(), StateError> {
    let database = state_folder.database();
    match std::fs::metadata(&database) {
        Ok(about) if about.len() > 0 => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(at("open", &database)(error).into())
        }
        Ok(_) | Err(_) => {
            // Only what was accepted or applied leaves these; an enrolment that was cut off does not.
            let mut left = [state_folder.floors(), state_folder.default_target()].into_iter();
            Err(match left.find(|path| path.exists()) {
                Some(beside) => StateError::Gone {
                    beside: beside
                        .file_name()
                        .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
                    path: database,
                },
                None => StateError::NotEnrolled,
            })
        }
    }
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

/// The open database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
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
            Ok(()) => Ok(Self { connection }),
        }
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
        Ok(Self { connection })
    }

    /// For reading outside a transaction.
    pub fn read(&self) -> &Connection {
        &self.connection
    }

    /// Runs `work` in one transaction: all of it is committed, and durable, or none of it.
    ///
    /// # Errors
    /// What `work` or the commit says.
    pub fn commit<T, E: From<StateError>>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        // Immediate: two processes queue up here instead of failing in the middle.
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(doing("begin"))?;
        let value = work(&transaction)?;
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
        _ => StateError::Database {
            doing: what,
            source,
        },
    }
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
    meta(db, key::SITE)?.ok_or(StateError::NotEnrolled)
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
