//! A restore that was killed: before its end it begins again, and at its end it is completed by whatever comes next.
//!
//! What comes in: what such a restore leaves in the state folder. What goes out: a site, and one sentence about it.

use std::fs;

use outhaul_test_kit::Draft;

use crate::backups::{Backed, restored};
use crate::site::{Site, assert_reports, code, stdout};

/// A machine on which `restore` was killed when everything was in its place.
fn killed_at_its_end(backed: &Backed) -> Site {
    let machine = restored(backed);
    fs::create_dir(machine.state().join("restoring")).unwrap();
    fs::write(machine.state().join("restoring/lock"), "").unwrap();
    machine
}

#[test]
fn a_restore_that_was_killed_at_its_very_end_is_complete_and_says_so() {
    let backed = Backed::new(&["--with-content"]);
    let words =
        "restoring this site from a backup was interrupted when everything was in its place";
    let file = backed.file.to_str().unwrap();
    for next in [&["apply"][..], &["run", "--once"], &["restore", file]] {
        let machine = killed_at_its_end(&backed);
        let status = machine.run(&["status"]);
        assert_eq!(code(&status), 0);
        let said = stdout(&status);
        assert!(
            said.contains(words) && said.contains("`outhaul-agent apply`"),
            "{said}"
        );
        let before = machine.status()["reports_last"].clone();
        let done = machine.run(next);
        let is_restore = next[0] == "restore";
        let expected = match is_restore {
            true => "must never run again",
            false => "it is complete now",
        };
        let floor = "nothing here shows which bundles this site accepted after the backup was made";
        assert_reports(&done, 0, &[expected, floor]);
        assert!(!machine.state().join("restoring").exists());
        assert!(!stdout(&machine.run(&["status"])).contains(words));
        if is_restore {
            assert_eq!(machine.status()["reports_last"], before, "renumbered once");
        }
        assert_eq!(machine.active(), Some(1));
    }
    // Another backup is not taken for the one that was being restored.
    let machine = killed_at_its_end(&backed);
    let later = backed.site.folder.path().join("later.backup");
    backed
        .site
        .ok(&["hold", "--who", "ann", "--why", "harvest"]);
    backed.site.ok(&["backup", "--to", later.to_str().unwrap()]);
    let refused = backed.restore_on(&machine, &later);
    assert_reports(&refused, 2, &["holds `agent.db`"]);
    assert!(machine.state().join("restoring").exists());
}

#[test]
fn a_restore_that_was_killed_before_is_named_with_the_command_that_begins_it_anew() {
    let backed = Backed::new(&["--with-content"]);
    // With nothing else no site is there; what shows that one was, lacks its database.
    for (first, expected) in [
        (&[][..], 2),
        (&["site.json", "floors.json", "generations/1/index.json"], 3),
    ] {
        let machine = backed.machine();
        for name in ["restoring/agent.db"].iter().chain(first) {
            let path = machine.state().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "half").unwrap();
        }
        for command in [&["status"][..], &["run", "--once"], &["apply"]] {
            let done = machine.run(command);
            assert_reports(
                &done,
                expected,
                &[
                    "a restore into this folder was interrupted",
                    "`outhaul-agent restore FILE`",
                ],
            );
        }
        assert_eq!(code(&backed.restore_on(&machine, &backed.file)), 0);
        assert_eq!(machine.active(), Some(1));
    }
}

#[test]
fn a_site_json_of_an_earlier_numbering_is_said_and_written_anew_by_whatever_comes_next() {
    let backed = Backed::new(&["--with-content"]);
    let earlier = fs::read(backed.site.state().join("site.json")).unwrap();
    let words = "`site.json` in the state folder names another numbering of this site's reports (";
    let stick = tempfile::tempdir().unwrap();
    let two = backed.centre.publish(&Draft::hello("two"));
    for next in [
        &["run", "--once"][..],
        &["apply"],
        &["import", two.to_str().unwrap()],
        &[
            "backup",
            "--to",
            stick.path().join("a.backup").to_str().unwrap(),
        ],
    ] {
        let machine = restored(&backed);
        let file = machine.state().join("site.json");
        let now = fs::read(&file).unwrap();
        assert!(!stdout(&machine.run(&["status"])).contains(words));
        fs::write(&file, &earlier).unwrap();
        let said = stdout(&machine.run(&["status"]));
        assert!(
            said.contains(words) && said.contains("`outhaul-agent run --once`"),
            "{said}"
        );
        assert_reports(&machine.run(next), 0, &[words, "the file is written again"]);
        assert_ne!(fs::read(&file).unwrap(), earlier);
        let epoch = |bytes: &[u8]| {
            let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            value["epoch"].clone()
        };
        assert_eq!(epoch(&fs::read(&file).unwrap()), epoch(&now));
        assert!(!stdout(&machine.run(&["status"])).contains(words));
    }
}
