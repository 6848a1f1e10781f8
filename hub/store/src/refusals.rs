//! What was turned away: one row per transport, site and rule, with how often, first and last.
//!
//! What comes in: refusals with their reason, one by one or counted. What goes out: the rows, the newest first. They
//! are bounded, because anybody who reaches the hub can cause one; what the network sends does not push out what
//! someone imported.

use super::db::{DbError, OptionalExtension as _, Row, params};
use serde::Serialize;

use super::{Session, StoreError, from_sql, to_sql};

/// Rows kept of what came over the network, where anybody can cause one: enough to see an attack, too few to fill a
/// disk.
const MAX_NETWORK_REFUSALS: i64 = 500;
/// Rows kept of what someone imported: what the network sends does not push them out.
const MAX_FILE_REFUSALS: i64 = 500;
/// Refused files that are remembered.
const MAX_REFUSED_FILES: i64 = 10_000;
/// The source of what came over the network.
pub const NETWORK: &str = "http";
/// Longest text of a refusal kept, in characters.
const MAX_REFUSAL_CHARS: usize = 600;

/// Something that was not taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct IngestRefusal {
    /// When last, milliseconds since 1970.
    pub at_ms: i64,
    /// The file or transport that it came by last.
    pub source: String,
    /// The site that it claims to be from, where it claims one.
    pub site: Option<String>,
    /// Which rule refused it.
    pub rule: String,
    /// What was expected and found, last.
    pub message: String,
    /// How often the rule refused something of this site, by this transport.
    pub times: u64,
    /// When first, milliseconds since 1970.
    pub first_ms: i64,
}

impl Session<'_> {
    /// Adds to the row of this transport, site and rule; the rows of a transport that are longest unchanged are
    /// forgotten beyond five hundred.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_refusal(&self, refusal: &IngestRefusal) -> Result<(), StoreError> {
        let message: String = refusal.message.chars().take(MAX_REFUSAL_CHARS).collect();
        let (lane, most) = if refusal.source == NETWORK {
            ("source = 'http'", MAX_NETWORK_REFUSALS)
        } else {
            ("source <> 'http'", MAX_FILE_REFUSALS)
        };
        let text = format!(
            "SELECT id FROM refusals WHERE {lane} AND COALESCE(site, '') = $1 AND rule = $2"
        );
        let site = refusal.site.as_deref().unwrap_or_default();
        let known: Option<i64> = self
            .db
            .prepare_cached(&text)?
            .query_row(params![site, refusal.rule], |row| row.get(0))
            .optional()?;
        if let Some(id) = known {
            let text =
                "UPDATE refusals SET at_ms = $1, source = $2, message = $3, times = times + $4
                         WHERE id = $5";
            self.db.prepare_cached(text)?.execute(params![
                refusal.at_ms,
                refusal.source,
                message,
                to_sql(refusal.times),
                id
            ])?;
            return Ok(());
        }
        let text = "INSERT INTO refusals (id, at_ms, source, site, rule, message, times, first_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        self.db.prepare_cached(text)?.execute(params![
            self.next_id("refusals")?,
            refusal.at_ms,
            refusal.source,
            refusal.site,
            refusal.rule,
            message,
            to_sql(refusal.times),
            refusal.first_ms
        ])?;
        let text = format!(
            "DELETE FROM refusals WHERE id IN (
                SELECT id FROM refusals WHERE {lane} ORDER BY at_ms DESC, id DESC LIMIT 1000000 OFFSET $1)"
        );
        self.db.prepare_cached(&text)?.execute(params![most])?;
        Ok(())
    }

    /// What was refused of the file with this digest when it came last.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn refused_before(&self, digest: &str) -> Result<Option<String>, StoreError> {
        Ok(self
            .db
            .prepare_cached("SELECT what FROM refused_files WHERE digest = $1")?
            .query_row(params![digest], |row| row.get(0))
            .optional()?)
    }

    /// Remembers what was refused of the file with this digest.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn remember_refused(&self, digest: &str, what: &str, at_ms: i64) -> Result<(), StoreError> {
        let text = "INSERT INTO refused_files (digest, what, at_ms) VALUES ($1, $2, $3)
             ON CONFLICT (digest) DO UPDATE SET what = excluded.what, at_ms = excluded.at_ms";
        self.db
            .prepare_cached(text)?
            .execute(params![digest, what, at_ms])?;
        Ok(())
    }

    /// Forgets the files that were reported longest ago, beyond ten thousand.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn forget_refused(&self) -> Result<(), StoreError> {
        let text = "DELETE FROM refused_files WHERE digest IN (SELECT digest FROM refused_files
             ORDER BY at_ms DESC, digest LIMIT 1000000 OFFSET $1)";
        self.db
            .prepare_cached(text)?
            .execute(params![MAX_REFUSED_FILES])?;
        Ok(())
    }

    /// The rows, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn refusals(&self, at_most: u32) -> Result<Vec<IngestRefusal>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT at_ms, source, site, rule, message, times, first_ms FROM refusals
              ORDER BY at_ms DESC, id DESC LIMIT $1",
        )?;
        let rows = query.query_map(params![at_most], row_of)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The rows of one site, by rule.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn refusals_of(&self, site: &str) -> Result<Vec<IngestRefusal>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT at_ms, source, site, rule, message, times, first_ms FROM refusals
              WHERE site = $1 ORDER BY rule, id",
        )?;
        let rows = query.query_map(params![site], row_of)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn row_of(row: &Row<'_>) -> Result<IngestRefusal, DbError> {
    Ok(IngestRefusal {
        at_ms: row.get(0)?,
        source: row.get(1)?,
        site: row.get(2)?,
        rule: row.get(3)?,
        message: row.get(4)?,
        times: from_sql(row.get(5)?),
        first_ms: row.get(6)?,
    })
}
