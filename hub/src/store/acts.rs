//! What people decided about gates: approvals, waivers, deferrals, and what of it was withdrawn.
//!
//! What comes in: who decided what, why, and until when. What goes out: the same, in the order in which it was
//! recorded. Nothing is changed or removed: a withdrawal is an entry of its own, and each entry names the digest
//! of the one before it.

use outhaul_bundle::Digest;
use rusqlite::{OptionalExtension as _, Row, params};
use serde::Serialize;
use serde_json::json;

use super::{Session, StoreError};

/// What kind of decision it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActKind {
    /// A person approves the promotion of a commit.
    Approve,
    /// A site is expected later, by a deadline.
    Defer,
    /// Gates go on without a site, until a moment.
    Waive,
    /// An earlier entry holds no more.
    Withdraw,
}

impl ActKind {
    const ALL: [Self; 4] = [Self::Approve, Self::Defer, Self::Waive, Self::Withdraw];

    /// `approve`, `defer`, `waive` or `withdraw`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Defer => "defer",
            Self::Waive => "waive",
            Self::Withdraw => "withdraw",
        }
    }
}

/// One decision of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Act {
    /// Its number.
    pub id: i64,
    /// What kind.
    pub kind: ActKind,
    /// The environment, of an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The base commit, of an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The site, of a waiver or deferral.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// When it ends, milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
    /// The number of the entry that it withdraws.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdraws: Option<i64>,
    /// Why.
    pub reason: String,
    /// Who decided.
    pub by: String,
    /// When, milliseconds since 1970.
    pub at_ms: i64,
}

impl Act {
    /// An entry that is not recorded yet.
    pub fn new(kind: ActKind, by: &str, reason: &str, at_ms: i64) -> Self {
        Self {
            id: 0,
            kind,
            environment: None,
            commit: None,
            site: None,
            until_ms: None,
            withdraws: None,
            reason: reason.to_owned(),
            by: by.to_owned(),
            at_ms,
        }
    }

    /// When it ends, milliseconds since 1970; the beginning of time where nobody said.
    pub fn until_ms(&self) -> i64 {
        self.until_ms.unwrap_or(0)
    }

    /// The digest of the entry in its chain.
    fn digest(&self, previous: &str) -> String {
        Digest::of(json!([previous, self]).to_string().as_bytes()).to_string()
    }
}

const COLUMNS: &str =
    "id, kind, environment, base_commit, site, until_ms, withdraws, reason, by_name, at_ms";

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
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
        );
        self.db.execute(
            &text,
            params![
                id,
                act.kind.word(),
                act.environment,
                act.commit,
                act.site,
                act.until_ms,
                act.withdraws,
                act.reason,
                act.by,
                act.at_ms,
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
        let row = |row: &Row<'_>| Ok((read(row)?, row.get(10)?));
        let found = self.db.query_row(&text, params![id], row).optional()?;
        found.map(|(act, is)| Ok((act?, is))).transpose()
    }

    /// What was not withdrawn, but for withdrawals and for what ended by itself before `now_ms`. Deferrals stay: after
    /// their deadline they close a gate.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn acts_in_force(&self, now_ms: i64) -> Result<Vec<Act>, StoreError> {
        let text = format!(
            "SELECT {COLUMNS} FROM gate_acts a
              WHERE kind <> 'withdraw' AND (kind = 'defer' OR until_ms IS NULL OR until_ms > $1)
                AND NOT EXISTS (SELECT 1 FROM gate_acts w WHERE w.withdraws = a.id)
              ORDER BY id"
        );
        self.acts_by(&text, params![now_ms])
    }

    /// The newest entries, withdrawals included, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn acts(&self, at_most: u32) -> Result<Vec<Act>, StoreError> {
        let text = format!("SELECT {COLUMNS} FROM gate_acts ORDER BY id DESC LIMIT $1");
        self.acts_by(&text, params![at_most])
    }

    fn acts_by(&self, text: &str, bounds: impl rusqlite::Params) -> Result<Vec<Act>, StoreError> {
        let mut query = self.db.prepare_cached(text)?;
        let rows: Vec<Result<Act, StoreError>> = query
            .query_map(bounds, read)?
            .collect::<Result<_, rusqlite::Error>>()?;
        rows.into_iter().collect()
    }

    /// Carries the waivers of before over.
    pub(super) fn carry_waivers_over(&self) -> Result<(), StoreError> {
        let mut query = self.db.prepare(
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

fn read(row: &Row<'_>) -> Result<Result<Act, StoreError>, rusqlite::Error> {
    let word: String = row.get(1)?;
    let Some(kind) = ActKind::ALL.into_iter().find(|kind| kind.word() == word) else {
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
    }))
}
