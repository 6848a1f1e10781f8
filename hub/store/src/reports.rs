//! Reports: added once, never changed, in whatever order they come.
//!
//! What comes in: reports whose signature and chain were checked. What goes out: what is on record at
//! one place of a chain, and how far each chain is complete. The order of a site's epochs is kept here
//! too, because it decides which of them is the present state.

use outhaul_bundle::report::{ClusterEvent, GenerationEvent, Report, ReportEvent};
use outhaul_gate::fold::{assignments, cluster_state, followed, runs, state_name};
use serde::Serialize;

use super::db::{OptionalExtension as _, params};
use super::{Session, StoreError, from_sql, to_sql};

/// One place in a site's chain of reports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ReportPosition {
    /// The site.
    pub site: String,
    /// The epoch.
    pub epoch: String,
    /// The number, from 1.
    pub number: u64,
}

/// What is on record at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReport {
    /// Digest of the report's bytes.
    pub digest: String,
    /// The digest that it claims for the report before it.
    pub previous: Option<String>,
}

/// A checked report, about to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewReport<'a> {
    /// The report.
    pub report: &'a Report,
    /// Digest of its bytes, as text.
    pub digest: &'a str,
    /// The signed envelope, as it came.
    pub envelope: &'a [u8],
    /// By which transport it came: `https` or a file's name.
    pub via: &'a str,
    /// When, milliseconds since 1970.
    pub received_ms: i64,
}

impl Session<'_> {
    /// What is on record at `place`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn stored_report(
        &self,
        place: &ReportPosition,
    ) -> Result<Option<StoredReport>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT digest, previous FROM reports WHERE site = $1 AND epoch = $2 AND number = $3",
        )?;
        let key = params![place.site, place.epoch, to_sql(place.number)];
        let found = query.query_row(key, |row| {
            Ok(StoredReport {
                digest: row.get(0)?,
                previous: row.get(1)?,
            })
        });
        Ok(found.optional()?)
    }

    /// Generation of the key that signs an epoch; `None` when the epoch is new.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn epoch_key(
        &self,
        site: &str,
        epoch: &str,
    ) -> Result<Option<(i64, Option<u64>)>, StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT key_generation, rekeyed_at FROM epochs WHERE site = $1 AND epoch = $2",
        )?;
        Ok(query
            .query_row(params![site, epoch], |row| {
                let first: Option<i64> = row.get(1)?;
                Ok((row.get(0)?, first.map(from_sql)))
            })
            .optional()?)
    }

    /// A report of the epoch is signed by this key: those after it may not be by an older one.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn rekey_epoch(&self, report: &Report, generation: i64) -> Result<(), StoreError> {
        let text = "UPDATE epochs SET key_generation = $1, rekeyed_at = $2
             WHERE site = $3 AND epoch = $4
               AND (key_generation < $1 OR rekeyed_at > $2)";
        self.db.execute(
            text,
            params![
                generation,
                to_sql(report.number),
                report.site.as_str(),
                report.epoch.as_str()
            ],
        )?;
        Ok(())
    }

    /// Starts an epoch with the report that came first of it. It becomes the newest, unless two
    /// trusted clocks agree that it is older than the epoch that is newest now (a stick that was
    /// found late).
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn start_epoch(&self, report: &Report, key_generation: i64) -> Result<(), StoreError> {
        let site = report.site.as_str();
        let newest: Option<(i64, i64, Option<i64>)> = self
            .db
            .query_row(
                "SELECT e.ordinal, e.key_generation,
                        (SELECT MIN(r.wall_ms) FROM reports r
                          WHERE r.site = e.site AND r.epoch = e.epoch AND r.clock_trusted = 1)
                   FROM epochs e WHERE e.site = $1 ORDER BY e.ordinal DESC LIMIT 1",
                params![site],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        let ordinal = match newest {
            None => 0,
            Some((ordinal, generation, since_ms)) => {
                let found_late = report.at.trusted
                    && since_ms.is_some_and(|since_ms| report.at.wall_ms < since_ms);
                if key_generation < generation || (key_generation == generation && found_late) {
                    let lowest = "SELECT MIN(ordinal) - 1 FROM epochs WHERE site = $1";
                    self.db.query_row(lowest, params![site], |row| row.get(0))?
                } else {
                    ordinal + 1
                }
            }
        };
        let text = "INSERT INTO epochs (site, epoch, ordinal, key_generation, acked)
             VALUES ($1, $2, $3, $4, 0)";
        self.db.execute(
            text,
            params![site, report.epoch.as_str(), ordinal, key_generation],
        )?;
        Ok(())
    }

    /// Records a report. The place must be free.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_report(&self, new: &NewReport<'_>) -> Result<(), StoreError> {
        let report = new.report;
        let (site, epoch) = (report.site.as_str(), report.epoch.as_str());
        let text = "INSERT INTO reports (site, epoch, number, digest, previous, kind, envelope,
                via, received_ms, wall_ms, lower_bound_ms, clock_trusted)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        self.db.prepare_cached(text)?.execute(params![
            site,
            epoch,
            to_sql(report.number),
            new.digest,
            report.previous.map(|digest| digest.to_string()),
            kind(&report.event),
            new.envelope,
            new.via,
            new.received_ms,
            report.at.wall_ms,
            report.at.lower_bound_ms,
            i64::from(report.at.trusted)
        ])?;
        match &report.event {
            ReportEvent::Generation(event) => {
                self.add_observation(report, event, runs(event.state))
            }
            ReportEvent::Observation(event) => self.add_observation(report, event, true),
            ReportEvent::Cluster(event) => self.add_cluster(report, event),
            ReportEvent::Gap { from, to, reason } => {
                let text = "INSERT INTO declared_gaps
                     (site, epoch, number, first_lost, last_lost, reason)
                     VALUES ($1, $2, $3, $4, $5, $6)";
                let number = to_sql(report.number);
                let lost = (to_sql(*from), to_sql(*to));
                self.db
                    .execute(text, params![site, epoch, number, lost.0, lost.1, reason])?;
                Ok(())
            }
            ReportEvent::Refusal {
                source,
                rule,
                message,
            } => {
                let row = (source.as_str(), rule.as_str(), message.as_str());
                self.add_site_refusal(site, epoch, report.number, row)
            }
            // Kept whole in `reports`; they change nothing about what runs.
            _ => self.add_outcome(report),
        }
    }

    /// Moves an epoch's acknowledgement up to the highest number below which nothing is missing
    /// that the site has not declared lost, and returns it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn advance_ack(&self, site: &str, epoch: &str) -> Result<u64, StoreError> {
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

    /// What a cluster shows by itself: it counts as a bundle only by the base commit.
    fn add_cluster(&self, report: &Report, event: &ClusterEvent) -> Result<(), StoreError> {
        let (site, epoch) = (report.site.as_str(), report.epoch.as_str());
        let number = to_sql(report.number);
        let snapshot = event.snapshot.as_ref();
        let text = "INSERT INTO observations (site, epoch, number, role, bundle_number,
                index_digest, base_commit, snapshot_digest, state, running, message, assignments)
             VALUES ($1, $2, $3, $4, 0, '', $5, $6, $7, 1, $8, $9)";
        let set = self.keep_set(&followed(event))?;
        self.db.prepare_cached(text)?.execute(params![
            site,
            epoch,
            number,
            event.stream.role.as_str(),
            event.base_commit(),
            snapshot.map_or_else(String::new, |snapshot| snapshot.digest.to_string()),
            cluster_state(event.state),
            event.message,
            set
        ])?;
        Ok(())
    }

    fn add_observation(
        &self,
        report: &Report,
        event: &GenerationEvent,
        running: bool,
    ) -> Result<(), StoreError> {
        let (site, epoch) = (report.site.as_str(), report.epoch.as_str());
        let number = to_sql(report.number);
        let text = "INSERT INTO observations (site, epoch, number, role, bundle_number,
                index_digest, base_commit, snapshot_digest, state, running, message, assignments)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let set = self.keep_set(&assignments(event))?;
        self.db.prepare_cached(text)?.execute(params![
            site,
            epoch,
            number,
            event.stream.role.as_str(),
            to_sql(event.number),
            event.index.to_string(),
            event.snapshot.base.commit,
            event.snapshot.digest.to_string(),
            state_name(event.state),
            i64::from(running),
            event.message,
            set
        ])?;
        if let Some(left) = &event.reverted_from {
            let text = "INSERT INTO reverts (site, epoch, number, bundle_number, index_digest,
                    decided_by, reason) VALUES ($1, $2, $3, $4, $5, $6, $7)";
            self.db.execute(
                text,
                params![
                    site,
                    epoch,
                    number,
                    to_sql(left.number),
                    left.index.to_string(),
                    left.decided_by,
                    left.reason
                ],
            )?;
        }
        Ok(())
    }
}

fn kind(event: &ReportEvent) -> &'static str {
    match event {
        ReportEvent::Generation(_) => "generation",
        ReportEvent::Observation(_) => "observation",
        ReportEvent::Cluster(_) => "cluster",
        ReportEvent::Refusal { .. } => "refusal",
        ReportEvent::Gap { .. } => "gap",
        ReportEvent::Decision { .. } => "decision",
        ReportEvent::OrderDone { .. } => "order_done",
        ReportEvent::OrderRefused { .. } => "order_refused",
        ReportEvent::SiteValues { .. } => "site_values",
        ReportEvent::FreshnessSlip { .. } => "freshness_slip",
        ReportEvent::Started { .. } => "started",
        _ => "other",
    }
}
