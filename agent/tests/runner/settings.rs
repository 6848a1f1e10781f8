//! `agent.toml` that is changed, broken or not there while the service runs, and files beside the database that others changed.

use std::fs;
use std::os::unix::fs::symlink;

use outhaul_test_kit::{Centre, Draft};

use crate::service::Service;
use crate::site::{Site, assert_reports, stdout};

#[test]
fn status_says_what_the_service_follows_where_agent_toml_was_changed_since() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let mut service = Service::start(&site);
    let kinds = || site.status()["attention"].to_string();
    assert!(!kinds().contains("settings"), "{}", kinds());
    site.configure("approval = \"always\"\n");
    assert!(kinds().contains("\"settings\""), "{}", kinds());
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains("the service goes on with what it read then"),
        "{printed}"
    );
    assert!(
        printed.contains("`systemctl restart outhaul-agent`"),
        "{printed}"
    );
    // Broken, it keeps commands from working, and not the service.
    site.configure("drift_s = \"often\"\n");
    let status = site.run(&["status"]);
    assert_reports(&status, 2, &["agent.toml:1:11"]);
    let printed = stdout(&status);
    assert!(
        printed.contains("the service runs, and goes on with the settings"),
        "{printed}"
    );
    assert!(service.terminate().success());
    let printed = stdout(&site.run(&["status"]));
    assert!(printed.contains("nothing new is installed"), "{printed}");
    // What it is started with anew is what it follows.
    site.configure("approval = \"always\"\n");
    let _service = Service::start(&site);
    assert!(!kinds().contains("settings"), "{}", kinds());
}

#[test]
fn settings_behind_a_link_that_leads_to_nothing_are_not_left_out() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let elsewhere = site.folder.path().join("settings.toml");
    symlink(&elsewhere, site.state().join("agent.toml")).unwrap();
    let two = centre.publish(&Draft::hello("two"));
    let words = [
        "is a link to",
        "settings.toml`, which is not there",
        "without the link",
    ];
    assert_reports(&site.import(&two), 3, &words);
    fs::write(&elsewhere, "approval = \"always\"\n").unwrap();
    let taken = site.ok(&["import", two.to_str().unwrap()]);
    assert_eq!(taken["state"], "gated");
}

#[test]
fn a_running_service_puts_right_what_others_wrote_into_the_copy_of_the_holds() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.ok(&["hold", "--why", "harvest"]);
    let copy = site.state().join("holds.json");
    let right = fs::read(&copy).unwrap();
    let _service = Service::start(&site);
    fs::write(&copy, "{}").unwrap();
    site.ok(&["run", "--once"]);
    assert_eq!(fs::read(&copy).unwrap(), right);
}
