//! How far each chain of reports is complete, and what is acknowledged of it.
//!
//! What comes in: the chains of which reports were recorded in this transaction. What goes out: of each, the highest number below which
//! nothing is missing that the site has not declared lost, with the digest there. It goes up only. It reads no report's content.

use std::collections::{BTreeMap, BTreeSet};

use super::db::params;
use super::many::{SiteEpoch, texts};
use super::{ReportPosition, Session, StoreError, from_sql};

/// Up to where a chain is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    /// The site and its numbering.
    pub chain: SiteEpoch,
    /// The number; 0 when the first is missing.
    pub number: u64,
    /// Digest of that report; none where the site declared it lost.
    pub digest: Option<String>,
}

impl Session<'_> {
    /// Moves the acknowledgement of each of these chains up to the highest number below which nothing is missing that the site has not
    /// declared lost.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn advance_acks(&self, chains: &[SiteEpoch]) -> Result<Vec<Acknowledged>, StoreError> {
        // What most batches bring of a site is one report, the next one; other chains are gone through by themselves.
        let text = "SELECT e.site, e.epoch, e.acked,
                    (SELECT r.digest FROM reports r
                      WHERE r.site = e.site AND r.epoch = e.epoch AND r.number = e.acked),
                    (SELECT r.digest FROM reports r
                      WHERE r.site = e.site AND r.epoch = e.epoch AND r.number = e.acked + 1),
                    CASE WHEN EXISTS (SELECT 1 FROM reports r
                                       WHERE r.site = e.site AND r.epoch = e.epoch AND r.number = e.acked + 2)
                           OR EXISTS (SELECT 1 FROM declared_gaps g
                                       WHERE g.site = e.site AND g.epoch = e.epoch AND g.last_lost > e.acked)
                         THEN 1 ELSE 0 END
               FROM {keys} JOIN epochs e ON e.site = v.column1 AND e.epoch = v.column2";
        let (mut next, mut others) = (Vec::new(), BTreeSet::new());
        let mut done: BTreeMap<SiteEpoch, Acknowledged> = BTreeMap::new();
        self.of_each(text, &texts(chains), |row| {
            let chain: SiteEpoch = (row.get(0)?, row.get(1)?);
            let (acked, after): (i64, Option<String>) = (row.get(2)?, row.get(4)?);
            if row.get::<_, bool>(5)? {
                others.insert(chain);
                return Ok(());
            }
            let moved = i64::from(after.is_some());
            let digest = after.or(row.get(3)?);
            let one = Acknowledged {
                chain: chain.clone(),
                number: from_sql(acked + moved),
                digest,
            };
            if done.insert(chain.clone(), one).is_none() && moved > 0 {
                next.push(chain);
            }
            Ok(())
        })?;
        self.acknowledge_next(&next)?;
        for (site, epoch) in others {
            let number = self.advance_ack(&site, &epoch)?;
            let place = ReportPosition {
                site,
                epoch,
                number,
            };
            let digest = self.stored_report(&place)?.map(|stored| stored.digest);
            let chain = (place.site, place.epoch);
            let one = Acknowledged {
                chain: chain.clone(),
                number,
                digest,
            };
            done.insert(chain, one);
        }
        Ok(done.into_values().collect())
    }

    /// One report more is acknowledged of each of these.
    fn acknowledge_next(&self, chains: &[SiteEpoch]) -> Result<(), StoreError> {
        let text = "UPDATE epochs SET acked = acked + 1 FROM {keys}
             WHERE epochs.site = v.column1 AND epochs.epoch = v.column2";
        self.of_each(text, &texts(chains), |_| Ok(()))
    }

    /// Goes through one chain, report by report; returns up to where it is acknowledged now.
    fn advance_ack(&self, site: &str, epoch: &str) -> Result<u64, StoreError> {
        let text = "SELECT acked FROM epochs WHERE site = $1 AND epoch = $2";
        let key = params![site, epoch];
        let before: i64 = self
            .db
            .prepare_cached(text)?
            .query_row(key, |row| row.get(0))?;
        let mut acked = before;
        let mut stored = self.db.prepare_cached(
            "SELECT number FROM reports WHERE site = $1 AND epoch = $2 AND number > $3
             ORDER BY number",
        )?;
        let mut lost = self.db.prepare_cached(
            "SELECT MAX(last_lost) FROM declared_gaps
             WHERE site = $1 AND epoch = $2 AND first_lost <= $3 AND last_lost >= $3",
        )?;
        'runs: loop {
            let mut rows = stored.query(params![site, epoch, acked])?;
            while let Some(row) = rows.next()? {
                let number: i64 = row.get(0)?;
                if number == acked + 1 {
                    acked = number;
                    continue;
                }
                let lost_up_to: Option<i64> =
                    lost.query_row(params![site, epoch, acked + 1], |row| row.get(0))?;
                match lost_up_to {
                    Some(number) => {
                        acked = number;
                        continue 'runs;
                    }
                    None => break 'runs,
                }
            }
            break;
        }
        if acked != before {
            let text = "UPDATE epochs SET acked = $1 WHERE site = $2 AND epoch = $3";
            self.db
                .prepare_cached(text)?
                .execute(params![acked, site, epoch])?;
        }
        Ok(from_sql(acked))
    }

    /// Every chain of every site that is not revoked, with how far it is complete: what a stick's
    /// acknowledgements say. `(site, epoch, acked)`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn acknowledged(&self) -> Result<Vec<(String, String, u64)>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT e.site, e.epoch, e.acked FROM epochs e JOIN sites s ON s.site = e.site
             WHERE s.revoked_ms IS NULL ORDER BY e.site, e.ordinal",
        )?;
        let rows = query.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, from_sql(row.get(2)?)))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
