//! A site whose database is damaged, empty or gone: what it says, and that the way out that it names works.
//!
//! What must come out: nothing that runs is touched, and after a new enrolment a newer bundle becomes
//! active over the files of the old ones, and removes what it leaves out. A file that someone else
//! changed meanwhile stays someone else's.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use outhaul_bundle::index::site_values::{Allowed, Form, Rule, SiteValues};
use outhaul_bundle::report::ReportEvent;
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::Checked as _;

use crate::site::{Site, assert_reports, stderr, stdout};

fn draft(content: &str) -> Draft {
    Draft::new([Load::new("hello").file("manifest.yaml", content)])
}

fn site_with_two() -> (Centre, Site) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let load = |content: &str| Load::new("hello").file("manifest.yaml", content);
    site.take(&centre.publish(&Draft::new([load("one\n")])));
    site.take(&centre.publish(&Draft::new([load("two\n").file("more.yaml", "2")])));
    (centre, site)
}

/// What happens to the database, and what commands then say.
type Loss = (&'static str, fn(&Site), &'static str);

const LOSSES: [Loss; 6] = [
    ("gone", |_| {}, "is gone"),
    (
        "empty",
        |site| fs::write(database(site), "").unwrap(),
        "is empty (0 bytes)",
    ),
    (
        "a folder",
        |site| fs::create_dir(database(site)).unwrap(),
        "in the place of the database",
    ),
    (
        "a FIFO",
        |site| {
            let made = Command::new("mkfifo").arg(database(site)).status();
            assert!(made.unwrap().success());
        },
        "agent.db` is a FIFO: it was not opened",
    ),
    (
        "a link",
        |site| {
            // To a whole one: it is not followed, wherever it leads.
            let other = Site::new(&Centre::new(), "drone-8");
            let aside = site.folder.path().join("other.db");
            fs::copy(database(&other), &aside).unwrap();
            std::os::unix::fs::symlink(aside, database(site)).unwrap();
        },
        "agent.db` is a symbolic link: it was not opened",
    ),
    (
        "damaged",
        |site| fs::write(database(site), [b'x'; 8192]).unwrap(),
        "is damaged",
    ),
];

fn database(site: &Site) -> std::path::PathBuf {
    site.state().join("agent.db")
}

fn lose(site: &Site, loss: &Loss) {
    for name in ["agent.db", "agent.db-wal", "agent.db-shm"] {
        let _ = fs::remove_file(site.state().join(name));
    }
    loss.1(site);
}

#[test]
fn a_site_whose_database_is_lost_says_so_and_takes_a_newer_bundle_after_a_new_kit() {
    for loss in &LOSSES {
        let (centre, site) = site_with_two();
        let third = centre.publish(&draft("three\n"));
        lose(&site, loss);
        let before = site.applied();
        let words = [loss.2, "not touched", "outhaul site enrol"];
        assert_reports(&site.import(&third), 3, &words);
        let status = site.run(&["status"]);
        assert_reports(&status, 3, &[]);
        let printed = stdout(&status);
        assert!(
            printed.contains("bundles on disk: 1, 2"),
            "{}: {printed}",
            loss.0
        );
        // Its request says which site it is, and a backup is the way back that loses nothing.
        assert!(printed.starts_with("site drone-7 of fleet "), "{printed}");
        assert!(!printed.contains("active: nothing yet"), "{printed}");
        assert_reports(&status, 3, &["`outhaul-agent restore FILE`"]);
        assert_eq!(site.applied(), before, "{}", loss.0);

        let _ = fs::rename(database(&site), site.folder.path().join("agent.db.aside"));
        let kit = centre.kit("drone-7");
        let enrolled = site.ok(&["enrol", kit.to_str().unwrap()]);
        assert_eq!(enrolled["lost"], true, "{enrolled}");
        site.take(&third);
        let applied = site.applied();
        assert_eq!(applied["hello/manifest.yaml"], b"three\n", "{}", loss.0);
        assert_eq!(applied.len(), 1, "{}: what 3 leaves out is removed", loss.0);
    }
}

#[test]
fn status_after_a_cut_says_what_came_of_the_stick_and_not_that_it_is_being_read() {
    let cuts = [
        (
            "blob-written",
            "nothing of it is half done; import it again",
        ),
        (
            "applying-committed",
            "bundle 3 was copied from it, and the work on that is unfinished",
        ),
    ];
    for (instant, words) in cuts {
        let (centre, site) = site_with_two();
        let third = centre.publish(&Draft::hello("three"));
        let cut = site
            .command(&["import", third.to_str().unwrap()])
            .env("OUTHAUL_CUT", instant)
            .checked()
            .unwrap();
        assert!(!cut.status.success());
        let printed = stdout(&site.run(&["status"]));
        assert!(printed.contains(words), "{printed}");
        assert!(!printed.contains("do not remove it"), "{printed}");
        let as_desired = "as desired before the unfinished work";
        let unfinished = instant == "applying-committed";
        assert_eq!(printed.contains(as_desired), unfinished, "{printed}");
        // What went on since is said of that stick, too.
        site.run(&["run", "--once"]);
        let printed = stdout(&site.run(&["status"]));
        let since = "bundle 3 was copied from it, and is active now";
        assert_eq!(printed.contains(since), unfinished, "{printed}");
        assert_eq!(site.active(), Some(if unfinished { 3 } else { 2 }));
    }
}

#[test]
fn a_database_that_a_link_leads_to_is_put_in_its_place_with_what_is_beside_it() {
    let (_centre, site) = site_with_two();
    let elsewhere = site.folder.path().join("elsewhere.db");
    fs::rename(database(&site), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, database(&site)).unwrap();
    let words = "put that file, and those beside it whose names begin with its name, in its place, named `agent.db`, `agent.db-wal`";
    assert_reports(&site.run(&["apply"]), 3, &[words]);
    fs::remove_file(database(&site)).unwrap();
    fs::rename(&elsewhere, database(&site)).unwrap();
    assert_eq!(site.ok(&["apply"])["active"], 2);
}

#[test]
fn after_a_lost_database_a_file_that_somebody_changed_is_not_taken_for_ours() {
    let (centre, site) = site_with_two();
    lose(&site, &LOSSES[0]);
    let file = site.state().join("applied/hello/manifest.yaml");
    fs::write(&file, "mine").unwrap();
    site.ok(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    let third = centre.publish(&draft("three\n"));
    let printed = site.import(&third);
    assert_eq!(printed.status.code(), Some(1));
    assert!(stdout(&printed).contains("manifest.yaml` is there and is not Outhaul's"));
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    // Out of the way, it is not an obstacle any more.
    fs::remove_file(&file).unwrap();
    site.take(&centre.publish(&draft("four\n")));
}

#[test]
fn after_a_lost_database_one_command_makes_changed_files_ours_again() {
    let (centre, site) = site_with_two();
    let third = centre.publish(&draft("three\n"));
    lose(&site, &LOSSES[0]);
    let file = site.state().join("applied/hello/manifest.yaml");
    fs::write(&file, "mine").unwrap();
    // What no bundle brings stays whoever's it is.
    let foreign = site.state().join("applied/hello/foreign.yaml");
    fs::write(&foreign, "theirs").unwrap();
    let kit = site.folder.path().join("the kit.kit");
    fs::copy(centre.kit("drone-7"), &kit).unwrap();
    let kit = kit.to_str().unwrap();
    let enrolled = site.run(&["enrol", kit]);
    let typed = format!("`outhaul-agent enrol '{kit}' --adopt-changed`");
    let words = [
        "are known again",
        "manifest.yaml` was changed by hand",
        &typed,
    ];
    assert_reports(&enrolled, 0, &words);
    // Who goes on without reading it is informed at the next step, and again by `status`.
    let failed = site.import(&third);
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(site.status()["attention"][0]["what"], "changed-files");
    let adopted = site.ok(&["enrol", kit, "--adopt-changed"]);
    assert_eq!(adopted["known_again"], 1, "{adopted}");
    assert_eq!(fs::read(&file).unwrap(), b"mine", "nothing is written yet");
    site.ok(&["approve", "3"]);
    site.take(&third);
    assert_eq!(site.status()["attention"], serde_json::Value::Null);
    let applied = site.applied();
    assert_eq!(applied["hello/manifest.yaml"], b"three\n");
    assert_eq!(applied["hello/foreign.yaml"], b"theirs");
    assert!(
        !applied.contains_key("hello/more.yaml"),
        "what 3 leaves out is removed"
    );
}

#[test]
fn floors_beside_the_database_that_are_missing_or_damaged_are_written_anew() {
    let (_centre, site) = site_with_two();
    let floors = site.state().join("floors.json");
    let whole: serde_json::Value = serde_json::from_slice(&fs::read(&floors).unwrap()).unwrap();
    for damage in [None, Some(""), Some("{")] {
        match damage {
            None => fs::remove_file(&floors).unwrap(),
            Some(text) => fs::write(&floors, text).unwrap(),
        }
        let output = site.run(&["apply"]);
        assert_reports(&output, 0, &["is written again from the database"]);
        let now: serde_json::Value = serde_json::from_slice(&fs::read(&floors).unwrap()).unwrap();
        assert_eq!(now["floors"], whole["floors"]);
    }
}

#[test]
fn attack_with_database_and_floors_gone_the_kept_bundles_keep_older_ones_out() {
    for verified in [true, false] {
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        let old: Vec<_> = ["one\n", "two\n", "three\n"]
            .map(|content| centre.publish(&draft(content)))
            .into();
        for bundle in &old {
            site.take(bundle);
        }
        let newer = centre.publish(&draft("four\n"));
        lose(&site, &LOSSES[0]);
        fs::remove_file(site.state().join("floors.json")).unwrap();
        let status = site.run(&["status"]);
        assert_reports(&status, 3, &["`floors.json` is gone, too"]);
        if !verified {
            let bad = site.state().join("generations/3/metadata/timestamp.json");
            fs::write(bad, "{}").unwrap();
        }
        let enrolled = site.run(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
        let words = match verified {
            true => "bundles older than 3 are refused",
            false => {
                "warning: the record of the highest versions (`floors.json`) is gone, too, and the metadata of bundle 3"
            }
        };
        assert_reports(&enrolled, 0, &[words]);
        assert!(site.state().join("floors.json").exists());
        let planned = site.run(&["plan", newer.to_str().unwrap()]);
        let is_said = stderr(&planned).contains("import nothing older than bundle 3");
        assert_eq!(is_said, !verified, "the holds are known");
        for bundle in &old[..2] {
            let refused = site.import(bundle);
            let accepted = !verified && bundle == &old[1];
            assert_eq!(refused.status.code(), Some(if accepted { 0 } else { 4 }));
        }
        site.take(&newer);
    }
}

/// A site on which someone set the width, and whose database is lost since.
fn set_and_lost() -> (Centre, Site, Draft) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let draft = printer("62");
    site.take(&centre.publish(&draft));
    site.ok(&["set", "WIDTH=70", "--as", "ann"]);
    site.ok(&["hold", "--who", "bob", "--why", "harvest"]);
    lose(&site, &LOSSES[0]);
    // An agent of before kept no copy of the holds.
    fs::remove_file(site.state().join("holds.json")).unwrap();
    (centre, site, draft)
}

#[test]
fn after_a_lost_database_what_was_held_is_held_again() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let two = |hello: &str, other: &str| {
        let load = |name: &str, text: &str| Load::new(name).file("a", text);
        centre.publish(&Draft::new([load("hello", hello), load("other", other)]))
    };
    site.take(&two("one", "one"));
    site.hold("hello", "ann", "repair");
    site.ok(&["hold", "--who", "bob", "--why", "harvest"]);
    lose(&site, &LOSSES[0]);
    let status = site.run(&["status"]);
    let held = "holds: the site, `hello` at bundle 1";
    assert!(stdout(&status).contains(held), "{}", stdout(&status));
    assert_reports(&status, 3, &["what people hold, from `holds.json`"]);

    let enrolled = site.run(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    let words = "what was held on this site is held again, by `holds.json` (2 holds;";
    assert_reports(&enrolled, 0, &[words]);
    let now = site.status();
    assert_eq!(now["hold"]["who"], "bob");
    assert_eq!(now["held"]["hello"]["who"], "ann");
    let printed = stdout(&site.run(&["status"]));
    assert!(!printed.contains("it is unknown"), "{printed}");
    let next = two("two", "two");
    let waits = site.ok(&["import", next.to_str().unwrap()]);
    assert_eq!(waits["state"], "gated", "{waits}");
    site.ok(&["hold", "--release"]);
    site.ok(&["apply"]);
    let applied = site.applied();
    assert_eq!(applied["hello/a"], b"one", "ann holds it");
    assert_eq!(applied["other/a"], b"two");
    // Released, it is not held again by the copy.
    site.ok(&["hold", "--release", "--assignment", "hello"]);
    assert_eq!(site.applied()["hello/a"], b"two");
    lose(&site, &LOSSES[0]);
    site.ok(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    assert_eq!(site.status()["held"], serde_json::Value::Null);
}

/// A printer whose width may be set on site; `width` is the centre's.
fn printer(width: &str) -> Draft {
    let allowed = Allowed::Integer {
        minimum: 20,
        maximum: 110,
    };
    printer_with("WIDTH", allowed, width)
}

fn printer_with(key: &str, allowed: Allowed, value: &str) -> Draft {
    let about = String::new();
    let open = SiteValues {
        form: Form::Env,
        keys: BTreeMap::from([(key.to_owned(), Rule { about, allowed })]),
    };
    let load = Load::new("printer").file("greeting", "one");
    Draft::new([load.open(open, &[(key, value)])])
}

fn width(site: &Site) -> Vec<u8> {
    site.applied()["printer/site-values.env"].clone()
}

#[test]
fn after_a_lost_database_values_that_were_set_stay_and_lost_holds_are_said() {
    let (centre, site, draft) = set_and_lost();
    let kit = centre.kit("drone-7");
    let enrolled = site.run(&["enrol", kit.to_str().unwrap()]);
    let words = [
        "`WIDTH` of `printer` was set to `70` on this site, and stays so; who set it is not known any more",
        "warning: holds of this site or of single assignments, and approvals, were in the database that is lost",
    ];
    assert_reports(&enrolled, 0, &words);
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains("applied before the database of this site was lost, and goes on"),
        "{printed}"
    );
    assert!(!printed.contains("changed by hand"), "{printed}");
    // What runs is not known until then, and the file keeps the value.
    let unknown = "what runs on this site, and which values it uses, is not known here";
    let listed = site.run(&["values"]);
    assert_reports(&listed, 0, &[unknown, "import the newest bundle"]);
    let words = "WIDTH; `70`, set by unknown: found in the file";
    assert!(stdout(&listed).contains(words), "{}", stdout(&listed));
    for decision in [&["set", "WIDTH=80"][..], &["unset", "WIDTH"]] {
        assert_reports(
            &site.run(decision),
            1,
            &[unknown, "values stay as they are"],
        );
    }
    // The next bundle is not refused because of the file, and the value is in use and reported.
    site.take(&centre.publish(&draft));
    assert_eq!(width(&site), b"WIDTH=\"70\"\n");
    let shown = site.ok(&["values"]);
    assert_eq!(
        (&shown[0]["value"], &shown[0]["who"]),
        (&"70".into(), &"unknown".into())
    );
    let reports = site.reports().into_iter();
    let mut reported = reports.filter_map(|report| match report.event {
        ReportEvent::SiteValues { values, .. } => Some(values),
        _ => None,
    });
    let last = reported.next_back().unwrap();
    assert_eq!(
        (last[0].value.as_str(), last[0].unused.as_deref()),
        ("70", None)
    );
    // As it is said, it is the centre's again.
    site.ok(&["unset", "WIDTH", "--workload", "printer"]);
    assert_eq!(width(&site), b"WIDTH=\"62\"\n");
}

#[test]
fn after_a_lost_database_a_value_that_somebody_typed_into_the_file_is_not_one_that_was_set() {
    let (centre, site, draft) = set_and_lost();
    let file = site.state().join("applied/printer/site-values.env");
    fs::write(&file, "WIDTH=\"71\"\n").unwrap();
    let kit = centre.kit("drone-7");
    let enrolled = site.run(&["enrol", kit.to_str().unwrap()]);
    let words = [
        "site-values.env` was changed by hand",
        "`WIDTH` of `printer` was once set to `70` on this site, and nothing shows whether it still was",
    ];
    assert_reports(&enrolled, 0, &words);
    // Whoever did not read it finds it in `status`, until it is looked after.
    let repeated = |words: &str| stdout(&site.run(&["status"])).contains(words);
    let holds = "holds of this site or of single assignments, and approvals, were in the database that is lost";
    assert!(repeated(words[1]) && repeated(holds));
    site.ok(&["hold", "--who", "bob", "--why", "harvest"]);
    assert!(repeated(words[1]) && !repeated(holds));
    site.ok(&["hold", "--release"]);
    assert_eq!(width(&site), b"WIDTH=\"71\"\n");
    site.ok(&["enrol", kit.to_str().unwrap(), "--adopt-changed"]);
    site.take(&centre.publish(&draft));
    assert!(!repeated(words[1]) && !repeated(holds));
    assert_eq!(width(&site), b"WIDTH=\"62\"\n");
    site.ok(&["set", "WIDTH=70", "--workload", "printer"]);
    assert_eq!(width(&site), b"WIDTH=\"70\"\n");
}

#[test]
fn after_a_lost_database_a_value_that_the_centre_took_over_and_that_was_unset_is_not_set_again() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&printer("62")));
    site.ok(&["set", "WIDTH=70", "--as", "ann"]);
    site.take(&centre.publish(&printer("70")));
    site.ok(&["unset", "WIDTH", "--workload", "printer"]);
    lose(&site, &LOSSES[0]);
    let kit = centre.kit("drone-7");
    let enrolled = site.run(&["enrol", kit.to_str().unwrap()]);
    let words = [
        "`WIDTH` of `printer` was once set to `70` on this site, and nothing shows whether it still was",
    ];
    assert_reports(&enrolled, 0, &words);
    site.take(&centre.publish(&printer("62")));
    assert_eq!(width(&site), b"WIDTH=\"62\"\n");
}

#[test]
fn a_value_of_several_words_is_one_word_of_the_command_that_sets_it_again() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let allowed = Allowed::Text {
        max_length: 40,
        pattern: None,
    };
    site.take(&centre.publish(&printer_with("TITLE", allowed, "press")));
    site.ok(&["set", "TITLE=the old press"]);
    lose(&site, &LOSSES[0]);
    let file = site.state().join("applied/printer/site-values.env");
    fs::write(&file, "TITLE=\"mine\"\n").unwrap();
    let enrolled = site.run(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    let typed = "`outhaul-agent set TITLE='the old press' --workload printer`";
    assert_reports(&enrolled, 0, &[typed]);
}
