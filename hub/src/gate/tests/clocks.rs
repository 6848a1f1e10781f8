//! Clocks that are wrong: the hub's, and those of sites that trust theirs.

use super::*;
use crate::time::DAY_MS;

#[test]
fn attack_a_clock_before_the_record_opens_no_gate_whatever_is_known() {
    let mut world = World::new().with([well("a", 2)]);
    world.open();
    world.later = Some(LaterDecision {
        id: 4,
        at_ms: NOW + 2 * HOUR_MS,
    });
    let decision = world.closed("clock");
    assert!(decision.rules.iter().all(|rule| !rule.met));
    let why = &decision.reasons[0];
    assert!(
        why.contains("decision 4 on record is of ") && why.contains("`outhaul-hub clock`"),
        "{why}"
    );
    // Decisions of before are made again as they were made.
    world.edition = Some(2);
    world.open();
}

#[test]
fn attack_a_report_dated_2099_by_a_trusted_clock_is_not_fresh() {
    let dated = |ahead_ms: i64, trusted: bool| {
        edit(well("a", 2), |newest, _| {
            newest.wall_ms = newest.received_ms + ahead_ms;
            newest.clock_trusted = trusted;
        })
    };
    let mut world = World::new().with([dated(70 * 365 * DAY_MS, true)]);
    let decision = world.closed("future-dated");
    assert!(
        decision.reasons[0].contains("2040-01-25"),
        "{:?}",
        decision.reasons
    );
    world.edition = Some(2);
    world.open();
    World::new()
        .with([dated(DAY_MS + 1, true)])
        .closed("future-dated");
    World::new().with([dated(DAY_MS, true)]).open();
    // A site that does not trust its clock is not held to it.
    World::new().with([dated(70 * 365 * DAY_MS, false)]).open();
    // What is known to be wrong is said first.
    let failed = edit(dated(2 * DAY_MS, true), |_, running| {
        running.state = "failed".into();
    });
    World::new().with([failed]).closed("failed");
}
