//! What a database answers when it does not do what was asked.
//!
//! What comes in: errors of either database. What goes out: the same with its own words first, and what kind of trouble it is.
//! It decides nothing.

use outhaul_kit::text::chain;
use postgres::error::SqlState;
use rusqlite::ErrorCode;

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbError {
    /// A column holds something that this program never wrote.
    #[error("column {at} holds a value of another kind")]
    Column {
        /// Which one, from 0.
        at: usize,
    },
    /// The query that must have a row has none.
    #[error("a row that should be there is missing")]
    NoRow,
    /// `PostgreSQL` failed, or cannot be reached.
    #[error("{}", in_words(error))]
    Postgres {
        /// What it says: the server's words are the message, so that nobody reads them twice.
        error: postgres::Error,
    },
    /// `SQLite` failed.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

impl From<postgres::Error> for DbError {
    fn from(error: postgres::Error) -> Self {
        Self::Postgres { error }
    }
}

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DbErrorKind {
    /// The file is no database, or a damaged one.
    Damage,
    /// Another program holds it.
    Busy,
    /// It cannot be written: a full disk, or a file system or server that is read-only.
    Unwritable,
    /// The server cannot be reached, or went away.
    Gone,
    /// The server does not let this user in.
    Denied,
    /// Anything else.
    Other,
}

impl DbError {
    /// What kind of trouble it is.
    pub fn trouble(&self) -> DbErrorKind {
        match self {
            Self::Sqlite(error) => of_sqlite(error),
            Self::Postgres { error } => of_postgres(error),
            Self::Column { .. } | Self::NoRow => DbErrorKind::Other,
        }
    }
}

fn of_sqlite(error: &rusqlite::Error) -> DbErrorKind {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => DbErrorKind::Damage,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => DbErrorKind::Busy,
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure,
        ) => DbErrorKind::Unwritable,
        _ => DbErrorKind::Other,
    }
}

fn of_postgres(error: &postgres::Error) -> DbErrorKind {
    let Some(state) = error.code() else {
        // No password where one is asked for.
        if error.to_string().starts_with("invalid configuration") {
            return DbErrorKind::Denied;
        }
        // Without an answer of the server: the connection is what failed.
        return DbErrorKind::Gone;
    };
    match *state {
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => DbErrorKind::Damage,
        SqlState::LOCK_NOT_AVAILABLE
        | SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED => DbErrorKind::Busy,
        SqlState::DISK_FULL
        | SqlState::READ_ONLY_SQL_TRANSACTION
        | SqlState::IO_ERROR
        | SqlState::OUT_OF_MEMORY => DbErrorKind::Unwritable,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        | SqlState::INVALID_PASSWORD
        | SqlState::INSUFFICIENT_PRIVILEGE => DbErrorKind::Denied,
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::TOO_MANY_CONNECTIONS
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => DbErrorKind::Gone,
        _ if state.code().starts_with("08") => DbErrorKind::Gone,
        _ => DbErrorKind::Other,
    }
}

/// The server's own words, or what failed on the way to it.
fn in_words(error: &postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        let more = said.detail().or(said.hint());
        let more = more.map_or_else(String::new, |more| format!(" ({more})"));
        return format!("PostgreSQL reports: {}{more}", said.message());
    }
    chain(error)
}
