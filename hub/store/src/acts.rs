//! What people decided about gates, and outcomes of checks: approvals, waivers, deferrals, and what of it was withdrawn.
//!
//! What comes in: who decided what, why, and until when. What goes out: the same, in the order in which it was
//! recorded. Nothing is changed or removed: a withdrawal is a separate entry, and each entry names the digest
//! of the one before it.

use super::db::{DbError, OptionalExtension as _, Params, Row, params};
use outhaul_gate::facts::{Act, ActKind};

use super::{Session, StoreError};

const COLUMNS: &str = "id, kind, environment, base_commit, site, until_ms, withdraws, reason, by_name, at_ms, chosen, epoch";

impl Session<'_> {
    /// Records an entry and returns its number.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_act(&self, act: &Act) -> Result<i64, StoreError> {
        let id = self.next_id("gate_acts")?;
        let previous: Option<String> = self
            .db
            .query_row(
                "SELECT digest FROM gate_acts ORDER BY id DESC LIMIT 1",
                [],
                |row| row.get(0),
            )
            .optional()?;
        let previous = previous.unwrap_or_default();
        let digest = Act { id, ..act.clone() }.digest(&previous);
        let text = format!(
            "INSERT INTO gate_acts ({COLUMNS}, previous, digest)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
        );
        self.db.execute(
            &text,
            params![
                id,
                act.kind.as_str(),
                act.environment,
                act.commit,
                act.site,
                act.until_ms,
                act.withdraws,
                act.reason,
                act.by,
                act.at_ms,
                act.chosen,
                act.epoch,
                previous,
                digest
            ],
        )?;
        Ok(id)
    }

    /// One entry, and whether it was withdrawn.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn act(&self, id: i64) -> Result<Option<(Act, bool)>, StoreError> {
        let text = format!(
            "SELECT {COLUMNS}, EXISTS (SELECT 1 FROM gate_acts w WHERE w.withdraws = a.id)
               FROM gate_acts a WHERE id = $1"
        );
        let row = |row: &Row<'_>| Ok((read(row)?, row.get(12)?));
        let found = self.db.query_row(&text, params![id], row).optional()?;
        found.map(|(act, is)| Ok((act?, is))).transpose()
    }

    /// What was not withdrawn, but for withdrawals, choices, outcomes of checks, what is said of the clock or of lost texts, and for what ended by itself before `now_ms`. Deferrals stay: after
    /// their deadline they close a gate.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn acts_in_force(&self, now_ms: i64) -> Result<Vec<Act>, StoreError> {
        let text = format!(
            "SELECT {COLUMNS} FROM gate_acts a
              WHERE kind NOT IN ('withdraw', 'choose', 'check', 'clock', 'lost') AND (kind = 'defer' OR until_ms IS NULL OR until_ms > $1)
                AND NOT EXISTS (SELECT 1 FROM gate_acts w WHERE w.withdraws = a.id)
              ORDER BY id"
        );
        self.acts_by(&text, params![now_ms])
    }

    /// The outcomes of checks of a commit in an environment that were not withdrawn: of each check the newest by each who stated
    /// one, so that a check that is repeated does not make gates slower.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn checks_of(&self, environment: &str, commit: &str) -> Result<Vec<Act>, StoreError> {
        let text = format!(
            "SELECT {COLUMNS} FROM gate_acts WHERE id IN
                (SELECT MAX(id) FROM gate_acts a
                  WHERE kind = 'check' AND environment = $1 AND base_commit = $2
                    AND NOT EXISTS (SELECT 1 FROM gate_acts w WHERE w.withdraws = a.id)
                  GROUP BY chosen, by_name)
              ORDER BY id"
        );
        self.acts_by(&text, params![environment, commit])
    }

    /// Whether an outcome of a check is on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn has_checks(&self) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM gate_acts WHERE kind = 'check')";
        Ok(self.db.query_row(text, [], |row| row.get(0))?)
    }

    /// The newest entries, withdrawals included, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn acts(&self, at_most: u32) -> Result<Vec<Act>, StoreError> {
        let text = format!("SELECT {COLUMNS} FROM gate_acts ORDER BY id DESC LIMIT $1");
        self.acts_by(&text, params![at_most])
    }

    /// Every entry with the digest of the one before it and its own, in order.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(super) fn act_chain(&self) -> Result<Vec<(Act, String, String)>, StoreError> {
        let text = format!("SELECT {COLUMNS}, previous, digest FROM gate_acts ORDER BY id");
        let mut query = self.db.prepare_cached(&text)?;
        let mut rows = query.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((read(&row)??, row.get(12)?, row.get(13)?));
        }
        Ok(found)
    }

    /// The entries of one kind, in order.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(super) fn acts_of(&self, kind: ActKind) -> Result<Vec<Act>, StoreError> {
        let text = format!("SELECT {COLUMNS} FROM gate_acts WHERE kind = $1 ORDER BY id");
        self.acts_by(&text, params![kind.as_str()])
    }

    fn acts_by(&self, text: &str, bounds: impl Params) -> Result<Vec<Act>, StoreError> {
        let mut query = self.db.prepare_cached(text)?;
        let rows: Vec<Result<Act, StoreError>> = query
            .query_map(bounds, read)?
            .collect::<Result<_, DbError>>()?;
        rows.into_iter().collect()
    }

    /// Whether somebody said that the clock was ahead.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn has_said_of_clock(&self) -> Result<bool, StoreError> {
        Ok(!self.acts_of(ActKind::Clock)?.is_empty())
    }

    /// Whether somebody said that the signed text of a report is lost.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn has_lost_texts(&self) -> Result<bool, StoreError> {
        Ok(!self.acts_of(ActKind::Lost)?.is_empty())
    }

    /// Carries the waivers of before over.
    pub(super) fn carry_waivers_over(&self) -> Result<(), StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT site, until_ms, reason, granted_by, granted_ms FROM waivers ORDER BY id",
        )?;
        let rows = query.query_map([], |row| {
            let (reason, by): (String, String) = (row.get(2)?, row.get(3)?);
            Ok(Act {
                site: row.get(0)?,
                until_ms: row.get(1)?,
                ..Act::new(ActKind::Waive, &by, &reason, row.get(4)?)
            })
        })?;
        for act in rows.collect::<Result<Vec<_>, _>>()? {
            self.add_act(&act)?;
        }
        drop(query);
        Ok(self.db.execute_batch("DROP TABLE waivers")?)
    }
}

fn read(row: &Row<'_>) -> Result<Result<Act, StoreError>, DbError> {
    let word: String = row.get(1)?;
    let Some(kind) = ActKind::ALL.into_iter().find(|kind| kind.as_str() == word) else {
        let what = format!("an entry about gates of kind `{word}`");
        return Ok(Err(StoreError::Corrupt { what }));
    };
    Ok(Ok(Act {
        id: row.get(0)?,
        kind,
        environment: row.get(2)?,
        commit: row.get(3)?,
        site: row.get(4)?,
        until_ms: row.get(5)?,
        withdraws: row.get(6)?,
        reason: row.get(7)?,
        by: row.get(8)?,
        at_ms: row.get(9)?,
        chosen: row.get(10)?,
        epoch: row.get(11)?,
    }))
}
