//! Since when a site has reported without a break that what it runs is well.
//!
//! What comes in: a site's present state and the first bundle that would do. What goes out: when the hub received the
//! first report of the unbroken run, by the hub's clock. A bundle before the one that would do, anything but success, and a
//! report that is missing, lost or no longer kept within the run break it, and so does one from before a restore of the
//! hub or from before the site was registered again. It
//! reads no further back than is asked for.

use outhaul_gate::fold::some_between;

use super::db::params;

use super::{Session, SiteState, StoreError, from_sql, to_sql};

impl Session<'_> {
    /// Since when `site` has reported without a break that a bundle from `first` on is well, milliseconds since 1970;
    /// `None` when it does not report so now. Once the run goes back to `enough_ms` no older report is read.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn well_since(
        &self,
        site: &SiteState,
        first: u64,
        enough_ms: i64,
    ) -> Result<Option<i64>, StoreError> {
        let (Some(newest), Some(running)) = (&site.newest, &site.running) else {
            return Ok(None);
        };
        let restored = self.last_restore()?;
        // What was reported there is not known any more. The run ends at the highest range, if not above it.
        let place = (site.site.as_str(), newest.epoch.as_str());
        let removed = self.removed_within(place, (1, running.report), 1)?;
        let removed: Vec<(u64, u64)> = removed
            .iter()
            .map(|range| (range.first, range.last))
            .collect();
        let mut query = self.db.prepare_cached(
            "SELECT o.number, o.role, o.bundle_number, o.state, r.received_ms,
                    EXISTS (SELECT 1 FROM observed_assignments a
                             WHERE a.site = o.site AND a.epoch = o.epoch AND a.number = o.number
                               AND a.status <> 'compliant'),
                    r.wall_ms, r.lower_bound_ms, o.base_commit
               FROM observations o
               JOIN reports r ON r.site = o.site AND r.epoch = o.epoch AND r.number = o.number
              WHERE o.site = $1 AND o.epoch = $2 AND o.running = 1 AND o.number <= $3
              ORDER BY o.number DESC",
        )?;
        let mut rows = query.query(params![site.site, newest.epoch, to_sql(running.report)])?;
        let mut since: Option<i64> = None;
        let mut above = running.report;
        while let Some(row) = rows.next()? {
            let number = from_sql(row.get(0)?);
            let (role, bundle, state): (String, i64, String) =
                (row.get(1)?, row.get(2)?, row.get(3)?);
            let received_ms: i64 = row.get(4)?;
            let made_ms = row.get::<_, i64>(6)?.max(row.get(7)?);
            let counts = restored.is_none_or(|restored| restored.counts(received_ms, made_ms));
            let counts = counts
                && site
                    .counts_from_ms
                    .is_none_or(|from_ms| received_ms >= from_ms);
            let base_commit: String = row.get(8)?;
            // A cluster that follows the repository directly names no bundle, but the commit that it shows.
            let is_enough =
                from_sql(bundle) >= first || (bundle == 0 && base_commit == running.base_commit);
            let is_well =
                role == site.role && is_enough && state == "active" && !row.get::<_, bool>(5)?;
            let mut lost = site.missing.iter().chain(&site.declared_lost);
            let is_lost = lost.any(|(from, to)| *from < above && *to > number)
                || some_between(&removed, number, above);
            if !is_well || !counts || is_lost {
                break;
            }
            since = Some(since.map_or(received_ms, |known| known.min(received_ms)));
            if since.is_some_and(|since| since <= enough_ms) {
                break;
            }
            above = number;
        }
        Ok(since)
    }
}
