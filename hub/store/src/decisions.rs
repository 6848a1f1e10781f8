//! Gate decisions on record, the digests that they rest on, and the rules that steps were asked about with.
//!
//! What comes in: decisions, per site its status and the report that it rests on. What goes out: the same, newest
//! first, and one decision with all of it. A decision keeps digests, not copies: sites are kept in blocks, and a
//! block that did not change since is the same row. Decisions that opened a gate are kept for good, those that did
//! not up to a thousand of an environment; the one of the latest time is kept in any case: a clock that was put back is found by it.

use super::db::{DbError, OptionalExtension as _, Row, params};
use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::GateRules;
use outhaul_gate::audit::Recorded;
use outhaul_gate::facts::ActKind;
use outhaul_gate::later;
use outhaul_gate::{DecisionRecord, EDITION};
use serde::Serialize;

use super::{Session, StoreError, from_sql, json, parse};

/// Closed decisions kept of one environment; open ones are kept for good.
const MAX_CLOSED: i64 = 1000;
/// Sites of one block of evidence.
pub const SITES_OF_BLOCK: usize = 64;

/// A gate decision on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PastDecision {
    /// Its number; 0 of one that is not recorded yet.
    pub id: i64,
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
    /// The environment that the commit was to go to, where that was said.
    pub to: Option<String>,
}

/// Where the step leads that a decision is about, from its text: what stands in it is what was decided.
pub(super) fn step_of(text: &str) -> Option<String> {
    DecisionRecord::from_text(text).ok()?.decision.to
}

/// The rules that a step was last asked about with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepRules {
    /// The environment whose sites decide.
    pub environment: String,
    /// The environment that is moved; empty where nobody said.
    pub to: String,
    /// The rules.
    pub rules: GateRules,
    /// Who asked.
    pub asked_by: String,
    /// When first, milliseconds since 1970.
    pub at_ms: i64,
}

impl Session<'_> {
    /// Records a gate decision, unless the one before said the same from the same evidence: `false` then. `lines` are one per
    /// site, in the order of their names.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_decision(
        &self,
        decision: &PastDecision,
        fingerprint: &str,
        text: &str,
        lines: &[String],
    ) -> Result<bool, StoreError> {
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
            return Ok(false);
        }
        let id = self.next_id("gate_decisions")?;
        self.db.execute(
            "INSERT INTO gate_decisions
                (id, at_ms, environment, base_commit, verdict, fingerprint, decision, asked_by)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            params![
                id,
                decision.at_ms,
                decision.environment,
                decision.commit,
                decision.verdict,
                fingerprint,
                text,
                decision.asked_by
            ],
        )?;
        self.add_link(&Recorded {
            id,
            at_ms: decision.at_ms,
            environment: decision.environment.clone(),
            commit: decision.commit.clone(),
            verdict: decision.verdict.clone(),
            asked_by: decision.asked_by.clone(),
            decision: text.to_owned(),
            evidence: lines
                .iter()
                .map(|line| line.trim_end_matches('\n').to_owned())
                .collect(),
        })?;
        for (place, block) in lines.chunks(SITES_OF_BLOCK).enumerate() {
            self.add_block(id, place, &block.concat())?;
        }
        self.forget_closed(&decision.environment)?;
        Ok(true)
    }

    fn add_block(&self, decision: i64, place: usize, body: &str) -> Result<(), StoreError> {
        let digest = Digest::of(body.as_bytes()).to_string();
        let text = "INSERT INTO evidence_blocks (digest, body, uses) VALUES ($1, $2, 1)
                    ON CONFLICT (digest) DO UPDATE SET uses = evidence_blocks.uses + 1";
        self.db
            .prepare_cached(text)?
            .execute(params![digest, body])?;
        let text = "INSERT INTO decision_evidence (decision, place, block) VALUES ($1, $2, $3)";
        let place = super::to_sql(place as u64);
        self.db
            .prepare_cached(text)?
            .execute(params![decision, place, digest])?;
        Ok(())
    }

    /// Forgets the oldest decisions that did not open a gate, and what only they rest on.
    /// The latest of those whose times count stays: a clock that was put back is known by it.
    fn forget_closed(&self, environment: &str) -> Result<(), StoreError> {
        let from = later::from(self.acts_of(ActKind::Clock)?.iter(), i64::MAX, EDITION);
        let oldest: Vec<i64> = self
            .db
            .prepare_cached(
                "SELECT id FROM gate_decisions WHERE environment = $1 AND verdict = 'closed'
                    AND id <> COALESCE((SELECT id FROM gate_decisions WHERE id > $2 ORDER BY at_ms DESC, id LIMIT 1), 0)
                  ORDER BY id DESC LIMIT 1000000 OFFSET $3",
            )?
            .query_map(params![environment, from, MAX_CLOSED], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for id in oldest {
            for text in [
                "UPDATE evidence_blocks SET uses = uses - 1
                  WHERE digest IN (SELECT block FROM decision_evidence WHERE decision = $1)",
                "DELETE FROM evidence_blocks WHERE uses < 1
                    AND digest IN (SELECT block FROM decision_evidence WHERE decision = $1)",
                "DELETE FROM decision_evidence WHERE decision = $1",
                "DELETE FROM gate_decisions WHERE id = $1",
            ] {
                self.db.prepare_cached(text)?.execute(params![id])?;
            }
        }
        Ok(())
    }

    /// How many gate decisions are on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn count_decisions(&self) -> Result<u64, StoreError> {
        let text = "SELECT COUNT(*) FROM gate_decisions";
        Ok(from_sql(self.db.query_row(text, [], |row| row.get(0))?))
    }

    /// The newest gate decisions.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn decisions(&self, at_most: u32) -> Result<Vec<PastDecision>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT id, at_ms, environment, base_commit, verdict, asked_by, decision FROM gate_decisions
              ORDER BY id DESC LIMIT $1",
        )?;
        let rows = query.query_map(params![at_most], |row| past(row).map(|(one, _)| one))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The newest decisions of an environment, each as it was recorded, without its evidence; `None` where its text is in the form
    /// of another version.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn decisions_of(
        &self,
        environment: &str,
        at_most: u32,
    ) -> Result<Vec<(PastDecision, Option<DecisionRecord>)>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT id, at_ms, environment, base_commit, verdict, asked_by, decision FROM gate_decisions
              WHERE environment = $1 ORDER BY id DESC LIMIT $2",
        )?;
        let rows = query.query_map(params![environment, at_most], past)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// One decision as it was recorded, and its lines of evidence; `None` where there is none of this number.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails, or a block does not match its digest.
    pub fn decision(&self, id: i64) -> Result<Option<(DecisionRecord, Vec<String>)>, StoreError> {
        let found = self.decision_text(id)?;
        found
            .map(|(text, lines)| {
                let read = DecisionRecord::from_text(&text);
                let record = read.map_err(|error| StoreError::Corrupt {
                    what: format!("decision {id} ({error})"),
                })?;
                Ok((record, lines))
            })
            .transpose()
    }

    /// The same, as the text that was recorded.
    ///
    /// # Errors
    /// As [`Self::decision`].
    pub fn decision_text(&self, id: i64) -> Result<Option<(String, Vec<String>)>, StoreError> {
        let text: Option<String> = self
            .db
            .query_row(
                "SELECT decision FROM gate_decisions WHERE id = $1",
                params![id],
                |row| row.get(0),
            )
            .optional()?;
        let Some(text) = text else {
            return Ok(None);
        };
        let mut query = self.db.prepare_cached(
            "SELECT d.block, b.body FROM decision_evidence d
               JOIN evidence_blocks b ON b.digest = d.block WHERE decision = $1 ORDER BY place",
        )?;
        let mut rows = query.query(params![id])?;
        let mut lines = Vec::new();
        while let Some(row) = rows.next()? {
            let (digest, body): (String, String) = (row.get(0)?, row.get(1)?);
            if Digest::of(body.as_bytes()).to_string() != digest {
                return Err(StoreError::Corrupt {
                    what: format!("evidence of decision {id}"),
                });
            }
            lines.extend(body.lines().map(str::to_owned));
        }
        Ok(Some((text, lines)))
    }

    /// Notes with which rules a step was asked about, where they are others than before.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_step_rules(&self, step: &StepRules) -> Result<(), StoreError> {
        let before = self.step_rules(&step.environment)?;
        let same = |known: &&StepRules| known.to == step.to;
        if before
            .iter()
            .find(same)
            .is_some_and(|known| known.rules == step.rules)
        {
            return Ok(());
        }
        self.db.execute(
            "INSERT INTO gate_rules (id, environment, target, rules, asked_by, at_ms)
             VALUES ($1, $2, $3, $4, $5, $6)",
            params![
                self.next_id("gate_rules")?,
                step.environment,
                step.to,
                json(&step.rules, "rules")?,
                step.asked_by,
                step.at_ms
            ],
        )?;
        Ok(())
    }

    /// Removes the rules of the step to `to` (empty: those of each step) from the record, those of before as well. Who removed them is put on record by the caller, in the same transaction.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn remove_step_rules(&self, environment: &str, to: &str) -> Result<(), StoreError> {
        let text = "DELETE FROM gate_rules WHERE environment = $1 AND target = $2";
        self.db.execute(text, params![environment, to])?;
        Ok(())
    }

    /// The environments of sites and bundles, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn environments(&self) -> Result<Vec<String>, StoreError> {
        let text = "WITH RECURSIVE of_sites(environment) AS
                (SELECT MIN(environment) FROM sites
                  UNION ALL
                 SELECT (SELECT MIN(s.environment) FROM sites s WHERE s.environment > o.environment)
                   FROM of_sites o WHERE o.environment IS NOT NULL)
             SELECT environment FROM of_sites WHERE environment IS NOT NULL
              UNION SELECT environment FROM bundles ORDER BY 1";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The rules of each step from an environment, by where it leads.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn step_rules(&self, environment: &str) -> Result<Vec<StepRules>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT target, rules, asked_by, at_ms FROM gate_rules g
              WHERE environment = $1 AND id = (SELECT MAX(id) FROM gate_rules n
                    WHERE n.environment = g.environment AND n.target = g.target)
              ORDER BY target",
        )?;
        let mut rows = query.query(params![environment])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let to: String = row.get(0)?;
            let what = format!("rules of the step from {environment} to {to}");
            found.push(StepRules {
                environment: environment.to_owned(),
                rules: parse(&row.get::<_, String>(1)?, &what)?,
                to,
                asked_by: row.get(2)?,
                at_ms: row.get(3)?,
            });
        }
        Ok(found)
    }
}

/// A row of a decision, and what stands in it.
fn past(row: &Row<'_>) -> Result<(PastDecision, Option<DecisionRecord>), DbError> {
    let text: String = row.get(6)?;
    let record = DecisionRecord::from_text(&text).ok();
    let decision = PastDecision {
        id: row.get(0)?,
        at_ms: row.get(1)?,
        environment: row.get(2)?,
        commit: row.get(3)?,
        verdict: row.get(4)?,
        asked_by: row.get(5)?,
        to: record
            .as_ref()
            .and_then(|record| record.decision.to.clone()),
    };
    Ok((decision, record))
}
