//! What a site's reports say of its present state, worked out from the reports themselves.
//!
//! What comes in: the verified reports of one site, each with when a hub received it and which of the site's epochs is
//! later. What goes out: what a hub's store keeps as the site's state at that moment, and since when the site was well.
//! Pure: order of arrival does not matter. The hub's store says the same in SQL, and a test compares both.

use std::collections::BTreeMap;

use outhaul_bundle::index::Snapshot;
use outhaul_bundle::report::{
    ClusterEvent, ClusterState, ComplianceStatus, GenerationEvent, GenerationState, Report,
    ReportEvent,
};

use crate::facts::{
    Attempt, Newest, ObservedAssignment, ObservedAssignments, Restored, Running, SiteState,
};

/// A verified report.
#[derive(Debug, Clone)]
pub struct SeenReport {
    /// Which of the site's epochs it belongs to: the highest is the present one.
    pub ordinal: i64,
    /// Digest of its bytes.
    pub digest: String,
    /// By which transport it came.
    pub via: String,
    /// When the hub received it, milliseconds since 1970.
    pub received_ms: i64,
    /// What it says.
    pub report: Report,
}

/// Numbers of reports that a hub had and keeps no longer, as first and last in order, by numbering: they are not missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed(pub BTreeMap<String, Vec<(u64, u64)>>);

impl Removed {
    /// Those of one numbering.
    pub fn of(&self, epoch: &str) -> &[(u64, u64)] {
        self.0.get(epoch).map_or(&[], Vec::as_slice)
    }
}

/// Fills in what the reports that were received by `at_ms` say of `site`.
pub fn present(site: &mut SiteState, reports: &[SeenReport], removed: &Removed, at_ms: i64) {
    let seen = || reports.iter().filter(|one| one.received_ms <= at_ms);
    let Some(ordinal) = seen().map(|one| one.ordinal).max() else {
        return;
    };
    let epoch: BTreeMap<u64, &SeenReport> = seen()
        .filter(|one| one.ordinal == ordinal)
        .map(|one| (one.report.number, one))
        .collect();
    let Some(newest) = epoch.values().next_back() else {
        return;
    };
    site.declared_lost = declared_lost(&epoch);
    let removed = removed.of(newest.report.epoch.as_str());
    let gaps = missing(&epoch, &site.declared_lost).into_iter();
    let from = |number| &removed[removed.partition_point(|(_, last)| *last < number)..];
    let left = gaps.flat_map(|gap| without(gap, from(gap.0)));
    site.missing = left.collect();
    site.newest = Some(Newest {
        epoch: newest.report.epoch.to_string(),
        number: newest.report.number,
        digest: newest.digest.clone(),
        via: newest.via.clone(),
        received_ms: newest.received_ms,
        wall_ms: newest.report.at.wall_ms,
        clock_trusted: newest.report.at.trusted,
        acked: site
            .missing
            .first()
            .map_or(newest.report.number, |(first, _)| first - 1),
    });
    let running = epoch.values().rev().find_map(|one| running(one));
    // Bundles are numbered from 1: with nothing running, every one is above.
    let above = running.as_ref().map_or(0, |running| running.bundle);
    site.attempt = attempt(&epoch, above);
    site.running = running;
}

/// When a report was made, by the site's own time: its clock, or what it knows to be past where that is later.
pub fn made_ms(report: &Report) -> i64 {
    report.at.wall_ms.max(report.at.lower_bound_ms)
}

/// Since when the hub has had reports without a break that a bundle from `first` on is well, as far back as `enough_ms`;
/// `None` when the newest do not say so. A report that a restore of the hub made void ends the run, and so does one that is
/// missing or no longer kept.
pub fn well_since(
    site: &SiteState,
    (reports, removed): (&[SeenReport], &Removed),
    first: u64,
    (enough_ms, at_ms): (i64, i64),
    restored: Option<Restored>,
) -> Option<i64> {
    let (newest, running) = (site.newest.as_ref()?, site.running.as_ref()?);
    let removed = removed.of(&newest.epoch);
    let mut observed: Vec<(&SeenReport, Running)> = reports
        .iter()
        .filter(|one| one.received_ms <= at_ms && one.report.epoch.as_str() == newest.epoch)
        .filter(|one| one.report.number <= running.report)
        .filter_map(|one| Some((one, self::running(one)?)))
        .collect();
    observed.sort_by_key(|(one, _)| std::cmp::Reverse(one.report.number));
    let mut since: Option<i64> = None;
    let mut above = running.report;
    for (one, seen) in observed {
        let number = one.report.number;
        // A cluster that follows the repository directly names no bundle, but the commit that it shows.
        let is_enough =
            seen.bundle >= first || (seen.bundle == 0 && seen.base_commit == running.base_commit);
        let is_well = seen.role == site.role
            && is_enough
            && seen.state == state_name(GenerationState::Active)
            && seen
                .assignments
                .values()
                .all(|result| result.status == status_name(ComplianceStatus::Compliant));
        let mut lost = site.missing.iter().chain(&site.declared_lost);
        let is_lost = lost.any(|(from, to)| *from < above && *to > number)
            || some_between(removed, number, above);
        let counts =
            restored.is_none_or(|restored| restored.counts(one.received_ms, made_ms(&one.report)));
        let counts = counts
            && site
                .counts_from_ms
                .is_none_or(|from_ms| one.received_ms >= from_ms);
        if !is_well || !counts || is_lost {
            break;
        }
        since = Some(since.map_or(seen.received_ms, |known| known.min(seen.received_ms)));
        if since.is_some_and(|since| since <= enough_ms) {
            break;
        }
        above = number;
    }
    since
}

/// What a report says of a bundle, and whether that is what the site runs.
fn observation(report: &Report) -> Option<(&GenerationEvent, bool)> {
    match &report.event {
        ReportEvent::Generation(event) => Some((event, runs(event.state))),
        ReportEvent::Observation(event) => Some((event, true)),
        _ => None,
    }
}

/// What a report states that the site runs, if it states that.
fn running(one: &SeenReport) -> Option<Running> {
    let seen = |role: &str, base: (&str, Option<&Snapshot>), state: &str, message: &str| Running {
        report: one.report.number,
        digest: one.digest.clone(),
        received_ms: one.received_ms,
        made_ms: made_ms(&one.report),
        role: role.to_owned(),
        bundle: 0,
        index: String::new(),
        base_commit: base.0.to_owned(),
        environment_commit: base.1.map(|snapshot| snapshot.environment.commit.clone()),
        state: state.to_owned(),
        message: message.to_owned(),
        webhook: String::new(),
        assignments: ObservedAssignments::default(),
    };
    if let ReportEvent::Cluster(event) = &one.report.event {
        let (role, state) = (event.stream.role.as_str(), cluster_state(event.state));
        return Some(Running {
            webhook: event
                .webhook
                .as_ref()
                .map_or_else(String::new, |made_of| made_of.sender.to_string()),
            assignments: followed(event).into(),
            ..seen(
                role,
                (event.base_commit(), event.snapshot.as_ref()),
                state,
                &event.message,
            )
        });
    }
    let (event, true) = observation(&one.report)? else {
        return None;
    };
    let (role, snapshot) = (event.stream.role.as_str(), &event.snapshot);
    let base = (snapshot.base.commit.as_str(), Some(snapshot));
    Some(Running {
        bundle: event.number,
        index: event.index.to_string(),
        assignments: assignments(event).into(),
        ..seen(role, base, state_name(event.state), &event.message)
    })
}

/// What a cluster applies by itself, by assignment. It states no version of a config.
pub fn followed(event: &ClusterEvent) -> BTreeMap<String, ObservedAssignment> {
    let mut results: Vec<_> = event.assignments.iter().collect();
    results.sort_by_key(|result| gravity(result.status));
    results
        .into_iter()
        .map(|result| {
            let observed = ObservedAssignment {
                status: status_name(result.status).to_owned(),
                config_version: String::new(),
                message: result.message.clone(),
            };
            (result.name.to_string(), observed)
        })
        .collect()
}

/// The state of a cluster in the words of a bundle's, as far as they mean the same.
pub fn cluster_state(state: ClusterState) -> &'static str {
    match state {
        ClusterState::Synced => state_name(GenerationState::Active),
        ClusterState::Failing => state_name(GenerationState::Failed),
        other => other.as_str(),
    }
}

/// Each assignment's result; of one that is reported twice the worse one.
pub fn assignments(event: &GenerationEvent) -> BTreeMap<String, ObservedAssignment> {
    let mut results: Vec<_> = event.assignments.iter().collect();
    results.sort_by_key(|result| gravity(result.status));
    results
        .into_iter()
        .map(|result| {
            let observed = ObservedAssignment {
                status: status_name(result.status).to_owned(),
                config_version: result.config_version.to_string(),
                message: result.message.clone(),
            };
            (result.name.to_string(), observed)
        })
        .collect()
}

/// The newest that the site reported about a bundle above the one that it runs.
fn attempt(epoch: &BTreeMap<u64, &SeenReport>, above: u64) -> Option<Attempt> {
    let settled = |state| matches!(state, GenerationState::Active | GenerationState::Superseded);
    let on_the_way = epoch.iter().rev().find_map(|(number, one)| {
        let (event, _) = observation(&one.report)?;
        (event.number > above && !settled(event.state)).then(|| Attempt {
            report: *number,
            bundle: event.number,
            state: state_name(event.state).to_owned(),
            message: event.message.clone(),
            decided_by: None,
        })
    });
    let left = epoch.iter().rev().find_map(|(number, one)| {
        let left = observation(&one.report)?.0.reverted_from.as_ref()?;
        (left.number > above).then(|| Attempt {
            report: *number,
            bundle: left.number,
            state: "reverted".to_owned(),
            message: left.reason.clone(),
            decided_by: left.decided_by.clone(),
        })
    });
    match (on_the_way, left) {
        // Reported once, as of a bundle that was left for another: that it was left.
        (Some(way), Some(left)) if left.report >= way.report => Some(left),
        (None, left) => left,
        (way, _) => way,
    }
}

fn declared_lost(epoch: &BTreeMap<u64, &SeenReport>) -> Vec<(u64, u64)> {
    let mut lost: Vec<(u64, u64)> = epoch
        .values()
        .filter_map(|one| match &one.report.event {
            ReportEvent::Gap { from, to, .. } => Some((*from, *to)),
            _ => None,
        })
        .collect();
    lost.sort_by_key(|(from, _)| *from);
    lost
}

/// Numbers below the newest that are neither here nor declared lost.
fn missing(epoch: &BTreeMap<u64, &SeenReport>, declared: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut next = 1;
    for number in epoch.keys() {
        if *number > next {
            found.extend(without((next, number - 1), declared));
        }
        next = number + 1;
    }
    found
}

/// What is left of a range when `declared` ranges (sorted) are taken out.
pub fn without((first, last): (u64, u64), declared: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    let mut next = first;
    for &(from, to) in declared {
        if from > last {
            break;
        }
        if to < next {
            continue;
        }
        if from > next {
            left.push((next, from - 1));
        }
        next = next.max(to.saturating_add(1));
    }
    if next <= last {
        left.push((next, last));
    }
    left
}

/// Whether numbers of `removed` (sorted, and none overlaps another) lie between two numbers.
pub fn some_between(removed: &[(u64, u64)], number: u64, above: u64) -> bool {
    if above <= number.saturating_add(1) {
        return false;
    }
    let next = removed.partition_point(|(_, last)| *last <= number);
    removed.get(next).is_some_and(|(first, _)| *first < above)
}

/// Whether a state shows what the site runs, rather than what is on its way or was turned away.
pub fn runs(state: GenerationState) -> bool {
    use GenerationState as S;
    matches!(state, S::Applying | S::Soaking | S::Active | S::Failed)
}

/// How bad a status is.
pub fn gravity(status: ComplianceStatus) -> u8 {
    match status {
        ComplianceStatus::Compliant => 0,
        ComplianceStatus::InProgress => 1,
        ComplianceStatus::Drifted => 2,
        ComplianceStatus::Failed => 3,
    }
}

/// A state as reports write it.
pub fn state_name(state: GenerationState) -> &'static str {
    match state {
        GenerationState::Received => "received",
        GenerationState::Verified => "verified",
        GenerationState::Staged => "staged",
        GenerationState::Gated => "gated",
        GenerationState::Applying => "applying",
        GenerationState::Soaking => "soaking",
        GenerationState::Active => "active",
        GenerationState::Superseded => "superseded",
        GenerationState::Rejected => "rejected",
        GenerationState::Failed => "failed",
        GenerationState::Reverted => "reverted",
    }
}

/// A status as reports write it.
pub fn status_name(status: ComplianceStatus) -> &'static str {
    match status {
        ComplianceStatus::Compliant => "compliant",
        ComplianceStatus::Drifted => "drifted",
        ComplianceStatus::Failed => "failed",
        ComplianceStatus::InProgress => "in_progress",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_numbers_are_not_missing() {
        assert_eq!(without((2, 9), &[]), [(2, 9)]);
        assert_eq!(without((2, 9), &[(2, 9)]), []);
        assert_eq!(
            without((2, 9), &[(1, 3), (5, 5), (9, 20)]),
            [(4, 4), (6, 8)]
        );
        assert_eq!(without((2, 9), &[(10, 12)]), [(2, 9)]);
        assert_eq!(without((2, 9), &[(3, 6), (4, 5)]), [(2, 2), (7, 9)]);
    }

    #[test]
    fn removed_numbers_are_found_between_two_numbers_only() {
        let removed = [(3, 4), (7, 7)];
        let between = |number, above| some_between(&removed, number, above);
        assert!(between(2, 5) && between(6, 8) && between(1, 9));
        assert!(!between(1, 2) && !between(5, 6) && !between(2, 3) && !between(8, 20));
    }
}
