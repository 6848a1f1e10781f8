//! Which reports give a site's present state, kept while reports are recorded.
//!
//! What comes in: the names of sites of which something was recorded in this transaction. What goes out: one
//! row of numbers per site in `current_states`, which `current` follows to the reports themselves. A row is
//! worked out from the tables again, never advanced by itself, so the order in which reports come does not
//! matter; and it holds nothing that the reports do not say. A test compares it with the fold over all of
//! history.

use super::db::{OptionalExtension as _, params};

use super::{Session, StoreError};

impl Session<'_> {
    /// Works out again which reports give the state of `site`. To be called in the transaction in which a
    /// report of it, or an epoch, was recorded.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn keep_current(&self, site: &str) -> Result<(), StoreError> {
        let newest: Option<(String, i64)> = self
            .db
            .prepare_cached(
                "SELECT epoch, (SELECT MAX(number) FROM reports r
                                 WHERE r.site = e.site AND r.epoch = e.epoch)
                   FROM epochs e WHERE site = $1
                  ORDER BY CASE WHEN set_aside_ms IS NULL THEN 0 ELSE 1 END, ordinal DESC LIMIT 1",
            )?
            .query_row(params![site], |row| {
                Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?))
            })
            .optional()?
            .and_then(|(epoch, number)| Some((epoch, number?)));
        let Some((epoch, newest)) = newest else {
            return Ok(());
        };
        let running: Option<(i64, i64)> = self
            .db
            .prepare_cached(
                "SELECT number, bundle_number FROM observations
                  WHERE site = $1 AND epoch = $2 AND running = 1 ORDER BY number DESC LIMIT 1",
            )?
            .query_row(params![site, epoch], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        // Bundles are numbered from 1: with nothing running, every one is above.
        let above = running.map_or(0, |(_, bundle)| bundle);
        let newest_of = |text: &str| -> Result<Option<i64>, StoreError> {
            let mut query = self.db.prepare_cached(text)?;
            Ok(query.query_row(params![site, epoch, above], |row| row.get(0))?)
        };
        let on_the_way = newest_of(
            "SELECT MAX(number) FROM observations
              WHERE site = $1 AND epoch = $2 AND bundle_number > $3
                AND state NOT IN ('active', 'superseded')",
        )?;
        let left = newest_of(
            "SELECT MAX(number) FROM reverts
              WHERE site = $1 AND epoch = $2 AND bundle_number > $3",
        )?;
        let text = "INSERT INTO current_states
                (site, epoch, newest, running, attempt, attempt_left)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (site) DO UPDATE SET epoch = excluded.epoch, newest = excluded.newest,
                running = excluded.running, attempt = excluded.attempt,
                attempt_left = excluded.attempt_left";
        self.db.prepare_cached(text)?.execute(params![
            site,
            epoch,
            newest,
            running.map(|(number, _)| number),
            left.max(on_the_way),
            // Reported once, as of a bundle that was left for another: that it was left.
            i64::from(left.is_some() && left >= on_the_way)
        ])?;
        self.keep_stream_site(site)
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
        for site in sites {
            self.keep_current(&site)?;
        }
        Ok(())
    }
}
