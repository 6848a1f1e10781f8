//! What the agent itself put on this host: the only thing that it will ever remove.
//!
//! What comes in: intents before a write, confirmations after. What goes out: rows by reconciler and
//! assignment. An intent counts as ours: after a cut it may or may not have happened.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use super::{StateError, doing, signed, unsigned};

/// One thing on this host.
#[expect(
    clippy::struct_field_names,
    reason = "an assignment has items; a file or playbook is one"
)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The reconciler that made it.
    pub kind: String,
    /// The assignment that it belongs to.
    pub assignment: String,
    /// Its name: a file's path below the target, a playbook.
    pub item: String,
    /// Digest of what it holds, or is about to hold.
    pub digest: String,
    /// What it held before a write that may have been cut off; `""`: nothing.
    pub before: String,
    /// The generation that put it there.
    pub generation: u64,
    /// `intent`, `applied`, or `left` (its assignment is gone, and nothing knows how to remove it).
    pub phase: String,
}

/// Everything, or all of one assignment.
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
                phase: row.get(6)?,
            })
        })
        .map_err(doing("read the inventory"))?;
    rows.collect::<Result<_, _>>()
        .map_err(doing("read the inventory"))
}

/// The assignment other than `assignment` under which `item` is listed.
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
            item.phase,
        ],
    )
    .map_err(doing("write the inventory"))?;
    Ok(())
}

/// Confirms all intents of an assignment.
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
pub fn forget(db: &Connection, item: &Item) -> Result<(), StateError> {
    db.execute(
        "DELETE FROM inventory WHERE kind = ?1 AND assignment = ?2 AND item = ?3",
        [&item.kind, &item.assignment, &item.item],
    )
    .map_err(doing("write the inventory"))?;
    Ok(())
}
