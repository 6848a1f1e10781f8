//! What was imported of a Kalypso installation, and the one question that its pipelines ask a hub.
//!
//! What comes in: descriptors and reconcilers, parsed; a pattern of places of manifests, and a commit. What goes out: how many
//! subscribers there are, and how many of them told what of the commit: those that were imported, and the sites of this fleet,
//! whose assignments are places like `outhaul/ENVIRONMENT/CLUSTER-TYPE/ASSIGNMENT` and whose commits are the digests of bundles'
//! indexes. It decides nothing.

use outhaul_bundle::hub_api::{Descriptor, ReportedReconciler};

use super::db::params;
use super::{Session, StoreError, from_sql};

/// What subscribers reported of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentState {
    /// Reconcilers of the places.
    pub total: u64,
    /// Of the commit: those that succeeded, failed, and are at work.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that are at work on it.
    pub in_progress: u64,
    /// Name and message of those that failed.
    pub failures: Vec<(String, String)>,
}

/// Failed subscribers that are named.
const NAMED: i64 = 1_000;

/// The reconcilers of both kinds that a pattern finds: `endpoint`, `name`, and `site`, `role`, `assignment` of those of this fleet.
const SUBSCRIBERS: &str = "subscribers AS (
    SELECT 'outhaul/' || b.environment || '/' || b.cluster_type || '/' || a.assignment AS endpoint,
           s.site || '.' || a.assignment AS name, s.site AS site, a.assignment AS assignment
      FROM sites s
      JOIN bundles b ON b.role = s.role AND b.number = (
           SELECT MAX(n.number) FROM bundles n
            WHERE n.role = s.role AND n.taken_back = 0
              AND (n.recipients = '[]' OR REPLACE(n.recipients, '\"' || s.site || '\"', '') <> n.recipients))
      JOIN bundle_assignments a ON a.role = b.role AND a.number = b.number
       AND (a.sites IS NULL OR REPLACE(a.sites, '\"' || s.site || '\"', '') <> a.sites)
     WHERE s.revoked_ms IS NULL
    UNION ALL
    SELECT endpoint, reconciler, NULL, host FROM kalypso_reconcilers k
     WHERE at_ms = (SELECT MAX(at_ms) FROM kalypso_reconcilers n WHERE n.host = k.host AND n.reconciler = k.reconciler))";

impl Session<'_> {
    /// Records a descriptor, or that it came again.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_descriptor(&self, one: &Descriptor, at_ms: i64) -> Result<(), StoreError> {
        let text = "INSERT INTO kalypso_descriptors (manifests_endpoint, commit_id, version, workspace, application,
                workload, source_endpoint, target, environment, build, build_commit, at_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
             ON CONFLICT (manifests_endpoint, commit_id, version) DO UPDATE SET workspace = excluded.workspace,
                application = excluded.application, workload = excluded.workload,
                source_endpoint = excluded.source_endpoint, target = excluded.target,
                environment = excluded.environment, build = excluded.build,
                build_commit = excluded.build_commit, at_ms = excluded.at_ms";
        self.db.prepare_cached(text)?.execute(params![
            one.manifests_endpoint,
            one.commit,
            one.version,
            one.workspace,
            one.application,
            one.workload,
            one.source_endpoint,
            one.target,
            one.environment,
            one.build,
            one.build_commit,
            at_ms
        ])?;
        Ok(())
    }

    /// Records what a reconciler reported: of a commit that it reported before, that it is the newest again.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_reconciler(&self, one: &ReportedReconciler, at_ms: i64) -> Result<(), StoreError> {
        // Later than all that it reported, also within one millisecond.
        let newest: i64 = self.db.query_row(
            "SELECT COALESCE(MAX(at_ms), 0) FROM kalypso_reconcilers WHERE host = $1 AND reconciler = $2",
            params![one.host, one.reconciler],
            |row| row.get(0),
        )?;
        let text = "INSERT INTO kalypso_reconcilers (host, reconciler, commit_id, kind, endpoint, status, message, at_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (host, reconciler, commit_id) DO UPDATE SET kind = excluded.kind,
                endpoint = excluded.endpoint, status = excluded.status, message = excluded.message,
                at_ms = excluded.at_ms";
        self.db.prepare_cached(text)?.execute(params![
            one.host,
            one.reconciler,
            one.commit,
            one.kind,
            one.endpoint,
            one.status,
            one.message,
            at_ms.max(newest + 1)
        ])?;
        Ok(())
    }

    /// What the subscribers of places reported of a commit. In `pattern`, `%` stands for any letters and `_` for one.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn deployment_state(
        &self,
        pattern: &str,
        commit: &str,
    ) -> Result<DeploymentState, StoreError> {
        let text =
            format!("WITH {SUBSCRIBERS} SELECT COUNT(*) FROM subscribers WHERE endpoint LIKE $1");
        let total: i64 = self
            .db
            .prepare_cached(&text)?
            .query_row(params![pattern], |row| row.get(0))?;
        let mut state = DeploymentState {
            total: from_sql(total),
            ..DeploymentState::default()
        };
        let index = format!("sha256:{commit}");
        let text = format!(
            "WITH {SUBSCRIBERS}, reported AS (
                SELECT u.name, a.message,
                       CASE WHEN o.state IN ('failed', 'rejected', 'reverted') OR a.status IN ('failed', 'drifted')
                            THEN 'failure'
                            WHEN o.state IN ('active', 'superseded') AND a.status = 'compliant' THEN 'success'
                            ELSE 'in_progress' END AS status
                  FROM subscribers u
                  JOIN current_states c ON c.site = u.site
                  JOIN observations o ON o.site = c.site AND o.epoch = c.epoch AND o.number = (
                       SELECT MAX(n.number) FROM observations n
                        WHERE n.site = c.site AND n.epoch = c.epoch AND n.index_digest = $1)
                  JOIN observed_assignments a ON a.site = o.site AND a.epoch = o.epoch
                   AND a.number = o.number AND a.assignment = u.assignment
                 WHERE u.endpoint LIKE $2
                UNION ALL
                SELECT reconciler, message, status FROM kalypso_reconcilers
                 WHERE endpoint LIKE $2 AND commit_id = $3)
             SELECT status, name, message, COUNT(*) OVER (PARTITION BY status),
                    ROW_NUMBER() OVER (PARTITION BY status ORDER BY name) AS place
               FROM reported ORDER BY status, place"
        );
        let text = format!(
            "SELECT * FROM ({text}) AS ranked WHERE place = 1 OR (status = 'failure' AND place <= $4)"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let mut rows = query.query(params![index, pattern, commit, NAMED])?;
        while let Some(row) = rows.next()? {
            let status: String = row.get(0)?;
            let count = from_sql(row.get(3)?);
            match status.as_str() {
                "success" => state.succeeded = count,
                "failure" => {
                    state.failed = count;
                    state.failures.push((row.get(1)?, row.get(2)?));
                }
                _ => state.in_progress = count,
            }
        }
        Ok(state)
    }
}
