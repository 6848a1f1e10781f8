//! Values as both databases have them: whole numbers, text, bytes, or nothing.
//!
//! What comes in: what a statement is given, or a column of a row. What goes out: the same as the other side's type, or that it
//! is none. It knows no database.

use std::fmt::Debug;

/// One value, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlValue<'a> {
    /// Nothing.
    Null,
    /// A number, or 0 and 1 for no and yes.
    Int(i64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

/// What a statement can be given.
pub trait Param {
    /// It as a value.
    fn value(&self) -> SqlValue<'_>;
}

impl Param for i64 {
    fn value(&self) -> SqlValue<'_> {
        SqlValue::Int(*self)
    }
}

impl Param for u32 {
    fn value(&self) -> SqlValue<'_> {
        SqlValue::Int(i64::from(*self))
    }
}

impl Param for i32 {
    fn value(&self) -> SqlValue<'_> {
        SqlValue::Int(i64::from(*self))
    }
}

impl Param for bool {
    fn value(&self) -> SqlValue<'_> {
        SqlValue::Int(i64::from(*self))
    }
}

impl Param for str {
    fn value(&self) -> SqlValue<'_> {
        SqlValue::Text(self)
    }
}

impl Param for String {
    fn value(&self) -> SqlValue<'_> {
        SqlValue::Text(self)
    }
}

impl Param for [u8] {
    fn value(&self) -> SqlValue<'_> {
        SqlValue::Blob(self)
    }
}

impl Param for Vec<u8> {
    fn value(&self) -> SqlValue<'_> {
        SqlValue::Blob(self)
    }
}

impl Param for SqlValue<'_> {
    fn value(&self) -> SqlValue<'_> {
        *self
    }
}

impl<T: Param> Param for Option<T> {
    fn value(&self) -> SqlValue<'_> {
        self.as_ref().map_or(SqlValue::Null, Param::value)
    }
}

impl<T: Param + ?Sized> Param for &T {
    fn value(&self) -> SqlValue<'_> {
        (**self).value()
    }
}

/// What a statement is given, in order.
pub trait Params {
    /// All of it.
    fn values(&self) -> Vec<SqlValue<'_>>;
}

impl Params for [&dyn Param; 0] {
    fn values(&self) -> Vec<SqlValue<'_>> {
        Vec::new()
    }
}

impl Params for &[&dyn Param] {
    fn values(&self) -> Vec<SqlValue<'_>> {
        self.iter().map(|one| one.value()).collect()
    }
}

impl Params for Vec<SqlValue<'_>> {
    fn values(&self) -> Vec<SqlValue<'_>> {
        self.clone()
    }
}

impl<A, B, C, D, E, F, G> Params for (A, B, C, D, E, F, G)
where
    A: Param,
    B: Param,
    C: Param,
    D: Param,
    E: Param,
    F: Param,
    G: Param,
{
    #[expect(
        clippy::many_single_char_names,
        reason = "one letter for each value of a list"
    )]
    fn values(&self) -> Vec<SqlValue<'_>> {
        let (a, b, c, d, e, f, g) = self;
        vec![
            a.value(),
            b.value(),
            c.value(),
            d.value(),
            e.value(),
            f.value(),
            g.value(),
        ]
    }
}

/// What a column can be read as.
pub trait FromColumn: Sized {
    /// It, or `None` where the column holds something else.
    fn from_column(value: SqlValue<'_>) -> Option<Self>;
}

impl FromColumn for i64 {
    fn from_column(value: SqlValue<'_>) -> Option<Self> {
        match value {
            SqlValue::Int(number) => Some(number),
            _ => None,
        }
    }
}

impl FromColumn for bool {
    fn from_column(value: SqlValue<'_>) -> Option<Self> {
        i64::from_column(value).map(|number| number != 0)
    }
}

impl FromColumn for String {
    fn from_column(value: SqlValue<'_>) -> Option<Self> {
        match value {
            SqlValue::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

impl FromColumn for Vec<u8> {
    fn from_column(value: SqlValue<'_>) -> Option<Self> {
        match value {
            SqlValue::Blob(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

/// Bytes, also where someone wrote them as text: SQLite keeps what it is given.
#[derive(Debug)]
pub struct AnyBytes(pub Vec<u8>);

impl FromColumn for AnyBytes {
    fn from_column(value: SqlValue<'_>) -> Option<Self> {
        match value {
            SqlValue::Blob(bytes) => Some(Self(bytes.to_vec())),
            SqlValue::Text(text) => Some(Self(text.as_bytes().to_vec())),
            // Whatever else is there is no text of a report.
            _ => Some(Self(Vec::new())),
        }
    }
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(value: SqlValue<'_>) -> Option<Self> {
        match value {
            SqlValue::Null => Some(None),
            value => T::from_column(value).map(Some),
        }
    }
}

/// What a statement is given, of any types.
macro_rules! params {
    ($($param:expr),* $(,)?) => {
        &[$(&$param as &dyn $crate::db::Param),*] as &[&dyn $crate::db::Param]
    };
}
pub(crate) use params;
