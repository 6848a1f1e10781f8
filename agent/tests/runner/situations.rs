//! Permission, space, damage and absence: each is reported as what it is, with its own way out, and `status`
//! answers in all of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::Checked as _;
use outhaul_tests::skipped;

use crate::media::{Stick, is_root};
use crate::site::{Site, assert_reports, stderr, stdout};

fn running() -> (Centre, Site) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    (centre, site)
}

/// What `status` says needs a person.
fn attention(site: &Site) -> Vec<String> {
    let status = site.status();
    let all = status["attention"].as_array().cloned().unwrap_or_default();
    let words = |value: &serde_json::Value| value["what"].as_str().unwrap().to_owned();
    all.iter().map(words).collect()
}

#[test]
fn status_names_what_differs_now_what_waits_and_what_is_missing() {
    let (centre, site) = running();
    assert_eq!(attention(&site), Vec::<String>::new());
    // No look for drift was made since.
    fs::remove_file(site.state().join("applied/hello/manifest.yaml")).unwrap();
    assert_eq!(attention(&site), ["drift"]);
    site.configure("approval = \"always\"");
    site.import(&centre.publish(&Draft::hello("two")));
    fs::remove_file(site.state().join("identities/site.age")).unwrap();
    assert_eq!(attention(&site), ["approval", "drift", "seal-key"]);
    site.configure("approval = \"always\"\nmin_free_mb = 1000000000");
    let printed = stdout(&site.run(&["status"]));
    for words in [
        "attention: bundle 2 waits",
        ": `outhaul-agent approve 2` lets it through",
        "`hello` differs from bundle 1",
        "not enough space",
        "a `rekey`",
    ] {
        assert!(printed.contains(words), "`{words}` is not in: {printed}");
    }
}

#[test]
fn a_damaged_database_and_a_lost_key_are_distinguished_and_status_answers() {
    let (_centre, site) = running();
    let key = fs::read(site.state().join("site.key")).unwrap();
    fs::remove_file(site.state().join("site.key")).unwrap();
    let output = site.run(&["status"]);
    assert_reports(
        &output,
        3,
        &["site's key", "restore `site.key`", "a new kit"],
    );
    assert!(
        stdout(&output).contains("active: bundle 1"),
        "{}",
        stdout(&output)
    );
    fs::write(site.state().join("site.key"), key).unwrap();
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(site.state().join("site.key"), private).unwrap();
    assert_eq!(site.active(), Some(1));

    // Its first page is whole: it opens, and what lies behind cannot be read.
    let database = site.state().join("agent.db");
    let mut bytes = fs::read(&database).unwrap();
    bytes[4096..].fill(7);
    fs::write(&database, bytes).unwrap();
    for arguments in [&["status"][..], &["export", "."]] {
        let output = site.run(arguments);
        assert_reports(&output, 3, &["damaged", "move `", "aside", "a new kit"]);
    }
    let printed = stdout(&site.run(&["status"]));
    assert!(printed.contains("bundles on disk: 1"), "{printed}");

    for name in ["agent.db", "agent.db-wal", "agent.db-shm"] {
        let path = site.state().join(name);
        if path.exists() {
            fs::write(path, vec![7; 8192]).unwrap();
        }
    }
    let output = site.run(&["status"]);
    assert_reports(&output, 3, &["is damaged", "floors.json"]);
    let printed = stdout(&output);
    assert!(printed.contains("bundles on disk: 1"), "{printed}");
    assert!(
        printed.contains("what runs on this host goes on"),
        "{printed}"
    );
}

#[test]
fn a_user_who_may_not_enter_gets_that_reason_and_no_advice_to_enrol() {
    let (centre, site) = running();
    let bundle = centre.publish(&Draft::hello("two"));
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(site.folder.path(), open).unwrap();
    let shut = fs::Permissions::from_mode(if is_root() { 0o700 } else { 0o000 });
    fs::set_permissions(site.state(), shut).unwrap();
    let command = site.command(&["import", bundle.to_str().unwrap()]);
    let output = if is_root() {
        let found = Command::new("setpriv").arg("--version").output();
        if found.is_err() {
            return skipped("there is no setpriv to become another user");
        }
        // Whoever that is, the program can be read.
        let program = site.folder.path().join("outhaul-agent");
        outhaul_tests::copy_program(command.get_program(), &program).unwrap();
        let mut other = Command::new("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        other.arg(program).args(command.get_args());
        other.checked().unwrap()
    } else {
        site.run(&["import", bundle.to_str().unwrap()])
    };
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(site.state(), private).unwrap();
    let words = match is_root() {
        true => ["state` belongs to user 0 (root), mode 700", "sudo"],
        false => ["state` belongs to user ", "chmod -R u+rwX"],
    };
    assert_reports(&output, 3, &words);
    assert!(!stderr(&output).contains("enrol"), "{}", stderr(&output));
}

#[test]
fn a_full_disk_is_reported_as_such_by_every_command_that_writes() {
    let Some(disk) = Stick::new("1m").filter(Stick::is_mounted) else {
        return skipped("only root can mount a small file system");
    };
    let centre = Centre::new();
    let kit = centre.kit("drone-7");
    let site = Site {
        name: "drone-7".to_owned(),
        folder: tempfile::tempdir().unwrap(),
    };
    let state = disk.path().join("state");
    fs::create_dir(&state).unwrap();
    std::os::unix::fs::symlink(state, site.state()).unwrap();
    let fill = disk.path().join("photos");
    let _ = fs::write(&fill, vec![1; 2 << 20]);
    let words = ["help:", "space"];
    let output = site.run(&["enrol", kit.to_str().unwrap()]);
    assert_reports(&output, 3, &words);
    assert!(!stderr(&output).contains("site.key` from a backup"));
    fs::remove_file(&fill).unwrap();
    site.ok(&["enrol", kit.to_str().unwrap()]);
    let _ = fs::write(&fill, vec![1; 2 << 20]);
    let bundle = centre.publish(&Draft::hello("one"));
    let output = site.import(&bundle);
    assert_reports(&output, 3, &words);
    assert!(
        !stderr(&output).contains("from a backup"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_disk_that_fills_up_in_the_middle_of_applying_is_the_sites_and_the_work_goes_on() {
    let Some(disk) = Stick::new("1m").filter(Stick::is_mounted) else {
        return skipped("only root can mount a small file system");
    };
    let (centre, site) = running();
    site.configure(&format!(
        "[folder]\ntarget = {:?}\n",
        disk.path().join("target")
    ));
    let large = |content: u8| {
        Draft::new([Load::new("hello")
            .file("manifest.yaml", "greeting: two\n")
            .payload("large.bin", vec![content; 700_000])])
    };
    let fill = disk.path().join("photos");
    fs::write(&fill, vec![1; 600_000]).unwrap();
    let bundle = centre.publish(&large(2));
    let output = site.import(&bundle);
    assert_reports(
        &output,
        3,
        &["the work on bundle 2 cannot go on", "help:", "space"],
    );
    assert_eq!(site.active(), Some(1));
    assert_eq!(site.state_of(2), "applying");
    // Told once to the hub, as what it is, and not held against the bundle.
    let output = site.run(&["apply"]);
    assert_reports(&output, 3, &["cannot go on", "space"]);
    fs::remove_file(&fill).unwrap();
    let output = site.run(&["apply"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        (site.active(), site.state_of(2).as_str()),
        (Some(2), "active")
    );
    let whole = fs::read(disk.path().join("target/hello/payload/large.bin")).unwrap();
    assert_eq!(whole.len(), 700_000);
}

#[test]
fn a_watched_folder_that_is_not_there_is_named_by_status_and_once_by_run() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let gone = site.folder.path().join("wacth");
    site.configure(&format!("watch = [{gone:?}]\ndrift_s = 0"));
    assert_eq!(attention(&site), ["watch"]);
    let status = stdout(&site.run(&["status"]));
    let named = format!(
        "attention: the watched folder `{}` is not there",
        gone.display()
    );
    assert!(status.contains(&named), "{status}");
    assert!(
        status.contains("or correct `watch` in agent.toml"),
        "{status}"
    );
    let said = stderr(&site.run(&["run", "--once"]));
    assert_eq!(said.matches("watched folder: ").count(), 1, "{said}");
    std::fs::create_dir(&gone).unwrap();
    assert_eq!(attention(&site), Vec::<String>::new());
}
