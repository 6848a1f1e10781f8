//! What someone removes or exchanges under a site: its lock, its database, what lies beside it. And a file of another site or time in its place.
//!
//! What must come out: it is noticed, by the service that runs and by the next command; nothing is half done, no report is lost or made under a
//! wrong name or number, and the way out that is printed works as it is printed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use outhaul_test_kit::{Centre, Draft, Load};

use crate::service::{Service, log, until};
use crate::site::{Site, assert_reports, code, stderr, stdout};

pub const DATABASE: [&str; 3] = ["agent.db", "agent.db-wal", "agent.db-shm"];

pub fn running(centre: &Centre, name: &str) -> Site {
    let site = Site::new(centre, name);
    site.take(&centre.publish(&Draft::hello("one")));
    site
}

/// A site whose service works, with its first bundle active.
pub fn at_work(centre: &Centre) -> (Site, Service) {
    let site = running(centre, "drone-7");
    let service = serving(&site);
    (site, service)
}

/// The service of a site, with its first bundle active.
pub fn serving(site: &Site) -> Service {
    let service = Service::start(site);
    service.wait_for("STATUS=bundle 1 is active");
    service
}

pub fn remove(site: &Site, names: &[&str]) {
    for name in names {
        let _ = fs::remove_file(site.state().join(name));
    }
}

pub fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub fn signal(service: &Service, name: &str) {
    let id = service.id().to_string();
    let sent = Command::new("kill").args([name, &id]).status();
    assert!(sent.unwrap().success());
}

/// The command in the first pair of backquotes that begins with `start`, run as a shell does.
#[track_caller]
pub fn as_printed(said: &str, start: &str) -> Output {
    let at = said
        .find(&format!("`{start}"))
        .unwrap_or_else(|| panic!("{said}"));
    let command = said[at + 1..].split('`').next().unwrap();
    Command::new("sh").args(["-c", command]).output().unwrap()
}

#[test]
fn beside_a_service_whose_lock_was_removed_no_other_program_works_and_it_ends() {
    for replaced in [false, true] {
        let centre = Centre::new();
        let site = running(&centre, "drone-7");
        let two = centre.publish(&Draft::hello("two"));
        let backup = site.folder.path().join("drone-7.backup");
        site.ok(&["backup", "--to", path(&backup)]);
        let mut service = serving(&site);
        // It cannot look while it is stopped.
        signal(&service, "-STOP");
        let lock = site.state().join("lock");
        fs::remove_file(&lock).unwrap();
        if replaced {
            fs::write(&lock, "").unwrap();
        }
        let words = ["works on the state folder", "systemctl stop outhaul-agent"];
        let to = site.folder.path().join("other.backup");
        assert_reports(&site.run(&["backup", "--to", path(&to)]), 3, &words);
        assert_reports(&site.run(&["restore", path(&backup)]), 3, &words);
        assert_eq!(lock.exists(), replaced, "no new file appears");
        signal(&service, "-CONT");
        assert_eq!(service.ended().code(), Some(3));
        let said = fs::read_to_string(log(&site)).unwrap();
        let how = match replaced {
            true => "is another file now, while this process worked under it",
            false => "is gone, while this process worked under it",
        };
        for words in [
            how,
            "what is on this host stays as it is",
            "systemd starts the service again",
        ] {
            assert!(said.contains(words), "{said}");
        }
        site.take(&two);
        assert_eq!(
            site.event_log()
                .iter()
                .filter(|one| *one == "2 active")
                .count(),
            1
        );
    }
}

#[test]
fn a_database_that_is_removed_under_the_service_is_saved_with_its_reports() {
    let centre = Centre::new();
    let (site, mut service) = at_work(&centre);
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    let before = site.event_log();
    fs::remove_file(site.state().join("agent.db")).unwrap();
    assert_eq!(service.ended().code(), Some(3));
    let said = fs::read_to_string(log(&site)).unwrap();
    assert!(said.contains("all that it held is saved in"), "{said}");
    // The next start finds it, too.
    let again = site.run(&["run", "--once"]);
    let words = [
        "is gone, though `floors.json`",
        "put the saved one in its place",
    ];
    assert_reports(&again, 3, &words);
    let rescued = site.state().join("rescued");
    assert_eq!(
        site.read_reports(&rescued_stick(&site, &rescued)).len(),
        before.len()
    );
    for said in [said, stderr(&again)] {
        let site = site.copy();
        // The copy lies elsewhere.
        let said = said.replace(path(site_of(&said)), path(&site.state()));
        assert!(as_printed(&said, "if test ").status.success(), "{said}");
        assert_eq!(site.event_log(), before);
        assert_eq!(site.active(), Some(1));
        assert_eq!(site.status()["hold"]["who"], "ann");
    }
}

#[test]
fn a_database_that_is_removed_just_before_the_service_is_stopped_is_saved_too() {
    let centre = Centre::new();
    let (site, mut service) = at_work(&centre);
    let before = site.event_log();
    // Its next round does not come.
    signal(&service, "-STOP");
    remove(&site, &DATABASE);
    let words = [
        "is gone, though `floors.json`",
        "the service runs and still has the database open",
        "systemctl stop outhaul-agent",
    ];
    assert_reports(&site.run(&["status"]), 3, &words);
    assert_reports(&site.run(&["export", path(site.folder.path())]), 3, &words);
    signal(&service, "-TERM");
    signal(&service, "-CONT");
    assert_eq!(service.ended().code(), Some(3));
    let said = stderr(&site.run(&["status"]));
    assert!(as_printed(&said, "if test ").status.success(), "{said}");
    assert_eq!(site.event_log(), before);
    assert_eq!(site.active(), Some(1));
}

#[test]
fn a_database_that_is_removed_while_a_command_works_is_saved() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let before = site.event_log();
    // What is asked about the site's health removes it.
    let program = site.folder.path().join("probe");
    let write = |script: &str| {
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    site.configure(&format!(
        "[health]\nsoak_s = 3600\nask = [{{ name = \"press\", program = [{program:?}] }}]\n"
    ));
    let two = centre.publish(&Draft::hello("two"));
    for is_import in [true, false] {
        let site = site.copy();
        write("exit 0");
        if !is_import {
            site.ok(&["import", path(&two)]);
        }
        write(&format!("rm -f {}*", path(&site.state().join("agent.db"))));
        let done = match is_import {
            true => site.run(&["import", path(&two)]),
            false => site.run(&["run", "--once"]),
        };
        assert_reports(&done, 3, &["all that it held is saved in"]);
        let rescued = site.state().join("rescued");
        let saved = site.read_reports(&rescued_stick(&site, &rescued));
        assert!(saved.len() > before.len(), "{saved:?}");
    }
}

/// The state folder that a message names.
fn site_of(said: &str) -> &Path {
    let at = said.find("/agent.db`").unwrap();
    let start = said[..at].rfind('`').unwrap();
    Path::new(&said[start + 1..at])
}

/// The saved reports as on a stick, with the request that names the key.
pub fn rescued_stick(site: &Site, rescued: &Path) -> PathBuf {
    let stick = site.folder.path().join("rescued-stick");
    crate::site::copy(rescued, &stick);
    fs::create_dir(stick.join("requests")).unwrap();
    let request = format!("{}.request", site.name);
    fs::copy(
        site.state().join(&request),
        stick.join("requests").join(request),
    )
    .unwrap();
    stick
}

#[test]
fn attack_a_database_of_another_site_of_the_fleet_is_not_used() {
    let centre = Centre::new();
    let other = running(&centre, "drone-8");
    let foreign = fs::read(other.state().join("agent.db")).unwrap();
    for also_removed in [&[][..], &["drone-7.request"], &["site.json"]] {
        let site = Site::new(&centre, "drone-7");
        site.take(&centre.publish(&Draft::hello("two")));
        let own = site.state().join("agent.db");
        let kept = site.folder.path().join("own.db");
        fs::copy(&own, &kept).unwrap();
        remove(&site, also_removed);
        fs::write(&own, &foreign).unwrap();
        let (before, shown) = (
            site.kept(),
            match also_removed {
                ["site.json"] => "as `drone-7.request` in it shows",
                _ => "as `site.json` in it shows",
            },
        );
        let words = [
            "is of site `drone-8` of fleet",
            "this is the state folder of site `drone-7` of fleet",
            shown,
            "move that database out of the folder",
        ];
        let stick = tempfile::tempdir().unwrap();
        for command in [
            &["status"][..],
            &["run", "--once"],
            &["apply"],
            &["export", path(stick.path())],
            &["enrol", path(&centre.kit("drone-8"))],
        ] {
            assert_reports(&site.run(command), 3, &words);
        }
        assert_eq!(fs::read_dir(stick.path()).unwrap().count(), 0);
        assert_eq!(site.kept(), before);
        // As advised.
        let said = stderr(&site.run(&["apply"]));
        assert!(as_printed(&said, "mv ").status.success(), "{said}");
        remove(&site, &DATABASE);
        fs::copy(&kept, &own).unwrap();
        assert_eq!(site.status()["site"], "drone-7");
        site.ok(&["apply"]);
    }
}

#[test]
fn attack_a_key_of_another_site_signs_nothing() {
    let centre = Centre::new();
    let (site, other) = (running(&centre, "drone-7"), Site::new(&centre, "drone-8"));
    let own = fs::read(site.state().join("site.key")).unwrap();
    fs::copy(
        other.state().join("site.key"),
        site.state().join("site.key"),
    )
    .unwrap();
    let words = ["one of the two is another site's", "restore `site.key`"];
    assert_reports(&site.run(&["run", "--once"]), 3, &words);
    fs::write(site.state().join("site.key"), own).unwrap();
    site.ok(&["run", "--once"]);
}

#[test]
fn attack_a_kit_of_another_site_is_refused_without_database_and_request() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    remove(&site, &DATABASE);
    remove(&site, &["drone-7.request"]);
    let words = [
        "is for site `drone-8`",
        "site `drone-7` of fleet",
        "as `site.json` in it shows",
    ];
    let kit = |name: &str| centre.kit(name);
    assert_reports(&site.run(&["enrol", path(&kit("drone-8"))]), 2, &words);
    assert!(!site.state().join("agent.db").exists());
    site.ok(&["enrol", path(&kit("drone-7"))]);
}

#[test]
fn attack_an_older_copy_of_the_database_gives_no_number_twice() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let own = site.state().join("agent.db");
    let (older, newer) = (
        site.folder.path().join("older"),
        site.folder.path().join("newer"),
    );
    fs::copy(&own, &older).unwrap();
    site.take(&centre.publish(&Draft::hello("two")));
    let stick = tempfile::tempdir().unwrap();
    site.ok(&["export", path(stick.path())]);
    fs::copy(&own, &newer).unwrap();
    // Into the same file: its number stays.
    fs::write(&own, fs::read(&older).unwrap()).unwrap();
    let words = [
        "is an older copy than the one that this site worked with last",
        "outhaul site enrol",
    ];
    for command in [
        &["run", "--once"][..],
        &["status"],
        &["export", path(stick.path())],
    ] {
        assert_reports(&site.run(command), 3, &words);
    }
    let as_advised = site.copy();
    fs::write(
        as_advised.state().join("agent.db"),
        fs::read(&newer).unwrap(),
    )
    .unwrap();
    assert_eq!(as_advised.active(), Some(2));
    // Without the newer one, the site is enrolled again, and renumbers its reports.
    remove(&site, &DATABASE);
    site.ok(&["enrol", path(&centre.kit("drone-7"))]);
    site.take(&centre.publish(&Draft::hello("three")));
    assert_eq!(site.active(), Some(3));
}

#[test]
fn a_restored_site_has_what_stands_beside_its_database() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    site.hold("hello", "bob", "repair");
    let backup = site.folder.path().join("drone-7.backup");
    site.ok(&["backup", "--to", path(&backup), "--with-content"]);
    let held = fs::read(site.state().join("holds.json")).unwrap();
    let restored = Site {
        name: site.name.clone(),
        folder: tempfile::tempdir().unwrap(),
    };
    restored.ok(&["restore", path(&backup), "--who", "ann"]);
    assert_eq!(fs::read(restored.state().join("holds.json")).unwrap(), held);
    assert!(restored.state().join("site.json").is_file());
    // Lost again before anything else was done: nothing that was held is forgotten.
    remove(&restored, &DATABASE);
    let enrolled = restored.run(&["enrol", path(&centre.kit("drone-7"))]);
    assert_reports(&enrolled, 0, &["is held again"]);
    assert_eq!(restored.status()["hold"]["who"], "ann");
}

#[test]
fn what_was_removed_from_a_state_folder_is_said_with_a_way_that_brings_it_back() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    centre.rotate_online_keys();
    let bundle = centre.publish(&Draft::new([Load::new("hello").file("a", "one")]));
    site.take(&bundle);
    let said = |site: &Site| stdout(&site.run(&["status"]));
    assert!(!said(&site).contains("missing"), "{}", said(&site));

    remove(&site, &["floors.json", "holds.json", "site.json"]);
    let printed = said(&site);
    for words in [
        "missing or damaged in the state folder: `floors.json`, `holds.json`, `site.json`",
        "older bundles may be accepted again, and which holds there are is unknown",
        "`outhaul-agent run --once`",
    ] {
        assert!(printed.contains(words), "`{words}` is not in: {printed}");
    }
    site.ok(&["run", "--once"]);
    assert!(!said(&site).contains("missing"), "{}", said(&site));

    let root = site.state().join("roots/2.root.json");
    let kept = fs::read(&root).unwrap();
    fs::remove_dir_all(site.state().join("roots")).unwrap();
    let printed = said(&site);
    assert!(
        printed.contains(
            "are missing in `roots`, or not as the fleet signed them: 2.root.json: an apply helper"
        ),
        "{printed}"
    );
    assert!(
        printed.contains("from the folder `metadata` of the fleet"),
        "{printed}"
    );
    fs::create_dir(site.state().join("roots")).unwrap();
    fs::copy(centre.root().with_file_name("2.root.json"), &root).unwrap();
    assert_eq!(fs::read(&root).unwrap(), kept);
    assert!(!said(&site).contains("missing"), "{}", said(&site));

    fs::remove_dir_all(site.state().join("blobs")).unwrap();
    let printed = said(&site);
    assert!(
        printed.contains("stored blobs of bundle 1 are missing in `blobs`"),
        "{printed}"
    );
    let applied = site.applied();
    let again = site.import(&bundle);
    assert_eq!(code(&again), 0);
    assert!(stdout(&again).contains("already active; nothing was applied"));
    assert_eq!(site.applied(), applied);
    assert!(!said(&site).contains("missing"), "{}", said(&site));
    // What is damaged later is put back from them.
    fs::write(
        site.state().join("generations/1/assignments/hello/a"),
        "rotten",
    )
    .unwrap();
    site.ok(&["apply"]);
    let file = site.state().join("generations/1/assignments/hello/a");
    assert_eq!(fs::read(file).unwrap(), b"one");
}

#[test]
fn the_service_writes_anew_what_is_removed_beside_its_database() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active");
    remove(&site, &["site.json"]);
    // Its rounds follow one another; each looks first.
    until("it is not written again", || {
        site.state().join("site.json").exists()
    });
}
