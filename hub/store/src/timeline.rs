//! The reports of one site, the newest first, and the numberings that they belong to.
//!
//! What comes in: a site, and from which place on. What goes out: reports as they were signed, with when and how they
//! came, a bounded number of them. It reads no other site and works nothing out.

use super::db::{DbError, OptionalExtension as _, Row, params};
use super::envelopes::ENVELOPE;
use serde::Serialize;

use super::{Session, StoreError, from_sql, to_sql};

/// A place in the reports of a site: which of its numberings, and the number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelinePlace {
    /// The numbering's place among the site's.
    pub ordinal: i64,
    /// The number.
    pub number: u64,
}

/// A report as the hub received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedReport {
    /// The numbering's place among the site's.
    pub ordinal: i64,
    /// The numbering.
    pub epoch: String,
    /// The number.
    pub number: u64,
    /// Digest of the report's bytes.
    pub digest: String,
    /// The signed envelope.
    pub envelope: Vec<u8>,
    /// By which transport it came.
    pub via: String,
    /// When, milliseconds since 1970.
    pub received_ms: i64,
    /// When it was made, by the site's clock.
    pub wall_ms: i64,
    /// Whether that clock was set by something trustworthy.
    pub clock_trusted: bool,
}

/// One numbering of a site's reports: the life of one store of the site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EpochOfSite {
    /// Its name.
    pub epoch: String,
    /// Its place; the highest is the present one, unless it was set aside.
    pub ordinal: i64,
    /// Which of the site's keys signs it, from 1.
    pub key_generation: i64,
    /// Highest number below which nothing is missing.
    pub acknowledged: u64,
    /// Since when it does not count, milliseconds since 1970: another machine was chosen.
    pub set_aside_ms: Option<i64>,
    /// The numbers that the site declared lost, as first and last.
    pub declared_lost: Vec<(u64, u64)>,
}

/// What is read of a report, as [`received`] takes it.
fn reports(rest: &str) -> String {
    format!(
        "SELECT r.number, r.digest, {ENVELOPE}, r.via, r.received_ms, r.wall_ms, r.clock_trusted FROM reports r {rest}"
    )
}

impl Session<'_> {
    /// Reports of a site before a place, the newest numbering first, and the highest number of it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn timeline(
        &self,
        site: &str,
        before: Option<TimelinePlace>,
        at_most: u32,
    ) -> Result<Vec<ReceivedReport>, StoreError> {
        let mut found = Vec::new();
        // One numbering after the other, so that each part is read along the table's key.
        for (epoch, below) in self.epochs_before(site, before)? {
            let left = i64::from(at_most) - i64::try_from(found.len()).unwrap_or(i64::MAX);
            if left <= 0 {
                break;
            }
            found.extend(self.reports_below(site, &epoch, from_sql(below), left)?);
        }
        Ok(found)
    }

    /// Reports of one numbering of a site below a number, the highest number first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn reports_below(
        &self,
        site: &str,
        epoch: &EpochOfSite,
        below: u64,
        at_most: i64,
    ) -> Result<Vec<ReceivedReport>, StoreError> {
        let text =
            reports("WHERE site = $1 AND epoch = $2 AND number < $3 ORDER BY number DESC LIMIT $4");
        let mut query = self.db.prepare_cached(&text)?;
        let key = params![site, epoch.epoch, to_sql(below), at_most];
        let rows = query.query_map(key, |row| received(epoch, row))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The numberings of a site's reports before a place, the newest first, each with the number below which its reports are.
    pub(super) fn epochs_before(
        &self,
        site: &str,
        before: Option<TimelinePlace>,
    ) -> Result<Vec<(EpochOfSite, i64)>, StoreError> {
        let all = self.epochs_of(site)?.into_iter();
        let below = |epoch: EpochOfSite| match before {
            Some(place) if epoch.ordinal > place.ordinal => None,
            Some(place) if epoch.ordinal == place.ordinal => Some((epoch, to_sql(place.number))),
            _ => Some((epoch, i64::MAX)),
        };
        Ok(all.filter_map(below).collect())
    }

    /// The newest report of a site that states the values which it set itself, of its present numbering first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn newest_values(&self, site: &str) -> Result<Option<ReceivedReport>, StoreError> {
        let mut epochs = self.epochs_of(site)?;
        epochs.sort_by_key(|epoch| epoch.set_aside_ms.is_some());
        let text = reports(
            "WHERE site = $1 AND epoch = $2 AND kind = 'site_values' ORDER BY number DESC LIMIT 1",
        );
        let mut query = self.db.prepare_cached(&text)?;
        for epoch in epochs {
            let key = params![site, epoch.epoch];
            let found = query
                .query_row(key, |row| received(&epoch, row))
                .optional()?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The numberings of a site's reports, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn epochs_of(&self, site: &str) -> Result<Vec<EpochOfSite>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT epoch, ordinal, key_generation, acked, set_aside_ms FROM epochs
              WHERE site = $1 ORDER BY ordinal DESC",
        )?;
        let rows = query.query_map(params![site], |row| {
            Ok(EpochOfSite {
                epoch: row.get(0)?,
                ordinal: row.get(1)?,
                key_generation: row.get(2)?,
                acknowledged: from_sql(row.get(3)?),
                set_aside_ms: row.get(4)?,
                declared_lost: Vec::new(),
            })
        })?;
        let mut epochs: Vec<EpochOfSite> = rows.collect::<Result<_, _>>()?;
        let text = "SELECT epoch, first_lost, last_lost FROM declared_gaps
              WHERE site = $1 ORDER BY epoch, first_lost";
        let mut lost = self.ranges(text, params![site])?;
        for epoch in &mut epochs {
            epoch.declared_lost = lost.remove(&epoch.epoch).unwrap_or_default();
        }
        Ok(epochs)
    }

    /// How many sites of an environment are registered and not revoked, by cluster type.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn sites_by_cluster_type(
        &self,
        environment: &str,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT cluster_type, COUNT(*) FROM sites WHERE environment = $1 AND revoked_ms IS NULL
              GROUP BY cluster_type ORDER BY cluster_type",
        )?;
        let rows = query.query_map(params![environment], |row| {
            Ok((row.get(0)?, from_sql(row.get(1)?)))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The environments and cluster types of registered sites, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn streams_of_sites(&self) -> Result<Vec<(String, String)>, StoreError> {
        let text = "SELECT DISTINCT environment, cluster_type FROM sites ORDER BY environment, cluster_type";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// A report of a numbering.
fn received(epoch: &EpochOfSite, row: &Row<'_>) -> Result<ReceivedReport, DbError> {
    Ok(ReceivedReport {
        ordinal: epoch.ordinal,
        epoch: epoch.epoch.clone(),
        number: from_sql(row.get(0)?),
        digest: row.get(1)?,
        envelope: row.get(2)?,
        via: row.get(3)?,
        received_ms: row.get(4)?,
        wall_ms: row.get(5)?,
        clock_trusted: row.get::<_, i64>(6)? != 0,
    })
}
