//! What `status` says afterwards, what it leaves out, and what ends a rollback that had to wait.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::Checked as _;

use crate::hooks;
use crate::media::Stick;
use crate::site::{Site, assert_reports, code, copy, stderr, stdout, tree};

/// A site whose program cannot apply anything while there is a file `no-power`.
fn needs_power() -> (Centre, Site, PathBuf) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let obstacle = site.folder.path().join("no-power");
    let text = format!(
        "#!/bin/sh\nmessage=$(cat)\nverb=${{message#*'\"verb\":\"'}}\nverb=${{verb%%'\"'*}}\n\
         say() {{ printf '{{\"protocol\":\"outhaul.dev/hook/v1\",%s}}' \"$1\"; }}\n\
         [ $verb = plan ] && [ -e '{}' ] && {{ echo no power >&2; exit 3; }}\n\
         case $verb in\nplan) say '\"status\":\"ok\",\"items\":[{{\"item\":\"x\",\"digest\":\"1\"}}]';;\n\
         *) say '\"status\":\"ok\"';;\nesac\n",
        obstacle.display()
    );
    fs::write(hooks::path(&site), text).unwrap();
    fs::set_permissions(hooks::path(&site), fs::Permissions::from_mode(0o755)).unwrap();
    hooks::configure(&site, "");
    (centre, site, obstacle)
}

fn presses(content: &str) -> Draft {
    Draft::new([Load::new("alpha").file("thing.yaml", content)]).reconciler("presses")
}

fn status_text(site: &Site) -> String {
    stdout(&site.run(&["status"]))
}

#[test]
fn of_the_last_assignment_that_was_removed_nothing_is_left_in_status() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.import(&centre.publish(&Draft::new([])));
    site.ok(&["approve", "2"]);
    let status = site.status();
    assert_eq!(status["active"], 2, "{status}");
    assert_eq!(status["assignments"], serde_json::json!([]), "{status}");
    assert!(!status_text(&site).contains("hello: as desired"));
}

#[test]
fn a_rollback_that_waited_is_ended_by_apply_and_called_a_rollback_meanwhile() {
    let (centre, site, obstacle) = needs_power();
    site.take(&centre.publish(&presses("one")));
    site.take(&centre.publish(&presses("two")));
    fs::write(&obstacle, "").unwrap();
    let waits = site.run(&["rollback", "--who", "ann"]);
    assert_reports(
        &waits,
        3,
        &["bundle 2 is active, and nothing of bundle 1 was put back yet"],
    );
    let to_do = site.status()["to_do"].as_str().unwrap().to_owned();
    let words =
        "the rollback from bundle 2 to bundle 1 is unfinished (rolled back by ann; it cannot go on";
    assert!(to_do.contains(words), "{to_do}");
    assert!(to_do.contains("no power"), "{to_do}");
    fs::remove_file(&obstacle).unwrap();
    let done = site.run(&["apply", "--who", "ann"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert_eq!(stdout(&done).trim(), "bundle 1 is active again");
    assert!(!stderr(&done).contains("help:"), "{}", stderr(&done));
    // A bundle of which nothing was applied overwrote nothing, also when it is left.
    fs::write(&obstacle, "").unwrap();
    let stuck = site.import(&centre.publish(&presses("three")));
    let nothing = "nothing of bundle 3 was applied yet";
    assert_reports(&stuck, 3, &[nothing]);
    let left = site.run(&["rollback"]);
    assert_reports(&left, 3, &[nothing]);
    assert!(!stderr(&left).contains("overwritten"), "{}", stderr(&left));
    fs::remove_file(&obstacle).unwrap();
    site.ok(&["apply"]);
    assert_eq!(site.active(), Some(1));
}

#[test]
fn a_first_bundle_that_cannot_go_on_is_given_up_by_a_rollback() {
    let (centre, site, obstacle) = needs_power();
    fs::write(&obstacle, "").unwrap();
    let one = centre.publish(&presses("one"));
    assert_eq!(code(&site.import(&one)), 3);
    let done = site.run(&["rollback", "--who", "ann", "--reason", "wrong host"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let words = "bundle 1 is given up; no bundle is active";
    assert!(stdout(&done).contains(words), "{}", stdout(&done));
    let status = site.status();
    assert!(status.get("unfinished").is_none(), "{status}");
    let printed = site.event_log();
    assert_eq!(
        printed[printed.len() - 2..],
        ["decision rollback", "1 failed"],
        "{printed:?}"
    );
    fs::remove_file(&obstacle).unwrap();
    assert_reports(&site.import(&one), 1, &["given up by ann: wrong host"]);
    site.ok(&["approve", "1"]);
    site.take(&one);
}

#[test]
fn a_full_disk_is_called_that_and_status_says_what_it_can() {
    let Some(disk) = Stick::new("8m") else { return };
    if !disk.is_mounted() {
        return;
    }
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.hold("hello", "bob", "harvest");
    copy(&site.state(), &disk.path().join("state"));
    // To the last byte.
    for block in ["64k", "1k", "1"] {
        let file = format!("of={}/filler", disk.path().display());
        let block = format!("bs={block}");
        let mut dd = Command::new("dd");
        dd.args([
            "if=/dev/zero",
            &file,
            &block,
            "oflag=append",
            "conv=notrunc",
        ]);
        dd.output().unwrap();
    }
    let run = |what: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul-agent"));
        command
            .arg("--state")
            .arg(disk.path().join("state"))
            .arg(what);
        command.checked().unwrap()
    };
    let full = [
        "no space is left on the file system of",
        "help: free some space there",
    ];
    let status = run("status");
    assert_reports(&status, 3, &full);
    let printed = stdout(&status);
    assert!(printed.contains("active: bundle 1"), "{printed}");
    assert!(printed.contains("holds: `hello` at bundle 1"), "{printed}");
    assert!(
        printed.contains("hello: as desired when it was last checked"),
        "{printed}"
    );
    assert_reports(&run("apply"), 3, &full);
    fs::remove_file(disk.path().join("filler")).unwrap();
    assert_reports(&run("apply"), 0, &[]);
}

#[test]
fn status_leaves_out_what_is_no_news_and_json_has_it() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stick = site.folder.path().join("dev.outhaul");
    fs::write(&stick, "no bundle").unwrap();
    assert_eq!(code(&site.import(&stick)), 4);
    assert!(status_text(&site).contains("refused: "));
    for greeting in ["one", "two", "three", "four"] {
        fs::copy(centre.publish(&Draft::hello(greeting)), &stick).unwrap();
        site.take(&stick);
    }
    let other = tempfile::tempdir().unwrap();
    site.run(&["import", other.path().to_str().unwrap()]);
    let printed = status_text(&site);
    assert!(
        printed.contains("bundle 3 is superseded, on disk"),
        "{printed}"
    );
    for old in ["bundle 1 is", "bundle 2 is", "refused: ", "dev.outhaul"] {
        assert!(!printed.contains(old), "`{old}` is in: {printed}");
    }
    let status = site.status();
    assert_eq!(status["generations"].as_array().unwrap().len(), 4);
    assert_eq!(status["media"].as_array().unwrap().len(), 2);
}

fn spoil(folder: &Path) {
    for path in tree(folder).keys() {
        fs::write(folder.join(path), "damaged").unwrap();
    }
}

#[test]
fn one_assignment_goes_back_to_whole_content_only() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.take(&centre.publish(&Draft::hello("two")));
    let before = site.applied();
    let back = ["rollback", "--assignment", "hello"];
    // What the stored copy has is put back first.
    let damaged = site.copy();
    spoil(&damaged.state().join("generations/1/assignments"));
    damaged.ok(&back);
    assert_eq!(damaged.applied()["hello/manifest.yaml"], b"greeting: one\n");
    // What it has not is refused before anything is changed.
    spoil(&site.state().join("generations/1/assignments"));
    spoil(&site.state().join("blobs"));
    let refused = site.run(&back);
    assert_reports(
        &refused,
        1,
        &["`hello` cannot go back to it, and the running bundle is not affected"],
    );
    assert_eq!(site.applied(), before);
    assert!(site.status().get("held").is_none());
}

#[test]
fn a_hold_is_not_called_nothing_to_do() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    let printed = status_text(&site);
    assert!(!printed.contains("no action needed"), "{printed}");
    assert!(
        printed.contains("`outhaul-agent hold --release` ends that"),
        "{printed}"
    );
}
