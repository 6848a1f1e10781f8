//! Values that belong to the site: set within what the centre opens, kept over the next bundle, reported with author and reason.
//!
//! What comes in: bundles that open keys, and what a person types. What goes out: the files that the reconciler wrote, what
//! `values` and `status` say, and the reports. The power is cut where a value is set.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;

use outhaul_bundle::index::SiteValues;
use outhaul_bundle::index::site_values::{Allowed, Form, Rule};
use outhaul_bundle::report::{ReportEvent, SiteValue};
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::Checked as _;

use crate::site::{Site, assert_reports, code, stderr, stdout};
use crate::split::Split;

/// What is open: a width up to `maximum`, and a tray.
fn open(maximum: i64) -> SiteValues {
    let about = "Width of the paper".to_owned();
    let width = Allowed::Integer {
        minimum: 20,
        maximum,
    };
    let tray = Allowed::Enum(["left", "right"].map(str::to_owned).into());
    SiteValues {
        form: Form::Env,
        keys: BTreeMap::from([
            (
                "TRAY".to_owned(),
                Rule {
                    about: String::new(),
                    allowed: tray,
                },
            ),
            (
                "WIDTH".to_owned(),
                Rule {
                    about,
                    allowed: width,
                },
            ),
        ]),
    }
}

fn draft(greeting: &str, maximum: i64, width: &str) -> Draft {
    let printer = Load::new("printer-press").file("greeting", greeting);
    Draft::new([printer.open(open(maximum), &[("TRAY", "left"), ("WIDTH", width)])])
}

/// Imports what may have to wait.
fn import(site: &Site, bundle: &std::path::Path) -> serde_json::Value {
    site.ok(&["import", bundle.to_str().unwrap()])
}

/// The file with the values, as the reconciler wrote it.
fn applied(site: &Site) -> String {
    let applied = site.applied();
    let found = applied
        .iter()
        .find(|(path, _)| path.ends_with("site-values.env"));
    String::from_utf8(found.unwrap().1.clone()).unwrap()
}

fn reported(site: &Site) -> Vec<(Option<String>, Vec<SiteValue>)> {
    let reports = site.reports().into_iter();
    let reported = reports.filter_map(|report| match report.event {
        ReportEvent::SiteValues { who, values, .. } => Some((who, values)),
        _ => None,
    });
    reported.collect()
}

const SET: [&str; 6] = ["set", "WIDTH=70", "--as", "ann", "--reason", "wider paper"];

#[test]
fn a_value_is_applied_kept_over_the_next_bundle_and_a_rollback_and_reported_with_who_and_why() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&draft("one", 110, "62")));
    assert_eq!(applied(&site), "TRAY=\"left\"\nWIDTH=\"62\"\n");
    site.ok(&SET);
    assert_eq!(applied(&site), "TRAY=\"left\"\nWIDTH=\"70\"\n");
    // The next bundle has another value of the centre: the site's stays, the others follow.
    site.take(&centre.publish(&draft("two", 110, "64")));
    assert_eq!(site.active(), Some(2));
    assert_eq!(applied(&site), "TRAY=\"left\"\nWIDTH=\"70\"\n");
    site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(site.active(), Some(1));
    assert_eq!(applied(&site), "TRAY=\"left\"\nWIDTH=\"70\"\n");
    let reported = reported(&site);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!(reported[0].0.as_deref(), Some("ann"));
    let value = &reported[0].1[0];
    assert_eq!((value.key.as_str(), value.value.as_str()), ("WIDTH", "70"));
    assert_eq!(
        (value.who.as_str(), value.reason.as_deref()),
        ("ann", Some("wider paper"))
    );
    assert_eq!(value.unused, None);
    // Looking for drift finds none, and a value that someone typed into the file is drift.
    site.ok(&["run", "--once"]);
    let status = site.status();
    assert_eq!(status["assignments"][0]["status"], "compliant", "{status}");
    // The centre's again.
    site.ok(&["unset", "WIDTH", "--who", "ann"]);
    assert_eq!(applied(&site), "TRAY=\"left\"\nWIDTH=\"62\"\n");
    assert_eq!(self::reported(&site).last().unwrap().1, []);
}

#[test]
fn values_shows_what_may_be_set_and_who_set_what() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let nothing = site.run(&["values"]);
    assert!(String::from_utf8_lossy(&nothing.stdout).contains("no value belongs to this site"));
    site.take(&centre.publish(&draft("one", 110, "62")));
    site.ok(&SET);
    let shown = site.run(&["values"]);
    assert_eq!(code(&shown), 0);
    insta::assert_snapshot!(String::from_utf8(shown.stdout).unwrap());
    let rows = site.ok(&["values"]);
    assert_eq!(rows[1]["value"], "70", "{rows}");
    assert_eq!(rows[1]["centre"], "62");
    assert_eq!(rows[1]["who"], "ann");
}

#[test]
fn a_plan_lists_what_is_missing_of_an_assignment_with_a_value_that_was_set() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&draft("one", 110, "62")));
    site.ok(&SET);
    let same = centre.publish(&draft("one", 110, "62"));
    let missing = "add printer-press/greeting";
    let planned = || stdout(&site.run(&["plan", same.to_str().unwrap()]));
    assert!(!planned().contains(missing), "{}", planned());
    std::fs::remove_dir_all(site.state().join("applied")).unwrap();
    assert!(planned().contains(missing), "{}", planned());
    site.take(&same);
    assert!(applied(&site).contains("70"), "{}", applied(&site));
}

#[test]
fn the_values_of_a_held_assignment_stay_and_are_shown_as_they_are_applied() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&draft("one", 110, "61")));
    site.ok(&["set", "TRAY=right", "--as", "ann"]);
    let name = ["--assignment", "printer-press"];
    let hold = [&["hold", "--who", "bob", "--why", "harvest"][..], &name[..]].concat();
    site.ok(&hold);
    site.take(&centre.publish(&draft("two", 110, "62")));
    let before = (site.event_log(), applied(&site));
    assert_eq!(before.1, "TRAY=\"right\"\nWIDTH=\"61\"\n");
    let release = "hold --release --assignment printer-press";
    let words = ["held by bob: harvest", release, "nothing was changed"];
    assert_reports(&site.run(&SET), 1, &words);
    assert_reports(&site.run(&["unset", "TRAY"]), 1, &words);
    assert_eq!((site.event_log(), applied(&site)), before);
    // What is applied is of the bundle that it is held at.
    let rows = site.ok(&["values"]);
    assert_eq!(rows[1]["value"], "61", "{rows}");
    assert_eq!(rows[1]["held"]["generation"], 1, "{rows}");
    let shown = String::from_utf8(site.run(&["values"]).stdout).unwrap();
    let head = "printer-press, held by bob: harvest; it keeps what bundle 1 brought\n";
    assert!(shown.starts_with(head), "{shown}");
    site.ok(&[&["hold", "--release"][..], &name[..]].concat());
    site.ok(&SET);
    assert_eq!(applied(&site), "TRAY=\"right\"\nWIDTH=\"70\"\n");
}

#[test]
fn what_the_centre_does_not_open_or_allow_is_refused_and_changes_nothing() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let early = site.run(&["set", "WIDTH=70"]);
    assert_reports(&early, 1, &["no bundle of this site opens a value to it"]);
    site.take(&centre.publish(&draft("one", 110, "62")));
    let before = site.event_log();
    let refused: [(&[&str], i32, &str); 6] = [
        (&["set", "WIDTH=7"], 1, "a whole number from 20 to 110"),
        (&["set", "WIDTH=sixty"], 1, "a whole number from 20 to 110"),
        (&["set", "TRAY=middle"], 1, "one of `left`, `right`"),
        (
            &["set", "COLOR=red"],
            1,
            "open are `TRAY` of `printer-press`, `WIDTH` of `printer-press`",
        ),
        (&["set", "WIDTH"], 2, "has no `=`"),
        (&["unset", "WIDTH"], 1, "is not set on this site"),
    ];
    for (arguments, exit, words) in refused {
        assert_reports(&site.run(arguments), exit, &[words]);
    }
    assert_eq!(site.event_log(), before);
    assert_eq!(applied(&site), "TRAY=\"left\"\nWIDTH=\"62\"\n");
}

#[test]
fn a_key_of_two_assignments_needs_a_name() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let central = [("TRAY", "left"), ("WIDTH", "62")];
    let loads = ["press-a", "press-b"].map(|name| Load::new(name).open(open(110), &central));
    site.take(&centre.publish(&Draft::new(loads)));
    let which = site.run(&["set", "WIDTH=70"]);
    assert_reports(
        &which,
        2,
        &["open in `press-a`, `press-b`", "--workload NAME"],
    );
    site.ok(&["set", "WIDTH=70", "--workload", "press-b"]);
    let applied = site.applied();
    let text = |name: &str| {
        let found = applied
            .iter()
            .find(|(path, _)| path.contains(name) && path.ends_with(".env"));
        String::from_utf8(found.unwrap().1.clone()).unwrap()
    };
    assert!(text("press-a").contains("WIDTH=\"62\""));
    assert!(text("press-b").contains("WIDTH=\"70\""));
}

#[test]
fn a_bundle_that_does_not_take_what_is_set_waits_and_an_approval_keeps_the_value_unused() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&draft("one", 110, "62")));
    site.ok(&["set", "WIDTH=100", "--as", "ann"]);
    let taken = import(&site, &centre.publish(&draft("two", 90, "62")));
    assert_eq!(taken["state"], "gated", "{taken}");
    let why = taken["message"].as_str().unwrap();
    assert!(
        why.contains("`WIDTH`: `100` is not allowed; it must be a whole number from 20 to 90"),
        "{why}"
    );
    assert_eq!(site.status()["attention"][0]["what"], "values");
    assert_eq!(applied(&site), "TRAY=\"left\"\nWIDTH=\"100\"\n");
    // Another value that it takes lets it through without an approval.
    let other = site.copy();
    other.ok(&["set", "WIDTH=90", "--as", "ann"]);
    other.ok(&["run", "--once"]);
    assert_eq!(other.active(), Some(2));
    assert_eq!(applied(&other), "TRAY=\"left\"\nWIDTH=\"90\"\n");
    // Approved, it has the centre's value; the site's is kept, named, and used again when a bundle allows it.
    site.ok(&["approve", "2", "--who", "ann"]);
    assert_eq!(site.active(), Some(2));
    assert_eq!(applied(&site), "TRAY=\"left\"\nWIDTH=\"62\"\n");
    let unused = reported(&site).last().unwrap().1[0].unused.clone().unwrap();
    assert!(unused.contains("from 20 to 90"), "{unused}");
    let shown = String::from_utf8(site.run(&["values"]).stdout).unwrap();
    assert!(
        shown.contains("`100`, set by ann, is kept and not used"),
        "{shown}"
    );
    // The next one with the same rule does not wait again.
    let taken = site.take(&centre.publish(&draft("three", 90, "62")));
    assert_eq!(taken["state"], "active", "{taken}");
    site.take(&centre.publish(&draft("four", 110, "62")));
    assert_eq!(applied(&site), "TRAY=\"left\"\nWIDTH=\"100\"\n");
    assert_eq!(reported(&site).last().unwrap().1[0].unused, None);
}

#[test]
fn a_power_cut_while_a_value_is_set_leaves_all_of_it_or_nothing_and_the_next_start_goes_on() {
    let centre = Centre::new();
    let first = Site::new(&centre, "drone-7");
    first.take(&centre.publish(&draft("one", 110, "62")));
    let whole = first.copy();
    whole.ok(&SET);
    let mut cuts = 0;
    for instant in 1..40 {
        let site = first.copy();
        let cut = site
            .command(&SET)
            .env("OUTHAUL_CUT", instant.to_string())
            .checked()
            .unwrap();
        if cut.status.signal().is_none() {
            assert_eq!(code(&cut), 0, "{}", stderr(&cut));
            break;
        }
        cuts += 1;
        site.ok(&["run", "--once"]);
        // Its intent is committed in the first transaction: from there on it is set, reported and applied.
        assert_eq!(applied(&site), applied(&whole), "cut {instant}");
        assert_eq!(reported(&site).len(), 1, "cut {instant}");
        assert_eq!(site.active(), Some(1));
    }
    assert!(cuts > 3, "{cuts}");
}

#[test]
fn after_a_set_that_was_cut_off_status_and_rollback_say_what_is_so() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&draft("one", 110, "62")));
    site.take(&centre.publish(&draft("two", 110, "62")));
    let cut = site
        .command(&SET)
        .env("OUTHAUL_CUT", "repairing-committed")
        .checked()
        .unwrap();
    assert!(cut.status.signal().is_some());
    // Nothing is to be fixed: nothing keeps it from going on.
    let to_do = site.status()["to_do"].as_str().unwrap().to_owned();
    assert!(to_do.contains("which goes on with it"), "{to_do}");
    assert!(to_do.contains("set by ann"), "{to_do}");
    assert!(!to_do.contains("fix"), "{to_do}");
    // The work is on the active bundle, so that is the one that is left.
    let left = "bundle 2 is active and was being applied again: it is left";
    assert_reports(&site.run(&["rollback"]), 0, &[left]);
    assert_eq!(site.active(), Some(1));
}

#[test]
fn through_the_apply_helper_the_signed_index_decides_which_values_are_used() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    split.site.take(&centre.publish(&draft("one", 110, "62")));
    split.site.ok(&SET);
    let applied = split.applied();
    let file = applied
        .iter()
        .find(|(path, _)| path.ends_with("site-values.env"))
        .unwrap();
    assert_eq!(file.1, b"TRAY=\"left\"\nWIDTH=\"70\"\n");
    // Who has taken over the first half may ask for values, but for none that is not allowed.
    for values in [
        serde_json::json!({"WIDTH": "7"}),
        serde_json::json!({"PATH": "/tmp"}),
        serde_json::json!({"WIDTH": "70\nEVIL=1"}),
    ] {
        let mut request = crate::split_attacks::request(&split, "apply", 1);
        request["assignment"] = "printer-press".into();
        request["values"] = values;
        let answer = crate::split_attacks::ask(&split, &request);
        assert_eq!(answer["refused"]["rule"], "values", "{answer}");
    }
    assert_eq!(split.applied(), applied);
}
