//! A connection to a PostgreSQL server: made when it is needed, made again when it went away.
//!
//! What comes in: an address, statements and values. What goes out: rows. What a server must be (its version, its encoding, not a
//! replica) is asked once per connection. A connection that broke is made again before a transaction begins, and
//! never within one: what was begun there did not happen.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use postgres::{Client, Config, Statement};

use super::address::{Address, AddressError};
use super::{DbError, SqlValue, tls};

/// How long a server may take to answer to a connection.
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);
/// The oldest version that has all that is asked of it, as the server counts.
const OLDEST: i64 = 130_000;
/// Statements kept prepared on one connection.
const PREPARED: usize = 256;
/// What every connection asks for: that what was committed is on the server's disk, that nobody is waited for without end, and
/// that a hub that hangs in a transaction keeps no other one waiting.
const SESSION: &str = "SET lock_timeout = '20s'; SET idle_in_transaction_session_timeout = '60s';
     SET client_min_messages = warning; SET standard_conforming_strings = on;
     SELECT set_config('synchronous_commit', 'on', false)
      WHERE current_setting('synchronous_commit') IN ('off', 'local')";

/// A server, connected.
pub struct Server {
    address: Address,
    client: RefCell<Client>,
    statements: RefCell<HashMap<String, Statement>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.address)
    }
}

/// Why a server is not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address, or what it names, cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// It does not answer, or says no.
    #[error(transparent)]
    Failed(#[from] DbError),
    /// It is too old.
    #[error("the server is PostgreSQL {found}, and the hub needs 13 or newer")]
    Old {
        /// Its version.
        found: String,
    },
    /// It is a replica, which cannot be written.
    #[error("the server is a replica, which only follows another one and cannot be written")]
    Replica,
    /// Texts would not come back as they were written.
    #[error("the database's encoding is {found}, and the hub needs UTF8")]
    Encoding {
        /// Its encoding.
        found: String,
    },
}

impl Server {
    pub(crate) fn connect(address: &Address) -> Result<Self, ServerError> {
        let client = open(address)?;
        Ok(Self {
            address: address.clone(),
            client: RefCell::new(client),
            statements: RefCell::default(),
        })
    }

    /// Connects again: the connection went away, and with it every statement that was prepared.
    pub(crate) fn reconnect(&self) -> Result<(), ServerError> {
        let client = open(&self.address)?;
        self.statements.borrow_mut().clear();
        *self.client.borrow_mut() = client;
        Ok(())
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn batch(&self, text: &str) -> Result<(), DbError> {
        Ok(self.client.borrow_mut().batch_execute(text)?)
    }

    pub(crate) fn prepare(&self, text: &str) -> Result<Statement, DbError> {
        if let Some(known) = self.statements.borrow().get(text) {
            return Ok(known.clone());
        }
        let made = self.client.borrow_mut().prepare(text)?;
        let mut statements = self.statements.borrow_mut();
        // Texts that are put together differ without end: all are made again rather than any kept for ever.
        if statements.len() >= PREPARED {
            statements.clear();
        }
        statements.insert(text.to_owned(), made.clone());
        Ok(made)
    }

    pub(crate) fn execute(
        &self,
        statement: &Statement,
        values: &[SqlValue<'_>],
    ) -> Result<usize, DbError> {
        let params = of(values);
        let written = self.client.borrow_mut().execute(statement, &params)?;
        Ok(usize::try_from(written).unwrap_or(usize::MAX))
    }

    pub(crate) fn query(
        &self,
        statement: &Statement,
        values: &[SqlValue<'_>],
    ) -> Result<Vec<postgres::Row>, DbError> {
        Ok(self.client.borrow_mut().query(statement, &of(values))?)
    }

    /// Hands over the rows one by one, which need not fit into memory. No other statement can be run meanwhile.
    pub(crate) fn each<E>(
        &self,
        text: &str,
        failed: impl Fn(DbError) -> E,
        mut take: impl FnMut(&postgres::Row) -> Result<(), E>,
    ) -> Result<(), E> {
        use postgres::fallible_iterator::FallibleIterator as _;
        let failed_there = |error: postgres::Error| failed(error.into());
        let statement = self.prepare(text).map_err(&failed)?;
        let mut client = self.client.borrow_mut();
        let none: [SqlValue<'_>; 0] = [];
        let mut rows = client.query_raw(&statement, none).map_err(failed_there)?;
        while let Some(row) = rows.next().map_err(failed_there)? {
            take(&row)?;
        }
        Ok(())
    }

    /// Writes `bytes` by `COPY … FROM STDIN`.
    pub(crate) fn copy_in(&self, text: &str, bytes: &[u8]) -> Result<u64, DbError> {
        use std::io::Write as _;
        let mut client = self.client.borrow_mut();
        let mut writer = client.copy_in(text)?;
        // What fails here fails in `finish` with the server's words.
        let _ = writer.write_all(bytes);
        Ok(writer.finish()?)
    }
}

fn of<'a>(values: &'a [SqlValue<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values
        .iter()
        .map(|value| value as &(dyn ToSql + Sync))
        .collect()
}

fn open(address: &Address) -> Result<Client, ServerError> {
    let mut config: Config = address.config()?;
    config
        .connect_timeout(CONNECTED_WITHIN)
        .application_name("outhaul-hub")
        .keepalives_idle(Duration::from_secs(30));
    let made = match tls::connector(address)? {
        Some(tls) => config.connect(tls),
        None => config.connect(postgres::NoTls),
    };
    let mut client = made.map_err(DbError::from)?;
    client.batch_execute(SESSION).map_err(DbError::from)?;
    let text = "SELECT current_setting('server_version_num'), current_setting('server_version'),
                       pg_is_in_recovery(), current_setting('server_encoding')";
    let row = client.query_one(text, &[]).map_err(DbError::from)?;
    let number: String = row.get(0);
    if number.parse::<i64>().unwrap_or(0) < OLDEST {
        return Err(ServerError::Old { found: row.get(1) });
    }
    if row.get(2) {
        return Err(ServerError::Replica);
    }
    let found: String = row.get(3);
    if found != "UTF8" {
        return Err(ServerError::Encoding { found });
    }
    Ok(client)
}

impl ToSql for SqlValue<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => match *kind {
                Type::BOOL => (*number != 0).to_sql(kind, out),
                Type::INT4 => i32::try_from(*number)?.to_sql(kind, out),
                Type::INT2 => i16::try_from(*number)?.to_sql(kind, out),
                Type::INT8 => number.to_sql(kind, out),
                _ => Err(format!("a number is given where {kind} is expected").into()),
            },
            // The one letter that PostgreSQL keeps in no text: what a site wrote must not stop what others wrote.
            Self::Text(text) if text.contains('\0') => {
                text.replace('\0', "\u{fffd}").to_sql(kind, out)
            }
            Self::Text(text) => text.to_sql(kind, out),
            Self::Blob(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for SqlValue<'a> {
    fn from_sql(
        kind: &Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => Self::Int(i64::from_sql(kind, raw)?),
            Type::INT4 => Self::Int(i64::from(i32::from_sql(kind, raw)?)),
            Type::INT2 => Self::Int(i64::from(i16::from_sql(kind, raw)?)),
            Type::BOOL => Self::Int(i64::from(bool::from_sql(kind, raw)?)),
            Type::BYTEA => Self::Blob(raw),
            _ => Self::Text(<&str>::from_sql(kind, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(
            *kind,
            Type::INT8
                | Type::INT4
                | Type::INT2
                | Type::BOOL
                | Type::BYTEA
                | Type::TEXT
                | Type::VARCHAR
                | Type::NAME
                | Type::UNKNOWN
        )
    }
}
