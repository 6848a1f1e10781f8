//! Decisions whose time cannot be right, because the hub's clock was put back.
//!
//! What comes in: an export and its reports. What goes out: which decisions are dated before one that was made before them, and why one
//! cannot be made again as of its time. Numbers say in which order decisions were made; times are the hub's word.

use std::collections::BTreeMap;

use outhaul_gate::audit::Recorded;
use outhaul_gate::facts::Restored;
use outhaul_gate::fold::SeenReport;
use outhaul_gate::time::rfc3339;

use crate::read::{DecisionEntry, Export};

/// The decisions that are whole, in the order in which they were made.
pub fn whole(export: &Export) -> impl Iterator<Item = &Recorded> {
    export.decisions.iter().filter_map(|entry| match entry {
        DecisionEntry::Whole(recorded) => Some(&**recorded),
        DecisionEntry::Forgotten { .. } => None,
    })
}

/// The numbers of decisions that are dated before one that was made before them.
pub fn backwards(export: &Export) -> Vec<i64> {
    let mut latest_ms = i64::MIN;
    let mut found = Vec::new();
    for recorded in whole(export) {
        if recorded.at_ms < latest_ms {
            found.push(recorded.id);
        }
        latest_ms = latest_ms.max(recorded.at_ms);
    }
    found
}

/// The last restore by then.
pub fn restored_at(export: &Export, at_ms: i64) -> Option<Restored> {
    let mut by_then = export.restores.iter().filter(|one| one.at_ms <= at_ms);
    by_then.next_back().copied()
}

/// What a decision was decided on and is dated after it, where something is.
pub fn put_back(
    export: &Export,
    reports: &BTreeMap<String, Vec<SeenReport>>,
    recorded: &Recorded,
) -> Option<String> {
    let at_ms = recorded.at_ms;
    let before = whole(export).take_while(|one| one.id != recorded.id);
    let before = before.filter(|one| one.at_ms > at_ms).last();
    let on = recorded
        .evidence
        .iter()
        .find_map(|line| later(export, reports, (line, at_ms), before.is_some()))?;
    let before = before.map_or(String::new(), |one| {
        format!(
            "; decision {}, made before it, is of {}",
            one.id,
            rfc3339(one.at_ms)
        )
    });
    Some(format!(
        "its time, {}, lies before what it was decided on: {on}{before}: the hub's clock was put back",
        rfc3339(at_ms)
    ))
}

/// What of one line of evidence is dated after the decision. A registration alone may be a later one of the same site, unless a
/// decision before this one `is_later`.
fn later(
    export: &Export,
    reports: &BTreeMap<String, Vec<SeenReport>>,
    (line, at_ms): (&str, i64),
    is_later: bool,
) -> Option<String> {
    let parts: Vec<&str> = line.trim_end().split('\t').collect();
    let site = *parts.first()?;
    if let Some(digest) = parts.get(4) {
        let mut known = reports.get(site)?.iter();
        let report = known.find(|one| one.digest == *digest)?;
        return (report.received_ms > at_ms).then(|| {
            format!(
                "report {} of site `{site}` was received at {}",
                report.report.number,
                rfc3339(report.received_ms)
            )
        });
    }
    let enrolled_ms = export.sites.get(site)?.enrolled_ms;
    (is_later && enrolled_ms > at_ms)
        .then(|| format!("site `{site}` was registered at {}", rfc3339(enrolled_ms)))
}
