//! Tests of the ranking: what the report says, what other sites say, and what is left when neither says anything.
//!
//! What comes in: faults and possible causes. What must come out: their order, and shares that are never more certain than the facts.

use super::*;
use outhaul_bundle::hub_api::{FaultKind, OtherSites, SiteLook};
use outhaul_bundle::index::{Snapshot, Source};

fn fault(message: &str) -> SiteFault {
    let source = |name: &str| Source {
        name: name.to_owned(),
        repo: "https://git.example.org/platform".to_owned(),
        commit: "0".repeat(40),
    };
    let bad = SiteLook {
        epoch: "e".to_owned(),
        report: 9,
        at: "2026-11-27T03:31:38Z".to_owned(),
        clock_trusted: true,
        received_at: "2026-11-27T03:31:38Z".to_owned(),
        bundle: 3,
        snapshot: Snapshot {
            environment: source("dev"),
            base: source("main"),
            workloads: Vec::new(),
            digest: outhaul_bundle::Digest::of(b""),
        },
        message: message.to_owned(),
        configs: BTreeMap::from([("press-dev".to_owned(), "sha256:1".to_owned())]),
        details: Vec::new(),
    };
    SiteFault {
        kind: FaultKind::Bundle,
        assignments: Vec::new(),
        good: None,
        good_rendered: None,
        bad,
        left: true,
        left_by: None,
        acts: Vec::new(),
        missing: Vec::new(),
        no_longer_kept: Vec::new(),
        others: BTreeMap::new(),
        others_failed: 0,
    }
}

fn commit(subject: &str, lines: &[&str]) -> Candidate {
    Candidate::commit(CommitCause {
        id: "1".repeat(40),
        before: "0".repeat(40),
        repo: "https://git.example.org/platform".to_owned(),
        source: "main".to_owned(),
        names: BTreeSet::new(),
        branch: None,
        is_merge: false,
        author: "T".to_owned(),
        at: "2026-11-27T03:31:38Z".to_owned(),
        subject: subject.to_owned(),
        assignments: Vec::new(),
        removed: Vec::new(),
        policies: Vec::new(),
        values: Vec::new(),
        templates: Vec::new(),
        files: Vec::new(),
        paths: Vec::new(),
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
    })
}

fn order(fault: &SiteFault, candidates: Vec<Candidate>) -> Vec<(String, u8)> {
    let causes = ranked(fault, candidates, true).into_iter().map(|cause| {
        let name = cause.commit.map_or(cause.text, |commit| commit.subject);
        (name, cause.confidence)
    });
    causes.collect()
}

#[test]
fn the_change_whose_words_the_report_has_comes_first() {
    let fault = fault("this site is not well: `press`: MAX_PRESSURE is 900, above 250");
    let found = order(
        &fault,
        vec![
            commit("unrelated", &["+CONTACT=\"x\""]),
            commit("the one", &["-MAX_PRESSURE=200", "+MAX_PRESSURE=900"]),
            commit("later", &["+COLOUR=\"red\""]),
        ],
    );
    assert_eq!(found[0].0, "the one", "{found:?}");
    assert!(found[0].1 > 60 && found[1].1 < 20, "{found:?}");
}

#[test]
fn what_all_changes_have_distinguishes_none_and_the_newest_comes_first() {
    let fault = fault("press-dev: exit code 1");
    let found = order(
        &fault,
        vec![
            commit("older", &["+a1=\"x\""]),
            commit("newer", &["+b1=\"x\""]),
        ],
    );
    assert_eq!(found[0].0, "newer", "{found:?}");
    assert_eq!(found[0].1, found[1].1, "{found:?}");
}

#[test]
fn a_single_change_is_likely_where_the_report_names_it_and_else_little_more_than_the_site_itself() {
    let named = order(
        &fault("x1 is wrong"),
        vec![commit("the only one", &["+x1"])],
    );
    assert!((90..=99).contains(&named[0].1), "{named:?}");
    let found = order(
        &fault("exit code 1"),
        vec![commit("the only one", &["+x1"])],
    );
    assert_eq!(found[0].0, "the only one", "{found:?}");
    assert!((40..=60).contains(&found[0].1), "{found:?}");
    assert!((30..=50).contains(&found[1].1), "{found:?}");
    let mut gaps = fault("exit code 1");
    gaps.missing.push((4, 5));
    let with_gaps = order(&gaps, vec![commit("the only one", &["+x1"])]);
    assert!(with_gaps[0].1 < found[0].1, "{with_gaps:?}");
}

#[test]
fn other_sites_speak_for_or_against_what_all_of_them_got() {
    let site = "the site itself: its machine, or what it depends on";
    let mut elsewhere = fault("exit code 1");
    let well = OtherSites {
        well: 12,
        not_well: 0,
    };
    elsewhere.others.insert("press-dev".to_owned(), well);
    let found = order(&elsewhere, vec![commit("the only one", &["+x1"])]);
    assert_eq!(found[0].0, site, "{found:?}");
    let mut alike = fault("exit code 1");
    alike.others_failed = 3;
    let found = order(&alike, vec![commit("the only one", &["+x1"])]);
    assert_eq!(found[0].0, "the only one", "{found:?}");
}

#[test]
fn a_change_on_site_that_the_site_itself_found_is_the_cause() {
    let found = order(
        &fault("drift"),
        vec![commit("a commit", &["+x1"]), Candidate::drift()],
    );
    assert_eq!(
        found[0].0, "someone changed on site what was applied",
        "{found:?}"
    );
    assert!(found[0].1 > 90, "{found:?}");
}

#[test]
fn with_nothing_that_changed_the_site_itself_is_left() {
    let found = order(&fault("disk on fire"), Vec::new());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, 90, "{found:?}");
}

#[test]
fn without_the_commits_nothing_is_said_of_the_site_itself() {
    let act = || Candidate::act("bob: `speed` of `press-dev` is 9".to_owned());
    let compared = ranked(&fault("speed 9 is too high"), vec![act()], true);
    let not = ranked(&fault("speed 9 is too high"), vec![act()], false);
    assert_eq!(not.len(), 1, "{not:?}");
    assert!(not[0].confidence < compared[0].confidence, "{not:?}");
    assert_eq!(ranked(&fault("no"), Vec::new(), false), []);
}

#[test]
fn a_rollback_that_the_site_tells_itself_is_the_cause_however_other_sites_do() {
    let mut fault = fault("too loud; bundle 2 is active again");
    fault.left_by = Some("ann".to_owned());
    let others = OtherSites {
        well: 3,
        not_well: 0,
    };
    fault.others.insert("press-dev".to_owned(), others);
    let rollback = Candidate::rollback("ann: rollback bundle 3".to_owned());
    let found = order(&fault, vec![rollback]);
    assert!(found[0].0.starts_with("ann: "), "{found:?}");
    assert!(found[0].1 >= 90, "{found:?}");
}
