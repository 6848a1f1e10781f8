//! Rows of a site's state, read: the same for the state that is kept and for the one that is worked out from history.
//!
//! What comes in: rows with the columns that each function names. What goes out: the parts of a [`SiteState`], and the whole of it. It
//! asks nothing of the store.

use std::collections::BTreeMap;

use outhaul_gate::facts::{
    Attempt, Conflict, Newest, ObservedAssignment, ObservedAssignments, Running, SiteState,
};
use outhaul_gate::fold::without;

use super::db::{DbError, Row};
use super::from_sql;

/// Numbers of reports, from and to, by site.
pub(super) type Ranges = BTreeMap<String, Vec<(u64, u64)>>;

/// What is known of sites beside their own rows, by site.
pub(super) struct Parts {
    pub(super) running: BTreeMap<String, Running>,
    pub(super) attempts: BTreeMap<String, Attempt>,
    pub(super) declared_lost: Ranges,
    pub(super) missing: Ranges,
    pub(super) conflicts: BTreeMap<String, Conflict>,
}

impl Parts {
    /// A site, of: its name, role, environment, cluster type, key, enrolment, revocation; and of its newest report: epoch, number,
    /// digest, way, times received and of its wall clock, whether that is trusted, what is acknowledged; since when its reports count.
    pub(super) fn site(&mut self, row: &Row<'_>) -> Result<SiteState, DbError> {
        let site: String = row.get(0)?;
        let newest = match row.get::<_, Option<String>>(7)? {
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
        let declared_lost = self.declared_lost.remove(&site).unwrap_or_default();
        let missing = self.missing.remove(&site).unwrap_or_default();
        let missing = missing.iter().flat_map(|gap| without(*gap, &declared_lost));
        Ok(SiteState {
            role: row.get(1)?,
            environment: row.get(2)?,
            cluster_type: row.get(3)?,
            key_id: row.get(4)?,
            enrolled_ms: row.get(5)?,
            revoked_ms: row.get(6)?,
            counts_from_ms: row.get(15)?,
            newest,
            running: self.running.remove(&site),
            attempt: self.attempts.remove(&site),
            missing: missing.collect(),
            declared_lost,
            conflict: self.conflicts.remove(&site),
            site,
        })
    }
}

/// What a site runs, of: its name, the report's number, digest and time received, role, bundle, index, commit, state, message, the
/// times of the wall clock and of the lower bound, who sent the webhooks that it rests on, and the environment's commit.
pub(super) fn running(
    row: &Row<'_>,
    assignments: ObservedAssignments,
) -> Result<(String, Running), DbError> {
    let running = Running {
        report: from_sql(row.get(1)?),
        digest: row.get(2)?,
        received_ms: row.get(3)?,
        made_ms: row.get::<_, i64>(10)?.max(row.get(11)?),
        role: row.get(4)?,
        bundle: from_sql(row.get(5)?),
        index: row.get(6)?,
        base_commit: row.get(7)?,
        environment_commit: row.get(13)?,
        state: row.get(8)?,
        message: row.get(9)?,
        webhook: row.get(12)?,
        assignments,
    };
    Ok((row.get(0)?, running))
}

/// How an assignment is, of: its owner, its name, status, config version, message.
pub(super) fn assignment(row: &Row<'_>) -> Result<(String, ObservedAssignment), DbError> {
    let observed = ObservedAssignment {
        status: row.get(2)?,
        config_version: row.get(3)?,
        message: row.get(4)?,
    };
    Ok((row.get(1)?, observed))
}

/// What a site tried beyond what it runs, of: its name, the report's number, bundle, state, message, and who decided it.
pub(super) fn attempt(row: &Row<'_>) -> Result<(String, Attempt), DbError> {
    let attempt = Attempt {
        report: from_sql(row.get(1)?),
        bundle: from_sql(row.get(2)?),
        state: row.get(3)?,
        message: row.get(4)?,
        decided_by: row.get(5)?,
    };
    Ok((row.get(0)?, attempt))
}
