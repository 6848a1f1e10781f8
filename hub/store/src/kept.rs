//! Which reports give a site's present state, kept while reports are recorded.
//!
//! What comes in: the names of sites of which something was recorded in this transaction. What goes out: one
//! row of numbers per site in `current_states`, which `current` follows to the reports themselves. A row is
//! worked out from the tables again, never advanced by itself, so the order in which reports come does not
//! matter; and it holds nothing that the reports do not say. A test compares it with the fold over all of
//! history.

use super::db::SqlValue;
use super::{Session, StoreError};

/// The row of each site: first its present epoch and the newest report of it, then what runs, then what is above that. Bundles are
/// numbered from 1: with nothing running, every one is above. What is both on the way and left was left.
const CURRENT: &str = "WITH present AS MATERIALIZED (
        SELECT DISTINCT v.column1 AS site,
               (SELECT e.epoch FROM epochs e WHERE e.site = v.column1
                 ORDER BY CASE WHEN e.set_aside_ms IS NULL THEN 0 ELSE 1 END, e.ordinal DESC LIMIT 1) AS epoch
          FROM {keys}),
    reported AS MATERIALIZED (
        SELECT p.site, p.epoch,
               (SELECT MAX(r.number) FROM reports r WHERE r.site = p.site AND r.epoch = p.epoch) AS newest,
               (SELECT o.number FROM observations o WHERE o.site = p.site AND o.epoch = p.epoch AND o.running = 1
                 ORDER BY o.number DESC LIMIT 1) AS running
          FROM present p),
    run AS MATERIALIZED (
        SELECT r.*, COALESCE((SELECT o.bundle_number FROM observations o
                               WHERE o.site = r.site AND o.epoch = r.epoch AND o.number = r.running), 0) AS above
          FROM reported r WHERE r.newest IS NOT NULL),
    tried AS MATERIALIZED (
        SELECT r.*,
               COALESCE((SELECT MAX(o.number) FROM observations o
                          WHERE o.site = r.site AND o.epoch = r.epoch AND o.bundle_number > r.above
                            AND o.state NOT IN ('active', 'superseded')), 0) AS on_the_way,
               COALESCE((SELECT MAX(b.number) FROM reverts b
                          WHERE b.site = r.site AND b.epoch = r.epoch AND b.bundle_number > r.above), 0) AS departed
          FROM run r)
    INSERT INTO current_states (site, epoch, newest, running, attempt, attempt_left)
    SELECT site, epoch, newest, running,
           NULLIF(CASE WHEN departed >= on_the_way THEN departed ELSE on_the_way END, 0),
           CASE WHEN departed > 0 AND departed >= on_the_way THEN 1 ELSE 0 END
      FROM tried WHERE newest IS NOT NULL
        ON CONFLICT (site) DO UPDATE SET epoch = excluded.epoch, newest = excluded.newest,
           running = excluded.running, attempt = excluded.attempt, attempt_left = excluded.attempt_left";

impl Session<'_> {
    /// Works out again which reports give the state of `site`. To be called in the transaction in which a
    /// report of it, or an epoch, was recorded.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keep_current(&self, site: &str) -> Result<(), StoreError> {
        self.keep_current_of(&[site])
    }

    /// The same of many sites.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keep_current_of(&self, sites: &[&str]) -> Result<(), StoreError> {
        let keys: Vec<_> = sites.iter().map(|site| [SqlValue::Text(site)]).collect();
        self.of_each(CURRENT, &keys, |_| Ok(()))?;
        self.keep_stream_sites(&keys)
    }

    /// The same for every site, for a store that was written before there was such a table.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keep_all_current(&self) -> Result<(), StoreError> {
        let sites: Vec<String> = self
            .db
            .prepare_cached("SELECT DISTINCT site FROM epochs ORDER BY site")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let sites: Vec<&str> = sites.iter().map(String::as_str).collect();
        self.keep_current_of(&sites)
    }
}
