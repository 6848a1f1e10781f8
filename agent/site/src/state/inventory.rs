//! What the agent itself put on this host: the only thing that it will ever remove.
//!
//! What comes in: intents before a write, confirmations after. What goes out: rows by reconciler and
//! assignment. An intent counts as ours: after a cut it may or may not have happened.

use outhaul_reconcilers::{Item, Ledger, LedgerError, Phase};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{StateError, Store, doing, signed, unsigned};
use crate::cut;

impl Ledger for Store {
    fn intend(&mut self, items: &[Item]) -> Result<(), LedgerError> {
        Ok(self.commit(|db| items.iter().try_for_each(|item| put(db, item)))?)
    }

    fn confirm(&mut self, kind: &str, assignment: &str) -> Result<(), LedgerError> {
        Ok(self.commit(|db| confirm(db, kind, assignment))?)
    }

    fn other_holder(
        &self,
        kind: &str,
        assignment: &str,
        item: &str,
    ) -> Result<Option<String>, LedgerError> {
        Ok(other_holder(self.read(), kind, assignment, item)?)
    }

    fn forget(&mut self, items: &[Item]) -> Result<(), LedgerError> {
        Ok(self.commit(|db| items.iter().try_for_each(|item| forget(db, item)))?)
    }

    fn passed(&mut self, instant: &'static str) {
        cut::here(instant);
    }
}

impl From<StateError> for LedgerError {
    fn from(error: StateError) -> Self {
        Self {
            problem: error.to_string(),
            help: error.help(),
        }
    }
}

/// Everything, or all of one assignment.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn items(db: &Connection, assignment: Option<&str>) -> Result<Vec<Item>, StateError> {
    let mut query = db
        .prepare(
            "SELECT kind, assignment, item, digest, before, generation, phase FROM inventory
             WHERE ?1 IS NULL OR assignment = ?1 ORDER BY assignment, kind, item",
        )
        .map_err(doing("read the inventory"))?;
    let rows = query
        .query_map([assignment], |row| {
            Ok(Item {
                kind: row.get(0)?,
                assignment: row.get(1)?,
                item: row.get(2)?,
                digest: row.get(3)?,
                before: row.get(4)?,
                generation: unsigned(row.get(5)?),
                phase: phase(row, 6)?,
            })
        })
        .map_err(doing("read the inventory"))?;
    rows.collect::<Result<_, _>>()
        .map_err(doing("read the inventory"))
}

/// The same without what was left behind, which nothing knows how to remove.
///
/// # Errors
/// As [`items`].
pub fn present(db: &Connection, assignment: Option<&str>) -> Result<Vec<Item>, StateError> {
    let mut items = items(db, assignment)?;
    items.retain(|item| item.phase != Phase::Left);
    Ok(items)
}

/// What would be removed where only the assignments stay for which `stays` holds.
///
/// # Errors
/// As [`items`].
pub fn surplus(db: &Connection, stays: impl Fn(&str) -> bool) -> Result<Vec<Item>, StateError> {
    let mut items = present(db, None)?;
    items.retain(|item| !stays(&item.assignment));
    Ok(items)
}

/// The phase in a column, of which the table's check knows three.
fn phase(row: &Row<'_>, column: usize) -> rusqlite::Result<Phase> {
    let word: String = row.get(column)?;
    let unknown = || rusqlite::Error::InvalidColumnType(column, word.clone(), Type::Text);
    Phase::from_word(&word).ok_or_else(unknown)
}

/// The assignment other than `assignment` under which `item` is listed.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn other_holder(
    db: &Connection,
    kind: &str,
    assignment: &str,
    item: &str,
) -> Result<Option<String>, StateError> {
    db.query_row(
        "SELECT assignment FROM inventory
         WHERE kind = ?1 AND item = ?3 AND assignment <> ?2 ORDER BY assignment LIMIT 1",
        [kind, assignment, item],
        |row| row.get(0),
    )
    .optional()
    .map_err(doing("read the inventory"))
}

/// Records that `item` is about to be written, or was: `phase` says which.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn put(db: &Connection, item: &Item) -> Result<(), StateError> {
    db.execute(
        "INSERT OR REPLACE INTO inventory
         (kind, assignment, item, digest, before, generation, phase)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            item.kind,
            item.assignment,
            item.item,
            item.digest,
            item.before,
            signed(item.generation),
            item.phase.as_str(),
        ],
    )
    .map_err(doing("write the inventory"))?;
    Ok(())
}

/// Confirms all intents of an assignment.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn confirm(db: &Connection, kind: &str, assignment: &str) -> Result<(), StateError> {
    db.execute(
        "UPDATE inventory SET phase = 'applied', before = ''
         WHERE kind = ?1 AND assignment = ?2 AND phase = 'intent'",
        [kind, assignment],
    )
    .map_err(doing("write the inventory"))?;
    Ok(())
}

/// Forgets one thing that was removed.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn forget(db: &Connection, item: &Item) -> Result<(), StateError> {
    db.execute(
        "DELETE FROM inventory WHERE kind = ?1 AND assignment = ?2 AND item = ?3",
        [&item.kind, &item.assignment, &item.item],
    )
    .map_err(doing("write the inventory"))?;
    Ok(())
}
