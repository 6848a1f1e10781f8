//! What people decided about gates, and outcomes of checks: approvals, waivers, deferrals, and what of it was withdrawn.
//!
//! What comes in: who decided what, why, and until when. What goes out: the same, in the order in which it was
//! recorded. Nothing is changed or removed: a withdrawal is a separate entry, and each entry names the digest
//! of the one before it. An outcome of a check that is stated again within a minute makes no entry of its own.

use super::db::{DbError, OptionalExtension as _, Params, Row, params};
use outhaul_gate::facts::{Act, ActKind};

use super::{Session, StoreError};

const COLUMNS: &str = "id, kind, environment, base_commit, site, until_ms, withdraws, reason, by_name, at_ms, chosen, epoch";

/// Each kind of entry that there is, by the one before it in the index.
const KINDS: &str = "WITH RECURSIVE kinds (kind) AS (
        SELECT MIN(kind) FROM gate_acts
        UNION ALL
        SELECT (SELECT MIN(a.kind) FROM gate_acts a WHERE a.kind > kinds.kind) FROM kinds WHERE kinds.kind IS NOT NULL
    )
    SELECT kind FROM kinds WHERE kind IS NOT NULL";

/// What is in force at `$1`.
fn in_force() -> String {
    format!(
        "SELECT {COLUMNS} FROM gate_acts a
          WHERE kind IN ('approve', 'defer', 'hold', 'waive') AND (kind = 'defer' OR until_ms IS NULL OR until_ms > $1)
            AND NOT EXISTS (SELECT 1 FROM gate_acts w WHERE w.withdraws = a.id)
          ORDER BY id"
    )
}

/// The newest outcomes in environment `$1` of commit `$2`.
fn outcomes() -> String {
    format!(
        "SELECT {COLUMNS} FROM gate_acts WHERE id IN
            (SELECT MAX(id) FROM gate_acts a
              WHERE kind = 'check' AND environment = $1 AND base_commit = $2
                AND NOT EXISTS (SELECT 1 FROM gate_acts w WHERE w.withdraws = a.id)
              GROUP BY chosen, by_name)
          ORDER BY id"
    )
}

/// An outcome of a check that is the newest one within this time, in milliseconds, is that one. A rule about its age, which is in
/// hours, may close the gate so much earlier; none opens it for longer.
const SAME_OUTCOME_MS: i64 = 60_000;

impl Session<'_> {
    /// Records an entry and returns its number; that of the newest outcome of a check where the same is stated again within a
    /// minute.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_act(&self, act: &Act) -> Result<i64, StoreError> {
        if act.kind == ActKind::Check
            && let Some(same) = self.same_outcome(act)?
        {
            return Ok(same);
        }
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

    /// The approvals, deferrals, holds and waivers that were not withdrawn, but for what ended by itself before `now_ms`. Deferrals stay:
    /// after their deadline they close a gate.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails, or holds an entry of a kind that this program does not know: it may be one that closes gates.
    pub fn acts_in_force(&self, now_ms: i64) -> Result<Vec<Act>, StoreError> {
        self.know_all_kinds()?;
        self.acts_by(&in_force(), params![now_ms])
    }

    /// Refuses kinds that this program does not know. Each is looked up in the index by the one before it, so that no entry is read.
    fn know_all_kinds(&self) -> Result<(), StoreError> {
        let mut query = self.db.prepare_cached(KINDS)?;
        let words: Vec<String> = query
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, DbError>>()?;
        words.iter().try_for_each(|word| kind_of(word).map(drop))
    }

    /// The outcomes of checks of a commit in an environment that were not withdrawn: of each check the newest by each who stated
    /// one. Those of other commits are not read.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn checks_of(&self, environment: &str, commit: &str) -> Result<Vec<Act>, StoreError> {
        self.acts_by(&outcomes(), params![environment, commit])
    }

    /// The number of the newest outcome of a check, where it is the one that `act` states and not older than a minute.
    fn same_outcome(&self, act: &Act) -> Result<Option<i64>, StoreError> {
        let (environment, commit) = (act.environment.as_deref(), act.commit.as_deref());
        let stated = self.checks_of(environment.unwrap_or_default(), commit.unwrap_or_default())?;
        let newest = stated.into_iter().rfind(|one| one.chosen == act.chosen);
        let same = newest.filter(|one| {
            let again = Act {
                id: one.id,
                at_ms: one.at_ms,
                ..act.clone()
            };
            *one == again && (0..SAME_OUTCOME_MS).contains(&act.at_ms.saturating_sub(one.at_ms))
        });
        Ok(same.map(|one| one.id))
    }

    /// The number of the newest entry; 0 without any.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn newest_act(&self) -> Result<i64, StoreError> {
        Ok(self.next_id("gate_acts")? - 1)
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

    /// The entries below the number `below`, the newest first, each with whether a later one withdrew it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails, or holds an entry of a kind that this program does not know.
    pub fn acts_below(&self, below: i64, at_most: u32) -> Result<Vec<(Act, bool)>, StoreError> {
        let text = format!(
            "SELECT {COLUMNS}, EXISTS (SELECT 1 FROM gate_acts w WHERE w.withdraws = a.id)
               FROM gate_acts a WHERE id < $1 ORDER BY id DESC LIMIT $2"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let mut rows = query.query(params![below, at_most])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((read(&row)??, row.get(12)?));
        }
        Ok(found)
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

    /// Whether someone said that the clock was ahead.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn has_clock_statement(&self) -> Result<bool, StoreError> {
        Ok(!self.acts_of(ActKind::Clock)?.is_empty())
    }

    /// Whether someone said that the signed text of a report is lost.
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

fn kind_of(word: &str) -> Result<ActKind, StoreError> {
    let found = ActKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    found.ok_or_else(|| StoreError::Corrupt {
        what: format!("an entry about gates of kind `{word}`"),
    })
}

fn read(row: &Row<'_>) -> Result<Result<Act, StoreError>, DbError> {
    let word: String = row.get(1)?;
    let kind = match kind_of(&word) {
        Ok(kind) => kind,
        Err(error) => return Ok(Err(error)),
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

#[cfg(test)]
mod tests {
    use outhaul_bundle::hub_api::{CheckOutcome, CheckRequest};

    use super::*;
    use crate::Store;

    fn outcome(commit: &str, outcome: CheckOutcome, by: &str, at_ms: i64) -> Act {
        let sent = CheckRequest {
            environment: "dev".into(),
            commit: commit.into(),
            name: "scan".into(),
            outcome,
            detail: String::new(),
            digest: None,
        };
        Act::of_check(&sent, by, at_ms)
    }

    #[test]
    fn an_outcome_that_is_the_newest_within_a_minute_makes_no_entry() {
        use CheckOutcome::{Failed, Passed};
        let mut store = Store::in_memory().unwrap();
        let mut add = |act: &Act| store.write(|session| session.add_act(act)).unwrap();
        assert_eq!(add(&outcome("a", Passed, "ci", 1_000)), 1);
        assert_eq!(add(&outcome("a", Passed, "ci", 60_999)), 1);
        assert_eq!(add(&outcome("a", Passed, "ci", 61_000)), 2);
        assert_eq!(add(&outcome("a", Passed, "ci", 60_999)), 3, "put back");
        // After another outcome, or another's, or once it is withdrawn, it is said again.
        assert_eq!(add(&outcome("a", Failed, "ci", 61_000)), 4);
        assert_eq!(add(&outcome("a", Passed, "ci", 61_001)), 5);
        assert_eq!(add(&outcome("b", Passed, "ci", 61_001)), 6);
        assert_eq!(add(&outcome("a", Failed, "ann", 61_002)), 7);
        assert_eq!(add(&outcome("a", Passed, "ci", 61_003)), 8);
        let withdrawn = Act {
            withdraws: Some(8),
            ..Act::new(ActKind::Withdraw, "ann", "wrong image", 61_004)
        };
        assert_eq!(add(&withdrawn), 9);
        assert_eq!(add(&outcome("a", Passed, "ci", 61_005)), 10);
        // Nobody else's entries are compared.
        let hold = Act::new(ActKind::Hold, "ann", "smoke", 61_006);
        assert_eq!((add(&hold), add(&hold)), (11, 12));
    }

    #[test]
    fn what_a_gate_reads_is_found_by_an_index_however_many_outcomes_there_are() {
        let mut store = Store::in_memory().unwrap();
        let plans = store.write(|session| {
            for at in 0..300 {
                let commit = format!("{}", at % 100);
                session.add_act(&outcome(&commit, CheckOutcome::Passed, "ci", at * 60_000))?;
            }
            assert_eq!(session.checks_of("dev", "7")?.len(), 1);
            assert_eq!(session.acts_in_force(0)?, []);
            let plan = |text: &str, bounds: usize| -> Result<String, StoreError> {
                let mut query = session
                    .db
                    .prepare_cached(&format!("EXPLAIN QUERY PLAN {text}"))?;
                let line = |row: &Row<'_>| row.get::<_, String>(3);
                let lines: Vec<String> = match bounds {
                    0 => query.query_map([], line)?.collect::<Result<_, _>>()?,
                    1 => query
                        .query_map(params![0], line)?
                        .collect::<Result<_, _>>()?,
                    _ => query
                        .query_map(params!["dev", "7"], line)?
                        .collect::<Result<_, _>>()?,
                };
                Ok(lines.join("; "))
            };
            Ok::<_, StoreError>([
                plan(&in_force(), 1)?,
                plan(&outcomes(), 2)?,
                plan(KINDS, 0)?,
            ])
        });
        for plan in plans.unwrap() {
            assert!(plan.contains("INDEX gate_acts_by_kind ("), "{plan}");
            assert!(
                !plan.contains("SCAN a") && !plan.contains("SCAN gate_acts"),
                "{plan}"
            );
        }
    }
}
