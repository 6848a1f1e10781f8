//! What people decide for one assignment: hold, release, roll back, approve; and bundles further back than one.

use outhaul_bundle::report::{ComplianceStatus, ReportEvent};
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::Checked as _;

use crate::service::Service;
use crate::site::{Site, assert_reports, stdout};

fn load(name: &str, content: &str) -> Load {
    Load::new(name).file("manifest.yaml", format!("{content}\n"))
}

fn both(content: &str) -> Draft {
    Draft::new([load("alpha", content), load("beta", content)])
}

/// What runs, in the order of the names.
fn runs(site: &Site) -> Vec<(String, String)> {
    let files = site.applied().into_iter();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    files
        .map(|(path, bytes)| (path.split('/').next().unwrap().to_owned(), text(bytes)))
        .collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter()
        .map(|(name, content)| ((*name).to_owned(), (*content).to_owned()))
        .collect()
}

/// Status and message of an assignment in the last report about a bundle.
fn reported(site: &Site, name: &str) -> (ComplianceStatus, String) {
    let printed = site.reports().into_iter().rev().find_map(|report| {
        let (ReportEvent::Generation(printed) | ReportEvent::Observation(printed)) = report.event
        else {
            return None;
        };
        printed
            .assignments
            .into_iter()
            .find(|result| result.name.as_str() == name)
    });
    let printed = printed.unwrap();
    (printed.status, printed.message)
}

/// What the centre reads of what people decided.
fn decisions(site: &Site) -> Vec<String> {
    let all = site.reports().into_iter();
    let decided = all.filter_map(|report| match report.event {
        ReportEvent::Decision {
            what,
            who,
            number,
            assignment,
            reason,
        } => {
            let number = number.map_or_else(|| "-".to_owned(), |number| number.to_string());
            let name = assignment.map_or_else(|| "-".to_owned(), |name| name.to_string());
            let why = reason.unwrap_or_default();
            Some(format!("{who}: {what} {number} {name}: {why}"))
        }
        _ => None,
    });
    decided.collect()
}

/// Ann holds one of both.
const HOLD: [&str; 7] = [
    "hold",
    "--assignment",
    "beta",
    "--who",
    "ann",
    "--reason",
    "harvest",
];

#[test]
fn a_held_assignment_keeps_its_content_while_the_others_take_the_next_bundles() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&both("one")));
    let held = site.ok(&HOLD);
    assert_eq!(held["hold"]["generation"], 1, "{held}");
    site.take(&centre.publish(&both("two")));
    assert_eq!(runs(&site), pairs(&[("alpha", "two"), ("beta", "one")]));
    // Not removed either, and kept though two bundles came since: its content stays on disk.
    site.take(&centre.publish(&Draft::new([load("alpha", "three")])));
    assert_eq!(runs(&site), pairs(&[("alpha", "three"), ("beta", "one")]));
    site.take(&centre.publish(&both("four")));
    // Drift of it is put back to what it keeps.
    std::fs::remove_file(site.state().join("applied/beta/manifest.yaml")).unwrap();
    site.ok(&["apply"]);
    assert_eq!(runs(&site), pairs(&[("alpha", "four"), ("beta", "one")]));
    let printed = stdout(&site.run(&["status"]));
    let line = "held by ann: harvest; it keeps what bundle 1 brought";
    assert_eq!(printed.matches(line).count(), 1, "{printed}");
    // Home learns who, why, and that it is not as desired.
    let (status, message) = reported(&site, "beta");
    assert_eq!(status, ComplianceStatus::Drifted);
    assert!(message.contains("held by ann: harvest"), "{message}");
    let decided = site
        .reports()
        .into_iter()
        .find_map(|report| match report.event {
            ReportEvent::Decision {
                what,
                who,
                assignment,
                reason,
                ..
            } => Some((what, who, assignment.unwrap().to_string(), reason)),
            _ => None,
        });
    let expected = ("hold", "ann", "beta", Some("harvest"));
    let (what, who, name, reason) = decided.unwrap();
    assert_eq!((&*what, &*who, &*name, reason.as_deref()), expected);
    // Released, it is as the active bundle has it, and its old content may go.
    site.ok(&["hold", "--release", "--assignment", "beta", "--who", "bob"]);
    assert_eq!(runs(&site), pairs(&[("alpha", "four"), ("beta", "four")]));
    assert!(site.status().get("held").is_none());
    assert!(!site.state().join("generations/1").exists());
    assert_eq!(reported(&site, "beta").0, ComplianceStatus::Compliant);
}

#[test]
fn what_is_released_after_a_rollback_is_not_shown_as_held() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&both("one")));
    site.ok(&HOLD);
    site.take(&centre.publish(&both("two")));
    site.ok(&["rollback", "--who", "ann"]);
    let said = |site: &Site| stdout(&site.run(&["status"]));
    let held = said(&site);
    assert!(
        held.contains("beta: as desired and held: held by ann"),
        "{held}"
    );
    // It is the active bundle's already, so nothing is applied for it.
    site.ok(&["hold", "--release", "--assignment", "beta"]);
    let released = said(&site);
    assert!(!released.contains("held by"), "{released}");
    assert!(released.contains("  beta: as desired\n"), "{released}");
}

#[test]
fn a_hold_outlives_a_power_cut_at_every_instant_of_the_next_bundle() {
    let centre = Centre::new();
    let first = Site::new(&centre, "drone-7");
    first.take(&centre.publish(&both("one")));
    first.ok(&["hold", "--assignment", "beta", "--who", "ann"]);
    let two = centre.publish(&both("two"));
    let mut cuts = 0;
    for instant in 1.. {
        let site = first.copy();
        let cut = site
            .command(&["import", two.to_str().unwrap()])
            .env("OUTHAUL_CUT", instant.to_string())
            .checked()
            .unwrap();
        assert_eq!(site.applied()["beta/manifest.yaml"], b"one\n");
        if cut.status.code().is_some() {
            break;
        }
        cuts += 1;
        site.run(&["import", two.to_str().unwrap()]);
        assert_eq!(
            runs(&site),
            pairs(&[("alpha", "two"), ("beta", "one")]),
            "instant {instant}"
        );
        assert!(site.state().join("generations/1").exists());
    }
    assert!(cuts > 10, "{cuts}");
}

#[test]
fn one_assignment_goes_back_and_stays_there_until_it_is_released() {
    let centre = Centre::new();
    let first = Site::new(&centre, "drone-7");
    first.take(&centre.publish(&both("one")));
    first.take(&centre.publish(&both("two")));
    let back = [
        "rollback",
        "--assignment",
        "beta",
        "--who",
        "ann",
        "--why",
        "it leaks",
    ];
    // Cut off after the intent: whoever starts next does it.
    let site = first.copy();
    let cut = site
        .command(&back)
        .env("OUTHAUL_CUT", "repairing-committed")
        .checked()
        .unwrap();
    assert_eq!(cut.status.code(), None);
    let service = Service::start(&site);
    service.wait_for("STATUS=bundle 2 is active");
    assert_eq!(runs(&site), pairs(&[("alpha", "two"), ("beta", "one")]));
    drop(service);
    // And without a cut.
    assert_reports(
        &first.run(&back),
        0,
        &[
            "`beta` goes back to what bundle 1 brought",
            "hold --release",
        ],
    );
    assert_eq!(runs(&first), pairs(&[("alpha", "two"), ("beta", "one")]));
    first.take(&centre.publish(&both("three")));
    assert_eq!(runs(&first), pairs(&[("alpha", "three"), ("beta", "one")]));
    first.ok(&["hold", "--release", "--assignment", "beta"]);
    assert_eq!(
        runs(&first),
        pairs(&[("alpha", "three"), ("beta", "three")])
    );
    let words = ["cannot go back", "nothing was changed"];
    let nowhere = ["rollback", "--assignment", "beta", "--to", "1"];
    assert_reports(&first.run(&nowhere), 1, &words);
}

#[test]
fn of_a_bundle_that_waits_one_assignment_is_approved_and_the_rest_later() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&both("one")));
    site.configure("approval = \"always\"");
    let two = Draft::new(["alpha", "beta", "gamma"].map(|name| load(name, "two")));
    site.import(&centre.publish(&two));
    let strange = ["approve", "2", "--assignment", "delta"];
    assert_reports(
        &site.run(&strange),
        1,
        &["no assignment `delta`", "alpha, beta, gamma"],
    );
    let why = [
        "--assignment",
        "alpha",
        "--who",
        "ann",
        "--reason",
        "a trial",
    ];
    let alone = site.run(&[&["approve", "2"], &why[..]].concat());
    assert_reports(&alone, 0, &["`alpha` alone is let through"]);
    assert_eq!(site.active(), Some(2));
    // What is new in it is not installed before someone approves it.
    assert_eq!(runs(&site), pairs(&[("alpha", "two"), ("beta", "one")]));
    assert_eq!(reported(&site, "gamma").0, ComplianceStatus::InProgress);
    site.ok(&["approve", "2", "--who", "bob", "--reason", "it went well"]);
    assert_eq!(
        decisions(&site),
        [
            "ann: approve 2 alpha: a trial",
            "bob: release - beta: all of bundle 2 is approved",
            "bob: release - gamma: all of bundle 2 is approved",
            "bob: approve 2 -: it went well",
        ]
    );
    assert_eq!(
        runs(&site),
        pairs(&[("alpha", "two"), ("beta", "two"), ("gamma", "two")])
    );
    assert!(site.status().get("held").is_none());
}

#[test]
fn a_rollback_goes_further_back_than_one_where_more_is_kept() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure("keep_generations = 3");
    for content in ["one", "two", "three", "four"] {
        site.take(&centre.publish(&both(content)));
    }
    assert_eq!(site.status()["earlier"], serde_json::json!([3, 2]));
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains("kept for `rollback --to NUMBER`: bundles 3, 2"),
        "{printed}"
    );
    let words = [
        "bundle 1 is not one",
        "bundles 3, 2 ran before",
        "nothing was changed",
    ];
    assert_reports(&site.run(&["rollback", "--to", "1"]), 1, &words);
    // Cut off after the intent, it goes on to the bundle that was named.
    let cut = site
        .command(&["rollback", "--to", "2", "--who", "ann", "--why", "noise"])
        .env("OUTHAUL_CUT", "reverting-committed")
        .checked()
        .unwrap();
    assert_eq!(cut.status.code(), None);
    let service = Service::start(&site);
    service.wait_for("STATUS=bundle 2 is active");
    assert_eq!(runs(&site), pairs(&[("alpha", "two"), ("beta", "two")]));
    drop(service);
    let reverted = site
        .reports()
        .into_iter()
        .rev()
        .find_map(|report| match report.event {
            ReportEvent::Generation(printed) => {
                printed.reverted_from.map(|from| (printed.number, from))
            }
            _ => None,
        });
    let (to, from) = reverted.unwrap();
    assert_eq!(
        (to, from.number, from.decided_by.as_deref()),
        (2, 4, Some("ann"))
    );
    assert!(from.reason.contains("noise"), "{}", from.reason);
    assert_eq!(site.status()["earlier"], serde_json::json!([]));
}

#[test]
fn a_release_reports_its_reason_and_changes_nothing_where_nothing_is_held() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&both("one")));
    let before = site.event_log().len();
    let release = |more: &[&str]| site.run(&[&["hold", "--release"], more].concat());
    let beta = [
        "--assignment",
        "beta",
        "--who",
        "ann",
        "--why",
        "it is repaired",
    ];
    let none = release(&beta);
    assert_reports(&none, 0, &[]);
    let words = "`beta` is not held; nothing was changed";
    assert!(stdout(&none).contains(words), "{}", stdout(&none));
    let mistyped = release(&["--assignment", "betta"]);
    let words = [
        "this site has no assignment `betta`",
        "did you mean `beta`?",
    ];
    assert_reports(&mistyped, 1, &words);
    assert_eq!(site.event_log().len(), before);
    site.ok(&HOLD);
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    assert_reports(&release(&beta), 0, &[]);
    assert_reports(&release(&["--who", "bob", "--why", "it is over"]), 0, &[]);
    let said = decisions(&site);
    let expected = [
        "ann: hold 1 beta: harvest",
        "ann: hold - -: harvest",
        "ann: release - beta: it is repaired",
        "bob: release - -: it is over",
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_release_whose_content_cannot_be_applied_ends_with_1_and_stands() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&both("one")));
    site.ok(&HOLD);
    site.take(&centre.publish(&both("two")));
    let file = site.state().join("applied/beta/manifest.yaml");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let failed = site.run(&["hold", "--release", "--assignment", "beta"]);
    let words = [
        "it is a folder",
        "run `outhaul-agent apply` to apply bundle 2 again",
    ];
    assert_reports(&failed, 1, &words);
    assert!(site.status().get("held").is_none());
    std::fs::remove_dir(&file).unwrap();
    site.ok(&["apply"]);
    assert_eq!(runs(&site), pairs(&[("alpha", "two"), ("beta", "two")]));
}
