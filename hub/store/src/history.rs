//! The current state, worked out from all of history: what the kept one is compared with before a backup is restored, and in
//! tests.
//!
//! What comes in: the append-only tables. What goes out: what [`Session::site_states`] should return. It reads every report, and
//! nothing of what is kept beside them.

use std::collections::BTreeMap;

use crate::{
    Attempt, Newest, ObservedAssignment, ObservedAssignments, Running, Session, SiteState,
    StoreError, from_sql,
};
use outhaul_gate::fold::without;

/// The newest epoch of each site: the one in which a report tells the present.
const NEWEST_EPOCHS: &str = "newest_epochs AS (
    SELECT site, epoch, acked FROM (
        SELECT site, epoch, acked,
               ROW_NUMBER() OVER (PARTITION BY site ORDER BY CASE WHEN set_aside_ms IS NULL THEN 0 ELSE 1 END, ordinal DESC) AS place
          FROM epochs) AS ranked
     WHERE place = 1)";

impl Session<'_> {
    /// The state of every registered site, by name, revoked ones included.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn site_states_from_history(&self) -> Result<Vec<SiteState>, StoreError> {
        let mut running = self.history_running()?;
        let mut attempts = self.history_attempts()?;
        let mut lost = self.history_declared_lost()?;
        let mut missing = self.history_missing()?;
        let mut conflicts = self.open_conflicts()?;
        let text = format!(
            "WITH {NEWEST_EPOCHS}, newest_reports AS (
                SELECT * FROM (
                    SELECT r.site, r.epoch, r.number, r.digest, r.via, r.received_ms, r.wall_ms,
                           r.clock_trusted, e.acked,
                           ROW_NUMBER() OVER (PARTITION BY r.site ORDER BY r.number DESC) AS place
                      FROM reports r
                      JOIN newest_epochs e ON e.site = r.site AND e.epoch = r.epoch) AS ranked
                 WHERE place = 1)
             SELECT s.site, s.role, s.environment, s.cluster_type, k.key_id, s.enrolled_ms,
                    s.revoked_ms, n.epoch, n.number, n.digest, n.via, n.received_ms, n.wall_ms,
                    n.clock_trusted, n.acked
               FROM sites s
               JOIN site_keys k ON k.site = s.site AND k.generation = s.key_generation
               LEFT JOIN newest_reports n ON n.site = s.site
              ORDER BY s.site"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map([], |row| {
            let site: String = row.get(0)?;
            let epoch: Option<String> = row.get(7)?;
            let newest = match epoch {
                None => None,
                Some(epoch) => Some(Newest {
                    epoch,
                    number: from_sql(row.get(8)?),
                    digest: row.get(9)?,
                    via: row.get(10)?,
                    received_ms: row.get(11)?,
                    wall_ms: row.get(12)?,
                    clock_trusted: row.get::<_, i64>(13)? != 0,
                    acked: from_sql(row.get(14)?),
                }),
            };
            Ok(SiteState {
                role: row.get(1)?,
                environment: row.get(2)?,
                cluster_type: row.get(3)?,
                key_id: row.get(4)?,
                enrolled_ms: row.get(5)?,
                revoked_ms: row.get(6)?,
                newest,
                running: running.remove(&site),
                attempt: attempts.remove(&site),
                missing: missing.remove(&site).unwrap_or_default(),
                declared_lost: lost.remove(&site).unwrap_or_default(),
                conflict: conflicts.remove(&site),
                site,
            })
        })?;
        let mut states: Vec<SiteState> = rows.collect::<Result<_, _>>()?;
        for state in &mut states {
            let declared = &state.declared_lost;
            state.missing = state
                .missing
                .iter()
                .flat_map(|gap| without(*gap, declared))
                .collect();
        }
        Ok(states)
    }

    fn history_running(&self) -> Result<BTreeMap<String, Running>, StoreError> {
        let newest = newest_observations("WHERE o.running = 1");
        let text = format!(
            "WITH {NEWEST_EPOCHS}, {newest}
             SELECT o.site, o.number, r.digest, r.received_ms, o.role, o.bundle_number,
                    o.index_digest, o.base_commit, o.state, o.message, r.wall_ms, r.lower_bound_ms
               FROM newest_observations o
               JOIN reports r ON r.site = o.site AND r.epoch = o.epoch AND r.number = o.number"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map([], |row| {
            let running = Running {
                report: from_sql(row.get(1)?),
                digest: row.get(2)?,
                received_ms: row.get(3)?,
                made_ms: row.get::<_, i64>(10)?.max(row.get(11)?),
                role: row.get(4)?,
                bundle: from_sql(row.get(5)?),
                index: row.get(6)?,
                base_commit: row.get(7)?,
                state: row.get(8)?,
                message: row.get(9)?,
                assignments: ObservedAssignments::default(),
            };
            Ok((row.get(0)?, running))
        })?;
        let mut found: BTreeMap<String, Running> = rows.collect::<Result<_, _>>()?;
        let text = format!(
            "WITH {NEWEST_EPOCHS}, {newest}
             SELECT a.site, a.assignment, a.status, a.config_version, a.message
               FROM newest_observations o
               JOIN observed_assignments a
                 ON a.site = o.site AND a.epoch = o.epoch AND a.number = o.number"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let site: String = row.get(0)?;
            if let Some(running) = found.get_mut(&site) {
                let observed = ObservedAssignment {
                    status: row.get(2)?,
                    config_version: row.get(3)?,
                    message: row.get(4)?,
                };
                running.assignments.insert(row.get(1)?, observed);
            }
        }
        Ok(found)
    }

    /// The newest that each site reported about a bundle above the one that it runs: on its way, turned away, or
    /// left again. A look at what runs does not end it; a bundle that takes its place does.
    fn history_attempts(&self) -> Result<BTreeMap<String, Attempt>, StoreError> {
        let newest = newest_observations("WHERE o.running = 1");
        let text = format!(
            "WITH {NEWEST_EPOCHS}, {newest}, reported AS (
                SELECT site, epoch, number, bundle_number, state, message, NULL AS decided_by,
                       0 AS is_left
                  FROM observations WHERE state NOT IN ('active', 'superseded')
                UNION ALL
                SELECT site, epoch, number, bundle_number, 'reverted', reason, decided_by, 1
                  FROM reverts)
             SELECT site, number, bundle_number, state, message, decided_by FROM (
                SELECT t.*, ROW_NUMBER() OVER (PARTITION BY t.site ORDER BY t.number DESC, t.is_left DESC)
                                AS place
                  FROM reported t
                  JOIN newest_epochs e ON e.site = t.site AND e.epoch = t.epoch
                  LEFT JOIN newest_observations o ON o.site = t.site
                 WHERE o.site IS NULL OR t.bundle_number > o.bundle_number) AS ranked
              WHERE place = 1"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map([], |row| {
            let attempt = Attempt {
                report: from_sql(row.get(1)?),
                bundle: from_sql(row.get(2)?),
                state: row.get(3)?,
                message: row.get(4)?,
                decided_by: row.get(5)?,
            };
            Ok((row.get(0)?, attempt))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn history_missing(&self) -> Result<BTreeMap<String, Vec<(u64, u64)>>, StoreError> {
        let text = format!(
            "WITH {NEWEST_EPOCHS}
             SELECT site, before + 1, number - 1 FROM (
                 SELECT r.site, r.number,
                        COALESCE(LAG(r.number) OVER (PARTITION BY r.site ORDER BY r.number),
                                 0) AS before
                   FROM reports r
                   JOIN newest_epochs e ON e.site = r.site AND e.epoch = r.epoch) AS steps
              WHERE number > before + 1 ORDER BY site, number"
        );
        self.ranges(&text, [])
    }

    fn history_declared_lost(&self) -> Result<BTreeMap<String, Vec<(u64, u64)>>, StoreError> {
        let text = format!(
            "WITH {NEWEST_EPOCHS}
             SELECT g.site, g.first_lost, g.last_lost FROM declared_gaps g
               JOIN newest_epochs e ON e.site = g.site AND e.epoch = g.epoch
              ORDER BY g.site, g.first_lost"
        );
        self.ranges(&text, [])
    }
}

fn newest_observations(only: &str) -> String {
    format!(
        "newest_observations AS (
            SELECT * FROM (
                SELECT o.*,
                       ROW_NUMBER() OVER (PARTITION BY o.site ORDER BY o.number DESC) AS place
                  FROM observations o
                  JOIN newest_epochs e ON e.site = o.site AND e.epoch = o.epoch {only}) AS ranked
             WHERE place = 1)"
    )
}
