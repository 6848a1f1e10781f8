//! Whether a SQLite file is sound as a whole.
//!
//! What comes in: a connection to it. What goes out: what is wrong with it. It reads all of the file and writes nothing.

use outhaul_kit::text;

use super::StoreError;

/// What is wrong with a database, by its pages and by the order in which they lie; `None` where it is sound.
pub(super) fn damage(db: &rusqlite::Connection) -> Result<Option<String>, StoreError> {
    let found: Result<String, StoreError> = db
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(StoreError::from);
    match found {
        Ok(found) if found == "ok" => Ok(None),
        // In one line, as it is said of a file.
        Ok(found) => Ok(Some(found.split_whitespace().collect::<Vec<_>>().join(" "))),
        Err(error) if error.is_damage() => Ok(Some(text::chain(&error))),
        Err(error) => Err(error),
    }
}
