//! A stick that stays plugged in: what is reported after it was read gets onto it as well.

use std::fs;
use std::path::Path;

use outhaul_bundle::report::ReportEvent;
use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::skipped;

use crate::media::Stick;
use crate::service::Service;
use crate::site::{Site, described, tree};

/// What `status` says of the one stick.
fn said(site: &Site) -> String {
    let status = site.status();
    status["media"][0]["text"].as_str().unwrap().to_owned()
}

fn last(site: &Site) -> u64 {
    site.status()["reports_last"].as_u64().unwrap()
}

/// A site that watches `stick`, which has a folder for reports.
fn watching(centre: &Centre, stick: &Path) -> Site {
    let site = Site::new(centre, "drone-7");
    fs::create_dir_all(stick.join("reports")).unwrap();
    site.configure(&format!("watch = [{stick:?}]\ndrift_s = 0"));
    site
}

#[test]
fn what_is_reported_later_gets_onto_a_stick_that_stays_and_each_report_once() {
    let centre = Centre::new();
    let stick = tempfile::tempdir().unwrap();
    let site = watching(&centre, stick.path());
    fs::copy(
        centre.publish(&Draft::hello("one")),
        stick.path().join("one.outhaul"),
    )
    .unwrap();
    let service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active; reports up to");
    let first = last(&site);
    assert_eq!(site.read_reports(stick.path()).len() as u64, first);
    // Nobody touches the stick: what is decided now is on it soon.
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    service.wait_for(&format!("; reports up to {} are on", first + 1));
    let reports = site.read_reports(stick.path());
    assert_eq!(reports.len() as u64, first + 1);
    assert_eq!(described(&reports.last().unwrap().event), "decision hold");
    // Only what is newer was written: each report is on the stick once.
    let lines: usize = tree(&stick.path().join("reports"))
        .values()
        .map(|bytes| {
            bytes
                .split(|b| *b == b'\n')
                .filter(|l| !l.is_empty())
                .count()
        })
        .sum();
    assert_eq!(lines as u64, first + 1);
    let said = said(&site);
    assert!(
        said.ends_with(&format!(
            "{} reports written; it is safe to remove now",
            first + 1
        )),
        "{said}"
    );
}

#[test]
fn another_stick_in_the_same_place_gets_everything() {
    let centre = Centre::new();
    let stick = tempfile::tempdir().unwrap();
    let site = watching(&centre, stick.path());
    let service = Service::start(&site);
    let first = last(&site);
    service.wait_for(&format!("; reports up to {first} are on"));
    // What an exchange looks like: nothing of what was written is there.
    fs::remove_dir_all(stick.path().join("reports")).unwrap();
    fs::remove_dir_all(stick.path().join("requests")).unwrap();
    fs::create_dir(stick.path().join("reports")).unwrap();
    site.ok(&["hold", "--who", "ann"]);
    service.wait_for(&format!("; reports up to {} are on", first + 1));
    let reports = site.read_reports(stick.path());
    assert_eq!(reports.len() as u64, first + 1);
    assert!(matches!(reports[0].event, ReportEvent::Started { .. }));
}

#[test]
fn a_full_stick_is_tried_again_when_there_is_room() {
    let stick = Stick::new("64k").filter(Stick::is_mounted);
    let Some(stick) = stick else {
        return skipped("only root can mount a small file system");
    };
    let centre = Centre::new();
    let site = watching(&centre, stick.path());
    let _ = fs::write(stick.path().join("photos"), vec![1; 1 << 20]);
    let service = Service::start(&site);
    service.wait_for("reports cannot be written to");
    let printed = said(&site);
    assert!(printed.contains("reports were not written"), "{printed}");
    assert!(printed.contains("No space left"), "{printed}");
    assert!(
        printed.contains("the service tries again where it runs, while it stays plugged in"),
        "{printed}"
    );
    // Someone makes room; nobody pulls the stick.
    fs::remove_file(stick.path().join("photos")).unwrap();
    service.wait_for(&format!("; reports up to {} are on", last(&site)));
    assert_eq!(site.read_reports(stick.path()).len() as u64, last(&site));
    let printed = said(&site);
    assert!(!printed.contains("not written"), "{printed}");
}

#[test]
fn a_stick_below_a_watched_folder_is_read_once() {
    let watched = tempfile::tempdir().unwrap();
    let stick = Stick::below(watched.path(), "stick");
    let Some(stick) = stick.filter(Stick::is_mounted) else {
        return skipped("only root can mount a small file system");
    };
    let centre = Centre::new();
    let site = watching(&centre, watched.path());
    fs::create_dir(stick.path().join("reports")).unwrap();
    // A file that is refused is reported once for each time that it is read.
    let whole = fs::read(centre.publish(&Draft::hello("one"))).unwrap();
    fs::write(
        stick.path().join("one.outhaul"),
        &whole[..whole.len() - 2048],
    )
    .unwrap();
    let service = Service::start(&site);
    service.wait_for("reports up to");
    site.ok(&["run", "--once"]);
    let status = site.status();
    let media = status["media"].as_array().unwrap();
    let said = |place: &Path| {
        let place = place.to_str().unwrap();
        let mut all = media.iter().filter(|one| one["place"] == place);
        all.next()
            .map(|one| one["text"].as_str().unwrap().to_owned())
    };
    let of_stick = said(stick.path()).unwrap();
    assert!(of_stick.contains("one.outhaul"), "{status}");
    let of_folder = said(watched.path()).unwrap_or_default();
    assert!(!of_folder.contains("one.outhaul"), "{status}");
    let log = site.reports();
    let refused = log
        .iter()
        .filter(|report| described(&report.event).starts_with("refusal "));
    assert_eq!(refused.count(), 1);
    drop(service);
}
