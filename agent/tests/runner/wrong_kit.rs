//! A kit of another site or fleet, where the database is lost: what is left in the folder says whose it was.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use outhaul_test_kit::{Centre, Draft};

use crate::site::{Site, assert_reports};

fn lose(site: &Site) {
    for name in ["agent.db", "agent.db-wal", "agent.db-shm"] {
        let _ = fs::remove_file(site.state().join(name));
    }
}

fn enrol(site: &Site, kit: &Path) -> std::process::Output {
    site.run(&["enrol", kit.to_str().unwrap()])
}

#[test]
fn a_kit_of_another_site_or_fleet_is_refused_after_a_lost_database() {
    let (centre, other) = (Centre::new(), Centre::new());
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let request = site.state().join("drone-7.request");
    let written = fs::read(&request).unwrap();
    lose(&site);
    let kits = [centre.kit("drone-8"), other.kit("drone-7")];
    for kit in &kits {
        let words = [
            "site `drone-7` of fleet",
            "as `site.json` in it shows",
            "nothing was changed",
        ];
        assert_reports(&enrol(&site, kit), 2, &words);
        assert!(!site.state().join("agent.db").exists());
    }
    // As a folder of an earlier agent, which has no such file.
    fs::remove_file(site.state().join("site.json")).unwrap();
    let of_site = ["is for site `drone-8`", "site `drone-7` of fleet"];
    let of_fleet = ["is for site `drone-7`", "`generations/1` in it shows"];
    for (kit, words) in [
        (centre.kit("drone-8"), of_site),
        (other.kit("drone-7"), of_fleet),
    ] {
        let words = [&words[..], &["nothing was changed", "outhaul site enrol"]].concat();
        assert_reports(&enrol(&site, &kit), 2, &words);
        assert!(!site.state().join("agent.db").exists(), "{words:?}");
    }
    // Without the request, the bundles say which fleet it was; without both, nothing does.
    fs::remove_file(&request).unwrap();
    let of_fleet = ["state folder of a site of fleet", "`generations/1`"];
    assert_reports(&enrol(&site, &other.kit("drone-7")), 2, &of_fleet);
    fs::write(&request, written).unwrap();
    // As an enrolment that was cut off after the database was made.
    let database = fs::File::create(site.state().join("agent.db")).unwrap();
    let private = fs::Permissions::from_mode(0o600);
    database.set_permissions(private).unwrap();
    let words = ["site `drone-7` of fleet", "nothing was changed"];
    assert_reports(&enrol(&site, &centre.kit("drone-8")), 2, &words);
    let again = site.ok(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    assert_eq!(
        (&again["lost"], &again["known_again"]),
        (&true.into(), &3.into())
    );
}

#[test]
fn a_file_that_is_no_kit_is_named() {
    let site = Site::new(&Centre::new(), "drone-7");
    let kit = site.folder.path().join("bad.kit");
    fs::write(&kit, "{\"stream\": 5}").unwrap();
    let words = ["bad.kit`: not a kit", "outhaul site enrol"];
    assert_reports(&enrol(&site, &kit), 2, &words);
}
