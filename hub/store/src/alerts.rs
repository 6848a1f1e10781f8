//! Alerts: what was known at the last look, what was announced, and what waits to be sent.
//!
//! What comes in: alerts with the destinations that want them, and how sending went. What goes out: what is due, claimed for a while so
//! that of several processes one sends it. What is a change, and how a message looks, is not known here.

use std::collections::BTreeMap;

use serde::Serialize;

use super::db::{DbError, Row, params};
use super::{Session, StoreError, from_sql, to_sql};

/// Alerts that are kept once nobody waits for them.
const MAX_ALERTS: i64 = 10_000;
/// Most characters of a message.
const MAX_MESSAGE_CHARS: usize = 1_000;
/// When the last look was, by the time of what it read.
const LOOKED: &str = "alerts-looked-ms";

/// One alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredAlert {
    /// Its number; given when it is added.
    pub id: u64,
    /// When the hub saw it, milliseconds since 1970.
    pub at_ms: i64,
    /// `site`, `gate`, `refusal`, `request`, `act` or `hub`.
    pub kind: String,
    /// What it is about.
    pub subject: String,
    /// Its environment, where it has one.
    pub environment: Option<String>,
    /// `bad`, `good` or `note`.
    pub severity: String,
    /// What it was before; empty where it is new.
    pub was: String,
    /// What it is now.
    pub status: String,
    /// A sentence.
    pub message: String,
}

/// How one alert stands with one destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlertDelivery {
    /// The destination's name.
    pub destination: String,
    /// `waiting`, `sent` or `given-up`.
    pub state: String,
    /// How often it was tried.
    pub attempts: u64,
    /// When it is tried next, or was sent, milliseconds since 1970.
    pub next_ms: i64,
    /// Why the last try failed.
    pub problem: String,
}

impl Session<'_> {
    /// What was known at the last look; `None` before the first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn alerts_known(&self) -> Result<Option<BTreeMap<String, String>>, StoreError> {
        if self.setting(LOOKED)?.is_none() {
            return Ok(None);
        }
        let mut query = self
            .db
            .prepare_cached("SELECT name, status FROM alert_known")?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Some(rows.collect::<Result<_, _>>()?))
    }

    /// Whether someone looked at what is as new as `read_ms`, or newer.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn alerts_looked_since(&self, read_ms: i64) -> Result<bool, StoreError> {
        let looked = self.setting(LOOKED)?;
        let looked = looked.and_then(|text| text.parse::<i64>().ok());
        Ok(looked.is_some_and(|looked| looked >= read_ms))
    }

    /// Remembers what is known at a look that read at `read_ms`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn set_alerts_known(
        &self,
        before: &BTreeMap<String, String>,
        known: &BTreeMap<String, String>,
        read_ms: i64,
    ) -> Result<(), StoreError> {
        for name in before.keys().filter(|name| !known.contains_key(*name)) {
            let text = "DELETE FROM alert_known WHERE name = $1";
            self.db.prepare_cached(text)?.execute(params![name])?;
        }
        for (name, status) in known {
            if before.get(name) != Some(status) {
                let text = "INSERT INTO alert_known (name, status) VALUES ($1, $2)
                     ON CONFLICT (name) DO UPDATE SET status = excluded.status";
                self.db
                    .prepare_cached(text)?
                    .execute(params![name, status])?;
            }
        }
        self.set_setting(LOOKED, &read_ms.to_string())
    }

    /// Adds an alert that these destinations want.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_alert(&self, alert: &StoredAlert, to: &[&str]) -> Result<(), StoreError> {
        let id = self.next_id("alerts")?;
        let message: String = alert.message.chars().take(MAX_MESSAGE_CHARS).collect();
        let text = "INSERT INTO alerts (id, at_ms, kind, subject, environment, severity, was, status, message)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        self.db.prepare_cached(text)?.execute(params![
            id,
            alert.at_ms,
            alert.kind,
            alert.subject,
            alert.environment,
            alert.severity,
            alert.was,
            alert.status,
            message
        ])?;
        let text =
            "INSERT INTO alert_deliveries (alert, destination, state, attempts, next_ms, problem)
             VALUES ($1, $2, 'waiting', 0, $3, '')";
        for destination in to {
            let bounds = params![id, *destination, alert.at_ms];
            self.db.prepare_cached(text)?.execute(bounds)?;
        }
        Ok(())
    }

    /// What is due for `destination` at `now_ms`, the oldest first, at most `most`; nobody else gets it before `until_ms`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn claim_alerts(
        &self,
        destination: &str,
        (now_ms, until_ms): (i64, i64),
        most: u32,
    ) -> Result<Vec<StoredAlert>, StoreError> {
        let text = "SELECT a.id, a.at_ms, a.kind, a.subject, a.environment, a.severity, a.was, a.status, a.message
               FROM alert_deliveries d JOIN alerts a ON a.id = d.alert
              WHERE d.destination = $1 AND d.state = 'waiting' AND d.next_ms <= $2
              ORDER BY d.alert LIMIT $3";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![destination, now_ms, most], read)?;
        let due: Vec<StoredAlert> = rows.collect::<Result<_, _>>()?;
        for alert in &due {
            let text =
                "UPDATE alert_deliveries SET next_ms = $1 WHERE alert = $2 AND destination = $3";
            let bounds = params![until_ms, to_sql(alert.id), destination];
            self.db.prepare_cached(text)?.execute(bounds)?;
        }
        Ok(due)
    }

    /// Whether something is due for `destination` at `now_ms`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn alerts_due(&self, destination: &str, now_ms: i64) -> Result<bool, StoreError> {
        let text = "SELECT COUNT(*) FROM alert_deliveries
             WHERE destination = $1 AND state = 'waiting' AND next_ms <= $2";
        let bounds = params![destination, now_ms];
        Ok(self
            .db
            .query_row(text, bounds, |row| row.get::<_, i64>(0))?
            > 0)
    }

    /// How often the first of these was tried, which waits for `destination`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn alert_attempts(&self, destination: &str, alert: u64) -> Result<u64, StoreError> {
        let text = "SELECT COALESCE(MAX(attempts), 0) FROM alert_deliveries WHERE alert = $1 AND destination = $2";
        let bounds = params![to_sql(alert), destination];
        Ok(from_sql(
            self.db
                .query_row(text, bounds, |row| row.get::<_, i64>(0))?,
        ))
    }

    /// Records how sending went: `sent` at `at_ms`, `waiting` until then, or `given-up`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn alerts_went(
        &self,
        destination: &str,
        alerts: &[u64],
        (state, at_ms, problem): (&str, i64, &str),
    ) -> Result<(), StoreError> {
        let problem: String = problem.chars().take(MAX_MESSAGE_CHARS).collect();
        for alert in alerts {
            let text = "UPDATE alert_deliveries
                    SET state = $1, next_ms = $2, problem = $3, attempts = attempts + 1
                  WHERE alert = $4 AND destination = $5";
            let bounds = params![state, at_ms, problem, to_sql(*alert), destination];
            self.db.prepare_cached(text)?.execute(bounds)?;
        }
        let text = "DELETE FROM alert_deliveries WHERE state <> 'waiting'
                     AND alert <= (SELECT COALESCE(MAX(id), 0) FROM alerts) - $1";
        self.db.execute(text, params![MAX_ALERTS])?;
        let text = "DELETE FROM alerts WHERE id <= (SELECT COALESCE(MAX(id), 0) FROM alerts) - $1
                     AND NOT EXISTS (SELECT 1 FROM alert_deliveries d WHERE d.alert = alerts.id)";
        self.db.execute(text, params![MAX_ALERTS])?;
        Ok(())
    }

    /// Lets what was given up, or waits, be sent to `destination` at once; returns how many.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn retry_alerts(&self, destination: &str, now_ms: i64) -> Result<u64, StoreError> {
        let text = "UPDATE alert_deliveries SET state = 'waiting', next_ms = $1
                     WHERE destination = $2 AND state <> 'sent'";
        Ok(self.db.execute(text, params![now_ms, destination])? as u64)
    }

    /// How many alerts are kept.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn count_alerts(&self) -> Result<u64, StoreError> {
        let count = self
            .db
            .query_row("SELECT COUNT(*) FROM alerts", [], |row| row.get(0))?;
        Ok(from_sql(count))
    }

    /// The newest alerts, the newest first, each with how it stands with its destinations.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn alerts(
        &self,
        at_most: u32,
    ) -> Result<Vec<(StoredAlert, Vec<AlertDelivery>)>, StoreError> {
        let text = "SELECT id, at_ms, kind, subject, environment, severity, was, status, message
               FROM alerts ORDER BY id DESC LIMIT $1";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![at_most], read)?;
        let mut all = Vec::new();
        for alert in rows {
            let alert: StoredAlert = alert?;
            let text = "SELECT destination, state, attempts, next_ms, problem FROM alert_deliveries
                  WHERE alert = $1 ORDER BY destination";
            let mut query = self.db.prepare_cached(text)?;
            let rows = query.query_map(params![to_sql(alert.id)], |row| {
                Ok(AlertDelivery {
                    destination: row.get(0)?,
                    state: row.get(1)?,
                    attempts: from_sql(row.get(2)?),
                    next_ms: row.get(3)?,
                    problem: row.get(4)?,
                })
            })?;
            let deliveries = rows.collect::<Result<_, _>>()?;
            all.push((alert, deliveries));
        }
        Ok(all)
    }

    /// The names of all destinations that an alert was for.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn alert_destinations(&self) -> Result<Vec<String>, StoreError> {
        let text = "SELECT DISTINCT destination FROM alert_deliveries ORDER BY destination";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many deliveries are in each state.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn alert_counts(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let text = "SELECT state, COUNT(*) FROM alert_deliveries GROUP BY state";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, from_sql(row.get(1)?))))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn read(row: &Row<'_>) -> Result<StoredAlert, DbError> {
    Ok(StoredAlert {
        id: from_sql(row.get(0)?),
        at_ms: row.get(1)?,
        kind: row.get(2)?,
        subject: row.get(3)?,
        environment: row.get(4)?,
        severity: row.get(5)?,
        was: row.get(6)?,
        status: row.get(7)?,
        message: row.get(8)?,
    })
}

#[cfg(test)]
mod tests;
