//! What was decided and what was turned away: gate decisions, waivers, refusals.
//!
//! What comes in: decisions with their evidence, waivers with their end, refusals with their reason.
//! What goes out: the same, newest first. Decisions that opened a gate are kept for good, those that
//! did not up to a thousand of an environment; refusals are bounded, because anybody who reaches the hub
//! can cause one.

use rusqlite::{OptionalExtension as _, params};
use serde::Serialize;

use super::{Session, StoreError};

/// Refusals kept of what came over the network, where anybody can cause one: enough to see an attack, too
/// few to fill a disk.
const MAX_NETWORK_REFUSALS: i64 = 500;
/// Refusals kept of what somebody imported: what the network sends does not push them out.
const MAX_FILE_REFUSALS: i64 = 500;
/// Closed decisions kept of one environment; open ones are kept for good.
const MAX_CLOSED: i64 = 1000;
/// The source of what came over the network.
pub const NETWORK: &str = "http";
/// Longest text of a refusal kept, in characters.
const MAX_REFUSAL_CHARS: usize = 600;

/// Something that was not taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IngestRefusal {
    /// When, milliseconds since 1970.
    pub at_ms: i64,
    /// The file or road that it came by.
    pub source: String,
    /// The site that it claims to be from, where it claims one.
    pub site: Option<String>,
    /// Which rule refused it.
    pub rule: String,
    /// What was expected and found.
    pub message: String,
}

/// Leave to pass a gate without one site, until a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiver {
    /// Its number.
    pub id: i64,
    /// The site.
    pub site: String,
    /// When it ends, milliseconds since 1970.
    pub until_ms: i64,
    /// Why.
    pub reason: String,
    /// Who gave it.
    pub granted_by: String,
    /// When, milliseconds since 1970.
    pub granted_ms: i64,
}

/// A gate decision on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PastDecision {
    /// When, milliseconds since 1970.
    pub at_ms: i64,
    /// The environment.
    pub environment: String,
    /// The base commit asked about.
    pub commit: String,
    /// `open` or `closed`.
    pub verdict: String,
    /// Who asked: a caller's name, or `command line`; empty for those of before.
    pub asked_by: String,
}

impl Session<'_> {
    /// Records a refusal; the oldest of its lane beyond five hundred are forgotten.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_refusal(&self, refusal: &IngestRefusal) -> Result<(), StoreError> {
        let id = self.next_id("refusals")?;
        let message: String = refusal.message.chars().take(MAX_REFUSAL_CHARS).collect();
        let text = "INSERT INTO refusals (id, at_ms, source, site, rule, message)
             VALUES ($1, $2, $3, $4, $5, $6)";
        self.db.prepare_cached(text)?.execute(params![
            id,
            refusal.at_ms,
            refusal.source,
            refusal.site,
            refusal.rule,
            message
        ])?;
        let (lane, most) = if refusal.source == NETWORK {
            ("source = 'http'", MAX_NETWORK_REFUSALS)
        } else {
            ("source <> 'http'", MAX_FILE_REFUSALS)
        };
        let text = format!(
            "DELETE FROM refusals WHERE {lane} AND id <= (
                SELECT id FROM refusals WHERE {lane} ORDER BY id DESC LIMIT 1 OFFSET $1)"
        );
        self.db.prepare_cached(&text)?.execute(params![most])?;
        Ok(())
    }

    /// The newest refusals.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn refusals(&self, at_most: u32) -> Result<Vec<IngestRefusal>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT at_ms, source, site, rule, message FROM refusals ORDER BY id DESC LIMIT $1",
        )?;
        let rows = query.query_map(params![at_most], |row| {
            Ok(IngestRefusal {
                at_ms: row.get(0)?,
                source: row.get(1)?,
                site: row.get(2)?,
                rule: row.get(3)?,
                message: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Records a gate decision, unless the one before said the same from the same evidence.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_decision(
        &self,
        decision: &PastDecision,
        fingerprint: &str,
        whole: &str,
    ) -> Result<(), StoreError> {
        let before: Option<String> = self
            .db
            .query_row(
                "SELECT fingerprint FROM gate_decisions
                  WHERE environment = $1 AND base_commit = $2 ORDER BY id DESC LIMIT 1",
                params![decision.environment, decision.commit],
                |row| row.get(0),
            )
            .optional()?;
        if before.as_deref() == Some(fingerprint) {
            return Ok(());
        }
        let id = self.next_id("gate_decisions")?;
        let text = "INSERT INTO gate_decisions
                (id, at_ms, environment, base_commit, verdict, fingerprint, decision, asked_by)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        self.db.execute(
            text,
            params![
                id,
                decision.at_ms,
                decision.environment,
                decision.commit,
                decision.verdict,
                fingerprint,
                whole,
                decision.asked_by
            ],
        )?;
        let text = "DELETE FROM gate_decisions
             WHERE environment = $1 AND verdict = 'closed' AND id <= (
                SELECT id FROM gate_decisions WHERE environment = $1 AND verdict = 'closed'
                 ORDER BY id DESC LIMIT 1 OFFSET $2)";
        self.db
            .execute(text, params![decision.environment, MAX_CLOSED])?;
        Ok(())
    }

    /// The newest gate decisions.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn decisions(&self, at_most: u32) -> Result<Vec<PastDecision>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT at_ms, environment, base_commit, verdict, asked_by FROM gate_decisions
              ORDER BY id DESC LIMIT $1",
        )?;
        let rows = query.query_map(params![at_most], |row| {
            Ok(PastDecision {
                at_ms: row.get(0)?,
                environment: row.get(1)?,
                commit: row.get(2)?,
                verdict: row.get(3)?,
                asked_by: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Records a waiver and returns its number.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_waiver(&self, waiver: &Waiver) -> Result<i64, StoreError> {
        let id = self.next_id("waivers")?;
        let text = "INSERT INTO waivers (id, site, until_ms, reason, granted_by, granted_ms)
             VALUES ($1, $2, $3, $4, $5, $6)";
        self.db.execute(
            text,
            params![
                id,
                waiver.site,
                waiver.until_ms,
                waiver.reason,
                waiver.granted_by,
                waiver.granted_ms
            ],
        )?;
        Ok(id)
    }

    /// The waivers that hold at `now_ms`, by site.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn waivers(&self, now_ms: i64) -> Result<Vec<Waiver>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT id, site, until_ms, reason, granted_by, granted_ms FROM waivers
              WHERE until_ms > $1 ORDER BY site, until_ms",
        )?;
        let rows = query.query_map(params![now_ms], |row| {
            Ok(Waiver {
                id: row.get(0)?,
                site: row.get(1)?,
                until_ms: row.get(2)?,
                reason: row.get(3)?,
                granted_by: row.get(4)?,
                granted_ms: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
