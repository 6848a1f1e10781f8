//! How many other sites have the same as one of them: the version of an assignment's config, or a bundle that failed.
//!
//! What comes in: a site, and what it has. What goes out: counts of what other sites report now. It reads no report and names no site.

use super::db::params;

use super::{Session, StoreError, from_sql, to_sql};

impl Session<'_> {
    /// How many sites besides `site` report now that they run this version of an assignment's config well, and how many that they
    /// run it and it is not well. Those where it is under way count as neither.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn others_with(
        &self,
        site: &str,
        assignment: &str,
        config_version: &str,
    ) -> Result<(u64, u64), StoreError> {
        // The sets first: there are few of them, and a fleet without the version is not looked through.
        let mut query = self.db.prepare_cached(
            "SELECT s.status, COUNT(*)
               FROM current_states c
               JOIN sites i ON i.site = c.site AND i.revoked_ms IS NULL
               JOIN observations o ON o.site = c.site AND o.epoch = c.epoch AND o.number = c.running
               JOIN (SELECT digest, status FROM assignment_sets
                      WHERE assignment = $1 AND config_version = $2) s ON s.digest = o.assignments
              WHERE c.site <> $3 AND o.state = 'active'
              GROUP BY s.status",
        )?;
        let mut rows = query.query(params![assignment, config_version, site])?;
        let (mut well, mut not_well) = (0, 0);
        while let Some(row) = rows.next()? {
            let (status, count): (String, i64) = (row.get(0)?, row.get(1)?);
            match status.as_str() {
                "compliant" => well += from_sql(count),
                "failed" | "drifted" => not_well += from_sql(count),
                _ => {}
            }
        }
        Ok((well, not_well))
    }

    /// At how many sites besides `site` one bundle of a stream failed, or was left again because it was not well.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn others_that_failed(
        &self,
        site: &str,
        role: &str,
        bundle: u64,
    ) -> Result<u64, StoreError> {
        let text = "SELECT COUNT(DISTINCT site) FROM observations
              WHERE role = $1 AND bundle_number = $2 AND site <> $3
                AND state NOT IN ('active', 'superseded') AND state = 'failed'";
        let key = params![role, to_sql(bundle), site];
        let count: i64 = self.db.query_row(text, key, |row| row.get(0))?;
        Ok(from_sql(count))
    }
}
