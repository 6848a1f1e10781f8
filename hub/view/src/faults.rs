//! What is not well at one site, since when, and what happened there meanwhile.
//!
//! What comes in: the store and a site. What goes out: [`SiteFaults`], for the API and the site's page. Reports are read from the newest
//! on, only as far back as the faults go and as [`Depth`] says; of other sites only how many have the same. It decides nothing.

mod find;

use outhaul_bundle::hub_api::{FaultKind, OtherSites, SiteFault, SiteFaults};
use outhaul_bundle::report::{ComplianceStatus, Report, ReportEvent};
use outhaul_gate::fold::without;
use outhaul_gate::time;
use outhaul_kit::text::printable;
use outhaul_signer::Envelope;
use outhaul_store::{ReceivedReport, Session, StoreError, TimelinePlace};

use crate::removed::RemovedPart;
use find::TimedReport;

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// For a page: the newest 1,000 reports, and nothing of other sites.
    Page,
    /// At most 10,000 reports, more than three months of a look every quarter of an hour, and what other sites run.
    Whole,
}

impl Depth {
    fn most_reports(self) -> u64 {
        match self {
            Self::Page => 1_000,
            Self::Whole => 10_000,
        }
    }
}

/// Reports read at once.
const AT_ONCE: u32 = 200;
/// Ranges of removed reports that are read for one fault; of more the lowest are one.
const RANGES_READ: usize = 1_000;

/// What is not well at `site`; `None` where none of this name is registered.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn of_site(
    session: &Session<'_>,
    site: &str,
    depth: Depth,
    now_ms: i64,
) -> Result<Option<SiteFaults>, StoreError> {
    let Some(registered) = session.site(site)? else {
        return Ok(None);
    };
    let mut read: Vec<TimedReport> = Vec::new();
    let mut before: Option<TimelinePlace> = None;
    let (mut faults, mut older_unread);
    loop {
        let page = session.timeline(site, before, AT_ONCE)?;
        let is_last = (page.len() as u64) < u64::from(AT_ONCE);
        before = page.last().map(|last| TimelinePlace {
            ordinal: last.ordinal,
            number: last.number,
        });
        read.extend(page.into_iter().filter_map(opened));
        faults = find::faults(&read);
        let is_settled = find::has_seen_it_run(&read)
            && faults.iter().all(|fault: &SiteFault| fault.good.is_some());
        older_unread = !is_last && !is_settled;
        if !older_unread || read.len() as u64 >= depth.most_reports() {
            break;
        }
    }
    for fault in &mut faults {
        say_removed(session, site, fault)?;
    }
    if depth == Depth::Whole {
        compare_others(session, site, &registered.role, &mut faults)?;
    }
    Ok(Some(SiteFaults {
        site: site.to_owned(),
        environment: registered.environment,
        cluster_type: registered.cluster_type,
        faults,
        reports_read: read.len() as u64,
        older_unread,
        read_at: time::rfc3339(now_ms),
    }))
}

/// How a site stands that follows the platform repository directly, by its newest report: it applies no bundle, so that no fault of one
/// is found there. `None` for one that takes bundles, or never reported.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn of_cluster(session: &Session<'_>, site: &str) -> Result<Option<String>, StoreError> {
    let newest = session.timeline(site, None, AT_ONCE)?;
    let shown = newest.into_iter().filter_map(opened).find_map(|read| {
        let is_shown = matches!(
            read.report.event,
            ReportEvent::Cluster(_) | ReportEvent::Generation(_) | ReportEvent::Observation(_)
        );
        is_shown.then_some(read)
    });
    let Some(TimedReport {
        report,
        received_ms,
    }) = shown
    else {
        return Ok(None);
    };
    let ReportEvent::Cluster(event) = &report.event else {
        return Ok(None);
    };
    let by = match &event.webhook {
        Some(made_of) => format!("by webhook of {}", made_of.sender),
        None => "by an agent that observes it".to_owned(),
    };
    let mut said = vec![event.message.clone()];
    let results = event.assignments.iter();
    let amiss = results.filter(|one| one.status != ComplianceStatus::Compliant);
    said.extend(amiss.map(|one| format!("`{}`: {}", one.name, one.message)));
    said.retain(|text| !text.is_empty());
    let mut said = said.join("; ");
    if !said.is_empty() {
        said.insert_str(0, ": ");
    }
    Ok(Some(format!(
        "follows the platform repository directly, known {by}: report {} of {} shows it `{}`{said}",
        report.number,
        time::rfc3339(received_ms),
        event.state.as_str()
    )))
}

/// A fault in one line.
pub fn headline(fault: &SiteFault) -> String {
    let names = fault.assignments.join(", ");
    let bundle = fault.bad.bundle;
    let text = match fault.kind {
        FaultKind::Bundle if fault.left => {
            format!("bundle {bundle} was left again: {}", fault.bad.message)
        }
        FaultKind::Bundle => format!("bundle {bundle} failed: {}", fault.bad.message),
        FaultKind::Failed => format!("{names} of bundle {bundle} failed: {}", fault.bad.message),
        _ => format!("{names} of bundle {bundle} is not as it was applied"),
    };
    printable(&text).into_owned()
}

/// A report as it was signed; it was checked when it was taken in. One that this hub cannot read any more is left out.
fn opened(received: ReceivedReport) -> Option<TimedReport> {
    let envelope = Envelope::from_json(&received.envelope).ok()?;
    let report = Report::from_bytes(envelope.unverified_payload()).ok()?;
    Some(TimedReport {
        report,
        received_ms: received.received_ms,
    })
}

/// What lies between the two looks and is no longer kept is not missing, and what happened there is not known.
fn say_removed(session: &Session<'_>, site: &str, fault: &mut SiteFault) -> Result<(), StoreError> {
    let bad = (fault.bad.epoch.clone(), fault.bad.report.saturating_sub(1));
    let good = fault.good.as_ref();
    let good = good.map(|good| (good.epoch.clone(), good.report.saturating_add(1)));
    let parts = match good {
        Some((epoch, from)) if epoch == bad.0 => vec![(epoch, (from, bad.1))],
        Some((epoch, from)) => vec![(epoch, (from, u64::MAX)), (bad.0, (1, bad.1))],
        None => vec![(bad.0, (1, bad.1))],
    };
    let mut gone: Vec<(u64, u64)> = Vec::new();
    for (epoch, part) in parts {
        gone.extend(RemovedPart::read(session, (site, &epoch), part, RANGES_READ)?.numbers());
    }
    gone.sort_unstable();
    let missing = fault.missing.iter().flat_map(|gap| without(*gap, &gone));
    fault.missing = missing.collect();
    fault.no_longer_kept = gone;
    Ok(())
}

/// How other sites do with what this one has.
fn compare_others(
    session: &Session<'_>,
    site: &str,
    role: &str,
    faults: &mut [SiteFault],
) -> Result<(), StoreError> {
    if faults.is_empty() {
        return Ok(());
    }
    let elsewhere = session.running_elsewhere(site)?;
    for fault in faults {
        for (assignment, config_version) in &fault.bad.configs {
            let is_meant = fault.assignments.is_empty() || fault.assignments.contains(assignment);
            let key = (assignment.clone(), config_version.clone());
            if let (true, Some((well, not_well))) = (is_meant, elsewhere.get(&key)) {
                let others = OtherSites {
                    well: *well,
                    not_well: *not_well,
                };
                fault.others.insert(assignment.clone(), others);
            }
        }
        if fault.kind == FaultKind::Bundle {
            fault.others_failed = session.others_that_failed(site, role, fault.bad.bundle)?;
        }
    }
    Ok(())
}
