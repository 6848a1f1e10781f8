//! Two machines with one key, each with a numbering of its own: seen in whichever order their reports come.
//!
//! What comes in: reports of an older numbering that goes on, and of a newer one. What must come out: one conflict; and none for a
//! machine whose clock was set back, or that was restored from a copy.

use outhaul_bundle::report::SiteTime;

use super::*;

fn at(site: &mut Site, wall_ms: i64, lower_bound_ms: i64) {
    site.at = SiteTime {
        wall_ms,
        lower_bound_ms,
        trusted: false,
    };
}

/// What is recorded of a site whose older numbering says something at `older`, and whose newer one begins at `newer`; the
/// older one comes first.
fn conflict(older: (i64, i64), newer: (i64, i64)) -> Option<String> {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let first = site.started();
    at(&mut site, older.0, older.1);
    let later = site.started();
    take(&mut store, &[first, later]);
    site.forget("e2");
    at(&mut site, newer.0, newer.1);
    let begins = site.started();
    take(&mut store, &[begins]);
    let found = store.read(|session| session.open_conflicts()).unwrap();
    found.get("a").map(|conflict| conflict.reason.clone())
}

#[test]
fn a_numbering_that_began_before_reports_of_the_older_one_shows_two_machines() {
    let reason = conflict((9_000, 8_000), (5_000, 4_000)).unwrap();
    assert!(
        reason.contains("report 2 of numbering `e1` was made after numbering `e2` had begun"),
        "{reason}"
    );
}

#[test]
fn one_machine_that_numbers_anew_is_no_conflict() {
    // In order.
    assert_eq!(conflict((9_000, 8_000), (10_000, 9_000)), None);
    // Its clock was set back meanwhile.
    assert_eq!(conflict((9_000_000, 8_000), (10_000, 9_000)), None);
    // It was restored from a copy that knew less of the time.
    assert_eq!(conflict((9_000, 8_000), (10_000, 4_000)), None);
}
