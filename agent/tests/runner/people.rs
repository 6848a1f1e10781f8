//! What people on site decide: approve, hold, roll back; and two agents that meet.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::skipped;

use crate::service::Service;
use crate::site::{Site, assert_reports, code, stderr, stdout, tree};
use crate::split::{NOBODY, as_user, give, no_other_user};

#[test]
fn a_second_service_on_the_same_state_reports_the_first() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let service = Service::start(&site);
    let process = service.id().to_string();
    let words = [
        "another outhaul-agent",
        &process,
        "nothing was changed",
        "help:",
    ];
    assert_reports(&site.run(&["run"]), 3, &words);
    // Looking and deciding need no lock.
    assert_eq!(site.status()["active"], serde_json::Value::Null);
    site.ok(&["hold", "--why", "harvest"]);
    drop(service);
    site.ok(&["hold", "--release"]);
    site.take(&centre.publish(&Draft::hello("hi")));
}

#[test]
fn an_import_while_the_service_runs_is_done_by_it_and_answered() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let bundle = centre.publish(&Draft::hello("hi"));
    let mut service = Service::start(&site);
    let process = format!("process {}", service.id());
    let words = [process.as_str(), "waits for its answer"];
    let output = site.import(&bundle);
    assert_reports(&output, 0, &words);
    assert_eq!(stdout(&output), "bundle 1 is active\n");
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: hi\n");
    // A refusal comes back with its exit code, help and JSON, too.
    let damaged = site.folder.path().join("damaged.outhaul");
    let mut bytes = std::fs::read(centre.publish(&Draft::hello("ho"))).unwrap();
    let last = bytes.len() / 2;
    bytes[last] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    assert_reports(&site.import(&damaged), 4, &["is refused", "help:"]);
    let nowhere = site.import(std::path::Path::new("/nowhere/at/all"));
    assert_reports(&nowhere, 3, &["/nowhere/at/all", "help:"]);
    let again = site.ok(&["import", bundle.to_str().unwrap()]);
    assert_eq!(again["number"], 1, "{again}");
    assert!(service.terminate().success());
}

#[test]
fn a_command_that_waits_for_a_service_goes_on_itself_when_the_service_ends() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let bundle = centre.publish(&Draft::hello("hi"));
    let service = Service::start(&site);
    // Stopped, it holds the lock and answers nobody.
    let kill = |signal: &str, id: u32| {
        let mut command = std::process::Command::new("kill");
        assert!(
            command
                .args([signal, &id.to_string()])
                .status()
                .unwrap()
                .success()
        );
    };
    kill("-STOP", service.id());
    let mut command = site.command(&["import", bundle.to_str().unwrap()]);
    let mut import = command
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut messages = std::io::BufReader::new(import.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut messages, &mut line).unwrap();
    assert!(line.contains("waits for its answer"), "{line}");
    kill("-KILL", service.id());
    assert!(import.wait().unwrap().success());
    assert_eq!(site.active(), Some(1));
}

#[test]
fn a_bundle_that_removes_everything_waits_until_a_person_says_yes() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    // No setting switches this off.
    site.configure("max_removal_percent = 100\n");
    site.take(&centre.publish(&Draft::hello("hi")));
    let empty = centre.publish(&Draft::new([]));
    let output = site.import(&empty);
    assert_reports(&output, 0, &[]);
    assert!(
        stdout(&output).contains("removes 1 of 1 assignments (`hello`)"),
        "{}",
        stdout(&output)
    );
    assert!(
        stdout(&output).contains("outhaul-agent approve 2"),
        "{}",
        stdout(&output)
    );
    assert_eq!(
        (site.active(), site.state_of(2).as_str()),
        (Some(1), "gated")
    );
    assert_eq!(site.applied().len(), 3);
    // Coming again does not make it more wanted.
    site.import(&empty);
    assert_eq!(site.applied().len(), 3);
    site.ok(&["approve", "2", "--who", "ann"]);
    assert_eq!(site.active(), Some(2));
    assert!(site.applied().is_empty());
    let printed = site.event_log();
    assert!(
        printed.contains(&"decision approve".to_owned()),
        "{printed:?}"
    );
}

#[test]
fn the_guard_opens_for_a_share_that_the_owner_allows() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let load = |name: &str| Load::new(name).file("a.yaml", name);
    site.take(&centre.publish(&Draft::new(["a", "b", "c"].map(load))));
    site.ok(&[
        "import",
        centre
            .publish(&Draft::new([load("a"), load("b")]))
            .to_str()
            .unwrap(),
    ]);
    assert_eq!(site.state_of(2), "gated", "a third is more than 30 percent");
    site.configure("max_removal_percent = 34\n");
    site.take(&centre.publish(&Draft::new([load("a"), load("b")])));
    assert_eq!(site.state_of(2), "superseded");
    // Whoever says yes to it now hears that this cannot bring it back.
    let words = [
        "bundle 2 was replaced by a newer one",
        "nothing was changed",
        "help: ",
    ];
    assert_reports(&site.run(&["approve", "2"]), 1, &words);
}

#[test]
fn approval_always_makes_every_bundle_wait() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.configure("approval = \"always\"\n");
    let taken = site.ok(&[
        "import",
        centre.publish(&Draft::hello("hi")).to_str().unwrap(),
    ]);
    assert_eq!(taken["state"], "gated");
    assert!(site.applied().is_empty());
    // It is not as if `apply` had broken something.
    let waits = site.run(&["apply"]);
    let words = [
        "bundle 1 waits, and is not applied yet",
        "help: `outhaul-agent approve 1` lets it through",
    ];
    assert_reports(&waits, 1, &words);
    assert!(
        !stderr(&waits).contains("now no bundle"),
        "{}",
        stderr(&waits)
    );
    site.ok(&["approve", "1"]);
    assert_eq!(site.active(), Some(1));
}

#[test]
fn a_hold_says_whose_hold_it_replaces_and_a_release_without_one_changes_nothing() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let before = site.event_log().len();
    let printed = stdout(&site.run(&["hold", "--release"]));
    assert!(
        printed.contains("no hold is set; nothing was changed"),
        "{printed}"
    );
    assert_eq!(site.event_log().len(), before);
    site.ok(&["hold", "--why", "harvest", "--who", "ann"]);
    let printed = stdout(&site.run(&["hold", "--why", "repair", "--who", "bob"]));
    assert!(
        printed.contains("held by bob: repair; this replaces the hold of ann: harvest"),
        "{printed}"
    );
}

#[test]
fn under_a_hold_nothing_new_is_applied_until_it_is_released() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("hi")));
    site.ok(&["hold", "--why", "harvest until Friday", "--who", "ann"]);
    let bundle = centre.publish(&Draft::hello("changed"));
    let taken = site.ok(&["import", bundle.to_str().unwrap()]);
    assert_eq!(taken["state"], "gated");
    assert!(
        taken["message"]
            .as_str()
            .unwrap()
            .contains("harvest until Friday"),
        "{taken}"
    );
    assert_eq!(site.status()["hold"]["who"], "ann");
    // An approval does not override a hold, and whoever approves hears first what does.
    let words = [
        "bundle 2 waits",
        "help: `outhaul-agent hold --release` ends the hold; then",
    ];
    assert_reports(&site.run(&["approve"]), 2, &words);
    assert_reports(
        &site.run(&["approve", "2"]),
        0,
        &["help: `outhaul-agent hold --release`"],
    );
    assert_eq!(site.active(), Some(1));
    site.ok(&["hold", "--release"]);
    let output = site.import(&bundle);
    assert_reports(
        &output,
        0,
        &["bundle 2 was staged and not applied yet; it is active now"],
    );
    assert_eq!(
        site.applied()["hello/manifest.yaml"],
        b"greeting: changed\n"
    );
}

#[test]
fn rollback_goes_to_the_bundle_before_and_stays_there() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let output = site.run(&["rollback"]);
    assert_reports(&output, 1, &["no bundle is active", "nothing was changed"]);
    site.take(&centre.publish(&Draft::hello("one")));
    assert_reports(
        &site.run(&["rollback"]),
        1,
        &["no previous generation", "nothing was changed"],
    );
    let extra = Load::new("extra").file("e.yaml", "e");
    let second = Draft::new([Load::new("hello").file("manifest.yaml", "two\n"), extra]);
    let second = centre.publish(&second);
    site.take(&second);
    let back = site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(back["active"], 1);
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
    assert!(!site.applied().contains_key("extra/e.yaml"));
    assert_eq!(site.state_of(2), "reverted");
    // The stick that is still in does not undo the decision.
    assert_reports(&site.import(&second), 1, &["not tried again"]);
    assert_eq!(site.active(), Some(1));
    site.take(&centre.publish(&Draft::hello("three")));
    let printed = site.event_log();
    assert!(
        printed.contains(&"decision rollback".to_owned()),
        "{printed:?}"
    );
}

#[test]
fn root_does_not_lock_the_owner_of_the_state_folder_out() {
    if let Some(why) = no_other_user() {
        return skipped(why);
    }
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(site.folder.path(), open).unwrap();
    let stick = site.folder.path().join("stick.outhaul");
    fs::copy(centre.publish(&Draft::hello("two")), &stick).unwrap();
    let import = ["import", stick.to_str().unwrap()];
    give(&site.state(), NOBODY);
    let before = tree(&site.state());
    let words = [
        "belongs to user 65534",
        "nothing was changed",
        "help: repeat the command as that user: put `sudo -u '#65534'`",
    ];
    for command in [&import[..], &["apply"], &["hold"], &["rollback"]] {
        assert_reports(&site.run(command), 2, &words);
    }
    assert_eq!(tree(&site.state()), before);
    assert_eq!(code(&site.run(&["status"])), 0);
    // Settings of that user are none of root's: it does not advise to take them away from the service.
    site.configure("");
    std::os::unix::fs::chown(site.state().join("agent.toml"), Some(NOBODY), Some(NOBODY)).unwrap();
    let words = ["root does not follow the settings of that user", words[2]];
    assert_reports(&site.run(&["status"]), 2, &words);
    fs::remove_file(site.state().join("agent.toml")).unwrap();
    let done = as_user(&site, NOBODY, &import);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert_eq!(site.active(), Some(2));

    // Beside one that may not be read: it may be the newer one.
    let both = site.folder.path().join("both");
    fs::create_dir(&both).unwrap();
    let newest = both.join("newest.outhaul");
    fs::copy(centre.publish(&Draft::hello("newest")), &newest).unwrap();
    fs::set_permissions(&newest, fs::Permissions::from_mode(0o600)).unwrap();
    fs::copy(import[1], both.join("known.outhaul")).unwrap();
    let done = as_user(&site, NOBODY, &["import", both.to_str().unwrap()]);
    assert_reports(
        &done,
        1,
        &[
            "newest.outhaul",
            "let user 65534, who owns the state folder, read `",
        ],
    );

    // A stick that root alone may read and write: nobody is sent back to root, who is refused.
    let stick = site.folder.path().join("stick");
    let closed = stick.join("three.outhaul");
    fs::create_dir(&stick).unwrap();
    fs::copy(centre.publish(&Draft::hello("three")), &closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    for (command, path, words) in [
        (
            "import",
            &stick,
            [
                "let user 65534, who owns the state folder, read `",
                "copy it as root to a folder",
            ],
        ),
        (
            "import",
            &closed,
            [
                "let user 65534, who owns the state folder, read `",
                "copy it as root to a folder",
            ],
        ),
        (
            "export",
            &stick,
            [
                "let user 65534, who owns the state folder, write to `",
                "copy it to the stick as root",
            ],
        ),
    ] {
        let refused = as_user(&site, NOBODY, &[command, path.to_str().unwrap()]);
        assert_reports(&refused, 3, &words);
        assert!(
            !stderr(&refused).contains("put `sudo` in front"),
            "{}",
            stderr(&refused)
        );
    }
}

#[test]
fn an_import_that_was_cut_off_is_shown_and_goes_on_with_words_that_say_so() {
    for command in ["import", "apply"] {
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        site.take(&centre.publish(&Draft::hello("one")));
        let two = centre.publish(&Draft::hello("two"));
        let mut cut = site.command(&["import", two.to_str().unwrap()]);
        let done = cut.env("OUTHAUL_CUT", "staged-committed").output().unwrap();
        assert!(!done.status.success());
        let status = site.status();
        let said = "bundle 2 is here whole, and is not applied yet";
        let shown = status["attention"].to_string();
        assert!(shown.contains(said), "{status}");
        assert!(
            status["next"].to_string().contains("`outhaul-agent apply`"),
            "{status}"
        );
        let arguments = match command {
            "import" => vec!["import", two.to_str().unwrap()],
            other => vec![other],
        };
        let done = site.run(&arguments);
        assert_eq!(
            (code(&done), site.active()),
            (0, Some(2)),
            "{}",
            stderr(&done)
        );
        let printed = stdout(&done);
        assert!(!printed.contains("nothing was applied"), "{printed}");
    }
}

#[test]
fn what_was_applied_from_a_stick_is_not_said_to_be_cut_off_when_the_end_of_the_import_was() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let two = centre.publish(&Draft::hello("two"));
    let mut cut = site.command(&["import", two.to_str().unwrap()]);
    let done = cut.env("OUTHAUL_CUT", "active-committed").output().unwrap();
    assert!(!done.status.success());
    assert_eq!(site.active(), Some(2));
    for _ in 0..2 {
        let status = site.status();
        assert!(
            !status["next"].to_string().contains("interrupted"),
            "{status}"
        );
        let stick = status["media"].as_array().unwrap().last().unwrap();
        let said = stick["text"].as_str().unwrap();
        assert!(
            said.contains("bundle 2 was copied from it, and is active now"),
            "{status}"
        );
        // Also after the next command has written that down.
        site.ok(&["apply"]);
    }
    // What was cut off before anything came is said as before.
    let three = centre.publish(&Draft::hello("three"));
    let mut cut = site.command(&["import", three.to_str().unwrap()]);
    let done = cut.env("OUTHAUL_CUT", "blob-written").output().unwrap();
    assert!(!done.status.success());
    let status = site.status();
    assert!(
        status["next"].to_string().contains("interrupted"),
        "{status}"
    );
}

#[test]
fn what_was_copied_from_a_stick_is_not_said_to_be_cut_off_after_it_was_given_up() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let one = centre.publish(&Draft::hello("one"));
    let mut cut = site.command(&["import", one.to_str().unwrap()]);
    let done = cut.env("OUTHAUL_CUT", "step-applied").output().unwrap();
    assert!(!done.status.success());
    assert_eq!(site.ok(&["rollback"])["given_up"], 1);
    let status = site.status();
    assert!(
        !status["next"].to_string().contains("interrupted"),
        "{status}"
    );
    let stick = status["media"][0]["text"].as_str().unwrap();
    assert!(
        stick.contains("bundle 1 was copied from it, and is"),
        "{status}"
    );
}

#[test]
fn attack_a_state_folder_that_somebody_prepared_becomes_no_site() {
    if let Some(why) = no_other_user() {
        skipped(why);
        return;
    }
    let centre = Centre::new();
    let kit = centre.kit("press-7");
    for planted in ["agent.toml", "agent", "generations", "lock"] {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        let path = state.join(planted);
        match planted {
            "agent" | "generations" => fs::create_dir(&path).unwrap(),
            _ => fs::write(&path, "").unwrap(),
        }
        std::os::unix::fs::chown(&path, Some(NOBODY), None).unwrap();
        let refused = std::process::Command::new(env!("CARGO_BIN_EXE_outhaul-agent"))
            .args([
                "--state",
                state.to_str().unwrap(),
                "enrol",
                kit.to_str().unwrap(),
            ])
            .output()
            .unwrap();
        assert_reports(&refused, 3, &["what another user put there", planted]);
        assert!(!state.join("site.key").exists());
    }
}
