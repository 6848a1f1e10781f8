//! What one site reported of one assignment, the newest first.
//!
//! What comes in: a site, an assignment, and from which place in the site's reports on. What goes out: one row for each report that
//! tells of the assignment, a bounded number of them. It reads no envelope and works nothing out.

use super::db::params;
use super::{Session, StoreError, TimelinePlace, from_sql};

/// What one report tells of the assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignmentLook {
    /// The place of the report.
    pub place: TimelinePlace,
    /// Its numbering.
    pub epoch: String,
    /// Its digest.
    pub digest: String,
    /// When it was received, milliseconds since 1970.
    pub received_ms: i64,
    /// When it was made, by the site's clock.
    pub wall_ms: i64,
    /// Whether that clock was set by something trustworthy.
    pub clock_trusted: bool,
    /// The number of the bundle that it tells of.
    pub bundle: u64,
    /// The state of that bundle.
    pub state: String,
    /// The base commit of that bundle.
    pub base_commit: String,
    /// `compliant`, `drifted`, `failed`, `in_progress`.
    pub status: String,
    /// Version of the config that runs.
    pub config_version: String,
    /// What the reconciler said.
    pub message: String,
}

impl Session<'_> {
    /// What a site reported of an assignment before a place, the newest numbering first, and the highest number of it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn looks_at_assignment(
        &self,
        site: &str,
        assignment: &str,
        before: Option<TimelinePlace>,
        at_most: usize,
    ) -> Result<Vec<AssignmentLook>, StoreError> {
        let mut found = Vec::new();
        for (epoch, below) in self.epochs_before(site, before)? {
            let left = at_most.saturating_sub(found.len());
            if left == 0 {
                break;
            }
            let left = i64::try_from(left).unwrap_or(i64::MAX);
            let mut query = self.db.prepare_cached(
                "SELECT o.number, r.digest, r.received_ms, r.wall_ms, r.clock_trusted, o.bundle_number, o.state,
                        o.base_commit, a.status, a.config_version, a.message
                   FROM observations o
                   JOIN assignment_sets a ON a.digest = o.assignments AND a.assignment = $1
                   JOIN reports r ON r.site = o.site AND r.epoch = o.epoch AND r.number = o.number
                  WHERE o.site = $2 AND o.epoch = $3 AND o.number < $4 ORDER BY o.number DESC LIMIT $5",
            )?;
            let key = params![assignment, site, epoch.epoch, below, left];
            let rows = query.query_map(key, |row| {
                Ok(AssignmentLook {
                    place: TimelinePlace {
                        ordinal: epoch.ordinal,
                        number: from_sql(row.get(0)?),
                    },
                    epoch: epoch.epoch.clone(),
                    digest: row.get(1)?,
                    received_ms: row.get(2)?,
                    wall_ms: row.get(3)?,
                    clock_trusted: row.get(4)?,
                    bundle: from_sql(row.get(5)?),
                    state: row.get(6)?,
                    base_commit: row.get(7)?,
                    status: row.get(8)?,
                    config_version: row.get(9)?,
                    message: row.get(10)?,
                })
            })?;
            for row in rows {
                found.push(row?);
            }
        }
        Ok(found)
    }
}
