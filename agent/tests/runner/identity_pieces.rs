//! Files that say which site a state folder is: one of them is another site's, or is gone.
//!
//! What must come out: the one that differs is named, nothing is signed with another site's key, and the way out works as it is printed, with the
//! reports that wait.

use std::fs;
use std::path::{Path, PathBuf};

use outhaul_test_kit::{Centre, Draft};

use crate::service::Service;
use crate::site::{Site, assert_reports, stderr, tree};
use crate::taken_away::{DATABASE, as_printed, remove};

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A site that runs bundle 1, another one, and a second kit for the first.
fn two_sites(centre: &Centre) -> (Site, Site, PathBuf) {
    let (site, other) = (Site::new(centre, "drone-7"), Site::new(centre, "drone-8"));
    site.take(&centre.publish(&Draft::hello("one")));
    other.take(&centre.publish(&Draft::hello("two")));
    let kit = centre.kit_with("drone-7", "another-token", |_| ());
    (site, other, kit)
}

fn take(site: &Site, other: &Site, names: &[&str]) {
    for name in names {
        fs::copy(other.state().join(name), site.state().join(name)).unwrap();
    }
}

fn key(site: &Site) -> Vec<u8> {
    fs::read(site.state().join("site.key")).unwrap()
}

#[test]
fn a_file_of_another_site_beside_the_database_and_key_is_named_and_moved_away_as_printed() {
    let centre = Centre::new();
    let (site, other, _) = two_sites(&centre);
    for (taken, removed) in [
        ("site.json", &[][..]),
        ("drone-8.request", &["site.json", "drone-7.request"][..]),
    ] {
        let site = site.copy();
        remove(&site, removed);
        take(&site, &other, &[taken]);
        let named = format!("{taken}` is of site `drone-8`");
        let words = [&named[..], "beside it are of site `drone-7`"];
        for command in [
            &["status"][..],
            &["run", "--once"],
            &["enrol", path(&centre.kit("drone-7"))],
            &["enrol", path(&centre.kit("drone-8"))],
        ] {
            assert_reports(&site.run(command), 3, &words);
        }
        let said = stderr(&site.run(&["apply"]));
        assert!(as_printed(&said, "mv ").status.success(), "{said}");
        site.ok(&["run", "--once"]);
        site.ok(&["enrol", path(&centre.kit("drone-7"))]);
        assert!(site.event_log().len() > 3);
        assert!(site.state().join("site.json").exists());
    }
}

#[test]
fn attack_a_key_of_another_site_is_not_taken_by_an_enrolment_after_a_lost_database() {
    let centre = Centre::new();
    let (site, other, kit) = two_sites(&centre);
    let both = ["site.key", "drone-8.request"];
    for (taken, removed, words) in [
        // By the other site's request, with and without this site's own `site.json`.
        (
            &both[..],
            &["drone-7.request"][..],
            "as `drone-8.request` shows",
        ),
        (&both, &["site.json"], "as `drone-8.request` shows"),
        // By what this site knew of its own.
        (&both[..1], &[], "`drone-7.request` names"),
        (&both[..1], &["drone-7.request"], "`site.json` names"),
    ] {
        let site = site.copy();
        remove(&site, &DATABASE);
        remove(&site, removed);
        take(&site, &other, taken);
        let refused = site.run(&["enrol", path(&kit)]);
        let words = [
            "the kit is for site `drone-7`",
            "site.key`",
            words,
            "nothing was changed",
        ];
        assert_reports(&refused, 2, &words);
        assert!(!site.state().join("agent.db").exists());
        let said = stderr(&refused);
        assert!(as_printed(&said, "mv ").status.success(), "{said}");
        site.ok(&["enrol", path(&kit)]);
        assert_ne!(key(&site), key(&other));
        site.reports();
    }
    // The one file that is another's is named, not the kit.
    remove(&site, &DATABASE);
    take(&site, &other, &["site.json"]);
    let refused = site.run(&["enrol", path(&kit)]);
    let words = [
        "site.json` beside",
        "is of site `drone-8`",
        "nothing was changed",
    ];
    assert_reports(&refused, 2, &words);
    let own = key(&site);
    let said = stderr(&refused);
    assert!(as_printed(&said, "mv ").status.success(), "{said}");
    site.ok(&["enrol", path(&kit)]);
    assert_eq!(key(&site), own);
}

#[test]
fn a_site_whose_key_is_lost_gets_a_new_one_by_a_new_kit_and_loses_no_report() {
    let centre = Centre::new();
    let (site, other, kit) = two_sites(&centre);
    let (before, log) = (key(&site), site.event_log());
    fs::remove_file(site.state().join("site.key")).unwrap();
    let help = [
        "outhaul site enrol SITE --again",
        "makes a new key",
        "keeps the database",
    ];
    for command in [
        &["run", "--once"][..],
        &["enrol", path(&centre.kit("drone-7"))],
    ] {
        assert_reports(&site.run(command), 3, &help);
    }
    // Another one in its place is not written over: it may be the only copy.
    take(&site, &other, &["site.key"]);
    let words = [
        "one of the two is another site's",
        "move what is in its place out of the folder",
    ];
    let kit_again = centre.kit_with("drone-7", "another-token", |_| ());
    assert_reports(&site.run(&["enrol", path(&kit_again)]), 3, &words);
    assert_eq!(key(&site), key(&other));
    fs::remove_file(site.state().join("site.key")).unwrap();
    let enrolled = site.run(&["enrol", path(&kit)]);
    assert_reports(&enrolled, 0, &["this site has a new key"]);
    assert!(key(&site) != before && key(&site) != key(&other));
    // All of them are signed with the key of the new request.
    let now = site.event_log();
    assert_eq!(now[0], "decision renumber");
    assert_eq!(now[1..=log.len()], log);
    site.take(&centre.publish(&Draft::hello("three")));
}

#[test]
fn a_database_that_was_saved_is_put_back_where_the_key_is_gone_too() {
    let centre = Centre::new();
    let (site, _, kit) = two_sites(&centre);
    let log = site.event_log();
    let mut service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active");
    remove(&site, &["site.key"]);
    remove(&site, &DATABASE);
    assert_eq!(service.ended().code(), Some(3));
    let said = stderr(&site.run(&["run", "--once"]));
    assert!(
        said.contains("restore `site.key`, which is not there either"),
        "{said}"
    );
    assert!(as_printed(&said, "if test ").status.success(), "{said}");
    site.ok(&["enrol", path(&kit)]);
    assert_eq!(site.event_log()[1..=log.len()], log);
    assert_eq!(site.active(), Some(1));
    // What is in the outbox again is not beside it, too.
    assert!(tree(&site.state().join("rescued/reports")).is_empty());
}
