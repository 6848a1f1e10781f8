//! Under which numbering a machine reports whose reports were refused.
//!
//! What comes in: a report that was refused as contradicting. What goes out: the numbering that has the same event with the same times: what
//! waits at a site goes to the hub again when its reports are renumbered, so only that machine has it. It decides nothing.

use outhaul_bundle::report::Report;
use outhaul_signer::Envelope;

use super::db::{OptionalExtension as _, params};
use super::{ReportPosition, Session, StoreError, from_sql};

/// Most reports that are compared: those made in the same millisecond.
const MAX_COMPARED: i64 = 1_000;

impl Session<'_> {
    /// The numbering, begun after that of the refused report with this digest, that holds the same event; the newest where several do.
    /// `None` where none does, or where the digest is of no refused report.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn renumbered(&self, site: &str, digest: &str) -> Result<Option<String>, StoreError> {
        let refused: Option<Vec<u8>> = self
            .db
            .query_row(
                "SELECT envelope FROM site_conflicts WHERE site = $1 AND digest = $2",
                params![site, digest],
                |row| row.get(0),
            )
            .optional()?;
        let Some(refused) = refused.as_deref().and_then(report_of) else {
            return Ok(None);
        };
        let mut query = self.db.prepare_cached(
            "SELECT r.epoch, r.number FROM reports r
               JOIN epochs e ON e.site = r.site AND e.epoch = r.epoch
               JOIN epochs o ON o.site = r.site
              WHERE r.site = $1 AND o.epoch = $2 AND r.wall_ms = $3 AND r.lower_bound_ms = $4 AND e.ordinal > o.ordinal
              ORDER BY e.ordinal DESC, r.number LIMIT $5",
        )?;
        let key = params![
            site,
            refused.epoch.as_str(),
            refused.at.wall_ms,
            refused.at.lower_bound_ms,
            MAX_COMPARED
        ];
        let rows = query.query_map(key, |row| {
            Ok(ReportPosition {
                site: site.to_owned(),
                epoch: row.get(0)?,
                number: from_sql(row.get(1)?),
            })
        })?;
        let places: Vec<ReportPosition> = rows.collect::<Result<_, _>>()?;
        // One after the other: an envelope may be large, and this holds the database.
        for place in places {
            let envelopes = self.envelopes_at(std::slice::from_ref(&place))?;
            let report = envelopes.get(&place).and_then(|bytes| report_of(bytes));
            if report.is_some_and(|found| found.at == refused.at && found.event == refused.event) {
                return Ok(Some(place.epoch));
            }
        }
        Ok(None)
    }
}

/// The report in an envelope whose signature was checked before it was recorded.
fn report_of(envelope: &[u8]) -> Option<Report> {
    let envelope = Envelope::from_json(envelope).ok()?;
    Report::from_bytes(envelope.unverified_payload()).ok()
}
