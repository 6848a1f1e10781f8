//! What an attacker and a careless operator met at `outhaul blame`.
//!
//! What comes in: a team's repository that is gone, a base that was set back, a program that is ended in the middle of an undo, odd
//! files and names. What must come out: no cause that nothing says, no branch that nobody asked for, and nothing left running.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use outhaul_tests::program;

use super::super::system::SystemFixture;
use super::{blame, commit, promote, scene, set, ship, told};

fn asks(fixture: &SystemFixture, says: &str) {
    let script = format!("#!/bin/sh\n{says}\nexit 1\n");
    fs::write(fixture.path("check.sh"), script).unwrap();
}

fn branches(fixture: &SystemFixture) -> String {
    fixture.git(
        "control-plane",
        &["for-each-ref", "--format=%(refname)", "refs/heads"],
    )
}

#[test]
fn a_teams_repository_that_is_gone_is_named_and_nothing_innocent_is_blamed() {
    let fixture = scene();
    commit(&fixture, "main", "harmless", |dir| {
        set(dir, "configs/common.yaml", "K1", "ok-new");
    });
    promote(&fixture);
    let files = fixture.git("control-plane", &["ls-tree", "-r", "--name-only", "hello"]);
    let script = files
        .lines()
        .find(|name| name.ends_with(".sh"))
        .unwrap()
        .to_owned();
    commit(&fixture, "hello", "a broken script", |dir| {
        let text = fs::read_to_string(dir.join(&script)).unwrap();
        fs::write(dir.join(&script), format!("{text}\n# changed\n")).unwrap();
    });
    asks(&fixture, "");
    ship(&fixture, 1);
    blame(&fixture, &[]);
    for arguments in [
        &["checkout", "--quiet", "--detach", "main"][..],
        &["branch", "-D", "hello"],
        &["reflog", "expire", "--expire=now", "--all"],
        &["gc", "--quiet", "--prune=now"],
    ] {
        fixture.git("control-plane", arguments);
    }
    let _ = fs::remove_dir_all(fixture.path("cache"));
    let before = branches(&fixture);
    let said = told(&fixture, 3, "--undo");
    assert!(said.contains("cannot be read"), "{said}");
    assert!(!said.contains("%  commit"), "{said}");
    assert_eq!(branches(&fixture), before);
}

#[test]
fn a_base_that_was_set_back_is_not_taken_for_no_change() {
    let fixture = scene();
    let older = fixture.git("control-plane", &["rev-parse", "main"]);
    commit(&fixture, "main", "harmless", |dir| {
        set(dir, "configs/common.yaml", "K1", "ok-new");
    });
    promote(&fixture);
    ship(&fixture, 0);
    let newer = fixture.git("control-plane", &["rev-parse", "main"]);
    commit(&fixture, "dev", "back", |dir| {
        super::replace(dir, "base-repo.yaml", &newer, &older);
    });
    asks(&fixture, "");
    ship(&fixture, 1);
    blame_code(&fixture, 3);
    let said = told(&fixture, 3, "");
    assert!(
        said.contains("it was set back, or its branch was rewritten"),
        "{said}"
    );
    assert!(
        !said.contains("no commit, value or act between the two reports changes"),
        "{said}"
    );
}

/// Writes what the hub tells, and asks with the code that it must end with.
fn blame_code(fixture: &SystemFixture, code: i32) {
    let asked = ["--state", "hub", "faults", "edge-1", "--output", "json"];
    let faults = fixture.run("outhaul-hub", 0, &asked).stdout;
    fs::write(fixture.path("faults.json"), faults).unwrap();
    told(fixture, code, "");
}

#[test]
fn an_undo_that_is_ended_leaves_no_program_that_writes_its_branch_later() {
    let fixture = scene();
    commit(&fixture, "main", "a worse K1", |dir| {
        set(dir, "configs/common.yaml", "K1", "wrong");
    });
    promote(&fixture);
    ship(&fixture, 1);
    blame(&fixture, &[]);
    let before = branches(&fixture);
    let hook = fixture.path("control-plane/.git/hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let hold = fixture.path("hold");
    let script = format!(
        "#!/bin/sh\necho $$ >{0}.new\nmv {0}.new {0}\nexec sleep 600\n",
        hold.display()
    );
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = fixture.command(&program("outhaul").unwrap());
    command
        .args([
            "blame",
            "edge-1",
            "--control-plane",
            "control-plane",
            "--faults",
            "faults.json",
            "--undo",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = loop {
        if let Ok(text) = fs::read_to_string(&hold) {
            break text.trim().to_owned();
        }
        std::thread::yield_now();
    };
    let id = child.id().to_string();
    let killed = fixture
        .command(Path::new("kill"))
        .args(["-TERM", &id])
        .status();
    assert!(killed.unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(
        ended.status.code(),
        Some(143),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    // Nobody may be left that goes on; a process that ended is not one that runs.
    let runs = || {
        let state =
            fs::read_to_string(Path::new("/proc").join(&pid).join("stat")).unwrap_or_default();
        state
            .rsplit(')')
            .next()
            .is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
    };
    assert!(!runs(), "the hook still runs as {pid}");
    assert_eq!(branches(&fixture), before);
}

#[test]
fn names_that_git_uses_itself_are_no_branch_and_a_device_is_no_file_of_faults() {
    let fixture = scene();
    commit(&fixture, "main", "a worse K1", |dir| {
        set(dir, "configs/common.yaml", "K1", "wrong");
    });
    promote(&fixture);
    ship(&fixture, 1);
    blame(&fixture, &[]);
    let before = branches(&fixture);
    for name in ["HEAD", "@", "FETCH_HEAD", "refs/heads/x", &"a".repeat(40)] {
        let said = told(&fixture, 2, &format!("--undo --undo-branch {name}"));
        assert!(
            said.contains("cannot be the name of a branch"),
            "{name}: {said}"
        );
    }
    assert_eq!(branches(&fixture), before);
    for device in ["/dev/zero", "/dev/null", "."] {
        let words = [
            "blame",
            "edge-1",
            "--control-plane",
            "control-plane",
            "--faults",
            device,
        ];
        let said = fixture.run("outhaul", 2, &words).everything();
        assert!(said.contains("is not a file"), "{said}");
    }
}

#[test]
fn a_link_beside_what_matters_is_named_as_not_taken_back() {
    let fixture = scene();
    let files = fixture.git("control-plane", &["ls-tree", "-r", "--name-only", "hello"]);
    let script = files
        .lines()
        .find(|name| name.ends_with(".sh"))
        .unwrap()
        .to_owned();
    commit(&fixture, "hello", "a broken script and a link", |dir| {
        let text = fs::read_to_string(dir.join(&script)).unwrap();
        fs::write(dir.join(&script), format!("{text}\n# changed\n")).unwrap();
        // Beside what travels: a payload with a link is refused.
        std::os::unix::fs::symlink("/etc/passwd", dir.join("pw")).unwrap();
    });
    asks(&fixture, "");
    ship(&fixture, 1);
    blame(&fixture, &[]);
    let said = told(&fixture, 0, "--undo");
    let left = said.lines().find(|line| line.starts_with("not taken back"));
    assert!(left.is_some_and(|line| line.ends_with(": pw")), "{said}");
}
