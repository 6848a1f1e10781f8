//! One way to speak to both databases: statements in one text, values of four kinds, rows.
//!
//! What comes in: statements that `SQLite` and PostgreSQL run alike. What goes out: rows and errors of one shape. The names are those of
//! `rusqlite`, whose part this takes. Writers wait for one another on both: `SQLite` has one lock for the file, and on
//! PostgreSQL each transaction that writes takes one lock first, so that what it reads is what was committed last, whichever
//! process did. Nothing has to be tried again for that, and nothing depends on the server's settings.

mod address;
mod error;
mod password;
mod postgres;
mod statement;
mod tls;
mod value;

pub use address::{Address, AddressError};
pub use error::{DbError, DbErrorKind};
pub use password::{CREDENTIAL, PasswordError};
pub use postgres::{Server, ServerError};
pub use statement::{OptionalExtension, Row, Statement};
pub(crate) use value::params;
pub use value::{AnyBytes, FromColumn, Param, Params, SqlValue};

use statement::{Columns, Prepared};

/// The lock of those who write, among the numbers that a database's programs agree on: "outhaul" in ASCII.
const WRITERS: i64 = 0x6f_7574_6861_756c;

/// A database, open.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each open store")]
pub enum Connection {
    /// A file.
    Sqlite(rusqlite::Connection),
    /// A server.
    Postgres(Server),
}

/// What a transaction may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Reads, and no part of the envelopes of reports is dropped before it ends.
    ReadAll,
    Write,
}

/// A transaction that is undone unless it is committed.
#[derive(Debug)]
pub(crate) struct Transaction<'a>(Option<&'a Connection>);

impl Connection {
    /// Whether it is a server.
    pub fn is_server(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Begins a transaction; one that reads sees one moment.
    pub(crate) fn begin(&self, access: Access) -> Result<Transaction<'_>, DbError> {
        let lock = format!("SELECT pg_advisory_xact_lock({WRITERS})");
        let (begin, lock) = match (self, access) {
            (Self::Sqlite(_), Access::Write) => ("BEGIN IMMEDIATE", ""),
            (Self::Sqlite(_), Access::Read | Access::ReadAll) => ("BEGIN", ""),
            // Each statement sees what was committed before it: all of it, once the lock is held.
            (Self::Postgres(_), Access::Write) => {
                ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", &*lock)
            }
            (Self::Postgres(_), Access::Read) => {
                ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "")
            }
            // A view of one moment still reads which parts there are when it comes to them: they are held before the moment is taken.
            (Self::Postgres(_), Access::ReadAll) => (
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                "LOCK TABLE report_envelopes IN ACCESS SHARE MODE",
            ),
        };
        let begun = Transaction(Some(self));
        self.execute_batch(&format!("{begin}; {lock}"))?;
        Ok(begun)
    }

    /// Runs statements that have no values.
    ///
    /// # Errors
    /// [`DbError`]
    pub fn execute_batch(&self, text: &str) -> Result<(), DbError> {
        match self {
            Self::Sqlite(db) => Ok(db.execute_batch(text)?),
            Self::Postgres(server) => server.batch(text),
        }
    }

    /// A statement, kept prepared.
    ///
    /// # Errors
    /// [`DbError`]
    pub fn prepare_cached(&self, text: &str) -> Result<Statement<'_>, DbError> {
        Ok(Statement(match self {
            Self::Sqlite(db) => Prepared::Sqlite(db.prepare_cached(text)?),
            Self::Postgres(server) => Prepared::Postgres(server, server.prepare(text)?),
        }))
    }

    /// Runs a statement once, and returns how many rows were written.
    ///
    /// # Errors
    /// [`DbError`]
    pub fn execute(&self, text: &str, params: impl Params) -> Result<usize, DbError> {
        self.prepare_cached(text)?.execute(params)
    }

    /// The first row of a query.
    ///
    /// # Errors
    /// [`DbError::NoRow`] where there is none.
    pub fn query_row<T>(
        &self,
        text: &str,
        params: impl Params,
        turn: impl FnOnce(&Row<'_>) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        self.prepare_cached(text)?.query_row(params, turn)
    }

    /// Hands over the rows of a query one by one, which need not fit into memory. No other statement can be run meanwhile.
    ///
    /// # Errors
    /// What `take` returns, or what `failed` makes of a [`DbError`].
    pub fn each<E>(
        &self,
        text: &str,
        failed: impl Fn(DbError) -> E,
        mut take: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Self::Postgres(server) = self {
            return server.each(text, failed, |row| take(&Row(Columns::Postgres(row))));
        }
        let mut query = self.prepare_cached(text).map_err(&failed)?;
        let mut rows = query.query([]).map_err(&failed)?;
        while let Some(row) = rows.next().map_err(&failed)? {
            take(&row)?;
        }
        Ok(())
    }
}

impl Transaction<'_> {
    /// Makes it last.
    pub(crate) fn commit(mut self) -> Result<(), DbError> {
        match self.0.take() {
            Some(db) => {
                // A server answers COMMIT with no error where an earlier statement failed, and commits nothing: the
                // first of the two then fails.
                let text = match db {
                    Connection::Sqlite(_) => "COMMIT",
                    Connection::Postgres(_) => "SELECT 1; COMMIT",
                };
                let done = db.execute_batch(text);
                if done.is_err() {
                    let _ = db.execute_batch("ROLLBACK");
                }
                done
            }
            None => Ok(()),
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Some(db) = self.0.take() {
            // Where this fails, the connection is gone, and with it the transaction.
            let _ = db.execute_batch("ROLLBACK");
        }
    }
}
