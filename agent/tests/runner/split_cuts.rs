//! The power goes in one half of the agent at every instant: the next try ends as if it had not.
//!
//! What comes in: a site on which bundle 2 runs, and bundle 3. The helper, or the agent, dies at its n-th
//! instant, for every n. What goes out: the same files, states and reports as without a cut.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use outhaul_test_kit::{Centre, Draft, Load};

use crate::site::{Site, Tree, assert_reports, code, stderr};
use crate::split::{SIGKILL, Split, allow_removals, two};

/// A site on which bundle 2 runs, and bundle 3, which changes, adds and removes.
fn before_a_cut() -> (Centre, Split, PathBuf) {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    allow_removals(&split);
    split.site.take(&centre.publish(&two("one")));
    split.site.take(&centre.publish(&two("two")));
    let newest = centre.publish(&Draft::new([
        Load::new("hello").file("manifest.yaml", "greeting: three\n"),
        Load::new("third").payload("data", "three"),
    ]));
    (centre, split, newest)
}

fn expected() -> Tree {
    let files = [
        ("hello/manifest.yaml", "greeting: three\n"),
        ("third/payload/data", "three"),
    ];
    files
        .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
        .into()
}

#[track_caller]
fn assert_ended_well(split: &Split, what: &str) {
    assert_eq!(split.site.active(), Some(3), "{what}");
    assert_eq!(split.applied(), expected(), "{what}");
    let attention = &split.site.status()["attention"];
    assert!(attention.is_null(), "{what}: {attention}");
    // One that was done twice would be reported twice.
    let event_log = split.site.event_log();
    let active = event_log
        .iter()
        .filter(|printed| *printed == "3 active")
        .count();
    assert_eq!(active, 1, "{what}: {event_log:?}");
}

#[test]
fn a_cut_of_the_helper_at_any_instant_is_made_good_by_the_next_try() {
    let (_centre, before, newest) = before_a_cut();
    let by_name = [
        "helper-floors-raised",
        "helper-accepted",
        "helper-applied",
        "helper-removed",
    ];
    let by_number = (1..100).map(|n| n.to_string());
    let mut died = 0;
    for cut in by_name.into_iter().map(str::to_owned).chain(by_number) {
        let split = before.copy();
        split.cut_helper(Some(cut.clone()));
        let output = split.site.import(&newest);
        let dead = *split.died.lock().unwrap() > 0 || code(&output) != 0;
        if !dead {
            assert!(cut.parse::<u32>().is_ok(), "`{cut}` is never passed");
            assert_ended_well(&split, "without a cut");
            break;
        }
        died += 1;
        assert_reports(&output, 3, &["ended without an answer", "journalctl"]);
        split.cut_helper(None);
        split.site.ok(&["apply"]);
        assert_ended_well(&split, &cut);
    }
    assert!(died > 8, "{died} instants");
}

#[test]
fn a_cut_of_the_agent_at_any_instant_is_made_good_by_the_same_command() {
    let (_centre, before, newest) = before_a_cut();
    for n in 1..100 {
        let split = before.copy();
        let mut import = split.site.command(&["import", newest.to_str().unwrap()]);
        let output = import.env("OUTHAUL_CUT", n.to_string()).output().unwrap();
        let dead = output.status.signal() == Some(SIGKILL);
        if dead {
            let again = split.site.import(&newest);
            assert_eq!(code(&again), 0, "{n}: {}", stderr(&again));
        }
        assert_ended_well(&split, &format!("cut {n}"));
        if !dead {
            assert!(n > 10, "{n} instants");
            return;
        }
    }
}
