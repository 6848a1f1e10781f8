//! Chains of reports: what is on record at a place, and the order of a site's epochs.
//!
//! What comes in: a place; a report that begins an epoch, or is signed by a newer key. What goes out: the digest on record, the
//! key and place of an epoch (`many` asks for these). The order of epochs decides which of them is the present state. It writes no report (`added` does).

use outhaul_bundle::report::Report;
use serde::Serialize;

use super::db::{OptionalExtension as _, params};
use super::{Session, StoreError, to_sql};

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

    /// Puts another envelope in the place of the one of a report that is on record, or of one that is lost: of the same report, by its
    /// digest.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn replace_envelope(
        &self,
        place: &ReportPosition,
        digest: &str,
        envelope: &[u8],
    ) -> Result<(), StoreError> {
        let number = to_sql(place.number);
        let row = params![envelope, place.site, place.epoch, number, digest];
        let text = "UPDATE reports SET envelope = $1
             WHERE site = $2 AND epoch = $3 AND number = $4 AND digest = $5 AND part IS NULL";
        let of_file = self.db.execute(text, row)?;
        let text = "UPDATE report_envelopes SET envelope = $1
             WHERE site = $2 AND epoch = $3 AND number = $4
               AND part = (SELECT r.part FROM reports r
                            WHERE r.site = $2 AND r.epoch = $3 AND r.number = $4 AND r.digest = $5)";
        if of_file + self.db.execute(text, row)? > 0 {
            return Ok(());
        }
        let text = "SELECT part FROM reports
             WHERE site = $1 AND epoch = $2 AND number = $3 AND digest = $4 AND part IS NOT NULL";
        let key = params![place.site, place.epoch, number, digest];
        let part = self.db.query_row(text, key, |row| row.get::<_, i64>(0));
        let Some(part) = part.optional()? else {
            return Ok(());
        };
        self.make_part(part)?;
        let row = params![part, place.site, place.epoch, number, envelope];
        let text = "INSERT INTO report_envelopes (part, site, epoch, number, envelope) VALUES ($1, $2, $3, $4, $5)";
        self.db.execute(text, row)?;
        Ok(())
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
}
