//! What stays of a site's old reports, case by case.

use std::collections::BTreeMap;

use super::*;
use crate::retention::{Numbering, OldLook};

/// A look at bundle `bundle` in a state, received at ten times its number.
fn look(number: u64, bundle: u64, state: &str) -> OldReport {
    OldReport {
        ordinal: 0,
        number,
        received_ms: 10 * i64::try_from(number).unwrap(),
        wall_ms: 10 * i64::try_from(number).unwrap(),
        lower_bound_ms: 0,
        clock_trusted: false,
        kind: "observation".to_owned(),
        look: Some(OldLook {
            bundle,
            state: state.to_owned(),
            runs: true,
            set: String::new(),
        }),
        left: false,
    }
}

fn of(mut rows: Vec<OldReport>, acked: u64) -> OldReports {
    rows.sort_by_key(|row| row.received_ms);
    let numbering = Numbering {
        name: "e1".to_owned(),
        acked,
    };
    OldReports {
        site: "a".to_owned(),
        environment: "dev".to_owned(),
        before_ms: 10_000,
        highest_before: BTreeMap::new(),
        is_contested: false,
        registered_once: true,
        rows,
        numberings: BTreeMap::from([(0, numbering)]),
        sets: BTreeMap::new(),
    }
}

fn asked(at_ms: i64, soak_ms: i64) -> GateMoment {
    GateMoment {
        id: 1,
        environment: "dev".to_owned(),
        at_ms,
        soak_ms,
    }
}

fn stays(old: &OldReports, moments: &[GateMoment]) -> Vec<u64> {
    let gone: Vec<u64> = old
        .removable(moments)
        .epochs
        .into_iter()
        .flat_map(|one| one.numbers)
        .collect();
    let mut numbers: Vec<u64> = old.rows.iter().map(|row| row.number).collect();
    numbers.sort_unstable();
    numbers.retain(|number| !gone.contains(number));
    numbers
}

#[test]
fn the_first_the_acknowledged_and_the_newest_stay() {
    let looks = |count| {
        (1..=count)
            .map(|number| look(number, 1, "active"))
            .collect()
    };
    assert_eq!(stays(&of(looks(9), 20), &[]), [1, 9]);
    assert_eq!(stays(&of(looks(9), 5), &[]), [1, 5, 6, 7, 8, 9]);
}

#[test]
fn what_a_decision_saw_and_looked_back_to_stays() {
    let looks: Vec<_> = (1..=9).map(|number| look(number, 1, "active")).collect();
    assert_eq!(stays(&of(looks.clone(), 20), &[asked(45, 0)]), [1, 4, 9]);
    assert_eq!(
        stays(&of(looks.clone(), 20), &[asked(75, 40)]),
        [1, 3, 4, 5, 6, 7, 9]
    );
    // One of now looks back across the limit.
    assert_eq!(
        stays(&of(looks.clone(), 20), &[asked(10_050, 9_980)]),
        [1, 7, 8, 9]
    );
    // Of another environment, whose gate never asked this site.
    let other = GateMoment {
        environment: "stage".to_owned(),
        ..asked(45, 0)
    };
    let mut old = of(looks, 20);
    assert_eq!(stays(&old, std::slice::from_ref(&other)), [1, 9]);
    old.registered_once = false;
    assert_eq!(stays(&old, &[other]), [1, 4, 9]);
}

#[test]
fn what_was_missing_when_a_gate_decided_stays() {
    let mut looks: Vec<_> = (1..=9).map(|number| look(number, 1, "active")).collect();
    looks[2].received_ms = 85;
    assert_eq!(stays(&of(looks.clone(), 20), &[asked(65, 0)]), [1, 3, 6, 9]);
    assert_eq!(stays(&of(looks, 20), &[asked(87, 0)]), [1, 8, 9]);
}

#[test]
fn a_bundle_that_may_be_on_its_way_stays() {
    let mut looks: Vec<_> = (1..=9).map(|number| look(number, 1, "active")).collect();
    looks[3] = look(4, 3, "failed");
    looks[4] = look(5, 2, "failed");
    looks[5] = look(6, 2, "failed");
    assert_eq!(stays(&of(looks, 20), &[]), [1, 4, 6, 9]);
}

#[test]
fn records_of_acts_and_ends_of_bundles_stay() {
    let mut looks: Vec<_> = (1..=9).map(|number| look(number, 1, "active")).collect();
    looks[2] = OldReport {
        kind: "decision".to_owned(),
        look: None,
        ..looks[2].clone()
    };
    looks[3].kind = "generation".to_owned();
    looks[4] = OldReport {
        kind: "generation".to_owned(),
        ..look(5, 1, "rejected")
    };
    looks[6].left = true;
    assert_eq!(stays(&of(looks, 20), &[]), [1, 3, 5, 7, 9]);
}

#[test]
fn the_last_that_tells_of_an_assignment_stays() {
    let mut looks: Vec<_> = (1..=9).map(|number| look(number, 1, "active")).collect();
    for (at, look) in looks.iter_mut().enumerate() {
        let set = if at < 4 { "both" } else { "one" };
        look.look.as_mut().unwrap().set = set.to_owned();
    }
    let mut old = of(looks, 20);
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
    old.sets
        .insert("both".to_owned(), names(&["camera", "maps"]));
    old.sets.insert("one".to_owned(), names(&["maps"]));
    assert_eq!(stays(&old, &[]), [1, 4, 9]);
}

#[test]
fn what_tells_numberings_apart_stays() {
    let mut looks: Vec<_> = (1..=9).map(|number| look(number, 1, "active")).collect();
    // The clock that was trusted first, and the one that was set furthest.
    looks[4].clock_trusted = true;
    looks[5].wall_ms = 9_000;
    assert_eq!(stays(&of(looks, 20), &[]), [1, 5, 6, 9]);
}
