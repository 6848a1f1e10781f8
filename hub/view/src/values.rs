//! The values that a site set itself, as it reported them last.
//!
//! What comes in: the store and a site. What goes out: one row per value, with who set it, why, and whether what runs uses it. It
//! reads one report, which its site's key signed, and decides nothing.

use outhaul_bundle::report::{Report, ReportEvent};
use outhaul_signer::Envelope;
use serde::Serialize;

use outhaul_gate::time;
use outhaul_store::{Session, StoreError};

/// A value that a site set itself, within what the centre opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SiteValueRow {
    /// The site.
    pub site: String,
    /// The assignment.
    pub assignment: String,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// Who set it, as they named themselves on site.
    pub who: String,
    /// Why, in their words.
    pub reason: Option<String>,
    /// When, by the site's clock, RFC 3339.
    pub set_at: String,
    /// Why what runs does not use it; absent when it does.
    pub unused: Option<String>,
    /// Number of the report that says so.
    pub report: u64,
}

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
