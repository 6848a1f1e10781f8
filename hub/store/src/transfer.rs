//! All rows of one database, copied into another, and compared.
//!
//! What comes in: two open databases with the same tables, each within a transaction. What goes out: the rows of the first in the second,
//! with their number and a digest of each table; or where the two differ. The tables are those that this program makes, so
//! that no table is forgotten. It commits nothing.

use outhaul_bundle::digest::Hasher;

use super::db::{Connection, DbError, Row, SqlValue};
use super::{Store, StoreError, from_sql};

/// Bytes of one `COPY`.
const AT_ONCE: usize = 8 * 1024 * 1024;
/// How PostgreSQL's binary form of rows begins, and how it ends.
const BEGINS: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const ENDS: [u8; 2] = (-1_i16).to_be_bytes();
/// Every row.
const ALL: &str = "";
/// Envelopes whose report is on record. Looked up row by row: a join would have all of them sorted again.
const WITH_REPORT: &str = "WHERE part = (SELECT r.part FROM reports r
     WHERE r.site = report_envelopes.site AND r.epoch = report_envelopes.epoch AND r.number = report_envelopes.number)";

/// A table that this program makes.
#[derive(Debug)]
pub(super) struct Table {
    name: String,
    columns: Vec<String>,
    /// The columns of its key, in order.
    key: Vec<String>,
}

/// What is in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    /// How many rows.
    pub rows: u64,
    /// Of all of them, in the order of their key.
    pub digest: String,
}

/// Every table with rows of the hub, by name.
pub(super) fn tables() -> Result<Vec<Table>, StoreError> {
    let store = Store::in_memory()?;
    let db = &store.connection;
    let mut query = db.prepare_cached(
        "SELECT t.name, c.name, c.pk FROM sqlite_schema t JOIN pragma_table_info(t.name) c
          WHERE t.type = 'table' AND t.name <> 'migrations' ORDER BY t.name, c.cid",
    )?;
    let mut rows = query.query([])?;
    let mut tables: Vec<Table> = Vec::new();
    let mut keys: Vec<(i64, String)> = Vec::new();
    let end = |tables: &mut Vec<Table>, keys: &mut Vec<(i64, String)>| {
        keys.sort();
        if let Some(table) = tables.last_mut() {
            table.key = std::mem::take(keys)
                .into_iter()
                .map(|(_, name)| name)
                .collect();
        }
    };
    while let Some(row) = rows.next()? {
        let (name, column, place): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if tables.last().is_none_or(|last| last.name != name) {
            end(&mut tables, &mut keys);
            tables.push(Table {
                name,
                columns: Vec::new(),
                key: Vec::new(),
            });
        }
        if place > 0 {
            keys.push((place, column.clone()));
        }
        if let Some(table) = tables.last_mut() {
            table.columns.push(column);
        }
    }
    end(&mut tables, &mut keys);
    Ok(tables)
}

impl Table {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has no row.
    pub fn is_empty(&self, db: &Connection) -> Result<bool, StoreError> {
        let text = format!("SELECT COUNT(*) FROM {}", self.name);
        Ok(from_sql(db.query_row(&text, [], |row| row.get(0))?) == 0)
    }

    /// What is in it.
    pub fn content(&self, db: &Connection) -> Result<Content, StoreError> {
        self.each(db, ALL, |_| Ok(()))
    }

    /// What [`Self::copy`] takes of it.
    pub fn content_to_copy(&self, db: &Connection) -> Result<Content, StoreError> {
        self.each(db, self.to_copy(), |_| Ok(()))
    }

    /// Which rows a copy takes: of envelopes only those whose report is on record. A server keeps the others until their part is
    /// dropped, and what the copy becomes need not drop any.
    fn to_copy(&self) -> &'static str {
        match self.name.as_str() {
            "report_envelopes" => WITH_REPORT,
            _ => ALL,
        }
    }

    /// Copies its rows into the same table of `to`, and returns what was copied.
    pub fn copy(&self, from: &Connection, to: &Connection) -> Result<Content, StoreError> {
        let columns = self.columns.join(", ");
        if let Connection::Postgres(server) = to {
            let text = format!("COPY {} ({columns}) FROM STDIN (FORMAT binary)", self.name);
            let mut bytes = BEGINS.to_vec();
            let send = |bytes: &mut Vec<u8>| -> Result<(), StoreError> {
                bytes.extend(ENDS);
                server.copy_in(&text, bytes)?;
                bytes.truncate(BEGINS.len());
                Ok(())
            };
            let copied = self.each(from, self.to_copy(), |values| {
                add_binary(&mut bytes, values);
                match bytes.len() > AT_ONCE {
                    true => send(&mut bytes),
                    false => Ok(()),
                }
            })?;
            if bytes.len() > BEGINS.len() {
                send(&mut bytes)?;
            }
            return Ok(copied);
        }
        let places: Vec<String> = (1..=self.columns.len())
            .map(|at| format!("${at}"))
            .collect();
        let text = format!(
            "INSERT INTO {} ({columns}) VALUES ({})",
            self.name,
            places.join(", ")
        );
        let mut insert = to.prepare_cached(&text)?;
        self.each(from, self.to_copy(), |values| {
            insert.execute(values.to_vec())?;
            Ok(())
        })
    }

    /// Hands over the rows `which` in the order of the key.
    fn each(
        &self,
        db: &Connection,
        which: &str,
        mut take: impl FnMut(&[SqlValue<'_>]) -> Result<(), StoreError>,
    ) -> Result<Content, StoreError> {
        let (columns, key) = (self.columns.join(", "), self.key.join(", "));
        let text = format!("SELECT {columns} FROM {} {which} ORDER BY {key}", self.name);
        let (mut rows, mut hasher) = (0, Hasher::new());
        db.each(&text, StoreError::from, |row: &Row<'_>| {
            let values: Vec<SqlValue<'_>> = (0..self.columns.len())
                .map(|at| row.value(at))
                .collect::<Result<_, DbError>>()?;
            for value in &values {
                hash(&mut hasher, *value);
            }
            rows += 1;
            take(&values)
        })?;
        let digest = hasher.finish().0.to_string();
        Ok(Content { rows, digest })
    }
}

/// A value so that no two rows have the same bytes. A NUL in a text is what the server has for it.
fn hash(hasher: &mut Hasher, value: SqlValue<'_>) {
    let mut part = |kind: u8, bytes: &[u8]| {
        hasher.update(&[kind]);
        hasher.update(&(bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    match value {
        SqlValue::Null => part(0, &[]),
        SqlValue::Int(number) => part(1, &number.to_be_bytes()),
        SqlValue::Text(text) if text.contains('\0') => {
            part(2, text.replace('\0', "\u{fffd}").as_bytes());
        }
        SqlValue::Text(text) => part(2, text.as_bytes()),
        SqlValue::Blob(bytes) => part(3, bytes),
    }
}

fn add_binary(bytes: &mut Vec<u8>, values: &[SqlValue<'_>]) {
    let field = |bytes: &mut Vec<u8>, field: &[u8]| {
        bytes.extend(u32::try_from(field.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(field);
    };
    bytes.extend(
        u16::try_from(values.len())
            .unwrap_or(u16::MAX)
            .to_be_bytes(),
    );
    for value in values {
        match value {
            SqlValue::Null => bytes.extend((-1_i32).to_be_bytes()),
            SqlValue::Int(number) => field(bytes, &number.to_be_bytes()),
            SqlValue::Text(text) if text.contains('\0') => {
                field(bytes, text.replace('\0', "\u{fffd}").as_bytes());
            }
            SqlValue::Text(text) => field(bytes, text.as_bytes()),
            SqlValue::Blob(blob) => field(bytes, blob),
        }
    }
}
