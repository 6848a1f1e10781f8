//! What other sites have that one of them has: the versions of assignments' configs, and bundles that failed.
//!
//! What comes in: a site. What goes out: counts of what the other sites report now. It reads no report and names no site; however many
//! ask for how many assignments, the sites are gone through once.

use std::collections::BTreeMap;

use super::db::params;

use super::{Session, StoreError, from_sql, to_sql};

/// An assignment in one version of its config.
pub type ConfigOfAssignment = (String, String);

/// At how many sites it is well, and at how many it is not. Those where it is under way count as neither.
pub type WellAndNot = (u64, u64);

impl Session<'_> {
    /// What the sites besides `site` run now, by assignment and version of its config.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn running_elsewhere(
        &self,
        site: &str,
    ) -> Result<BTreeMap<ConfigOfAssignment, WellAndNot>, StoreError> {
        // In this order: there are many observations and few that are the present state. `CROSS JOIN` keeps SQLite to it.
        let mut query = self.db.prepare_cached(
            "SELECT o.assignments, COUNT(*)
               FROM current_states c CROSS JOIN observations o CROSS JOIN sites i
              WHERE o.site = c.site AND o.epoch = c.epoch AND o.number = c.running
                AND i.site = c.site AND i.revoked_ms IS NULL
                AND c.site <> $1 AND o.state = 'active' AND o.assignments <> ''
              GROUP BY o.assignments",
        )?;
        let rows = query.query_map(params![site], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let sets: Vec<(String, i64)> = rows.collect::<Result<_, _>>()?;
        let mut query = self.db.prepare_cached(
            "SELECT assignment, config_version, status FROM assignment_sets WHERE digest = $1",
        )?;
        let mut found: BTreeMap<ConfigOfAssignment, WellAndNot> = BTreeMap::new();
        for (digest, count) in sets {
            let mut rows = query.query(params![digest])?;
            while let Some(row) = rows.next()? {
                let status: String = row.get(2)?;
                let (well, not_well) = found.entry((row.get(0)?, row.get(1)?)).or_default();
                match status.as_str() {
                    "compliant" => *well += from_sql(count),
                    "failed" | "drifted" => *not_well += from_sql(count),
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    /// At how many sites besides `site` one bundle of a stream failed.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn others_that_failed(
        &self,
        site: &str,
        role: &str,
        bundle: u64,
    ) -> Result<u64, StoreError> {
        // The first condition is that of an index that holds little.
        let text = "SELECT COUNT(DISTINCT site) FROM observations
              WHERE state NOT IN ('active', 'superseded') AND state = 'failed'
                AND role = $1 AND bundle_number = $2 AND site <> $3";
        let key = params![role, to_sql(bundle), site];
        let count: i64 = self.db.query_row(text, key, |row| row.get(0))?;
        Ok(from_sql(count))
    }
}
