//! The present of the whole fleet, counted: sites of which the same is known are one row.
//!
//! What comes in: bounds of how old newest reports are. What goes out: a [`SiteState`] for each kind of site, with how many there
//! are, for whoever needs no names: a fleet of a hundred thousand sites is a few hundred rows. It reads what is kept of the
//! present, no history, and decides nothing.

use std::collections::BTreeMap;

use outhaul_gate::facts::{
    AHEAD_MS, Attempt, Newest, ObservedAssignment, ObservedAssignments, Running, SiteState,
};

use super::db::{DbError, Row, SqlValue, params};
use super::site_rows;
use super::{Session, StoreError, from_sql};

/// Sites of which the same is known.
#[derive(Debug, Clone)]
pub struct SiteGroup {
    /// What is known of each. It has a name only where that matters: of a site that two machines report for, and of one in a
    /// stream whose bundles name their recipients. What differs among them is left empty: keys, reports, messages.
    pub state: SiteState,
    /// How many.
    pub count: u64,
    /// Within which of the bounds their newest reports were received: 0 for the shortest, and their number for none.
    pub bound: usize,
    /// When the newest of these reports was received, milliseconds since 1970; `None` where they never reported.
    pub newest_ms: Option<i64>,
    /// The same of the oldest.
    pub oldest_ms: Option<i64>,
}

impl Session<'_> {
    /// All sites in groups. A newest report that was received at `bounds_ms[n]` or later is within bound `n`; the bounds go back
    /// in time.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn site_groups(&self, bounds_ms: [i64; 6]) -> Result<Vec<SiteGroup>, StoreError> {
        let conflicts = self.open_conflicts()?;
        let text = "SELECT CASE WHEN s.site IN (SELECT site FROM site_conflicts)
                       OR s.role IN (SELECT role FROM bundles WHERE recipients <> '[]') THEN s.site ELSE '' END AS named,
                    s.environment, s.cluster_type, s.role, CASE WHEN s.revoked_ms IS NULL THEN 0 ELSE 1 END AS revoked,
                    CASE WHEN r.received_ms >= $1 THEN 0 WHEN r.received_ms >= $2 THEN 1 WHEN r.received_ms >= $3 THEN 2
                         WHEN r.received_ms >= $4 THEN 3 WHEN r.received_ms >= $5 THEN 4 WHEN r.received_ms >= $6 THEN 5
                         ELSE 6 END AS bound,
                    o.role AS running_role, o.bundle_number, o.index_digest, o.base_commit, o.state, o.assignments,
                    COALESCE(t.bundle_number, v.bundle_number) AS attempted,
                    CASE WHEN v.site IS NULL THEN t.state ELSE 'reverted' END AS attempt,
                    CASE WHEN r.clock_trusted = 1 AND r.wall_ms > r.received_ms + $7 THEN 1 ELSE 0 END AS ahead,
                    COALESCE(o.webhook, '') AS webhook,
                    COUNT(*), MAX(r.received_ms), MIN(r.received_ms)
               FROM sites s LEFT JOIN current_states c ON c.site = s.site
               LEFT JOIN reports r ON r.site = c.site AND r.epoch = c.epoch AND r.number = c.newest
               LEFT JOIN observations o ON o.site = c.site AND o.epoch = c.epoch AND o.number = c.running
               LEFT JOIN observations t
                 ON t.site = c.site AND t.epoch = c.epoch AND t.number = c.attempt AND c.attempt_left = 0
               LEFT JOIN reverts v
                 ON v.site = c.site AND v.epoch = c.epoch AND v.number = c.attempt AND c.attempt_left = 1
              GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16";
        let mut query = self.db.prepare_cached(text)?;
        let mut bounds = bounds_ms.map(SqlValue::Int).to_vec();
        bounds.push(SqlValue::Int(AHEAD_MS));
        let rows = query.query_map(bounds, group)?;
        let rows: Vec<(SiteGroup, Option<String>)> = rows.collect::<Result<_, DbError>>()?;
        let mut sets = BTreeMap::new();
        let mut groups = Vec::with_capacity(rows.len());
        for (mut group, set) in rows {
            group.state.conflict = conflicts.get(&group.state.site).cloned();
            if let (Some(running), Some(digest)) = (&mut group.state.running, set) {
                running.assignments = match sets.get(&digest) {
                    Some(known) => ObservedAssignments::clone(known),
                    None => {
                        let read = self.not_compliant(&digest)?;
                        sets.entry(digest).or_insert(read).clone()
                    }
                };
            }
            groups.push(group);
        }
        Ok(groups)
    }

    /// The assignments of a set that are not as desired: the others, which are by far the most, say nothing that a count needs.
    fn not_compliant(&self, digest: &str) -> Result<ObservedAssignments, StoreError> {
        let text = "SELECT digest, assignment, status, config_version, message FROM assignment_sets
                     WHERE digest = $1 AND status <> 'compliant'";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![digest], site_rows::assignment)?;
        let set: BTreeMap<String, ObservedAssignment> = rows.collect::<Result<_, DbError>>()?;
        Ok(set.into())
    }

    /// How many reports are acknowledged, of all sites and by whichever way they came.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn count_acknowledged(&self) -> Result<u64, StoreError> {
        let text = "SELECT CAST(COALESCE(SUM(acked), 0) AS BIGINT) FROM epochs";
        Ok(from_sql(self.db.query_row(text, [], |row| row.get(0))?))
    }

    /// How many bytes the database has.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn size_bytes(&self) -> Result<u64, StoreError> {
        // The one question that both ask in words of their own.
        let text = match self.db.is_server() {
            true => "SELECT pg_database_size(current_database())",
            false => "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
        };
        Ok(from_sql(self.db.query_row(text, [], |row| row.get(0))?))
    }
}

/// A group, and the digest of what its sites say of their assignments.
fn group(row: &Row<'_>) -> Result<(SiteGroup, Option<String>), DbError> {
    let (newest_ms, oldest_ms): (Option<i64>, Option<i64>) = (row.get(17)?, row.get(18)?);
    let running = match row.get::<_, Option<String>>(6)? {
        None => None,
        Some(role) => Some(Running {
            report: 0,
            digest: String::new(),
            received_ms: 0,
            made_ms: 0,
            role,
            bundle: from_sql(row.get(7)?),
            index: row.get(8)?,
            base_commit: row.get(9)?,
            environment_commit: None,
            state: row.get(10)?,
            message: String::new(),
            webhook: row.get(15)?,
            assignments: ObservedAssignments::default(),
        }),
    };
    let attempt = match (
        row.get::<_, Option<i64>>(12)?,
        row.get::<_, Option<String>>(13)?,
    ) {
        (Some(bundle), Some(state)) => Some(Attempt {
            report: 0,
            bundle: from_sql(bundle),
            state,
            message: String::new(),
            decided_by: None,
        }),
        _ => None,
    };
    let is_ahead = row.get::<_, i64>(14)? != 0;
    let newest = newest_ms.map(|received_ms| Newest {
        epoch: String::new(),
        number: 0,
        digest: String::new(),
        via: String::new(),
        received_ms,
        // No more than that it is: the groups tell no clocks apart.
        wall_ms: match is_ahead {
            true => received_ms.saturating_add(AHEAD_MS + 1),
            false => 0,
        },
        clock_trusted: is_ahead,
        acked: 0,
    });
    let bound: i64 = row.get(5)?;
    let group = SiteGroup {
        state: SiteState {
            site: row.get(0)?,
            role: row.get(3)?,
            environment: row.get(1)?,
            cluster_type: row.get(2)?,
            key_id: String::new(),
            enrolled_ms: 0,
            revoked_ms: (row.get::<_, i64>(4)? != 0).then_some(0),
            counts_from_ms: None,
            newest,
            running,
            attempt,
            missing: Vec::new(),
            declared_lost: Vec::new(),
            conflict: None,
        },
        count: from_sql(row.get(16)?),
        bound: usize::try_from(bound).unwrap_or_default(),
        newest_ms,
        oldest_ms,
    };
    Ok((group, row.get(11)?))
}
