//! Callers: who may put gate decisions on record over the network.
//!
//! What comes in: names, and the digests of their tokens. What goes out: the name that belongs to a
//! digest. No token is ever stored.

use super::db::{OptionalExtension as _, params};
use serde::Serialize;

use super::{Session, StoreError};

/// Somebody with a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caller {
    /// The name under which decisions are on record.
    pub name: String,
    /// When the token was made, milliseconds since 1970.
    pub added_ms: i64,
}

impl Session<'_> {
    /// Adds a caller; `false` when there is one of this name, which then keeps its token.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_caller(
        &self,
        name: &str,
        token_sha256: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let text = "INSERT INTO callers (name, token_sha256, added_ms) VALUES ($1, $2, $3)
             ON CONFLICT (name) DO NOTHING";
        let added = self.db.execute(text, params![name, token_sha256, now_ms])?;
        Ok(added == 1)
    }

    /// Adds a caller, or gives one a new token: the one before counts no more.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn replace_caller(
        &self,
        name: &str,
        token_sha256: &str,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        let text = "INSERT INTO callers (name, token_sha256, added_ms) VALUES ($1, $2, $3)
             ON CONFLICT (name) DO UPDATE SET token_sha256 = excluded.token_sha256,
                added_ms = excluded.added_ms";
        self.db.execute(text, params![name, token_sha256, now_ms])?;
        Ok(())
    }

    /// Removes a caller; `false` when there is none of this name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn remove_caller(&self, name: &str) -> Result<bool, StoreError> {
        let text = "DELETE FROM callers WHERE name = $1";
        Ok(self.db.execute(text, params![name])? == 1)
    }

    /// Every caller, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn callers(&self) -> Result<Vec<Caller>, StoreError> {
        let mut query = self
            .db
            .prepare_cached("SELECT name, added_ms FROM callers ORDER BY name")?;
        let rows = query.query_map([], |row| {
            Ok(Caller {
                name: row.get(0)?,
                added_ms: row.get(1)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The caller whose token has this digest.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn caller(&self, token_sha256: &str) -> Result<Option<String>, StoreError> {
        let mut query = self
            .db
            .prepare_cached("SELECT name FROM callers WHERE token_sha256 = $1")?;
        Ok(query
            .query_row(params![token_sha256], |row| row.get(0))
            .optional()?)
    }
}
