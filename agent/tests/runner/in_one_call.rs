//! Commands that do two things: what they end with does not speak for all that they did, and what was not looked at is said.
//!
//! What must come out: the exit code of what was brought, no "nothing was changed" beside what changed, and with `--quiet` each warning.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use outhaul_bundle::index::site_values::{Allowed, Form, Rule, SiteValues};
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::{Checked as _, skipped};

use crate::media::Stick;
use crate::site::{Site, assert_reports, stderr, stdout};

fn running() -> (Centre, Site) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    (centre, site)
}

/// A copy of a bundle of which the last blob is damaged.
fn damaged(bundle: &Path, to: PathBuf) -> PathBuf {
    let mut bytes = fs::read(bundle).unwrap();
    let at = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[at] ^= 1;
    fs::write(&to, bytes).unwrap();
    to
}

fn import(site: &Site, path: &Path) -> Output {
    site.run(&["import", path.to_str().unwrap()])
}

#[track_caller]
fn says_of_all(output: &Output, expected: bool) {
    let printed = stderr(output);
    assert_eq!(
        printed.contains("nothing was changed"),
        expected,
        "{printed}"
    );
}

#[test]
fn a_refused_bundle_after_one_that_waited_says_nothing_of_the_one_that_went_on() {
    let (centre, site) = running();
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    let second = centre.publish(&Draft::hello("two"));
    assert_eq!(
        site.ok(&["import", second.to_str().unwrap()])["state"],
        "gated"
    );
    let stick = tempfile::tempdir().unwrap();
    let third = centre.publish(&Draft::hello("three"));
    let third = damaged(&third, stick.path().join("three.outhaul"));
    // While it waits, that is all that happens, and it is true.
    says_of_all(&import(&site, &third), true);
    for path in [third.as_path(), stick.path()] {
        site.ok(&["hold", "--release"]);
        let arguments = ["import", path.to_str().unwrap(), "--output", "json"];
        let printed = site.run(&arguments);
        let words = [
            "bundle 2 was staged and not applied yet; it is active now",
            "nothing of it is kept",
            "help: ",
        ];
        assert_reports(&printed, 4, &words);
        says_of_all(&printed, false);
        assert!(
            stdout(&printed).contains("\"went_on\""),
            "{}",
            stdout(&printed)
        );
        assert_eq!(site.active(), Some(2));
        site.ok(&["rollback"]);
        site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
        site.ok(&["approve", "2"]);
        assert_eq!(
            site.ok(&["import", second.to_str().unwrap()])["state"],
            "gated"
        );
    }
}

#[test]
fn a_refused_bundle_beside_one_that_was_taken_says_nothing_of_that_one() {
    let (centre, site) = running();
    let stick = tempfile::tempdir().unwrap();
    let second = centre.publish(&Draft::hello("two"));
    fs::copy(second, stick.path().join("two.outhaul")).unwrap();
    let third = centre.publish(&Draft::hello("three"));
    damaged(&third, stick.path().join("three.outhaul"));
    let printed = import(&site, stick.path());
    assert_reports(
        &printed,
        1,
        &[
            "`three.outhaul` is refused and nothing of it is kept",
            "bundle 3 is newer",
        ],
    );
    says_of_all(&printed, false);
    assert_eq!(site.active(), Some(2));
    let media = site.status()["media"].as_array().unwrap().last().unwrap()["text"].to_string();
    assert!(
        media.contains("bundle 2") && !media.contains("nothing was changed"),
        "{media}"
    );
    // Alone with what is here already, nothing is.
    says_of_all(&import(&site, stick.path()), true);
}

#[test]
fn among_thousands_of_files_with_a_bundles_ending_that_of_this_stream_is_found() {
    let (centre, site) = running();
    let stick = tempfile::tempdir().unwrap();
    let junk = stick.path().join("junk-0.outhaul");
    fs::write(&junk, "").unwrap();
    for number in 1..6_000 {
        fs::hard_link(&junk, stick.path().join(format!("junk-{number}.outhaul"))).unwrap();
    }
    let bundle = centre.publish(&Draft::hello("two"));
    fs::copy(bundle, stick.path().join("DEV-DRONE-2.OUTHAUL")).unwrap();
    let printed = site.run(&["--quiet", "import", stick.path().to_str().unwrap()]);
    let words = [
        "warning: not all of `",
        "`dev-drone-` were looked at first",
        "name the folder or file",
    ];
    assert_reports(&printed, 0, &words);
    assert_eq!(site.active(), Some(2));
}

/// What the user may not read, root may: so does nobody without that right.
fn without_rights(site: &Site, arguments: &[&str]) -> Option<Output> {
    let command = site.command(arguments);
    if !rustix::process::geteuid().is_root() {
        return Some(site.run(arguments));
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        skipped("there is no setpriv to give rights up");
        return None;
    }
    let mut bound = Command::new("setpriv");
    bound.args(["--bounding-set=-all", "--inh-caps=-all"]);
    bound.arg(command.get_program()).args(command.get_args());
    bound.env("OUTHAUL_STATE", site.state());
    Some(bound.checked().unwrap())
}

#[test]
fn a_file_that_may_not_be_read_is_in_the_exit_code_and_in_status() {
    let (centre, site) = running();
    let stick = tempfile::tempdir().unwrap();
    let closed = stick.path().join("dev-drone-3.outhaul");
    fs::copy(
        centre.publish(&Draft::hello("two")),
        stick.path().join("two.outhaul"),
    )
    .unwrap();
    fs::copy(centre.publish(&Draft::hello("three")), &closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let path = stick.path().to_str().unwrap();
    let Some(printed) = without_rights(&site, &["--quiet", "import", path]) else {
        return;
    };
    assert_reports(
        &printed,
        1,
        &["error: ", "dev-drone-3.outhaul`", "Permission denied"],
    );
    assert_eq!(site.active(), Some(2));
    let status = site.status();
    assert_eq!(status["attention"][0]["what"], "not-taken", "{status}");
    // Alone, nothing was taken: that is the fault of this machine.
    let printed = without_rights(&site, &["import", path]).unwrap();
    assert!(
        matches!(printed.status.code(), Some(1)),
        "{}",
        stderr(&printed)
    );
    fs::remove_file(stick.path().join("two.outhaul")).unwrap();
    let printed = without_rights(&site, &["import", path]).unwrap();
    assert_reports(
        &printed,
        3,
        &["Permission denied", "nothing of it was imported"],
    );
    // The same of a stick that cannot be listed; whoever cannot is not told to be root, who is refused, or is root.
    fs::set_permissions(stick.path(), fs::Permissions::from_mode(0o000)).unwrap();
    let printed = without_rights(&site, &["import", path]).unwrap();
    assert_reports(
        &printed,
        3,
        &["Permission denied", "nothing of it was imported"],
    );
    let status = site.status();
    assert_eq!(status["attention"][0]["what"], "not-taken", "{status}");
    let next = status["next"][0].as_str().unwrap();
    assert!(next.contains("mount"), "{next}");
    assert!(!next.contains("sudo"), "{next}");
    fs::set_permissions(stick.path(), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn files_in_a_target_that_was_left_are_named_until_they_are_gone() {
    let (centre, site) = running();
    let quiet = |site: &Site| site.status()["attention"].is_null();
    assert!(quiet(&site));
    let old = site.state().join("applied");
    let new = site.folder.path().join("new target");
    fs::create_dir(&new).unwrap();
    site.configure(&format!("[folder]\ntarget = '{}'\n", new.display()));
    let named = |site: &Site| {
        let status = site.status();
        let all = status["attention"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|one| one["what"] == "former-target");
        found.map(|one| one["message"].as_str().unwrap().to_owned())
    };
    let message = named(&site).unwrap();
    assert!(
        message.contains(&format!("was `{}`", old.display())),
        "{message}"
    );
    assert!(message.contains("`hello/manifest.yaml`"), "{message}");
    let second = centre.publish(&Draft::hello("two"));
    let planned = site.run(&["plan", second.to_str().unwrap()]);
    assert_reports(
        &planned,
        0,
        &["warning: the target of the folder reconciler was `"],
    );
    site.take(&second);
    assert!(new.join("hello/manifest.yaml").exists());
    assert!(named(&site).is_some(), "what lies in the old one stays");
    fs::remove_dir_all(old.join("hello")).unwrap();
    assert!(quiet(&site));
    // Back again, the new one is the earlier one.
    site.configure("");
    site.ok(&["apply"]);
    let message = named(&site).unwrap();
    assert!(
        message.contains(&format!("was `{}`", new.display())),
        "{message}"
    );
}

#[test]
fn a_reason_or_a_name_that_is_empty_is_refused() {
    let (_, site) = running();
    for command in [
        &["hold", "--reason", " "][..],
        &["hold", "--why", ""],
        &["hold", "--who", ""],
        &["hold", "--release", "--why", ""],
        &["rollback", "--reason", ""],
        &["rollback", "--who", " "],
        &["set", "WIDTH=70", "--reason", ""],
        &["unset", "WIDTH", "--why", "\t"],
        &["approve", "1", "--as", ""],
        &["apply", "--who", ""],
    ] {
        let refused = site.run(command);
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{command:?}: {}",
            stderr(&refused)
        );
        assert!(site.status()["hold"].is_null(), "{command:?}");
    }
}

#[test]
fn a_value_that_a_full_disk_keeps_from_being_used_is_said_to_be_set_and_how_it_goes_on() {
    let Some(disk) = Stick::new("1m").filter(Stick::is_mounted) else {
        return skipped("only root can mount a small file system");
    };
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let target = disk.path().join("target");
    site.configure(&format!("[folder]\ntarget = {target:?}\n"));
    let allowed = Allowed::Text {
        max_length: 200,
        pattern: None,
    };
    let about = String::new();
    let open = SiteValues {
        form: Form::Env,
        keys: BTreeMap::from([("TITLE".to_owned(), Rule { about, allowed })]),
    };
    let load = Load::new("printer").file("greeting", "one");
    let draft = Draft::new([load.open(open, &[("TITLE", "press")])]);
    site.take(&centre.publish(&draft));
    let fill = disk.path().join("photos");
    // Filled to the last byte, whatever does not fit any more.
    let _ = fs::write(&fill, vec![1; 2 << 20]);
    let set = site.run(&["--quiet", "set", "TITLE=the old press"]);
    let words = [
        "space",
        "the value is set already",
        "`outhaul-agent apply` goes on with it",
    ];
    assert_reports(&set, 3, &words);
    assert!(!stderr(&set).contains("takes it back"), "{}", stderr(&set));
    assert_reports(&site.run(&["set", "TITLE=other"]), 1, &["unfinished"]);
    fs::remove_file(&fill).unwrap();
    site.ok(&["apply"]);
    let file = fs::read_to_string(target.join("printer/site-values.env")).unwrap();
    assert_eq!(file, "TITLE=\"the old press\"\n");
}
