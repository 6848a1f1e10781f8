//! What sites report to have refused: sticks, bundles and commands, each with the rule and the reason.
//!
//! What comes in: checked reports. What goes out: per site the newest refusals. Reports that an older hub
//! took in without reading them are read once, when its store is opened.

use std::collections::BTreeMap;

use super::db::params;
use outhaul_bundle::report::{Report, ReportEvent};
use outhaul_signer::Envelope;
use serde::Serialize;

use super::current::{CHOSEN, SitePage};
use super::{Session, StoreError, from_sql, to_sql};

/// Refusals of one site that are shown.
const SHOWN_PER_SITE: i64 = 3;

/// Something that a site refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteRefusal {
    /// Number of the report about it.
    pub report: u64,
    /// The file or address that it came from.
    pub source: String,
    /// Which rule refused it.
    pub rule: String,
    /// What the site expected and found.
    pub message: String,
    /// When, by the site's clock, milliseconds since 1970.
    pub wall_ms: i64,
    /// When the hub received the report, milliseconds since 1970.
    pub received_ms: i64,
}

impl Session<'_> {
    /// Records a refusal that a site reports: `(source, rule, message)`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(super) fn add_site_refusal(
        &self,
        site: &str,
        epoch: &str,
        number: u64,
        (source, rule, message): (&str, &str, &str),
    ) -> Result<(), StoreError> {
        let text = "INSERT INTO site_refusals (site, epoch, number, source, rule, message)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (site, epoch, number) DO NOTHING";
        let number = to_sql(number);
        self.db
            .prepare_cached(text)?
            .execute(params![site, epoch, number, source, rule, message])?;
        Ok(())
    }

    /// The newest refusals of each site, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn site_refusals(
        &self,
        page: SitePage<'_>,
    ) -> Result<BTreeMap<String, Vec<SiteRefusal>>, StoreError> {
        let text = format!(
            "{CHOSEN} SELECT site, number, source, rule, message, wall_ms, received_ms FROM (
                SELECT f.site, f.number, f.source, f.rule, f.message, r.wall_ms, r.received_ms,
                       ROW_NUMBER() OVER (PARTITION BY f.site
                                          ORDER BY e.ordinal DESC, f.number DESC) AS place
                  FROM chosen JOIN site_refusals f ON f.site = chosen
                  JOIN epochs e ON e.site = f.site AND e.epoch = f.epoch
                  JOIN reports r
                    ON r.site = f.site AND r.epoch = f.epoch AND r.number = f.number) AS ranked
             WHERE place <= $8 ORDER BY site, place"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let (first, environment, named, only, kind, limit, offset) = page.bounds();
        let chosen = params![
            first,
            environment,
            named,
            only,
            kind,
            limit,
            offset,
            SHOWN_PER_SITE
        ];
        let mut rows = query.query(chosen)?;
        let mut found: BTreeMap<String, Vec<SiteRefusal>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let refusal = SiteRefusal {
                report: from_sql(row.get(1)?),
                source: row.get(2)?,
                rule: row.get(3)?,
                message: row.get(4)?,
                wall_ms: row.get(5)?,
                received_ms: row.get(6)?,
            };
            found.entry(row.get(0)?).or_default().push(refusal);
        }
        Ok(found)
    }

    /// Reads the refusals that were taken in before there was a table for them.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn read_older_refusals(&self) -> Result<(), StoreError> {
        let mut query = self.db.prepare_cached(
            "SELECT site, epoch, number, envelope FROM reports WHERE kind = 'refusal'",
        )?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (site, epoch): (String, String) = (row.get(0)?, row.get(1)?);
            let bytes: Vec<u8> = row.get(3)?;
            // They were checked when they were taken in.
            let report = Envelope::from_json(&bytes)
                .ok()
                .and_then(|envelope| Report::from_bytes(envelope.unverified_payload()).ok());
            if let Some(ReportEvent::Refusal {
                source,
                rule,
                message,
            }) = report.map(|report| report.event)
            {
                let number = from_sql(row.get(2)?);
                self.add_site_refusal(&site, &epoch, number, (&source, &rule, &message))?;
            }
        }
        Ok(())
    }
}
