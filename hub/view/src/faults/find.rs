//! From the reports of one site, the newest first: what is not well, when it was last well, and what happened between the two.
//!
//! What comes in: reports. What goes out: faults without what the store knows of other sites. It is pure. A bundle that failed is a fault
//! until a newer one, or the same, is well; an assignment is one while the newest look says that it failed or drifted.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::hub_api::{FaultDetail, FaultKind, SiteAct, SiteFault, SiteLook};
use outhaul_bundle::index::KEPT;
use outhaul_bundle::report::{
    ComplianceStatus, GenerationEvent, GenerationState, Report, ReportEvent, StepResult,
};
use outhaul_gate::{fold, time};

use crate::report_text::report_text;

/// A report, and when the hub received it, milliseconds since 1970.
#[derive(Debug)]
pub(super) struct TimedReport {
    pub report: Report,
    pub received_ms: i64,
}

/// A report that says how something that was applied, or refused, does.
#[derive(Clone, Copy)]
struct Look<'a> {
    /// Its place among the reports.
    at: usize,
    read: &'a TimedReport,
    event: &'a GenerationEvent,
}

/// A bundle that did not do, as one report tells.
struct FailedBundle<'a> {
    at: usize,
    read: &'a TimedReport,
    number: u64,
    why: String,
    /// Which person left it.
    left_by: Option<String>,
    /// What is known of the bundle: of one that a person left, any report before.
    event: &'a GenerationEvent,
}

/// Whether a look at what runs was found, so that faults can be told at all.
pub(super) fn has_seen_it_run(read: &[TimedReport]) -> bool {
    looks(read).any(|look| look.event.state == GenerationState::Active)
}

/// The faults, the newest first.
pub(super) fn faults(read: &[TimedReport]) -> Vec<SiteFault> {
    let mut found: Vec<(usize, SiteFault)> = bundle_fault(read).into_iter().collect();
    found.extend(assignment_faults(read));
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, fault)| fault).collect()
}

fn generation(read: &TimedReport) -> Option<&GenerationEvent> {
    match &read.report.event {
        ReportEvent::Generation(event) | ReportEvent::Observation(event) => Some(event),
        _ => None,
    }
}

/// Every look at what runs, the newest first. What is on its way tells nothing yet.
fn looks(read: &[TimedReport]) -> impl Iterator<Item = Look<'_>> {
    read.iter().enumerate().filter_map(|(at, read)| {
        let event = generation(read)?;
        let is_look = matches!(
            event.state,
            GenerationState::Active | GenerationState::Failed
        );
        is_look.then_some(Look { at, read, event })
    })
}

/// The newest bundle that failed, unless it or a newer one is well since. Of bundles that failed one after the other for the same reason
/// it is the first.
fn bundle_fault(read: &[TimedReport]) -> Option<(usize, SiteFault)> {
    let active = |look: &Look<'_>| look.event.state == GenerationState::Active;
    let running = looks(read).find(active).map(|look| look.event.number);
    let is_well = |look: &Look<'_>| {
        let mut results = look.event.assignments.iter();
        results.all(|result| result.status == ComplianceStatus::Compliant)
    };
    let mut first: Option<FailedBundle<'_>> = None;
    for failed in failed_bundles(read) {
        // What ran before it failed ends no failure.
        let is_over = looks(read)
            .filter(active)
            .any(|look| look.at < failed.at && look.event.number >= failed.number);
        let is_another = first.as_ref().is_some_and(|known| {
            let was_well = looks(read).filter(active).any(|look| {
                (known.at..failed.at).contains(&look.at) && look.event.number >= failed.number
            });
            was_well || (known.number != failed.number && known.why != failed.why)
        });
        if is_another {
            break;
        }
        // One that is over hides no older one that is not.
        if !is_over {
            first = Some(failed);
        }
    }
    let failed = first?;
    // What was well and was left, or failed later, is well last in its own reports: what came then is what happened.
    let good = looks(read)
        .filter(active)
        .find(|look| look.at > failed.at && (look.event.number != failed.number || is_well(look)));
    let details = details(failed.event, None);
    let mut bad = site_look(failed.read, failed.event, details);
    bad.bundle = failed.number;
    bad.message = failed.why;
    // Of a bundle of which nothing but its end was told, what is at hand is of the bundle before.
    if failed.event.number != failed.number {
        bad.configs.clear();
    }
    let good_at = good.map(|good| good.at);
    let fault = SiteFault {
        kind: FaultKind::Bundle,
        assignments: bad
            .details
            .iter()
            .map(|one| one.assignment.clone())
            .collect(),
        acts: acts(read, failed.at, good_at),
        missing: missing(read, failed.at, good_at),
        no_longer_kept: Vec::new(),
        good_rendered: good.and_then(|good| rendered(read, good)),
        good: good.map(|good| site_look(good.read, good.event, Vec::new())),
        bad,
        left: running.is_some_and(|running| running < failed.number)
            && looks(read).next().is_some_and(|look| active(&look)),
        left_by: failed.left_by,
        others: BTreeMap::new(),
        others_failed: 0,
    };
    Some((failed.at, fault))
}

/// What reports tell of bundles that failed, were turned away or left again, the newest report first.
fn failed_bundles(read: &[TimedReport]) -> impl Iterator<Item = FailedBundle<'_>> {
    read.iter().enumerate().filter_map(|(at, one)| {
        let event = generation(one)?;
        if let Some(back) = &event.reverted_from {
            return Some(FailedBundle {
                at,
                read: one,
                number: back.number,
                // Of what a person decided it says who.
                why: back.reason.clone(),
                left_by: back.decided_by.clone(),
                event: last_event_of(read, at, back.number).unwrap_or(event),
            });
        }
        let is_bad = matches!(
            event.state,
            GenerationState::Failed | GenerationState::Rejected
        );
        is_bad.then(|| FailedBundle {
            at,
            read: one,
            number: event.number,
            why: event.message.clone(),
            left_by: None,
            event,
        })
    })
}

/// The newest look before one at a bundle that kept assignments: at one that kept none. Its commits are those from which what ran was
/// rendered.
fn rendered(read: &[TimedReport], good: Look<'_>) -> Option<SiteLook> {
    let kept = |event: &GenerationEvent| {
        let sources = &event.snapshot.workloads;
        sources.iter().any(|source| source.name.starts_with(KEPT))
    };
    if !kept(good.event) {
        return None;
    }
    let mut older = looks(read).filter(|look| {
        look.at > good.at && look.event.state == GenerationState::Active && !kept(look.event)
    });
    let found = older.next()?;
    Some(site_look(found.read, found.event, Vec::new()))
}

/// What was told last of a bundle before one place: its commits and its results.
fn last_event_of(read: &[TimedReport], before: usize, number: u64) -> Option<&GenerationEvent> {
    let told = || {
        read[before + 1..]
            .iter()
            .filter_map(generation)
            .filter(move |event| event.number == number && event.reverted_from.is_none())
    };
    told()
        .find(|event| !event.assignments.is_empty())
        .or_else(|| told().next())
}

/// Assignments of the bundle that runs which are not well, those together that broke in the same report.
fn assignment_faults(read: &[TimedReport]) -> Vec<(usize, SiteFault)> {
    let Some(newest) = looks(read).next() else {
        return Vec::new();
    };
    if newest.event.state != GenerationState::Active {
        return Vec::new();
    }
    let mut groups: BTreeMap<(usize, Option<usize>, ComplianceStatus), BTreeSet<String>> =
        BTreeMap::new();
    for name in fold::assignments(newest.event).keys() {
        let mut first: Option<(Look<'_>, ComplianceStatus)> = None;
        let mut good = None;
        for look in looks(read) {
            let Some(status) = status_of(look.event, name) else {
                continue;
            };
            match status {
                ComplianceStatus::Compliant => {
                    good = Some(look.at);
                    break;
                }
                ComplianceStatus::Failed | ComplianceStatus::Drifted => {
                    first = Some((look, status));
                }
                ComplianceStatus::InProgress => {}
            }
        }
        if let Some((first, status)) = first {
            let group = groups.entry((first.at, good, status)).or_default();
            group.insert(name.clone());
        }
    }
    let faults = groups
        .into_iter()
        .filter_map(|((at, good, status), names)| {
            let bad = &read[at];
            let details = details(generation(bad)?, Some(&names));
            let good_look = good.and_then(|at| {
                let read = &read[at];
                let event = generation(read)?;
                Some(Look { at, read, event })
            });
            let kind = match status {
                ComplianceStatus::Drifted => FaultKind::Drifted,
                _ => FaultKind::Failed,
            };
            let fault = SiteFault {
                kind,
                acts: acts(read, at, good),
                missing: missing(read, at, good),
                no_longer_kept: Vec::new(),
                bad: site_look(bad, generation(bad)?, details),
                good_rendered: good_look.and_then(|good| rendered(read, good)),
                good: good_look.map(|good| site_look(good.read, good.event, Vec::new())),
                assignments: names.into_iter().collect(),
                left: false,
                left_by: None,
                others: BTreeMap::new(),
                others_failed: 0,
            };
            Some((at, fault))
        });
    faults.collect()
}

fn status_of(event: &GenerationEvent, name: &str) -> Option<ComplianceStatus> {
    let results = event.assignments.iter();
    let named = results.filter(|result| result.name.as_str() == name);
    named
        .map(|result| result.status)
        .max_by_key(|status| fold::gravity(*status))
}

fn site_look(read: &TimedReport, event: &GenerationEvent, details: Vec<FaultDetail>) -> SiteLook {
    let at = read.report.at;
    SiteLook {
        epoch: read.report.epoch.to_string(),
        report: read.report.number,
        at: time::rfc3339(at.wall_ms),
        clock_trusted: at.trusted,
        received_at: time::rfc3339(read.received_ms),
        bundle: event.number,
        snapshot: event.snapshot.clone(),
        message: event.message.clone(),
        configs: fold::assignments(event)
            .into_iter()
            .map(|(name, one)| (name, one.config_version))
            .collect(),
        details,
    }
}

/// What is said of assignments that are not well; of `only` these, where it is given.
fn details(event: &GenerationEvent, only: Option<&BTreeSet<String>>) -> Vec<FaultDetail> {
    let is_bad = |status: ComplianceStatus| {
        matches!(status, ComplianceStatus::Failed | ComplianceStatus::Drifted)
    };
    let results = event.assignments.iter().filter(|result| {
        is_bad(result.status) && only.is_none_or(|only| only.contains(result.name.as_str()))
    });
    results
        .map(|result| FaultDetail {
            assignment: result.name.to_string(),
            status: fold::status_name(result.status).to_owned(),
            message: result.message.clone(),
            steps: result
                .steps
                .iter()
                .filter(|step| !step.is_held() && !matches!(step.status.as_str(), "ok" | "skipped"))
                .map(|step| match step.message.as_str() {
                    "" => format!("{}: {}", step.name, step.status),
                    message => format!("{}: {}: {message}", step.name, step.status),
                })
                .collect(),
            held: result.steps.iter().any(StepResult::is_held),
        })
        .collect()
}

/// The reports after the good look and before the bad one; without a good look all before the bad one.
fn between(read: &[TimedReport], bad: usize, good: Option<usize>) -> &[TimedReport] {
    let end = good.unwrap_or(read.len()).min(read.len());
    read.get(bad..end).unwrap_or_default()
}

/// What the site did between the two, the oldest first.
fn acts(read: &[TimedReport], bad: usize, good: Option<usize>) -> Vec<SiteAct> {
    let older = |at: usize| {
        read[at..].iter().find_map(|one| match &one.report.event {
            ReportEvent::Started { agent_version } => Some(agent_version.as_str()),
            _ => None,
        })
    };
    let mut found = Vec::new();
    for (place, one) in between(read, bad, good).iter().enumerate() {
        let event = &one.report.event;
        let mut text = report_text(event).text;
        let (kind, assignment) = match event {
            ReportEvent::SiteValues { who: Some(who), .. } => {
                text = format!("{who}: {text}");
                ("values", None)
            }
            ReportEvent::Decision {
                what, assignment, ..
            } if what == "rollback" => ("rollback", assignment.as_ref()),
            ReportEvent::Decision { assignment, .. } => ("decision", assignment.as_ref()),
            ReportEvent::OrderDone { .. } => ("order", None),
            ReportEvent::Started { agent_version } => match older(bad + place + 1) {
                Some(before) if before != agent_version => {
                    text = format!("the agent {agent_version} took the place of {before}");
                    ("agent", None)
                }
                _ => continue,
            },
            _ => continue,
        };
        found.push(SiteAct {
            report: one.report.number,
            at: time::rfc3339(one.report.at.wall_ms),
            kind: kind.to_owned(),
            assignment: assignment.map(ToString::to_string),
            text,
        });
    }
    found.reverse();
    found
}

/// Numbers between the two looks of which no report is here, within one numbering.
fn missing(read: &[TimedReport], bad: usize, good: Option<usize>) -> Vec<(u64, u64)> {
    let end = good.map_or(read.len(), |good| good + 1);
    let mut found = Vec::new();
    for pair in read.get(bad..end).unwrap_or_default().windows(2) {
        let [newer, older] = [&pair[0].report, &pair[1].report];
        if newer.epoch == older.epoch && newer.number > older.number + 1 {
            found.push((older.number + 1, newer.number - 1));
        }
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests;
