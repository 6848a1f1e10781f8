//! Hooks of a promotion, as typed: real programs, the hub that `gate` asks, and the branch on which it stays on record.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use super::gate::GateFixture;
use super::repositories::{commit, git};

const POLICY: &str = "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata:\n  name: to-stage\nspec:\n  from: dev\n  \
                      to: stage\n  hooks:\n";

/// A control plane with a policy from `dev` to `stage` with these hooks, and `dev` at a new commit, with its gate open.
fn fixture(hooks: &str) -> (GateFixture, String) {
    let made = GateFixture::new();
    let policy = format!("{POLICY}{hooks}");
    fs::write(made.path("cp/.environments/to-stage.yaml"), policy).unwrap();
    commit(&made.path("cp"), "A policy");
    let new = made.change();
    made.ok("promote --control-plane cp --to dev");
    made.opens(&["dev"]);
    (made, new)
}

/// An executable script.
fn program(made: &GateFixture, name: &str, text: &str) {
    let path = made.path(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// `outhaul promote --to stage` with a program for each of these hooks: a script of its name.
fn promote(made: &GateFixture, hooks: &[&str], more: &str) -> String {
    let mut command = format!(
        "promote --control-plane cp --to stage --hub {} {more}",
        made.hub()
    );
    for name in hooks {
        command.push_str(&format!(" --hook {name}={}", made.path(name).display()));
    }
    command
}

const BOTH: &str =
    "    before:\n    - name: smoke\n      timeoutMinutes: 1\n    after:\n    - name: announce\n";

#[test]
fn hooks_that_pass_are_on_record_in_the_commit_that_moved_the_environment() {
    let (made, new) = fixture(BOTH);
    program(
        &made,
        "smoke",
        "cat > smoke.json; echo starting; echo '12 checks passed'",
    );
    program(&made, "announce", "cat > announce.json");
    let (_, _, err) = made.ok(&promote(&made, &["smoke", "announce"], ""));
    assert!(
        err.contains("hook `smoke` (before): passed: 12 checks passed\n"),
        "{err}"
    );
    assert!(err.contains("hook `announce` (after): passed\n"), "{err}");
    assert_eq!(made.base("stage"), new);
    let log = git(&made.path("cp"), &["log", "-1", "--format=%B", "stage"]);
    assert!(
        log.contains("- hook `smoke` (before): passed: 12 checks passed\n"),
        "{log}"
    );
    let asked = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(made.path(name)).unwrap()).unwrap()
    };
    let before = asked("smoke.json");
    assert_eq!(before["format"], "outhaul.dev/promotion-hook/v1");
    assert_eq!(
        [
            &before["hook"],
            &before["moment"],
            &before["from"],
            &before["to"]
        ],
        ["smoke", "before", "dev", "stage"]
    );
    assert_eq!(before["commit"], new.as_str());
    assert_eq!(before["decision"]["verdict"], "open");
    assert_eq!(before["environmentCommit"], Value::Null);
    assert_eq!(
        asked("announce.json")["environmentCommit"],
        made.at("stage").as_str()
    );
}

#[test]
fn a_hook_that_fails_keeps_the_environment_where_it_is() {
    let (made, _) = fixture("    before:\n    - name: smoke\n    - name: later\n");
    program(&made, "smoke", "echo 'camera: no picture' >&2; exit 3");
    program(&made, "later", "touch later-ran");
    let before = made.at("stage");
    let command = promote(&made, &["smoke", "later"], "");
    let (_, _, err) = made.ends(1, &command);
    for part in [
        "hook `smoke` failed: exit status: 3: camera: no picture",
        "`stage` stays where it is",
        "help: fix what it found",
    ] {
        assert!(err.contains(part), "`{part}` is not in:\n{err}");
    }
    assert_eq!(made.at("stage"), before);
    assert!(!made.path("later-ran").exists());
    let watch = format!(
        "promote --control-plane cp --watch --interval 0 --hub {} --hook smoke={} --hook later={}",
        made.hub(),
        made.path("smoke").display(),
        made.path("later").display()
    );
    let (_, _, err) = made.ends(1, &watch);
    assert!(err.contains("`stage` stays: hook `smoke` failed"), "{err}");
    assert_eq!(made.at("stage"), before);
}

#[test]
fn every_hook_without_a_program_is_named_before_anything_is_run() {
    let (made, _) = fixture(BOTH);
    program(&made, "smok", "touch ran");
    let before = made.at("stage");
    let (_, _, err) = made.ends(2, &promote(&made, &["smok"], ""));
    for part in [
        "`smoke` (",
        "to-stage.yaml:10:13), where `smok` was given",
        "`announce` (",
        "help: give `--hook NAME=PROGRAM`",
    ] {
        assert!(err.contains(part), "`{part}` is not in:\n{err}");
    }
    assert_eq!(made.at("stage"), before);
    assert!(!made.path("ran").exists());
}

#[test]
fn a_program_for_no_hook_of_the_step_is_not_left_out_in_silence() {
    let (made, _) = fixture(BOTH);
    program(&made, "smoke", "touch ran");
    program(&made, "announce", "true");
    program(&made, "smoek", "touch ran");
    let before = made.at("stage");
    let command = promote(&made, &["smoke", "announce", "smoek"], "");
    let (_, _, err) = made.ends(2, &command);
    for part in [
        "no promotion policy has a hook of a name that a program was given for: `smoek`; `stage` stays where it is",
        "help: did you mean `smoke`? Leave out `--hook` for what is no hook",
    ] {
        assert!(err.contains(part), "`{part}` is not in:\n{err}");
    }
    assert_eq!(made.at("stage"), before);
    assert!(!made.path("ran").exists());
    // One of another step is noted.
    made.change();
    let smoke = made.path("smoke");
    let smoke = smoke.display();
    let (_, _, err) = made.ok(&format!(
        "promote --control-plane cp --to dev --hook smoke={smoke}"
    ));
    let note = "note: hook `smoke` is of another step than one to `dev`: it is not run";
    assert!(err.contains(note), "{err}");
    // Who follows the chain goes on, and says so.
    let (_, _, err) = made.ok(&format!(
        "promote --control-plane cp --watch --first dev --interval 0 --hook smoek={smoke}"
    ));
    let note = "note: no promotion policy has a hook `smoek`, for which a program was given: did you mean `smoke`?";
    assert!(err.contains(note), "{err}");
}

#[test]
fn a_hook_whose_program_is_not_there_is_named_with_it() {
    let (made, _) = fixture("    before:\n    - name: smoke\n");
    let before = made.at("stage");
    let hub = made.hub();
    let (_, _, err) = made.ends(
        2,
        &format!("promote --control-plane cp --to stage --hub {hub} --hook smoke=/nonexist"),
    );
    for part in [
        "hook `smoke` was not run: `/nonexist`: it cannot be started: No such file",
        "`stage` stays where it is",
        "no outcome of this hook was put on record",
    ] {
        assert!(err.contains(part), "`{part}` is not in:\n{err}");
    }
    assert_eq!(made.at("stage"), before);
}

#[test]
fn a_hook_that_fails_after_the_move_is_an_error_and_the_move_holds() {
    let (made, new) = fixture("    after:\n    - name: announce\n");
    program(&made, "announce", "exit 1");
    let (_, _, err) = made.ends(1, &promote(&made, &["announce"], ""));
    assert!(
        err.contains("`stage` was moved, and then a hook failed"),
        "{err}"
    );
    assert_eq!(made.base("stage"), new);
}

#[test]
fn past_the_gate_its_hooks_are_not_run_and_that_is_on_record() {
    let (made, new) = fixture(BOTH);
    program(&made, "smoke", "touch ran");
    let words = [
        "promote",
        "--control-plane",
        "cp",
        "--to",
        "stage",
        "--commit",
        &new,
        "--from",
        "dev",
        "--override-gate",
        "line 3 stands still",
        "--override-by",
        "Jo Park",
    ];
    let (code, _, err) = made.run(&words);
    assert_eq!(code, 0, "{err}");
    for part in [
        "hook `smoke` (before): not run: the gate was overridden",
        "hook `announce` (after): not run: no program was named for it",
    ] {
        assert!(err.contains(part), "`{part}` is not in:\n{err}");
    }
    let log = git(&made.path("cp"), &["log", "-1", "--format=%B", "stage"]);
    assert!(
        log.contains("- hook `smoke` (before): not run: the gate was overridden\n"),
        "{log}"
    );
    assert!(!made.path("ran").exists());
}

/// A hook may take an hour: what was true when it began is asked again.
#[test]
fn a_gate_that_closes_while_a_hook_runs_keeps_the_environment_where_it_is() {
    let (made, _) = fixture("    before:\n    - name: smoke\n");
    let fifo = |name: &str| {
        let path = made.path(name);
        let status = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(status.success());
        path
    };
    let (began, go) = (fifo("began"), fifo("go"));
    program(
        &made,
        "smoke",
        &format!("echo > {}; cat {}", began.display(), go.display()),
    );
    let before = made.at("stage");
    let command = promote(&made, &["smoke"], "");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            fs::read(&began).unwrap();
            made.closes();
            fs::write(&go, "go on\n").unwrap();
        });
        let (_, _, err) = made.ends(1, &command);
        assert!(err.contains("the gate of `dev` is closed"), "{err}");
    });
    assert_eq!(made.at("stage"), before);
}

#[test]
fn a_policy_with_a_hook_twice_or_with_no_name_does_not_read() {
    for (hooks, part) in [
        ("    before:\n    - name: a\n    - name: a\n", "twice"),
        ("    before:\n    - name: a b\n", "is not a name"),
        ("    before:\n    - timeoutMinutes: 5\n", "name"),
        (
            "    before:\n    - name: a\n      timeoutMinutes: 0\n",
            "timeoutMinutes",
        ),
        ("    befor:\n    - name: a\n", "did you mean `before`?"),
    ] {
        let made = GateFixture::new();
        let file = made.path("cp/.environments/to-stage.yaml");
        fs::write(file, format!("{POLICY}{hooks}")).unwrap();
        commit(&made.path("cp"), "A policy");
        let (_, _, err) = made.ends(2, "promote --control-plane cp --to dev");
        assert!(
            err.contains(part) && err.contains("to-stage.yaml:"),
            "{err}"
        );
    }
}
