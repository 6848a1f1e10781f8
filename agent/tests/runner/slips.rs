//! Freshness slips: floors, keys and time for a site that no bundle reaches; nothing else moves.

use std::fs;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use outhaul_bundle::report::ReportEvent;
use outhaul_signer::Slip;
use outhaul_test_kit::{Centre, Draft, now};
use serde_json::Value;

use crate::site::{Site, Tree, assert_reports, stdout, tree};

/// What no refused slip may change: what runs, and everything that later verdicts rest on.
fn kept(site: &Site) -> (Tree, Vec<u8>, Value) {
    let mut status = site.status();
    // Time goes on, and the refusal itself is reported.
    for moving in [
        "clock",
        "next",
        "time_lower_bound",
        "reports_waiting",
        "reports_last",
        "media",
        "refusals",
    ] {
        status[moving] = Value::Null;
    }
    let floors = fs::read(site.state().join("floors.json")).unwrap_or_default();
    (site.applied(), floors, status)
}

#[track_caller]
fn assert_refused(site: &Site, slip: &Path, words: &[&str]) {
    let before = kept(site);
    let output = site.import(slip);
    assert_reports(
        &output,
        4,
        &[&["refused, nothing was changed", "help:"], words].concat(),
    );
    assert_eq!(kept(site), before);
}

/// A site on which bundle 1 runs.
fn running(centre: &Centre) -> Site {
    let site = Site::new(centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("hi")));
    site
}

fn lower_bound(site: &Site) -> Timestamp {
    let status = site.status();
    status["time_lower_bound"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn slip_effect(site: &Site, path: &Path) -> Value {
    let taken = site.ok(&["import", path.to_str().unwrap()]);
    taken["slips"][0].clone()
}

#[test]
fn a_slip_raises_floors_and_time_and_leaves_what_runs_alone() {
    let centre = Centre::new();
    let site = running(&centre);
    let applied = site.applied();
    let day = SignedDuration::from_hours(24);
    let issued = now() + day * 30;
    let slip = centre.slip_issued("drone", issued, issued + day);
    assert!(fs::metadata(&slip).unwrap().len() <= 2048);
    let printed = site.import(&slip);
    assert_reports(&printed, 0, &[]);
    let printed = stdout(&printed);
    assert!(
        printed.contains("floors raised") && printed.contains("nothing was installed"),
        "{printed}"
    );
    assert!(lower_bound(&site).as_second() >= issued.as_second());
    assert_eq!(site.applied(), applied);
    assert_eq!(site.active(), Some(1));
    assert_eq!(site.event_log().last().unwrap(), "slip 1");
    let reports = site.reports();
    let ReportEvent::FreshnessSlip {
        issued_ms,
        versions,
        ..
    } = &reports.last().unwrap().event
    else {
        panic!("no report of the slip");
    };
    assert_eq!(*issued_ms / 1000, issued.as_second());
    assert!(versions["timestamp"] > 1, "{versions:?}");
}

#[test]
fn the_same_slip_twice_is_no_event() {
    let centre = Centre::new();
    let site = running(&centre);
    let slip = centre.slip("drone");
    assert_eq!(slip_effect(&site, &slip)["fresh"], true);
    let event_log = site.event_log();
    assert_eq!(slip_effect(&site, &slip)["fresh"], false);
    assert_eq!(site.event_log(), event_log);
}

#[test]
fn a_key_that_a_slip_revokes_signs_no_bundle_any_more() {
    let centre = Centre::new();
    let site = running(&centre);
    let stolen = centre.publish(&Draft::hello("signed with the stolen key"));
    centre.replace_stream_key("drone");
    let slip = centre.slip("drone");
    site.ok(&["import", slip.to_str().unwrap()]);
    assert_refused(&site, &stolen, &["rollback"]);
    // The same content under the new key is welcome.
    site.take(&centre.publish(&Draft::hello("signed with the new key")));
    assert_eq!(site.active(), Some(3));
}

#[test]
fn a_stick_written_before_a_slip_installs_what_the_slip_vouches_for_and_nothing_older() {
    let centre = Centre::new();
    let site = running(&centre);
    let second = centre.publish(&Draft::hello("second"));
    let third = centre.publish(&Draft::hello("third"));
    let slip = centre.slip("drone");
    assert_eq!(slip_effect(&site, &slip)["number"], 3);
    assert_refused(&site, &second, &[]);
    site.take(&third);
    assert_eq!(site.active(), Some(3));
}

#[test]
fn an_older_slip_is_refused() {
    let centre = Centre::new();
    let site = running(&centre);
    let (older, newer) = (centre.slip("drone"), centre.slip("drone"));
    site.ok(&["import", newer.to_str().unwrap()]);
    assert_refused(&site, &older, &["timestamp"]);
    assert_eq!(site.event_log().last().unwrap(), "refusal rollback");
}

#[test]
fn slips_of_other_fleets_and_streams_are_refused() {
    let centre = Centre::new();
    let site = running(&centre);
    centre.publish(&Draft::hello("other").cluster_type("tractor"));
    assert_refused(
        &site,
        &centre.slip("tractor"),
        &["another stream", "dev/drone"],
    );
    let foreign = Centre::new();
    foreign.publish(&Draft::hello("foreign"));
    assert_refused(&site, &foreign.slip("drone"), &["of fleet"]);
    // Its head says that it is ours: the signatures say otherwise.
    let bytes = fs::read(foreign.slip("drone")).unwrap();
    let read = Slip::from_bytes(&bytes).unwrap();
    let ours = Slip::from_bytes(&fs::read(centre.slip("drone")).unwrap()).unwrap();
    let files: Vec<_> = read
        .source()
        .iter()
        .map(|(name, bytes)| (name.replace(read.role(), ours.role()), bytes.clone()))
        .collect();
    let forged = Slip::new(ours.fleet(), ours.role(), &files, 0).unwrap();
    let path = centre.folder().join("forged.slip");
    fs::write(&path, forged.to_bytes()).unwrap();
    assert_refused(&site, &path, &[]);
}

#[test]
fn a_damaged_slip_is_refused_wherever_it_is_damaged() {
    let centre = Centre::new();
    let site = running(&centre);
    let slip = centre.slip("drone");
    let good = fs::read(&slip).unwrap();
    let damaged = slip.with_file_name("damaged.slip");
    let step = good.len() / 6;
    for at in (0..good.len()).step_by(step) {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        fs::write(&damaged, &bytes).unwrap();
        assert_refused(&site, &damaged, &[]);
    }
    fs::write(&damaged, &good[..good.len() - 1]).unwrap();
    assert_refused(&site, &damaged, &["damaged"]);
    fs::write(&damaged, [&good[..], b"\n"].concat()).unwrap();
    assert_refused(&site, &damaged, &[]);
}

#[test]
fn a_slip_can_be_typed_or_scanned() {
    let centre = Centre::new();
    let site = running(&centre);
    let slip = Slip::from_bytes(&fs::read(centre.slip("drone")).unwrap()).unwrap();
    let line = slip.to_line();
    assert!(line.starts_with("OUTHAUL:"), "{line}");
    let mistyped = line.replacen(
        &line[30..31],
        if &line[30..31] == "2" { "3" } else { "2" },
        1,
    );
    let output = site.run(&["import", "--text", &mistyped]);
    assert_reports(&output, 4, &["line 1", "typing error", "help:"]);
    let taken = site.ok(&["import", "--text", &line]);
    assert_eq!(taken["slips"][0]["fresh"], true);
    let typed = slip.to_text().to_lowercase();
    let again = site.ok(&["import", "--text", &typed]);
    assert_eq!(again["slips"][0]["fresh"], false);
}

#[test]
fn slips_on_a_stick_are_taken_before_bundles() {
    let centre = Centre::new();
    let site = running(&centre);
    let stick = tempfile::tempdir().unwrap();
    let put = |from: &Path| {
        let to = stick.path().join(from.file_name().unwrap());
        fs::copy(from, to).unwrap();
    };
    put(&centre.publish(&Draft::hello("signed with the stolen key")));
    centre.replace_stream_key("drone");
    put(&centre.slip("drone"));
    centre.publish(&Draft::hello("other").cluster_type("tractor"));
    put(&centre.slip("tractor"));
    let output = site.import(stick.path());
    assert_reports(
        &output,
        0,
        &["skipped `tractor-", "skipped `drone-2.outhaul`"],
    );
    assert!(stdout(&output).contains("floors raised"));
    assert_eq!(site.active(), Some(1));
}

/// As if the machine had been up for `hours` since it last heard anything signed.
fn wait(site: &Site, hours: i64) {
    let at = lower_bound(site) + SignedDuration::from_hours(hours);
    let db = rusqlite::Connection::open(site.state().join("agent.db")).unwrap();
    let changed = db.execute(
        "UPDATE meta SET value = json_set(value, '$.at', ?1) WHERE name = 'clock'",
        [at.to_string()],
    );
    assert_eq!(changed.unwrap(), 1);
    assert!(lower_bound(site) >= at);
}

/// The database as it was before bundle 2, beside the `floors.json` of bundle 2.
fn with_an_old_database(centre: &Centre) -> Site {
    let site = running(centre);
    let old = site.copy();
    site.take(&centre.publish(&Draft::hello("two")));
    let new = fs::read(site.state().join("floors.json")).unwrap();
    let torn: Value = serde_json::from_slice(&new).unwrap();
    assert_ne!(torn["before"], torn["floors"]);
    // Twice, so that `before` is none that the old database knows.
    site.take(&centre.publish(&Draft::hello("three")));
    fs::copy(
        site.state().join("floors.json"),
        old.state().join("floors.json"),
    )
    .unwrap();
    old
}

#[test]
fn floors_that_contradict_each_other_hold_again_after_a_newer_slip_and_no_sooner() {
    let centre = Centre::new();
    let known = {
        centre.publish(&Draft::hello("zero"));
        centre.slip("drone")
    };
    let site = with_an_old_database(&centre);
    let four = centre.publish(&Draft::hello("four"));
    assert!(site.status()["trouble"].is_string());
    assert_reports(&site.import(&four), 4, &["older than", "freshness slip"]);
    assert_refused(&site, &known, &[]);
    let slip = slip_effect(&site, &centre.slip("drone"));
    assert_eq!(slip["recovered"], true, "{slip}");
    assert_eq!(site.status()["trouble"], Value::Null);
    site.take(&four);
    assert_eq!(
        tree(&site.state().join("applied"))["hello/manifest.yaml"],
        b"greeting: four\n"
    );
}

#[test]
fn a_slip_may_be_days_on_its_way_to_floors_that_contradict_each_other() {
    let centre = Centre::new();
    let site = with_an_old_database(&centre);
    wait(&site, 48);
    let slip = slip_effect(&site, &centre.slip("drone"));
    assert_eq!(slip["recovered"], true, "{slip}");
}

#[test]
fn a_slip_signed_before_what_the_site_knows_does_not_mend_floors() {
    let centre = Centre::new();
    let site = running(&centre);
    let before = fs::read(site.state().join("floors.json")).unwrap();
    site.take(&centre.publish(&Draft::hello("two")));
    let issued = |days: i64| {
        let at = now() + SignedDuration::from_hours(24 * days);
        centre.slip_issued("drone", at, at + SignedDuration::from_hours(24))
    };
    assert_eq!(slip_effect(&site, &issued(2))["fresh"], true);
    fs::write(site.state().join("floors.json"), before).unwrap();
    assert!(site.status()["trouble"].is_string());
    assert_refused(&site, &issued(1), &["a slip signed after"]);
    assert_eq!(slip_effect(&site, &issued(3))["recovered"], true);
}

#[test]
fn a_slip_with_the_very_versions_of_the_newer_half_does_not_mend_floors() {
    let centre = Centre::new();
    let site = running(&centre);
    let old = site.copy();
    site.take(&centre.publish(&Draft::hello("two")));
    let last = centre.slip("drone");
    site.ok(&["import", last.to_str().unwrap()]);
    fs::copy(
        site.state().join("floors.json"),
        old.state().join("floors.json"),
    )
    .unwrap();
    assert!(old.status()["trouble"].is_string());
    assert_refused(&old, &last, &["a slip newer than"]);
    assert_eq!(slip_effect(&old, &centre.slip("drone"))["recovered"], true);
}

#[test]
fn a_plan_shows_the_slip_that_mends_floors_and_what_could_be_taken_then() {
    let centre = Centre::new();
    let site = with_an_old_database(&centre);
    let four = centre.publish(&Draft::hello("four"));
    let slip = centre.slip("drone");
    let plan = |path: &Path| site.run(&["plan", path.to_str().unwrap()]);
    assert_reports(&plan(&four), 4, &["older than", "freshness slip"]);
    let printed = plan(&slip);
    assert_reports(&printed, 0, &[]);
    assert!(
        stdout(&printed)
            .contains("the record of the highest accepted versions would be valid again"),
        "{}",
        stdout(&printed)
    );
    let stick = tempfile::tempdir().unwrap();
    for file in [&slip, &four] {
        fs::copy(file, stick.path().join(file.file_name().unwrap())).unwrap();
    }
    let printed = plan(stick.path());
    assert_reports(&printed, 0, &[]);
    assert!(
        stdout(&printed).contains("bundle 4 instead of 1"),
        "{}",
        stdout(&printed)
    );
    // It was only shown.
    assert!(site.status()["trouble"].is_string());
    site.take(stick.path());
}
