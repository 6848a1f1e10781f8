//! The values that a site set itself, as it reported them last.
//!
//! What comes in: the store and a site. What goes out: one row per value, with who set it, why, and whether what runs uses it. It
//! reads one report, which its site's key signed, and decides nothing.

use outhaul_bundle::hub_api::SiteValueRow;
use outhaul_bundle::report::{Report, ReportEvent};
use outhaul_signer::Envelope;

use outhaul_gate::time;
use outhaul_store::{Session, StoreError};

/// The values of `site`, sorted by assignment and key.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn of_site(session: &Session<'_>, site: &str) -> Result<Vec<SiteValueRow>, StoreError> {
    let Some(received) = session.newest_values(site)? else {
        return Ok(Vec::new());
    };
    // It was checked when it was taken in.
    let report = Envelope::from_json(&received.envelope)
        .ok()
        .and_then(|envelope| Report::from_bytes(envelope.unverified_payload()).ok());
    let Some(ReportEvent::SiteValues { values, .. }) = report.map(|report| report.event) else {
        return Ok(Vec::new());
    };
    let row = |one: outhaul_bundle::report::SiteValue| SiteValueRow {
        site: site.to_owned(),
        assignment: one.assignment.to_string(),
        key: one.key,
        value: one.value,
        who: one.who,
        reason: one.reason,
        set_at: time::rfc3339(one.at_ms),
        unused: one.unused,
        report: received.number,
    };
    Ok(values.into_iter().map(row).collect())
}
