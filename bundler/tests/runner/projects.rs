//! `outhaul.toml`, as people and attackers write it, with the real program.
//!
//! What comes in: working folders with a project file, good or hostile, and the environment. What must
//! come out: a command that needs fewer options, or a refusal that says which file it is about and how to
//! go on; never a command that takes from an untrusted file what is rendered, signed or asked.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_tests::Checked as _;

/// A home folder and what lies in it.
struct Home {
    folder: tempfile::TempDir,
}

struct Seen {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, folder: &str, variables: &[(&str, &str)], line: &str) -> Seen {
        let program = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        self.run_by(program, folder, variables, line)
    }

    /// The same in 1 GiB of memory, 60 s of processor time and 300 s.
    fn run_limited(&self, variables: &[(&str, &str)], line: &str) -> Seen {
        let limits = "ulimit -v 1048576 && ulimit -t 60 && exec \"$@\"";
        let mut program = Command::new("timeout");
        program.args(["300", "sh", "-c", limits, "sh"]);
        program.arg(env!("CARGO_BIN_EXE_outhaul"));
        self.run_by(program, "", variables, line)
    }

    fn run_by(
        &self,
        mut command: Command,
        folder: &str,
        variables: &[(&str, &str)],
        line: &str,
    ) -> Seen {
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OUTHAUL_")) {
            command.env_remove(name);
        }
        let output = command
            .args(line.split(' ').skip(1))
            .current_dir(self.path(folder))
            .env("HOME", self.folder.path())
            .env_remove("XDG_STATE_HOME")
            .env("XDG_CACHE_HOME", self.path("cache"))
            .envs(variables.iter().copied())
            .checked()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Seen {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    fn ok(&self, folder: &str, line: &str) -> String {
        let seen = self.run(folder, &[], line);
        assert_eq!(seen.code, Some(0), "{line}: {}{}", seen.out, seen.err);
        seen.out + &seen.err
    }

    fn refused(&self, folder: &str, code: i32, line: &str) -> String {
        let seen = self.run(folder, &[], line);
        assert_eq!(seen.code, Some(code), "{line}: {}{}", seen.out, seen.err);
        seen.err
    }
}

/// A home folder with `plant/plane`, as `outhaul init` makes it.
fn plant() -> Home {
    let home = Home::new();
    fs::create_dir(home.path("plant")).unwrap();
    let said = home.ok("plant", "outhaul init plane");
    assert!(said.contains("`outhaul.toml` names it"), "{said}");
    fs::create_dir(home.path("plant/deep")).unwrap();
    home
}

#[test]
fn what_init_wrote_saves_the_control_plane_in_its_folder_and_below() {
    let home = plant();
    for folder in ["plant", "plant/deep"] {
        home.ok(folder, "outhaul check");
        home.ok(folder, "outhaul schedule --environment dev");
        let shown = home.ok(folder, "outhaul project");
        assert!(shown.contains("control_plane = "), "{shown}");
    }
    home.ok("plant", "outhaul render --environment dev --out rendered");
    // Above it, nothing is known.
    let err = home.refused("", 2, "outhaul schedule --environment dev");
    assert!(err.contains("--control-plane"), "{err}");
    assert!(
        err.contains("`control_plane` can also be set in an `outhaul.toml`"),
        "{err}"
    );
    // Written once, and never over what is there.
    let text = fs::read_to_string(home.path("plant/outhaul.toml")).unwrap();
    let said = home.ok("plant", "outhaul init other");
    assert!(!said.contains("outhaul.toml"), "{said}");
    assert_eq!(
        fs::read_to_string(home.path("plant/outhaul.toml")).unwrap(),
        text
    );
}

#[test]
fn options_win_over_the_environment_and_that_over_the_file() {
    let home = plant();
    let variables = [("OUTHAUL_CONTROL_PLANE", "not-there")];
    let seen = home.run("plant", &variables, "outhaul schedule --environment dev");
    assert_eq!(seen.code, Some(2), "{}", seen.err);
    assert!(
        seen.err.contains("there is no folder `not-there`"),
        "{}",
        seen.err
    );
    assert!(
        seen.err
            .contains("note: settings from the environment: OUTHAUL_CONTROL_PLANE"),
        "{}",
        seen.err
    );
    let line = "outhaul schedule --environment dev --control-plane plane";
    let seen = home.run("plant", &variables, line);
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    // What was not typed is named where it matters.
    fs::rename(home.path("plant/plane"), home.path("plant/gone")).unwrap();
    let err = home.refused("plant", 2, "outhaul schedule --environment dev");
    assert!(err.contains("there is no folder `plane`"), "{err}");
    assert!(
        err.contains("note: settings from `outhaul.toml`: control_plane (line 3)"),
        "{err}"
    );
}

#[test]
fn a_missing_folder_is_reported_as_missing() {
    let home = plant();
    let typed = "outhaul schedule --environment dev --control-plane";
    let err = home.refused("plant", 2, &format!("{typed} plan"));
    assert!(err.contains("there is no folder `plan`"), "{err}");
    assert!(err.contains("did you mean `plane`?"), "{err}");
    let err = home.refused("plant", 2, &format!("{typed} outhaul.toml"));
    assert!(err.contains("`outhaul.toml` is not a folder"), "{err}");
    for line in [
        format!("{typed} plane --source https://git.example.org/x=nowhere"),
        "outhaul schedule --env-dir nowhere --environment dev".to_owned(),
        "outhaul promote --control-plane nowhere --to dev".to_owned(),
        "outhaul diff a b --control-plane nowhere".to_owned(),
        "outhaul publish git --environment dev --control-plane plane --to nowhere".to_owned(),
        "outhaul import kalypso --control-plane plane --gitops nowhere".to_owned(),
    ] {
        let err = home.refused("plant", 2, &line);
        assert!(err.contains("there is no folder"), "{line}: {err}");
        assert!(!err.contains("may open"), "{line}: {err}");
    }
}

/// A team's repository, as someone cloned it, with a project file of its own.
fn clone(text: &str) -> Home {
    let home = plant();
    fs::create_dir(home.path("plant/clone")).unwrap();
    fs::write(home.path("plant/clone/outhaul.toml"), text).unwrap();
    home
}

#[test]
fn the_project_file_of_a_cloned_repository_decides_nothing_until_its_user_agrees() {
    let home = clone("control_plane = \"../plane\"\nhub = \"https://attacker.example\"\n");
    for line in [
        "outhaul schedule --environment dev",
        "outhaul bundle --environment dev --fleet ../fleet --out out",
        "outhaul promote --to stage",
        "outhaul check",
    ] {
        let err = home.refused("plant/clone", 4, line);
        assert!(
            err.contains("is not trusted in its current form"),
            "{line}: {err}"
        );
        assert!(
            err.contains("outhaul.toml:1:1: control_plane = ../plane"),
            "{line}: {err}"
        );
        assert!(err.contains("outhaul project trust"), "{line}: {err}");
    }
    assert!(!home.path("plant/clone/out").exists());
    // Typed, it is not asked for.
    let typed = "outhaul promote --control-plane ../plane --to dev --hub https://hub.example";
    home.ok("plant/clone", typed);
    let none = [
        ("OUTHAUL_PROJECT", "none"),
        ("OUTHAUL_CONTROL_PLANE", "../plane"),
    ];
    let seen = home.run("plant/clone", &none, "outhaul schedule --environment dev");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    let named = [("OUTHAUL_PROJECT", "outhaul.toml")];
    let seen = home.run("plant/clone", &named, "outhaul schedule --environment dev");
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    // Agreed to once, until it changes.
    let said = home.ok("plant/clone", "outhaul project trust");
    assert!(said.contains("hub = https://attacker.example"), "{said}");
    home.ok("plant/clone", "outhaul schedule --environment dev");
    let file = home.path("plant/clone/outhaul.toml");
    fs::write(&file, "control_plane = \"../plane\"\nfleet = \"theirs\"\n").unwrap();
    home.refused("plant/clone", 4, "outhaul schedule --environment dev");
}

#[test]
fn a_project_file_that_everybody_may_write_is_refused() {
    let home = plant();
    let file = home.path("plant/outhaul.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let err = home.refused("plant", 4, "outhaul schedule --environment dev");
    assert!(err.contains("everyone may write"), "{err}");
    assert!(err.contains("chmod o-w"), "{err}");
    home.ok("plant", "outhaul schema");
}

#[test]
fn every_hostile_project_file_gets_its_verdict() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/hostile/project");
    let verdicts = fs::read_to_string(corpus.join("verdicts.txt")).unwrap();
    let home = Home::new();
    let named = [("OUTHAUL_PROJECT", "outhaul.toml")];
    let (mut tried, mut accepted, mut panics, mut over_limits) = (0, 0, 0, 0);
    let mut look = |home: &Home| {
        let seen = home.run_limited(&named, "outhaul schedule --environment dev");
        accepted += usize::from(seen.code == Some(0));
        panics += usize::from(seen.err.contains("panicked at"));
        let memory = seen.err.contains("memory allocation of");
        over_limits += usize::from(memory || matches!(seen.code, None | Some(124 | 134 | 137)));
        seen
    };
    for line in verdicts.lines() {
        let mut words = line.splitn(3, ' ');
        let (name, code, expected) = (
            words.next().unwrap(),
            words.next().unwrap(),
            words.next().unwrap(),
        );
        fs::copy(
            corpus.join(format!("{name}.toml")),
            home.path("outhaul.toml"),
        )
        .unwrap();
        let seen = look(&home);
        assert_eq!(seen.code, code.parse().ok(), "{name}: {}", seen.err);
        assert!(seen.err.contains(expected), "{name}: {}", seen.err);
        let shown = |c: char| c.is_control() && c != '\n';
        assert!(!seen.err.contains(shown), "{name}: {:?}", seen.err);
        tried += 1;
    }
    let files = fs::read_dir(&corpus).unwrap();
    let files = files.filter(|one| {
        let path = one.as_ref().unwrap().path();
        path.extension().is_some_and(|ending| ending == "toml")
    });
    assert_eq!(files.count(), tried, "a case without a verdict");
    for large in [1 << 20, 1 << 40] {
        let file = fs::File::create(home.path("outhaul.toml")).unwrap();
        file.set_len(large).unwrap();
        let seen = look(&home);
        assert_eq!(seen.code, Some(3), "{}", seen.err);
        assert!(seen.err.contains("larger than"), "{}", seen.err);
        tried += 1;
    }
    fs::remove_file(home.path("outhaul.toml")).unwrap();
    let fifo = Command::new("mkfifo")
        .arg(home.path("outhaul.toml"))
        .status();
    assert!(fifo.unwrap().success());
    let seen = look(&home);
    assert_eq!(seen.code, Some(3), "{}", seen.err);
    assert!(seen.err.contains("outhaul.toml"), "{}", seen.err);
    tried += 1;
    let line = format!(
        "hostile project files: tried {tried}, accepted {accepted}, panics {panics}, over limits {over_limits}\n"
    );
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    assert_eq!((accepted, panics, over_limits), (0, 0, 0), "{line}");
}
