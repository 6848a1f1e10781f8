//! One site: what runs, what is desired, its keys and numberings, and its reports in order.
//!
//! What comes in: the store, a name, a place in the reports, and the time. What goes out: plain values for the page. The
//! rows are those of the API. It decides nothing, and reads no other site.

use std::collections::BTreeMap;

use outhaul_bundle::hub_api::SiteFaults;
use outhaul_bundle::report::Report;
use outhaul_signer::Envelope;
use serde::Serialize;

use super::faults;
use super::removed::RemovedPart;
use super::report_text::{plain, report_text};
use super::values;
use super::{AssignmentRow, Reading, RequestRow, SiteRow, newest_for, requests};
use outhaul_bundle::hub_api::SiteValueRow;
use outhaul_gate::time;
use outhaul_store::{
    EpochOfSite, ReceivedReport, RemovedInAll, RemovedRange, Session, SitePage, SiteState,
    StoreError, TimelinePlace,
};

/// Reports on one page.
const REPORTS_SHOWN: usize = 50;
/// Ranges of removed reports that are read of one numbering for a page: between two reports there is one, unless some are lost.
const RANGES_READ: usize = 500;

/// One site.
#[derive(Debug, Clone, Serialize)]
pub struct SiteView {
    /// As in the list of sites.
    pub row: SiteRow,
    /// Its assignments.
    pub assignments: Vec<AssignmentRow>,
    /// The values that it set itself.
    pub values: Vec<SiteValueRow>,
    /// The base commit of what runs.
    pub running_commit: Option<String>,
    /// The base commit of the newest bundle that is for it.
    pub desired_commit: Option<String>,
    /// When that one was signed, milliseconds since 1970.
    pub desired_signed_ms: Option<i64>,
    /// When it was registered, milliseconds since 1970.
    pub enrolled_ms: i64,
    /// When it was revoked.
    pub revoked_ms: Option<i64>,
    /// Its keys, the newest first: generation and id.
    pub keys: Vec<(i64, String)>,
    /// Its numberings, the newest first.
    pub epochs: Vec<EpochOfSite>,
    /// How much of each numbering is no longer kept.
    pub no_longer_kept: BTreeMap<String, RemovedInAll>,
    /// Requests for its name that wait.
    pub requests: Vec<RequestRow>,
    /// What is not well there, and since when; read on the newest page only.
    pub faults: Option<SiteFaults>,
    /// Its reports, the newest first.
    pub timeline: Vec<TimelineRow>,
    /// Where the next page begins.
    pub more: Option<String>,
    /// Whether this page begins with the newest report.
    pub is_newest: bool,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// A row of the timeline: a report, or numbers of which no report is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub enum TimelineRow {
    /// A report.
    Report {
        /// Its numbering.
        epoch: String,
        /// Its number.
        number: u64,
        /// Digest of its bytes.
        digest: String,
        /// What kind of event.
        kind: &'static str,
        /// A status word, where it has one.
        status: String,
        /// What it reports, in words.
        text: String,
        /// Assignments that are not as desired, with what the site reports of each.
        amiss: Vec<String>,
        /// When the hub received it, RFC 3339.
        received_at: String,
        /// When it was made, by the site's clock, RFC 3339.
        site_time: String,
        /// Whether that clock was set by something trustworthy.
        clock_trusted: bool,
        /// By which transport it came.
        via: String,
    },
    /// Numbers of which no report is here.
    Gap {
        /// The numbering.
        epoch: String,
        /// The first.
        from: u64,
        /// The last.
        to: u64,
        /// Whether the site declared them lost.
        declared: bool,
    },
    /// Numbers of which the reports were here and are no longer kept.
    Removed {
        /// The numbering.
        epoch: String,
        /// The first.
        from: u64,
        /// The last.
        to: u64,
        /// Since when, RFC 3339.
        since: String,
        /// By which rule, such as `older than 180 days`.
        rule: String,
        /// Who removed them.
        by: String,
    },
}

/// A place in a site's reports, as it stands in an address: `ORDINAL.NUMBER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineBefore(pub TimelinePlace);

impl std::str::FromStr for TimelineBefore {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let place = text.split_once('.').and_then(|(ordinal, number)| {
            Some(TimelinePlace {
                ordinal: ordinal.parse().ok()?,
                number: number.parse().ok()?,
            })
        });
        place.map(Self).ok_or_else(|| {
            "`before` is a place in the reports such as 0.51: follow the link on the page"
                .to_owned()
        })
    }
}

impl SiteView {
    /// Reads one site; `None` where none of this name is registered.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        name: &str,
        before: Option<TimelineBefore>,
        now_ms: i64,
    ) -> Result<Option<Self>, StoreError> {
        let Some(registered) = session.site(name)? else {
            return Ok(None);
        };
        let reading = Reading::of(session, SitePage::named(name), now_ms)?;
        let Some(state) = reading.sites.first().filter(|site| site.site == name) else {
            return Ok(None);
        };
        let Some(row) = reading.site_rows(now_ms).into_iter().next() else {
            return Ok(None);
        };
        let epochs = session.epochs_of(name)?;
        let at_most = u32::try_from(REPORTS_SHOWN + 1).unwrap_or(u32::MAX);
        let reports = session.timeline(name, before.map(|before| before.0), at_most)?;
        let more = reports
            .get(REPORTS_SHOWN)
            .and(reports.get(REPORTS_SHOWN - 1))
            .map(|last| format!("{}.{}", last.ordinal, last.number));
        let desired = newest_for(&reading.bundles, state);
        let sites: &[SiteState] = &reading.sites;
        Ok(Some(Self {
            assignments: reading.assignment_rows(),
            values: values::of_site(session, name)?,
            running_commit: state
                .running
                .as_ref()
                .map(|running| running.base_commit.clone())
                .filter(|commit| !commit.is_empty()),
            desired_commit: desired.map(|bundle| bundle.base_commit.clone()),
            desired_signed_ms: desired.map(|bundle| bundle.signed.issued_ms),
            enrolled_ms: registered.enrolled_ms,
            revoked_ms: registered.revoked_ms,
            keys: session
                .site_keys(name)?
                .into_iter()
                .map(|key| (key.generation, key.key_id))
                .collect(),
            requests: requests::rows(&session.requests_of(name)?, sites),
            faults: match before {
                None => faults::of_site(session, name, faults::Depth::Page, now_ms)?,
                Some(_) => None,
            },
            timeline: timeline(&reports, &epochs, &removed_of(session, name, &reports)?),
            epochs,
            no_longer_kept: session.removed_in_all(name)?,
            more,
            is_newest: before.is_none(),
            read_at: time::rfc3339(now_ms),
            row,
        }))
    }
}

/// The rows of one page. A report more than is shown is read, for what lies between it and the last one.
fn timeline(
    reports: &[ReceivedReport],
    epochs: &[EpochOfSite],
    removed: &BTreeMap<String, RemovedPart>,
) -> Vec<TimelineRow> {
    let mut rows = Vec::new();
    for (at, report) in reports.iter().take(REPORTS_SHOWN).enumerate() {
        rows.push(row(report));
        let next = reports
            .get(at + 1)
            .filter(|next| next.epoch == report.epoch);
        let below = next.map_or(0, |next| next.number);
        if report.number > below + 1 {
            let known = epochs.iter().find(|epoch| epoch.epoch == report.epoch);
            let lost = known.map_or(&[][..], |epoch| &epoch.declared_lost);
            let gone = removed.get(&report.epoch);
            let gone = gone.map_or(&[][..], |part| &part.ranges);
            let gap = (below + 1, report.number - 1);
            gaps(report, gap, (lost, gone), &mut rows);
        }
    }
    rows
}

/// What is no longer kept on the part of each numbering that the page has.
fn removed_of(
    session: &Session<'_>,
    site: &str,
    reports: &[ReceivedReport],
) -> Result<BTreeMap<String, RemovedPart>, StoreError> {
    let mut parts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (at, report) in reports.iter().enumerate() {
        // Below the one that is not shown the next page begins; below the last of a numbering everything may be gone.
        let from = match at < REPORTS_SHOWN {
            true => 1,
            false => report.number,
        };
        let part = parts.entry(&report.epoch);
        part.or_insert((from, report.number)).0 = from;
    }
    let mut found = BTreeMap::new();
    for (epoch, part) in parts {
        let read = RemovedPart::read(session, (site, epoch), part, RANGES_READ)?;
        found.insert(epoch.to_owned(), read);
    }
    Ok(found)
}

/// The numbers of a gap, those that the site declared lost and those that are no longer kept apart, the highest first.
fn gaps(
    report: &ReceivedReport,
    (from, to): (u64, u64),
    (lost, removed): (&[(u64, u64)], &[RemovedRange]),
    rows: &mut Vec<TimelineRow>,
) {
    let here = |first: u64, last: u64| (first.max(from), last.min(to));
    let mut parts: Vec<((u64, u64), TimelineRow)> = Vec::new();
    let gap = |(from, to): (u64, u64), declared| {
        let epoch = report.epoch.clone();
        let gap = TimelineRow::Gap {
            epoch,
            from,
            to,
            declared,
        };
        ((from, to), gap)
    };
    for (first, last) in lost {
        let (from, to) = here(*first, *last);
        if from <= to {
            parts.push(gap((from, to), true));
        }
    }
    for range in removed {
        let (from, to) = here(range.first, range.last);
        if from <= to {
            let row = TimelineRow::Removed {
                epoch: report.epoch.clone(),
                from,
                to,
                since: time::rfc3339(range.since_ms),
                rule: range.rule.clone(),
                by: range.by.clone(),
            };
            parts.push(((from, to), row));
        }
    }
    let mut known: Vec<(u64, u64)> = lost.to_vec();
    known.extend(removed.iter().map(|range| (range.first, range.last)));
    known.sort_unstable();
    let missing = outhaul_gate::fold::without((from, to), &known);
    parts.extend(missing.into_iter().map(|range| gap(range, false)));
    parts.sort_by_key(|(range, _)| std::cmp::Reverse(*range));
    rows.extend(parts.into_iter().map(|(_, row)| row));
}

fn row(received: &ReceivedReport) -> TimelineRow {
    // It was checked when it was taken in.
    let report = Envelope::from_json(&received.envelope)
        .ok()
        .and_then(|envelope| Report::from_bytes(envelope.unverified_payload()).ok());
    let report_text = match &report {
        Some(report) => report_text(&report.event),
        None => plain(
            "other",
            "this hub cannot read this report any more".to_owned(),
        ),
    };
    TimelineRow::Report {
        epoch: received.epoch.clone(),
        number: received.number,
        digest: received.digest.clone(),
        kind: report_text.kind,
        status: report_text.status,
        text: report_text.text,
        amiss: report_text.amiss,
        received_at: time::rfc3339(received.received_ms),
        site_time: time::rfc3339(received.wall_ms),
        clock_trusted: received.clock_trusted,
        via: received.via.clone(),
    }
}
