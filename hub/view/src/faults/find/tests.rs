//! Tests of the faults of one site: bundles that fail once, again, for another reason or by a person's word, and assignments.
//!
//! What comes in: reports in the shapes that agents write. What must come out: the reports before and after each fault.

use outhaul_bundle::Digest;
use outhaul_bundle::report::{RevertedFrom, StepResult};
use outhaul_test_kit::Site;

use super::*;

fn site() -> Site {
    Site::new("edge-1", "dev", "edge")
}

fn event(
    bundle: u64,
    state: GenerationState,
    status: ComplianceStatus,
    message: &str,
) -> GenerationEvent {
    let mut event = site().event(bundle, &format!("{bundle:040}"), state, status);
    let step = StepResult {
        name: "a.yaml".to_owned(),
        status: "failed".to_owned(),
        message: String::new(),
    };
    event.index = Digest::of(&bundle.to_be_bytes());
    event.assignments.truncate(1);
    event.assignments[0].name = "press-dev".parse().unwrap();
    event.assignments[0].message = message.to_owned();
    event.assignments[0].steps = vec![step];
    event.message = message.to_owned();
    event
}

fn seen(bundle: u64, state: GenerationState, status: ComplianceStatus) -> ReportEvent {
    ReportEvent::Generation(event(bundle, state, status, "as it is"))
}

fn well(bundle: u64) -> ReportEvent {
    seen(bundle, GenerationState::Active, ComplianceStatus::Compliant)
}

fn failed(bundle: u64, why: &str) -> ReportEvent {
    ReportEvent::Generation(event(
        bundle,
        GenerationState::Failed,
        ComplianceStatus::Compliant,
        why,
    ))
}

fn back(to: u64, from: u64, by: Option<&str>, why: &str) -> ReportEvent {
    let mut event = event(
        to,
        GenerationState::Active,
        ComplianceStatus::Compliant,
        "back",
    );
    event.reverted_from = Some(RevertedFrom {
        number: from,
        index: Digest::of(&from.to_be_bytes()),
        decided_by: by.map(str::to_owned),
        reason: why.to_owned(),
    });
    ReportEvent::Generation(event)
}

/// Reports in the order in which they were made, numbered from 1; `None` is one that is not here.
fn reports(events: Vec<Option<ReportEvent>>) -> Vec<TimedReport> {
    let mut site = site();
    let next = |(event, number): (Option<ReportEvent>, u64)| {
        site.next = number;
        site.at.wall_ms = 1_000 * i64::try_from(number).unwrap();
        let report = site.report(event?);
        let received_ms = 0;
        Some(TimedReport {
            report,
            received_ms,
        })
    };
    let mut read: Vec<TimedReport> = events.into_iter().zip(1..).filter_map(next).collect();
    read.reverse();
    read
}

fn of(events: Vec<ReportEvent>) -> Vec<SiteFault> {
    faults(&reports(events.into_iter().map(Some).collect()))
}

fn places(fault: &SiteFault) -> (Option<u64>, u64, u64) {
    let good = fault.good.as_ref().map(|good| good.report);
    (good, fault.bad.report, fault.bad.bundle)
}

#[test]
fn a_bundle_that_failed_and_was_left_is_a_fault_until_another_is_well() {
    let mut events = vec![
        well(1),
        well(1),
        failed(2, "no"),
        back(1, 2, None, "no"),
        well(1),
    ];
    let found = of(events.clone());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(places(&found[0]), (Some(2), 3, 2));
    assert!(found[0].left);
    assert_eq!(found[0].bad.message, "no");
    assert_eq!(found[0].left_by, None);
    events.push(well(3));
    assert_eq!(of(events), []);
}

#[test]
fn of_bundles_that_failed_for_one_reason_it_is_the_first_and_else_the_last() {
    let again = |why: &str| {
        vec![
            well(1),
            failed(2, "no"),
            back(1, 2, None, "no"),
            failed(3, why),
            back(1, 3, None, why),
        ]
    };
    assert_eq!(places(&of(again("no"))[0]), (Some(1), 2, 2));
    assert_eq!(places(&of(again("other"))[0]), (Some(3), 4, 3));
}

#[test]
fn a_bundle_that_a_person_left_while_it_was_well_was_well_last_in_its_own_reports() {
    let rollback = ReportEvent::Decision {
        what: "rollback".to_owned(),
        who: "ann".to_owned(),
        number: Some(2),
        assignment: None,
        reason: Some("too loud".to_owned()),
    };
    let found = of(vec![
        well(1),
        well(2),
        rollback,
        back(1, 2, Some("ann"), "rolled back by ann: too loud"),
    ]);
    assert_eq!(places(&found[0]), (Some(2), 4, 2));
    assert_eq!(found[0].bad.message, "rolled back by ann: too loud");
    assert_eq!(found[0].left_by.as_deref(), Some("ann"));
    assert_eq!(
        found[0].bad.snapshot,
        event(2, GenerationState::Active, ComplianceStatus::Compliant, "").snapshot
    );
    assert!(!found[0].bad.configs.is_empty());
    assert_eq!(found[0].acts.len(), 1);
    assert_eq!(found[0].acts[0].kind, "rollback");
    // One that was not well is compared with the bundle before it.
    let bad = seen(2, GenerationState::Active, ComplianceStatus::Failed);
    let found = of(vec![
        well(1),
        bad,
        back(1, 2, Some("ann"), "rolled back by ann"),
    ]);
    assert_eq!(places(&found[0]), (Some(1), 3, 2));
}

#[test]
fn a_bundle_that_was_well_and_failed_since_is_a_fault_and_one_that_is_over_hides_none() {
    // Bundle 2 was well, is left by a person for bundle 1, and bundle 1 cannot be applied again.
    let found = of(vec![well(1), well(2), failed(1, "the rollback failed")]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(places(&found[0]), (Some(2), 3, 1));
    let found = of(vec![well(1), failed(1, "cannot be applied again")]);
    assert_eq!(places(&found[0]), (Some(1), 2, 1));
    // Bundle 3 fails; bundle 1, which is tried meanwhile, fails and is well again.
    let found = of(vec![
        well(1),
        failed(3, "no"),
        failed(1, "cannot go back"),
        well(1),
    ]);
    assert_eq!(places(&found[0]), (Some(1), 2, 3));
    assert_eq!(of(vec![well(1), failed(1, "no"), well(1)]), []);
}

#[test]
fn the_first_bundle_that_fails_has_nothing_before_it_and_runs_on() {
    let found = of(vec![failed(1, "no")]);
    assert_eq!(places(&found[0]), (None, 1, 1));
    assert!(!found[0].left);
}

#[test]
fn an_assignment_that_drifts_and_fails_is_told_from_the_first_report_of_it_and_once() {
    let look = |status| seen(1, GenerationState::Active, status);
    let drifted = look(ComplianceStatus::Drifted);
    let found = of(vec![
        well(1),
        look(ComplianceStatus::InProgress),
        drifted.clone(),
        drifted,
    ]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (places(&found[0]), found[0].kind),
        ((Some(1), 3, 1), FaultKind::Drifted)
    );
    assert_eq!(found[0].assignments, ["press-dev"]);
    assert_eq!(found[0].bad.details[0].steps, ["a.yaml: failed"]);
    assert_eq!(of(vec![look(ComplianceStatus::Failed), well(1)]), []);
}

#[test]
fn what_was_done_between_and_what_is_missing_is_told() {
    let started = |version: &str| ReportEvent::Started {
        agent_version: version.to_owned(),
    };
    let values = ReportEvent::SiteValues {
        message: "`speed` of `press-dev` is 9".to_owned(),
        who: Some("bob".to_owned()),
        values: Vec::new(),
    };
    let read = reports(vec![
        Some(started("0.1.0")),
        Some(well(1)),
        Some(values),
        None,
        None,
        Some(started("0.1.0")),
        Some(started("0.2.0")),
        Some(failed(2, "no")),
    ]);
    let found = faults(&read);
    let acts: Vec<(u64, &str)> = found[0]
        .acts
        .iter()
        .map(|act| (act.report, act.text.as_str()))
        .collect();
    assert_eq!(
        acts,
        [
            (3, "bob: `speed` of `press-dev` is 9"),
            (7, "the agent 0.2.0 took the place of 0.1.0")
        ]
    );
    assert_eq!(found[0].missing, [(4, 5)]);
}

#[test]
fn a_bundle_that_kept_assignments_is_compared_with_one_that_kept_none() {
    let mut kept = event(2, GenerationState::Active, ComplianceStatus::Compliant, "");
    let mut source = kept.snapshot.base.clone();
    source.name = "kept:press-dev".to_owned();
    kept.snapshot.workloads.push(source);
    let found = of(vec![
        well(1),
        ReportEvent::Generation(kept),
        failed(3, "no"),
    ]);
    assert_eq!(places(&found[0]), (Some(2), 3, 3));
    assert_eq!(
        found[0].good_rendered.as_ref().map(|look| look.bundle),
        Some(1)
    );
}
