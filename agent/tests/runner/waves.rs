//! Waves: which site takes a bundle when, decided on site from what is signed and from the time that is certain.
//!
//! What comes in: bundles with shares and hours. What goes out: whether the site waits, until when it says so, and what lets it
//! through: the time that a slip proves, the machine's trusted clock, or a person.

use std::fs;

use jiff::SignedDuration;
use outhaul_bundle::report::{GenerationState, ReportEvent};
use outhaul_test_kit::{Centre, Draft, Load, now};
use outhaul_tests::Checked as _;

use crate::clocks::{faketime_is_missing, under};
use crate::site::{Site, assert_reports};

/// All but 1 of 100 sites, and `drone-7` is not that one, take it a day after the others.
const LATER: [(u8, u32); 2] = [(1, 24), (99, 0)];

/// Imports what may have to wait.
fn import(site: &Site, bundle: &std::path::Path) -> serde_json::Value {
    site.ok(&["import", bundle.to_str().unwrap()])
}

fn site(clock_is_trusted: bool) -> (Centre, Site) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let there = site.folder.path().join("synchronized");
    if clock_is_trusted {
        fs::write(&there, "").unwrap();
    }
    site.configure(&format!("[clock]\nsynchronized = {there:?}\n"));
    (centre, site)
}

#[test]
fn a_site_of_the_first_wave_takes_a_bundle_at_once() {
    let (centre, site) = site(true);
    let taken = site.take(&centre.publish(&Draft::hello("two").waves(&[(99, 24), (1, 0)])));
    assert_eq!(taken["state"], "active", "{taken}");
}

#[test]
fn a_site_of_a_later_wave_waits_says_until_when_and_is_reported_as_waiting() {
    let (centre, site) = site(true);
    let two = centre.publish(&Draft::hello("two").waves(&LATER));
    let planned = site.ok(&["plan", two.to_str().unwrap()]);
    assert!(
        planned.to_string().contains("wave 2 of 2: not before 2"),
        "{planned}"
    );
    let taken = import(&site, &two);
    assert_eq!(taken["state"], "gated", "{taken}");
    let why = taken["message"].as_str().unwrap();
    assert!(why.starts_with("wave 2 of 2: not before 2"), "{why}");
    let status = site.status();
    assert_eq!(status["attention"][0]["what"], "wave", "{status}");
    let reports = site.reports();
    let last = reports.iter().rev().find_map(|report| match &report.event {
        ReportEvent::Generation(event) => Some(event),
        _ => None,
    });
    let last = last.unwrap();
    assert_eq!((last.number, last.state), (2, GenerationState::Gated));
    assert!(last.message.contains("wave 2 of 2"), "{}", last.message);
    site.ok(&["run", "--once"]);
    assert_eq!(site.active(), Some(1));
}

#[test]
fn a_trusted_clock_opens_the_wave_and_an_untrusted_one_asks_a_person() {
    if faketime_is_missing() {
        return;
    }
    let (centre, trusted) = site(true);
    let two = centre.publish(&Draft::hello("two").waves(&LATER));
    import(&trusted, &two);
    let later = under("+25h", &trusted, &["run", "--once"])
        .checked()
        .unwrap();
    assert_reports(&later, 0, &[]);
    assert_eq!(trusted.active(), Some(2));

    let (centre, untrusted) = site(false);
    let two = centre.publish(&Draft::hello("two").waves(&LATER));
    let taken = import(&untrusted, &two);
    let why = taken["message"].as_str().unwrap();
    assert!(why.contains("this site's clock is not trusted"), "{why}");
    assert!(why.contains("outhaul-agent approve 2"), "{why}");
    // A clock that says what it likes opens nothing.
    let later = under("+9000h", &untrusted, &["run", "--once"])
        .checked()
        .unwrap();
    assert_reports(&later, 0, &[]);
    assert_eq!(untrusted.active(), Some(1));
    untrusted.ok(&["approve", "2", "--who", "ann"]);
    assert_eq!(untrusted.active(), Some(2));
}

#[test]
fn signed_time_opens_the_wave_where_no_clock_is_trusted() {
    let (centre, site) = site(false);
    import(&site, &centre.publish(&Draft::hello("two").waves(&LATER)));
    let day = now() + SignedDuration::from_hours(25);
    let slip = centre.slip_issued("drone", day, day + SignedDuration::from_hours(24 * 90));
    site.ok(&["import", slip.to_str().unwrap()]);
    site.ok(&["run", "--once"]);
    assert_eq!(site.active(), Some(2));
}

#[test]
fn a_newer_bundle_begins_its_waves_anew_and_one_without_waves_is_taken_at_once() {
    let (centre, site) = site(true);
    import(&site, &centre.publish(&Draft::hello("two").waves(&LATER)));
    let taken = import(&site, &centre.publish(&Draft::hello("three").waves(&LATER)));
    assert_eq!(taken["state"], "gated", "{taken}");
    let taken = site.take(&centre.publish(&Draft::hello("four")));
    assert_eq!(taken["state"], "active", "{taken}");
}

#[test]
fn whoever_approves_reads_all_that_the_approval_lifts() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let loads = ["a", "b", "c"].map(|name| Load::new(name).file("f", "one"));
    site.take(&centre.publish(&Draft::new(loads)));
    let there = site.folder.path().join("synchronized");
    site.configure(&format!(
        "approval = \"always\"\n[maintenance]\noffset = \"+01:00\"\nwindows = [{{ from = \"02:00\", to = \"04:00\" }}]\n[clock]\nsynchronized = {there:?}\n"
    ));
    let less = Draft::new([Load::new("a").file("f", "two")]).waves(&LATER);
    let two = centre.publish(&less);
    let taken = import(&site, &two);
    let why = taken["message"].as_str().unwrap();
    for words in [
        "every bundle needs an approval here: ",
        "removes 2 of 3 assignments (`b`, `c`)",
        "this site has maintenance windows, and its clock is not trusted",
        "wave 2 of 2: not before 2",
    ] {
        assert!(why.contains(words), "`{words}` is not in: {why}");
    }
    site.ok(&["approve", "2"]);
    assert_eq!(site.active(), Some(2));
}
