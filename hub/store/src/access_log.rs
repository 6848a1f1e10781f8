//! Who did what with which right, and who was refused.
//!
//! What comes in: one entry for each use of a right. What goes out: the same, the newest first. Entries are never changed;
//! of refusals the newest are kept: of strangers and of those who are known by name, each by themselves.

use serde::Serialize;

use super::db::{DbError, Row, params};
use super::{Session, StoreError, from_sql};

/// Refusals that are kept of strangers, and as many of named callers.
const MAX_REFUSED: i64 = 10_000;

/// One use of a right.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AccessEntry {
    /// Its number.
    pub id: i64,
    /// When, milliseconds since 1970.
    pub at_ms: i64,
    /// The name of the token, of a person of the identity provider, or of who used the command line; empty for a stranger.
    pub who: String,
    /// `token`, `page`, `oidc`, `command line`, or `expected kit` of a site that one registered.
    pub how: String,
    /// The network from which it came; empty for the command line.
    pub peer: String,
    /// What was done, such as `login`, `approve`, `token create`.
    pub action: String,
    /// To what.
    pub detail: String,
    /// Whether it was allowed.
    pub allowed: bool,
}

const COLUMNS: &str = "id, at_ms, who, how, peer, action, detail, allowed";

impl Session<'_> {
    /// Puts an entry on record; its number is given here.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_access(&self, entry: &AccessEntry) -> Result<(), StoreError> {
        self.new_access(entry).map(drop)
    }

    /// Puts a refusal on record that takes the place of the one with this number, if that is still there; returns its number.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn put_refusal(&self, entry: &AccessEntry, before: Option<i64>) -> Result<i64, StoreError> {
        if let Some(id) = before {
            let text =
                "UPDATE access_log SET at_ms = $1, detail = $2 WHERE id = $3 AND allowed = 0";
            if self
                .db
                .execute(text, params![entry.at_ms, entry.detail, id])?
                == 1
            {
                return Ok(id);
            }
        }
        self.new_access(entry)
    }

    fn new_access(&self, entry: &AccessEntry) -> Result<i64, StoreError> {
        let id = self.next_id("access_log")?;
        let text =
            format!("INSERT INTO access_log ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
        self.db.execute(
            &text,
            params![
                id,
                entry.at_ms,
                entry.who,
                entry.how,
                entry.peer,
                entry.action,
                entry.detail,
                i64::from(entry.allowed)
            ],
        )?;
        if !entry.allowed {
            // What strangers cause takes the place of nothing that is known of someone by name.
            let of = if entry.who.is_empty() { "=" } else { "<>" };
            let text = format!(
                "DELETE FROM access_log WHERE allowed = 0 AND who {of} '' AND id <=
                 (SELECT id FROM access_log WHERE allowed = 0 AND who {of} '' ORDER BY id DESC LIMIT 1 OFFSET $1)"
            );
            self.db.execute(&text, params![MAX_REFUSED])?;
        }
        Ok(id)
    }

    /// How many entries are below the number `before`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn count_access(&self, before: i64) -> Result<u64, StoreError> {
        let text = "SELECT COUNT(*) FROM access_log WHERE id < $1";
        let count = self.db.query_row(text, params![before], |row| row.get(0))?;
        Ok(from_sql(count))
    }

    /// Entries below the number `before`, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn access_log(&self, before: i64, at_most: u32) -> Result<Vec<AccessEntry>, StoreError> {
        let text =
            format!("SELECT {COLUMNS} FROM access_log WHERE id < $1 ORDER BY id DESC LIMIT $2");
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map(params![before, at_most], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn read(row: &Row<'_>) -> Result<AccessEntry, DbError> {
    Ok(AccessEntry {
        id: row.get(0)?,
        at_ms: row.get(1)?,
        who: row.get(2)?,
        how: row.get(3)?,
        peer: row.get(4)?,
        action: row.get(5)?,
        detail: row.get(6)?,
        allowed: row.get::<_, i64>(7)? != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    #[test]
    fn attack_refusals_of_strangers_do_not_take_the_place_of_those_of_named_callers() {
        let mut store = Store::in_memory().unwrap();
        let entry = |who: &str| AccessEntry {
            id: 0,
            at_ms: 1,
            who: who.to_owned(),
            how: "token".to_owned(),
            peer: "10.0.0.0/24".to_owned(),
            action: "read".to_owned(),
            detail: String::new(),
            allowed: false,
        };
        let (first, log) = store
            .write(|session| {
                let first = session.put_refusal(&entry("ann"), None)?;
                let text = format!(
                    "INSERT INTO access_log ({COLUMNS})
                     WITH RECURSIVE n(id) AS (SELECT 100 UNION ALL SELECT id + 1 FROM n WHERE id < 99 + $1)
                     SELECT id, 2, '', 'token', '', 'token', '', 0 FROM n"
                );
                session.db.execute(&text, params![MAX_REFUSED])?;
                session.put_refusal(&entry(""), None)?;
                session.put_refusal(&entry("ann"), None)?;
                Ok::<_, StoreError>((first, session.access_log(i64::MAX, 100_000)?))
            })
            .unwrap();
        let strangers = log.iter().filter(|one| one.who.is_empty()).count();
        assert_eq!(i64::try_from(strangers).unwrap(), MAX_REFUSED);
        let count = store.read(|session| session.count_access(first + 1));
        assert_eq!(count.unwrap(), 1);
        assert!(log.iter().any(|one| one.id == first && one.who == "ann"));
        assert_eq!(log.iter().filter(|one| one.who == "ann").count(), 2);
    }
}
