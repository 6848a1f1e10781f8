//! The current state, worked out from all of history: what the kept one is compared with before a backup is restored, and in
//! tests.
//!
//! What comes in: the append-only tables. What goes out: what [`Session::site_states`] should return. It reads every report, and
//! nothing of what is kept beside them.

use std::collections::BTreeMap;

use outhaul_gate::fold::without;

use crate::site_rows::{self, Parts, Ranges};
use crate::{Attempt, ObservedAssignments, Running, Session, SiteState, StoreError};

/// The newest epoch of each site: the one in which a report is the present state.
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
        let mut parts = Parts {
            running: self.history_running()?,
            attempts: self.history_attempts()?,
            declared_lost: self.history_declared_lost()?,
            missing: self.history_missing()?,
            conflicts: self.open_conflicts()?,
        };
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
                    n.clock_trusted, n.acked, s.counts_from_ms
               FROM sites s
               JOIN site_keys k ON k.site = s.site AND k.generation = s.key_generation
               LEFT JOIN newest_reports n ON n.site = s.site
              ORDER BY s.site"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map([], |row| parts.site(row))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn history_running(&self) -> Result<BTreeMap<String, Running>, StoreError> {
        let newest = newest_observations("WHERE o.running = 1");
        let text = format!(
            "WITH {NEWEST_EPOCHS}, {newest}
             SELECT o.site, o.number, r.digest, r.received_ms, o.role, o.bundle_number,
                    o.index_digest, o.base_commit, o.state, o.message, r.wall_ms, r.lower_bound_ms, o.webhook,
                    o.environment_commit
               FROM newest_observations o
               JOIN reports r ON r.site = o.site AND r.epoch = o.epoch AND r.number = o.number"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let none = ObservedAssignments::default;
        let rows = query.query_map([], |row| site_rows::running(row, none()))?;
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
                let (name, observed) = site_rows::assignment(&row)?;
                running.assignments.insert(name, observed);
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
        let rows = query.query_map([], site_rows::attempt)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn history_missing(&self) -> Result<Ranges, StoreError> {
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
        let mut found = self.ranges(&text, [])?;
        // What was here and is no longer kept is not missing.
        let text = format!(
            "WITH {NEWEST_EPOCHS}
             SELECT d.site, d.first_number, d.last_number FROM removed_reports d
               JOIN newest_epochs e ON e.site = d.site AND e.epoch = d.epoch
              ORDER BY d.site, d.first_number"
        );
        for (site, removed) in self.ranges(&text, [])? {
            if let Some(gaps) = found.get_mut(&site) {
                let left = gaps.iter().flat_map(|gap| without(*gap, &removed));
                *gaps = left.collect();
            }
        }
        Ok(found)
    }

    fn history_declared_lost(&self) -> Result<Ranges, StoreError> {
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
