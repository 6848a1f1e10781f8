//! Statements, and the rows that come of them, the same for both databases.
//!
//! What comes in: a statement's text with `$1`, `$2` … in the order of their first use, and values. What goes out: rows, or how
//! many were written. Rows of `SQLite` come one by one; those of a server are there at once, so that other statements can be
//! run while they are read.

use super::postgres::Server;
use super::{DbError, FromColumn, Params, SqlValue};

/// A statement, to be run any number of times.
#[derive(Debug)]
pub struct Statement<'a>(pub(super) Prepared<'a>);

pub(super) enum Prepared<'a> {
    Sqlite(rusqlite::CachedStatement<'a>),
    Postgres(&'a Server, postgres::Statement),
}

impl std::fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a statement")
    }
}

/// Rows, one after the other.
#[derive(Debug)]
pub struct Rows<'a>(StoreRows<'a>);

enum StoreRows<'a> {
    Sqlite(rusqlite::Rows<'a>),
    Postgres(std::vec::IntoIter<postgres::Row>, Option<postgres::Row>),
}

impl std::fmt::Debug for StoreRows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("rows")
    }
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a>(pub(super) Columns<'a>);

#[derive(Debug, Clone, Copy)]
pub(super) enum Columns<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a postgres::Row),
}

/// What each row was turned into.
#[derive(Debug)]
pub struct MappedRows<'a, F> {
    rows: Rows<'a>,
    turn: F,
}

impl Statement<'_> {
    /// Runs it, and returns how many rows were written.
    ///
    /// # Errors
    /// [`DbError`]
    pub fn execute(&mut self, params: impl Params) -> Result<usize, DbError> {
        let values = params.values();
        match &mut self.0 {
            Prepared::Sqlite(statement) => {
                bind(statement, &values)?;
                Ok(statement.raw_execute()?)
            }
            Prepared::Postgres(server, statement) => server.execute(statement, &values),
        }
    }

    /// Runs it, and returns its rows.
    ///
    /// # Errors
    /// [`DbError`]
    pub fn query(&mut self, params: impl Params) -> Result<Rows<'_>, DbError> {
        let values = params.values();
        Ok(Rows(match &mut self.0 {
            Prepared::Sqlite(statement) => {
                bind(statement, &values)?;
                StoreRows::Sqlite(statement.raw_query())
            }
            Prepared::Postgres(server, statement) => {
                StoreRows::Postgres(server.query(statement, &values)?.into_iter(), None)
            }
        }))
    }

    /// The same, each row turned into something.
    ///
    /// # Errors
    /// [`DbError`]
    pub fn query_map<T, F: FnMut(&Row<'_>) -> Result<T, DbError>>(
        &mut self,
        params: impl Params,
        turn: F,
    ) -> Result<MappedRows<'_, F>, DbError> {
        let rows = self.query(params)?;
        Ok(MappedRows { rows, turn })
    }

    /// The first row, turned into something.
    ///
    /// # Errors
    /// [`DbError::NoRow`] where there is none.
    pub fn query_row<T>(
        &mut self,
        params: impl Params,
        turn: impl FnOnce(&Row<'_>) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        match self.query(params)?.next()? {
            Some(row) => turn(&row),
            None => Err(DbError::NoRow),
        }
    }
}

fn bind(statement: &mut rusqlite::Statement<'_>, values: &[SqlValue<'_>]) -> Result<(), DbError> {
    for (at, value) in values.iter().enumerate() {
        // SQLite counts names in the order in which they first stand in the text, PostgreSQL goes by their numbers.
        debug_assert!(
            statement
                .parameter_name(at + 1)
                .is_none_or(|name| name == format!("${}", at + 1)),
            "the parameters of a statement stand in the order of their numbers"
        );
        statement.raw_bind_parameter(at + 1, *value)?;
    }
    Ok(())
}

impl rusqlite::ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, ValueRef};
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl Rows<'_> {
    /// The next row.
    ///
    /// # Errors
    /// [`DbError`]
    pub fn next(&mut self) -> Result<Option<Row<'_>>, DbError> {
        match &mut self.0 {
            StoreRows::Sqlite(rows) => Ok(rows.next()?.map(|row| Row(Columns::Sqlite(row)))),
            StoreRows::Postgres(rows, current) => {
                *current = rows.next();
                Ok(current.as_ref().map(|row| Row(Columns::Postgres(row))))
            }
        }
    }
}

impl<T, F: FnMut(&Row<'_>) -> Result<T, DbError>> Iterator for MappedRows<'_, F> {
    type Item = Result<T, DbError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.rows.next() {
            Ok(row) => row.map(|row| (self.turn)(&row)),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Row<'_> {
    /// A column, counted from 0.
    ///
    /// # Errors
    /// [`DbError::Column`] where it holds something else.
    pub fn get<I: ColumnPlace, T: FromColumn>(&self, at: I) -> Result<T, DbError> {
        let at = at.place();
        T::from_column(self.value(at)?).ok_or(DbError::Column { at })
    }

    /// A column as it is.
    ///
    /// # Errors
    /// [`DbError::Column`] where it is of no kind that this program writes.
    pub fn value(&self, at: usize) -> Result<SqlValue<'_>, DbError> {
        use rusqlite::types::ValueRef;
        match self.0 {
            Columns::Sqlite(row) => Ok(match row.get_ref(at)? {
                ValueRef::Null => SqlValue::Null,
                ValueRef::Integer(number) => SqlValue::Int(number),
                ValueRef::Text(text) => {
                    SqlValue::Text(std::str::from_utf8(text).map_err(|_| DbError::Column { at })?)
                }
                ValueRef::Blob(bytes) => SqlValue::Blob(bytes),
                ValueRef::Real(_) => return Err(DbError::Column { at }),
            }),
            Columns::Postgres(row) => Ok(row.try_get::<_, SqlValue<'_>>(at)?),
        }
    }
}

/// The place of a column: the type of a number that stands alone follows from there being one only.
pub trait ColumnPlace {
    /// From 0.
    fn place(self) -> usize;
}

impl ColumnPlace for usize {
    fn place(self) -> usize {
        self
    }
}

/// A row that need not be there.
pub trait OptionalExtension<T> {
    /// `None` where there is none.
    ///
    /// # Errors
    /// [`DbError`] of any other kind.
    fn optional(self) -> Result<Option<T>, DbError>;
}

impl<T> OptionalExtension<T> for Result<T, DbError> {
    fn optional(self) -> Result<Option<T>, DbError> {
        match self {
            Ok(found) => Ok(Some(found)),
            Err(DbError::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
