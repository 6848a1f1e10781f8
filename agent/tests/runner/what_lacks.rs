//! What on this machine keeps a bundle away, or a command from its work, and can be mended by whoever stands there: what is said, what `status`
//! names as the next step, and that the way out works as it is typed.
//!
//! What comes in: bundles of a real fleet, and a machine on which something lacks. What goes out: what the program prints.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::Checked as _;
use outhaul_tests::skipped;

use crate::media::Stick;
use crate::server::Server;
use crate::site::{Site, assert_reports, copy, stdout, tree};
use crate::web::unpack_for_web;

/// A program that everyone on this machine may change.
fn open_program(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    path
}

fn for_ansible(word: &str) -> Draft {
    let playbook = format!("[]\n# {word}\n");
    Draft::new([Load::new("hello").file("reconciler.yaml", playbook)]).ansible()
}

/// A site that runs a bundle for Ansible, whose program then becomes one that everyone may change.
fn with_open_program() -> (Centre, Site, PathBuf) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure("[ansible]\nplaybook_program = \"/bin/true\"\n");
    site.take(&centre.publish(&for_ansible("one")));
    let open = open_program(site.folder.path(), "ansible-playbook");
    site.configure(&format!("[ansible]\nplaybook_program = {open:?}\n"));
    (centre, site, open)
}

/// Types the command in backquotes that follows `before` in what is printed.
fn type_what_follows(printed: &str, before: &str) {
    let rest = printed.split_once(before).unwrap().1;
    let typed = rest.split_once('`').unwrap().0;
    let done = Command::new("sh").args(["-c", typed]).status();
    assert!(done.unwrap().success(), "{typed}");
}

#[test]
fn what_keeps_a_bundle_away_and_can_be_mended_here_is_the_next_step_until_it_is_taken() {
    let (centre, site, _) = with_open_program();
    let second = centre.publish(&for_ansible("two"));
    assert_reports(&site.import(&second), 3, &["may be written by others"]);
    let page = site.folder.path().join("page.html");
    let printed = stdout(&site.run(&["status", "--page", page.to_str().unwrap()]));
    assert!(!printed.contains("no action needed"), "{printed}");
    let again = format!("then `outhaul-agent import {}` again", second.display());
    let chmod = "`chmod go-w ";
    for shown in [
        printed.clone(),
        site.status()["next"][0].as_str().unwrap().to_owned(),
        fs::read_to_string(&page).unwrap(),
    ] {
        assert!(
            shown.contains(&again) && shown.contains(chmod),
            "{again}: {shown}"
        );
    }
    assert_eq!(site.status()["attention"][0]["what"], "not-taken");
    // As it is typed, it works, and nothing of it is said any more.
    type_what_follows(&printed, "then `");
    site.take(&second);
    assert_eq!(site.status()["attention"], serde_json::Value::Null);
}

#[test]
fn what_keeps_a_pulled_bundle_away_is_the_next_step_until_it_is_taken() {
    let (centre, site, open) = with_open_program();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::files(folder.path().to_owned());
    unpack_for_web(&centre.publish(&for_ansible("two")), folder.path());
    let url = format!("[repository]\nurl = \"{}\"\n", server.url);
    site.configure(&format!("[ansible]\nplaybook_program = {open:?}\n{url}"));
    assert_reports(&site.run(&["run", "--once"]), 3, &["is not started"]);
    let next = site.status()["next"][0].as_str().unwrap().to_owned();
    let words = "`outhaul-agent run --once` takes it then";
    assert!(
        next.contains(words) && next.contains("`chmod go-w "),
        "{next}"
    );
    site.configure(&format!(
        "[ansible]\nplaybook_program = \"/bin/true\"\n{url}"
    ));
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(2));
    assert_eq!(site.status()["attention"], serde_json::Value::Null);
}

#[test]
fn a_program_that_is_refused_was_not_started_and_the_bundle_is_not_said_to_be_overwritten() {
    let (_centre, site, _) = with_open_program();
    let words = [
        "bundle 1 is active as it was, and was not applied again yet",
        "`chmod go-w ",
        "then run `outhaul-agent apply`",
    ];
    let output = site.run(&["apply"]);
    assert_reports(&output, 3, &words);
    let printed = stdout(&site.run(&["status"]));
    for never in ["half applied", "overwritten"] {
        assert!(!printed.contains(never), "{printed}");
    }
    assert!(
        printed.contains("as it was, and not applied again yet"),
        "{printed}"
    );
    type_what_follows(&printed_of(&output), "then `");
    assert_eq!(site.ok(&["apply"])["active"], 1);
}

fn printed_of(output: &std::process::Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn attack_a_program_on_the_path_that_everybody_may_change_is_not_started() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let folder = site.folder.path().join("bin");
    fs::create_dir(&folder).unwrap();
    let started = site.folder.path().join("started");
    let open = open_program(&folder, "ansible-playbook");
    fs::write(&open, format!("#!/bin/sh\ntouch {started:?}\n")).unwrap();
    let path = std::env::join_paths(
        [folder]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let bundle = centre.publish(&for_ansible("one"));
    let import = || {
        let mut command = site.command(&["import", bundle.to_str().unwrap()]);
        command
            .env("PATH", path.as_ref().unwrap())
            .checked()
            .unwrap()
    };
    let refused = format!("`{}` may be written by others (mode 777)", open.display());
    assert_reports(&import(), 3, &["is not started", &refused, "`chmod go-w "]);
    assert!(!started.exists());
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    assert_reports(&import(), 0, &[]);
    assert!(started.exists());
}

#[test]
fn a_program_for_health_that_everybody_may_change_keeps_a_bundle_away_and_fails_none() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let open = open_program(site.folder.path(), "press");
    site.configure(&format!(
        "[health]\nask = [{{ name = \"press\", program = [{open:?}] }}]\n"
    ));
    let second = centre.publish(&Draft::hello("two"));
    for command in ["plan", "import"] {
        let refused = site.run(&[command, second.to_str().unwrap()]);
        assert_reports(&refused, 3, &["may be written by others", "`chmod go-w "]);
    }
    assert_eq!(site.active(), Some(1));
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    // It was not tried, so that nobody has to approve it.
    site.take(&second);
    // So is one that was taken in before.
    site.ok(&["hold", "--who", "bob", "--why", "harvest"]);
    site.ok(&[
        "import",
        centre.publish(&Draft::hello("three")).to_str().unwrap(),
    ]);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    site.run(&["hold", "--release"]);
    assert_reports(&site.run(&["apply"]), 3, &["may be written by others"]);
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: two\n");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(site.ok(&["apply"])["active"], 3);
}

#[test]
fn where_space_lacks_it_is_said_what_may_be_removed_and_that_works() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.take(&centre.publish(&Draft::hello("two")));
    site.configure("min_free_mb = 1000000000\n");
    let third = centre.publish(&Draft::hello("three"));
    let first = site.state().join("generations/1");
    let removable = format!("only `{}` may be removed by hand", first.display());
    let words = [removable.as_str(), "`agent.db`, `floors.json`, `site.key`"];
    assert_reports(&site.import(&third), 3, &words);
    let next = site.status()["next"].to_string();
    assert!(
        next.contains("may be removed by hand") && next.contains("when there is room, `outhaul"),
        "{next}"
    );
    fs::remove_dir_all(&first).unwrap();
    let printed = stdout(&site.run(&["status"]));
    assert!(
        !printed.contains("bundle 1 is superseded, on disk"),
        "{printed}"
    );
    let words = ["nothing of what lies in `"];
    assert_reports(&site.import(&third), 3, &words);
    site.configure("");
    site.take(&third);
}

#[test]
fn a_state_folder_on_a_read_only_file_system_is_named_as_that_and_status_answers() {
    let Some(disk) = Stick::new("4m").filter(Stick::is_mounted) else {
        return skipped("only root can mount a file system read-only");
    };
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let second = centre.publish(&Draft::hello("two"));
    let state = disk.path().join("state #1");
    copy(&site.state(), &state);
    fs::remove_dir_all(site.state()).unwrap();
    std::os::unix::fs::symlink(&state, site.state()).unwrap();
    disk.read_only();
    let before = tree(&state);
    let ways = ["findmnt -T ", "`dmesg`", "remount,rw", "until then"];
    for arguments in [
        &["status"][..],
        &["hold"],
        &["apply"],
        &["import", second.to_str().unwrap()],
    ] {
        let output = site.run(arguments);
        assert_reports(&output, 3, &ways);
        let said = printed_of(&output).to_lowercase();
        assert!(
            said.contains("read-only") && !said.contains("stick"),
            "{said}"
        );
    }
    let printed = stdout(&site.run(&["status"]));
    assert!(printed.contains("active: bundle 1"), "{printed}");
    assert_eq!(tree(&state), before);
}

#[test]
fn a_folder_that_lacks_on_the_way_is_the_one_that_is_named() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let gone = site.folder.path().join("sitck");
    let lacks = format!("`{}` does not", gone.display());
    let below = gone.join("reports/of/today");
    for arguments in [
        ["export", below.to_str().unwrap()],
        ["import", below.to_str().unwrap()],
    ] {
        assert_reports(&site.run(&arguments), 3, &[&lacks]);
    }
    for arguments in [
        ["backup", "--to", below.to_str().unwrap()],
        ["status", "--page", below.to_str().unwrap()],
    ] {
        assert_reports(&site.run(&arguments), 3, &[&lacks]);
    }
    let mut other = Command::new(env!("CARGO_BIN_EXE_outhaul-agent"));
    other.arg("--state").arg(&below).arg("status");
    let lacks = format!("`{}` does not exist", gone.display());
    assert_reports(&other.checked().unwrap(), 2, &["there is no site", &lacks]);
    assert!(!gone.exists());
    // A site may be made there, and whoever mistyped it reads so.
    let mut other = Command::new(env!("CARGO_BIN_EXE_outhaul-agent"));
    other.arg("--state").arg(&below).arg("enrol");
    other.arg(centre.kit("drone-7"));
    let made = format!("the folder `{}` was not there and was made", gone.display());
    assert_reports(&other.checked().unwrap(), 0, &[&made]);
}
