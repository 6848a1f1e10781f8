//! "Not now": holds with a deadline, under clocks that are trusted and clocks that are not.
//!
//! The real agent runs under `faketime`; without it these tests say `SKIPPED`, and fail in CI.

use outhaul_bundle::report::ReportEvent;
use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;

use crate::clocks::{faketime_is_missing, reboot, under};
use crate::site::{Site, assert_reports, stdout};

/// A site on which bundle 2 waits under a hold of eight hours.
fn held(policy: &str, trusted: bool) -> (Centre, Site) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let there = site.folder.path().join("synchronized");
    if trusted {
        std::fs::write(&there, "").unwrap();
    }
    site.configure(&format!("{policy}\n[clock]\nsynchronized = {there:?}"));
    let hold = [
        "hold", "--until", "8h", "--reason", "harvest", "--who", "ann",
    ];
    let printed = site.ok(&hold);
    assert_eq!(printed["hold"]["who"], "ann");
    let two = centre.publish(&Draft::hello("two"));
    let taken = site.ok(&["import", two.to_str().unwrap()]);
    assert_eq!(taken["state"], "gated");
    let why = taken["message"].as_str().unwrap();
    assert!(why.contains("held by ann: harvest; until 2"), "{why}");
    // The instant alone says little where the clock is years off.
    let status = stdout(&site.run(&["status"]));
    let left = ", which is 8h from now while this machine runs";
    assert!(status.contains(left), "{status}");
    (centre, site)
}

fn round_at(site: &Site, clock: &str) {
    let done = under(clock, site, &["run", "--once"]).checked().unwrap();
    assert_reports(&done, 0, &[]);
}

#[test]
fn at_the_deadline_it_goes_on_by_itself_where_that_is_set_and_not_before() {
    if faketime_is_missing() {
        return;
    }
    let (_centre, site) = held("at_deadline = \"go\"", true);
    round_at(&site, "+7h");
    assert_eq!(site.active(), Some(1));
    round_at(&site, "+9h");
    assert_eq!(site.active(), Some(1), "the clock jumped");
    reboot(&site);
    round_at(&site, "+7h");
    assert_eq!(site.active(), Some(1));
    round_at(&site, "+9h");
    assert_eq!(site.active(), Some(2));
    assert!(site.status().get("hold").is_none());
    let printed: Vec<_> = site
        .reports()
        .into_iter()
        .filter_map(|report| match report.event {
            ReportEvent::Decision {
                what, who, reason, ..
            } => Some((what, who, reason.unwrap_or_default())),
            _ => None,
        })
        .collect();
    let [(hold, ann, why), (release, agent, _)] = &printed[..] else {
        panic!("{printed:?}")
    };
    assert_eq!((&**hold, &**ann, &**release), ("hold", "ann", "release"));
    assert!(why.starts_with("harvest; until 2"), "{why}");
    assert_eq!(agent, "the agent: the deadline passed");
}

#[test]
fn at_the_deadline_a_person_is_asked_unless_something_else_is_set() {
    if faketime_is_missing() {
        return;
    }
    let (_centre, site) = held("", true);
    reboot(&site);
    round_at(&site, "+9h");
    assert_eq!(site.active(), Some(1));
    let printed = stdout(&site.run(&["status"]));
    let words = "the deadline has passed: `outhaul-agent hold --release` ends it, and then the service applies what waits, or `outhaul-agent apply`";
    assert!(printed.contains(words), "{printed}");
}

#[test]
fn a_clock_that_nothing_vouches_for_ends_no_hold() {
    if faketime_is_missing() {
        return;
    }
    let (_centre, site) = held("at_deadline = \"go\"", false);
    for clock in ["+9h", "+730d", "2000-01-01 00:00:00"] {
        round_at(&site, clock);
        assert_eq!(site.active(), Some(1), "{clock}");
    }
    site.ok(&["hold", "--release", "--who", "ann"]);
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(2));
}

#[test]
fn what_is_no_time_in_the_future_is_refused_and_no_hold_begins() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    for (until, words) in [
        ("friday", "`friday` is not a time"),
        ("2020-01-01T00:00:00Z", "is not in the future"),
        ("-2h", "is not in the future"),
        ("h", "is not a time"),
        ("3651d", "further away than ten years (3650d)"),
        ("9999999999999999d", "further away than ten years (3650d)"),
        (
            "9999-12-30T00:00:00Z",
            "further away than ten years (3650d)",
        ),
    ] {
        let until = format!("--until={until}");
        assert_reports(&site.run(&["hold", &until]), 2, &[words, "help:"]);
    }
    assert!(site.status().get("hold").is_none());
}
