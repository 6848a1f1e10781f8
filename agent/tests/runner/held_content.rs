//! Assignments that are held while the database is lost, or restored without content: what they keep, and what waits for it.
//!
//! What must come out: a newer bundle leaves a held assignment at what it keeps, which is compared and put back; where what it keeps is not here,
//! the bundle waits and says for what, and that is not deleted.

use std::fs;

use outhaul_bundle::report::{ComplianceStatus, ReportEvent};
use outhaul_test_kit::{Centre, Draft, Load};

use crate::site::{Site, assert_reports, stdout, tree};

fn two(centre: &Centre, text: &str) -> std::path::PathBuf {
    let load = |name: &str| Load::new(name).file("a", text);
    centre.publish(&Draft::new([load("hello"), load("other")]))
}

const HOLD: [&str; 7] = [
    "hold",
    "--assignment",
    "hello",
    "--who",
    "ann",
    "--why",
    "repair",
];
const RELEASE: [&str; 4] = ["hold", "--release", "--assignment", "hello"];
const SENTENCE: &str = "`hello` is held at what bundle 2 brought, and bundle 2 is not here";

/// A site that runs bundle 2 with `hello` held, and the bundles 2 and 3.
fn held() -> (Centre, Site, [std::path::PathBuf; 2]) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&two(&centre, "one"));
    let second = two(&centre, "two");
    site.take(&second);
    site.ok(&HOLD);
    let third = two(&centre, "three");
    (centre, site, [second, third])
}

fn lose_database(site: &Site) {
    for name in ["agent.db", "agent.db-wal", "agent.db-shm"] {
        let _ = fs::remove_file(site.state().join(name));
    }
}

/// Bundle 3 runs, and `hello` is what bundle 2 brought: compared with it, and put back to it.
fn keeps_two(site: &Site) {
    let applied = site.applied();
    assert_eq!(applied["hello/a"], b"two");
    assert_eq!(applied["other/a"], b"three");
    let printed = stdout(&site.run(&["status"]));
    let line = "hello: held, not as the active bundle has it: held by ann: repair; it keeps what bundle 2 brought";
    assert!(printed.contains(line), "{printed}");
    let file = site.state().join("applied/hello/a");
    fs::write(&file, "mine").unwrap();
    let printed = stdout(&site.run(&["status"]));
    let drift = "differs from bundle 2, at which it is held: 1 of 1 files";
    assert!(printed.contains(drift), "{printed}");
    // As advised, and it stays held.
    let advice =
        "`outhaul-agent apply` puts `hello` back to what bundle 2 brought, and it stays held there";
    assert!(printed.contains(advice), "{printed}");
    site.ok(&["apply"]);
    assert_eq!(fs::read(&file).unwrap(), b"two");
    assert!(stdout(&site.run(&["status"])).contains(line));
    site.ok(&RELEASE);
    assert_eq!(site.applied()["hello/a"], b"three");
}

/// Bundle 3 waits for what `hello` keeps, and no approval lifts that; the release of the hold does.
fn waits_until_it_is_released(site: &Site, third: &std::path::Path) {
    let waits = site.ok(&["import", third.to_str().unwrap()]);
    assert_eq!(waits["state"], "gated", "{waits}");
    assert!(
        waits["message"].as_str().unwrap().contains(SENTENCE),
        "{waits}"
    );
    site.run(&["approve", "3"]);
    assert_ne!(site.active(), Some(3));
    let status = site.status();
    let attention = &status["attention"];
    assert_eq!(attention[0]["what"], "held-content", "{attention}");
    let printed = stdout(&site.run(&["status"]));
    let too_old = "bundle 2 is older than what this site has accepted, and is refused";
    assert!(printed.contains(SENTENCE), "{printed}");
    assert!(printed.contains(too_old), "{printed}");
    assert!(!printed.contains("not installed yet"), "{printed}");
    site.ok(&RELEASE);
    site.ok(&["apply"]);
    assert_eq!(site.active(), Some(3));
    assert_eq!(site.applied()["hello/a"], b"three");
}

#[test]
fn after_a_lost_database_a_held_assignment_keeps_its_content_beside_a_newer_bundle() {
    let (centre, site, [_, third]) = held();
    lose_database(&site);
    let enrolled = site.run(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    assert_reports(&enrolled, 0, &["is held again"]);
    // It is not known to have been replaced, and no approval applies it.
    let printed = stdout(&site.run(&["status"]));
    let line = "bundle 2 was here before the database was lost, on disk";
    assert!(
        printed.contains(line) && !printed.contains("superseded"),
        "{printed}"
    );
    let words = [
        "bundle 2 was here before the database of this site was lost",
        "import it again, or a newer bundle",
    ];
    assert_reports(&site.run(&["approve", "2"]), 1, &words);
    site.take(&third);
    assert!(site.state().join("generations/2").is_dir());
    keeps_two(&site);
}

#[test]
fn a_newer_bundle_waits_where_what_a_held_assignment_keeps_cannot_be_verified() {
    let (centre, site, [second, third]) = held();
    lose_database(&site);
    let bad = site.state().join("generations/2/metadata/timestamp.json");
    fs::write(bad, "{}").unwrap();
    let enrolled = site.run(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    let first = "import bundle 2 first (`outhaul-agent import FOLDER`), or release the hold: `outhaul-agent hold --release --assignment hello`";
    assert_reports(&enrolled, 0, &["is held again", SENTENCE, first]);
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains(SENTENCE) && printed.contains(first),
        "{printed}"
    );
    let line = "hello is held by ann: repair; it is to keep what bundle 2 brought, which is not on this machine";
    assert!(
        printed.contains(line) && !printed.contains("it keeps"),
        "{printed}"
    );
    assert!(!printed.contains("or a newer bundle"), "{printed}");

    let as_advised = site.copy();
    as_advised.take(&second);
    as_advised.take(&third);
    keeps_two(&as_advised);

    let waits = site.ok(&["import", third.to_str().unwrap()]);
    assert_eq!(waits["state"], "gated", "{waits}");
    assert!(site.state().join("generations/2").is_dir());
    waits_until_it_is_released(&site, &third);
}

#[test]
fn a_newer_bundle_waits_where_a_restored_site_has_no_content_for_a_held_assignment() {
    let (_centre, site, [second, third]) = held();
    let file = site.folder.path().join("drone-7.backup");
    let file = file.to_str().unwrap();
    let digest = site.ok(&["backup", "--to", file])["digest"].clone();
    let machine = || {
        let machine = Site {
            name: site.name.clone(),
            folder: tempfile::tempdir().unwrap(),
        };
        let digest = digest.as_str().unwrap();
        machine.ok(&["restore", file, "--digest", digest, "--who", "ann"]);
        machine
    };
    let as_advised = machine();
    let printed = stdout(&as_advised.run(&["status"]));
    assert!(printed.contains("import bundle 2 first"), "{printed}");
    as_advised.take(&second);
    as_advised.take(&third);
    keeps_two(&as_advised);
    waits_until_it_is_released(&machine(), &third);
}

#[test]
fn a_copy_that_ends_early_takes_nothing_of_what_a_held_assignment_keeps() {
    let (centre, site, [second, third]) = held();
    lose_database(&site);
    let folder = site.state().join("generations/2");
    fs::write(folder.join("metadata/timestamp.json"), "{}").unwrap();
    site.ok(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    let before = tree(&folder);
    let bytes = fs::read(&second).unwrap();
    let short = site.folder.path().join("short.outhaul");
    for end in [bytes.len() - 1024 - 600, bytes.len() - 512] {
        fs::write(&short, &bytes[..end]).unwrap();
        assert_reports(&site.import(&short), 4, &["the file is incomplete"]);
        assert_eq!(tree(&folder), before);
    }
    site.take(&second);
    site.take(&third);
    keeps_two(&site);
}

#[test]
fn a_held_assignment_that_the_active_bundle_does_not_have_is_reported_where_its_content_is_gone() {
    let (centre, site, _) = held();
    let load = Load::new("other").file("a", "four");
    site.take(&centre.publish(&Draft::new([load])));
    let applied = site.applied();
    assert_eq!(applied["hello/a"], b"two");
    fs::remove_dir_all(site.state().join("generations/2")).unwrap();
    let stick = tempfile::tempdir().unwrap();
    site.ok(&["run", "--once"]);
    site.ok(&["export", stick.path().to_str().unwrap()]);
    let reports = site.read_reports(stick.path());
    let last = reports.iter().rev().find_map(|report| match &report.event {
        ReportEvent::Observation(observed) => Some(observed),
        _ => None,
    });
    let held = last
        .unwrap()
        .assignments
        .iter()
        .find(|one| one.name.as_str() == "hello");
    let held = held.unwrap();
    assert_eq!(held.status, ComplianceStatus::Failed);
    assert!(held.message.contains("held by ann: repair"), "{held:?}");
    assert!(held.message.contains("bundle 2 is not here"), "{held:?}");
    assert_eq!(site.applied(), applied);
}

/// As after a loss of an agent of before, which kept no copy of the holds.
fn lose_holds(site: &Site) {
    lose_database(site);
    fs::remove_file(site.state().join("holds.json")).unwrap();
}

/// Bundle 2 runs, and nobody holds anything; bundle 3 is made.
fn free() -> (Centre, Site, [std::path::PathBuf; 2]) {
    let (centre, site, bundles) = held();
    site.ok(&RELEASE);
    (centre, site, bundles)
}

#[test]
fn after_a_lost_database_without_a_copy_of_the_holds_an_assignment_is_held_at_what_it_has_as_advised()
 {
    let (centre, site, [_, third]) = free();
    lose_holds(&site);
    let advice = "`outhaul-agent hold --assignment NAME`, before the next bundle is imported";
    let enrolled = site.run(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    assert_reports(&enrolled, 0, &["it is unknown", advice]);
    // The service may have run before someone gets to it.
    site.run(&["run", "--once"]);
    let unknown = site.run(&["hold", "--assignment", "helo"]);
    assert_reports(
        &unknown,
        1,
        &["this site has no assignment `helo`", "`hello`"],
    );
    // What differs of it is seen before anything is active.
    let file = site.state().join("applied/other/a");
    fs::write(&file, "mine").unwrap();
    let printed = stdout(&site.run(&["status"]));
    let differs = "`other` differs from what bundle 2 brought, which was applied before the database of this site was lost: 1 of 1 files";
    assert!(printed.contains(differs), "{printed}");
    fs::write(&file, "two").unwrap();

    let done = stdout(&site.run(&HOLD));
    assert!(
        done.contains("held by ann: repair; it keeps what bundle 2 brought"),
        "{done}"
    );
    assert!(!done.contains("not installed"), "{done}");
    let decided = site.event_log();
    assert!(
        decided.iter().any(|event| event == "decision hold"),
        "{decided:?}"
    );
    fs::write(site.state().join("applied/hello/a"), "mine").unwrap();
    let printed = stdout(&site.run(&["status"]));
    let drift = "differs from bundle 2, at which it is held: 1 of 1 files";
    assert!(
        printed.contains(drift) && printed.contains("`outhaul-agent import FOLDER`, then"),
        "{printed}"
    );
    assert!(!printed.contains("it is unknown"), "{printed}");
    fs::write(site.state().join("applied/hello/a"), "two").unwrap();
    site.take(&third);
    assert!(!site.state().join("generations/1").exists());
    keeps_two(&site);
}

#[test]
fn after_a_lost_database_an_assignment_that_a_waiting_bundle_has_too_is_held_at_what_runs() {
    let (centre, site, [_, third]) = free();
    lose_holds(&site);
    site.ok(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    site.configure("approval = \"always\"\n");
    let waits = site.ok(&["import", third.to_str().unwrap()]);
    assert_eq!(waits["state"], "gated", "{waits}");
    site.ok(&HOLD);
    assert_eq!(site.status()["held"]["hello"]["generation"], 2);
    site.ok(&["approve", "3"]);
    keeps_two(&site);
}

#[test]
fn files_of_a_bundle_whose_folder_is_lost_are_not_said_to_be_changed_by_hand() {
    let (centre, site, [second, third]) = held();
    lose_database(&site);
    fs::remove_dir_all(site.state().join("generations/2")).unwrap();
    let kit = centre.kit("drone-7");
    let enrolled = site.run(&["enrol", kit.to_str().unwrap()]);
    let may = "bundle 2, which is not on disk, may have written it, or someone changed it by hand";
    let first = "import bundle 2 first (`outhaul-agent import FOLDER`)";
    assert_reports(&enrolled, 0, &[may, first]);
    assert!(
        !crate::site::stderr(&enrolled).contains("a` was changed by hand"),
        "{enrolled:?}"
    );
    let status = site.status();
    let next = status["next"][0].as_str().unwrap();
    assert!(next.starts_with("import bundle 2 first"), "{status}");
    assert!(
        !status.to_string().contains("were changed by hand"),
        "{status}"
    );

    // As advised: what bundle 2 wrote is known again, so that the next one writes over what is not held.
    let as_advised = site.copy();
    as_advised.take(&second);
    assert!(
        !as_advised.status().to_string().contains("changed-files"),
        "{}",
        as_advised.status()
    );
    as_advised.take(&third);
    keeps_two(&as_advised);

    // Bundle 3 first: what it would fail on comes before what lets it through, and each step is named.
    site.configure("approval = \"always\"\n");
    let waits = site.ok(&["import", third.to_str().unwrap()]);
    assert_eq!(waits["state"], "gated", "{waits}");
    let status = site.status();
    let next: Vec<&str> = status["next"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    assert!(next[0].contains("--adopt-changed"), "{next:?}");
    assert!(
        next[1].contains("release the hold") && next[1].contains("`outhaul-agent approve 3`"),
        "{next:?}"
    );
    site.ok(&["enrol", kit.to_str().unwrap(), "--adopt-changed"]);
    site.ok(&RELEASE);
    site.ok(&["approve", "3"]);
    assert_eq!(site.active(), Some(3));
    assert_eq!(site.applied()["hello/a"], b"three");
}

#[test]
fn a_hold_has_one_line_in_status_and_a_damaged_copy_of_the_holds_is_said_to_be_damaged() {
    let (_centre, site, _) = held();
    let line = "held by ann: repair; it keeps what bundle 2 brought";
    for round in ["before", "after"] {
        let printed = stdout(&site.run(&["status"]));
        assert_eq!(printed.matches(line).count(), 1, "{round}: {printed}");
        // A look puts who holds it into the result.
        site.ok(&["run", "--once"]);
    }
    lose_database(&site);
    let copy = site.state().join("holds.json");
    fs::write(&copy, "{\"format\":").unwrap();
    let status = site.run(&["status"]);
    let damaged = "what people held is not, because `holds.json` is damaged";
    assert_reports(&status, 3, &[damaged]);
    let printed = stdout(&status);
    assert!(
        printed.contains("no readable `holds.json` shows what was held"),
        "{printed}"
    );
    assert!(
        !crate::site::stderr(&status).contains("and what people hold"),
        "{status:?}"
    );
}

#[test]
fn a_held_file_that_was_changed_before_the_database_was_lost_is_put_back_by_what_is_printed() {
    let (centre, site, [_, third]) = held();
    let file = site.state().join("applied/hello/a");
    fs::write(&file, "mine").unwrap();
    lose_database(&site);
    let kit = centre.kit("drone-7");
    let enrolled = site.run(&["enrol", kit.to_str().unwrap()]);
    assert_reports(&enrolled, 0, &["was changed by hand"]);
    site.take(&third);
    // `apply` alone is refused by the changed file.
    let printed = stdout(&site.run(&["status"]));
    let advice = "`outhaul-agent enrol SITE.kit --adopt-changed`, with the kit that this site was enrolled with, lets the changed files be written \
                  over; then `outhaul-agent apply` puts `hello` back to what bundle 2 brought";
    assert!(printed.contains(advice), "{printed}");
    site.ok(&["enrol", kit.to_str().unwrap(), "--adopt-changed"]);
    site.ok(&["apply"]);
    assert_eq!(fs::read(&file).unwrap(), b"two");
    assert!(!stdout(&site.run(&["status"])).contains("--adopt-changed"));
}

#[test]
fn that_holds_are_unknown_is_said_until_one_is_given_or_a_person_says_that_none_was() {
    let (centre, site, [_, third]) = held();
    lose_database(&site);
    fs::remove_file(site.state().join("holds.json")).unwrap();
    site.ok(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    let unknown = "no readable `holds.json` shows what was held: it is unknown";
    let planned = site.run(&["plan", third.to_str().unwrap()]);
    assert_reports(&planned, 0, &[unknown]);
    site.take(&third);
    let said = |site: &Site| stdout(&site.run(&["status"])).contains(unknown);
    assert!(said(&site), "a bundle that was applied is no answer");
    let given = site.copy();
    given.ok(&HOLD);
    given.ok(&RELEASE);
    assert!(!said(&given));
    site.ok(&["hold", "--release"]);
    assert!(!said(&site));
    let planned = site.run(&["plan", third.to_str().unwrap()]);
    assert!(!crate::site::stderr(&planned).contains(unknown));
}
