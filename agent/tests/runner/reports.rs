//! The way home: what reports say, that they are chained and signed, and that an export loses nothing.

use std::fs;

use outhaul_bundle::report::{ComplianceStatus, ReportEvent};
use outhaul_test_kit::{Centre, Draft, Load};

use crate::site::{Site, assert_reports, tree};

#[test]
fn reports_are_numbered_chained_and_signed_by_the_site() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let first = centre.publish(&Draft::hello("one"));
    site.take(&first);
    site.take(&centre.publish(&Draft::hello("two")));
    site.import(&first);
    site.ok(&["hold"]);
    // `event_log` checks numbers, links and signatures.
    let expected = [
        "started",
        "1 staged",
        "1 applying",
        "1 active",
        "2 staged",
        "2 applying",
        "2 active",
        "refusal rollback",
        "decision hold",
    ];
    assert_eq!(site.event_log(), expected);
    let reports = site.reports();
    let ReportEvent::Generation(active) = &reports[6].event else {
        panic!("{:?}", reports[6])
    };
    assert_eq!(active.assignments[0].name.as_str(), "hello");
    assert_eq!(active.assignments[0].status, ComplianceStatus::Compliant);
    let steps = &active.assignments[0].steps;
    let step = |name: &str| {
        steps
            .iter()
            .find(|s| s.name == name)
            .map(|s| s.status.as_str())
    };
    assert_eq!(step("hello/manifest.yaml"), Some("changed"), "{steps:?}");
    assert_eq!(step("hello/payload/notes.txt"), Some("ok"), "{steps:?}");
}

#[test]
fn a_lost_stick_costs_nothing() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let (first, second) = (site.reports(), site.reports());
    assert_eq!(first, second);
    assert_eq!(site.status()["reports_waiting"], first.len());
}

#[test]
fn an_export_names_site_and_numbers_and_leaves_other_files_alone() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let stick = tempfile::tempdir().unwrap();
    fs::create_dir(stick.path().join("reports")).unwrap();
    fs::write(stick.path().join("reports/other.reports"), "another site's").unwrap();
    site.ok(&["export", stick.path().to_str().unwrap()]);
    let files: Vec<_> = tree(stick.path()).into_keys().collect();
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(
        files[0].starts_with("reports/drone-7-") && files[0].ends_with("-1-4.reports"),
        "{files:?}"
    );
    assert_eq!(files[1], "reports/other.reports");
    assert_eq!(files[2], "requests/drone-7.request");
}

#[test]
fn drift_is_found_and_reported_by_a_timer() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    fs::write(
        site.state().join("applied/hello/manifest.yaml"),
        "someone's change",
    )
    .unwrap();
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    let reports = site.reports();
    let ReportEvent::Observation(found) = &reports.last().unwrap().event else {
        panic!("{reports:?}")
    };
    assert_eq!(found.assignments[0].status, ComplianceStatus::Drifted);
    assert_eq!(site.status()["assignments"][0]["status"], "drifted");
    // The stream says: report only.
    assert_eq!(site.applied()["hello/manifest.yaml"], b"someone's change");
}

/// Reports about bundle 2 and what came after, in words.
fn after_two(site: &Site) -> Vec<String> {
    let printed = site.event_log();
    let at = printed
        .iter()
        .position(|printed| printed == "2 applying")
        .unwrap();
    printed[at..].to_vec()
}

#[test]
fn a_revert_is_one_report_of_what_runs_now_and_why() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let foreign = site.state().join("applied/hello/new.yaml");
    fs::write(&foreign, "someone else's").unwrap();
    let load = Load::new("hello")
        .file("manifest.yaml", "two\n")
        .file("new.yaml", "ours");
    site.import(&centre.publish(&Draft::new([load])));
    assert_eq!(after_two(&site), ["2 applying", "2 failed", "1 active"]);
    let reports = site.reports();
    let ReportEvent::Generation(back) = &reports.last().unwrap().event else {
        panic!("{reports:?}")
    };
    let left = back.reverted_from.clone().unwrap();
    assert_eq!((left.number, left.decided_by), (2, None));
    assert!(left.reason.contains("not Outhaul's"), "{}", left.reason);
    assert!(
        back.message.ends_with("bundle 1 is active again"),
        "{}",
        back.message
    );
    assert_eq!(back.assignments[0].status, ComplianceStatus::Compliant);
}

#[test]
fn a_rollback_is_one_report_with_the_name_of_who_decided_it() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.take(&centre.publish(&Draft::hello("two")));
    site.ok(&["rollback", "--who", "ann"]);
    let expected = ["2 applying", "2 active", "decision rollback", "1 active"];
    assert_eq!(after_two(&site), expected);
    let reports = site.reports();
    let ReportEvent::Generation(back) = &reports.last().unwrap().event else {
        panic!("{reports:?}")
    };
    let left = back.reverted_from.clone().unwrap();
    assert_eq!((left.number, left.decided_by.as_deref()), (2, Some("ann")));
    assert_eq!(left.reason, "rolled back by ann");
    assert_eq!(back.message, "rolled back by ann; bundle 1 is active again");
}
