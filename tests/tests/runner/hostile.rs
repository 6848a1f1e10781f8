//! Corpora of hostile media and peers: each case is a folder below `tests/fixtures/hostile/`, its verdict in
//! `verdict.txt` beside it, and all of them are given to the real programs under limits.
//!
//! What comes in: a case, and a copy of one centre, hub and site that know nothing of it. What must come out:
//! the exit codes and words of the verdict, no panic, nothing accepted, within the memory and the time that a
//! command has. The counts are printed past the test runner's capture.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_test_kit::folder;
use outhaul_tests::{Ran, program, run, workspace_root};

use super::system::SystemFixture;

mod answers;
mod media;
mod peers;
mod trees;

/// Writable memory of the agent in KiB, the small program on small machines.
const AGENT_KIB: u32 = 64 * 1024;
/// Writable memory of the hub and the centre's programs in KiB, stacks of idle threads included.
const CENTRE_KIB: u32 = 1024 * 1024;
/// A command that takes longer than this many seconds hangs.
const SECONDS: u32 = 300;

/// One line of a verdict that is done, and what it must come to.
#[derive(Debug, Default)]
struct Step {
    /// The words after `run`.
    line: String,
    /// Any of these.
    exit: Vec<i32>,
    says: Vec<String>,
}

/// One case: a folder.
struct Case {
    name: String,
    folder: PathBuf,
    steps: Vec<Step>,
    /// Lines before the first `run`: what the case needs.
    needs: Vec<String>,
}

#[derive(Debug, Default)]
struct Count {
    tried: usize,
    accepted: usize,
    panics: usize,
    over_limits: usize,
    wrong: Vec<String>,
}

/// Every case of a corpus, by name.
fn cases(corpus: &str) -> Vec<Case> {
    let folder = workspace_root().join("tests/fixtures/hostile").join(corpus);
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|folder| {
            let text = fs::read_to_string(folder.join("verdict.txt")).unwrap();
            let mut case = Case {
                name: folder.file_name().unwrap().to_str().unwrap().to_owned(),
                folder,
                steps: Vec::new(),
                needs: Vec::new(),
            };
            for line in text.lines().filter(|line| !line.is_empty()) {
                let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
                match (word, case.steps.last_mut()) {
                    ("run", _) => case.steps.push(Step {
                        line: rest.to_owned(),
                        ..Step::default()
                    }),
                    ("exit", Some(step)) => {
                        step.exit = rest.split(' ').map(|n| n.parse().unwrap()).collect();
                    }
                    ("says", Some(step)) => step.says.push(rest.to_owned()),
                    (_, None) => case.needs.push(line.to_owned()),
                    _ => panic!("{}: `{line}` is no line of a verdict", case.name),
                }
            }
            assert!(!case.steps.is_empty(), "{}: nothing is run", case.name);
            case
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

impl Count {
    /// Compares one step with what came of it.
    fn judge(&mut self, case: &Case, step: &Step, ran: &Ran) {
        let text = ran.everything();
        if text.contains("panicked at") || ran.code == Some(101) {
            self.panics += 1;
        } else if matches!(ran.code, None | Some(124 | 134 | 137))
            || text.contains("memory allocation of")
        {
            self.over_limits += 1;
        }
        let other = ran.code.is_none_or(|code| !step.exit.contains(&code));
        if other || !step.says.iter().all(|words| text.contains(words)) {
            self.wrong.push(format!("{}: {step:?}: {text}", case.name));
        }
    }

    /// Something hostile had an effect.
    fn accepted(&mut self, case: &Case, what: &str) {
        self.accepted += 1;
        self.wrong.push(format!("{}: {what}", case.name));
    }

    fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.accepted += other.accepted;
        self.panics += other.panics;
        self.over_limits += other.over_limits;
        self.wrong.extend(other.wrong);
    }

    /// Prints the counts, and fails unless all is as the verdicts say.
    fn end(&self, corpus: &str, at_least: usize) {
        let line = format!(
            "hostile {corpus}: tried {}, accepted: {}, panics: {}, over limits: {}\n",
            self.tried, self.accepted, self.panics, self.over_limits
        );
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        assert!(self.wrong.is_empty(), "{line}{}", self.wrong.join("\n\n"));
        assert!(self.tried >= at_least, "{line}");
        assert_eq!((self.accepted, self.panics, self.over_limits), (0, 0, 0));
    }
}

/// `program`, with a lid on its memory and its time.
fn limited(fixture: &SystemFixture, name: &str) -> Command {
    let mut command = fixture.command(Path::new("timeout"));
    command.args(["--signal=KILL", &SECONDS.to_string(), "sh"]);
    lid(&mut command, name);
    command
}

/// A program that serves until it is ended, with a lid on its memory.
fn serving(fixture: &SystemFixture, name: &str) -> Command {
    let mut command = fixture.command(Path::new("sh"));
    lid(&mut command, name);
    command
}

fn lid(command: &mut Command, name: &str) {
    let kib = if name == "outhaul-agent" {
        AGENT_KIB
    } else {
        CENTRE_KIB
    };
    let limit = format!("ulimit -d {kib}; exec \"$@\"");
    command.args(["-c", &limit, "sh"]);
    command.arg(program(name).unwrap());
}

/// Runs `agent …`, `hub …`, `centre …` or `signer …` in the scene, under limits.
fn typed(fixture: &SystemFixture, line: &str) -> Ran {
    let mut words = line.split(' ');
    let who = words.next().unwrap();
    let (name, first): (_, &[&str]) = match who {
        "agent" => ("outhaul-agent", &["--state", "sites/edge-1"]),
        "hub" => ("outhaul-hub", &["--state", "hub"]),
        "centre" => ("outhaul", &[]),
        "signer" => ("outhaul-signer", &["--passphrase-file", "passphrase"]),
        other => panic!("nobody is called `{other}`"),
    };
    run(limited(fixture, name).args(first).args(words)).unwrap()
}

/// A copy of the scene, so that no case sees what another one did.
fn copy(fixture: &SystemFixture) -> SystemFixture {
    let mut copied = SystemFixture::new();
    copied.sources.clone_from(&fixture.sources);
    folder::copy(&fixture.path(""), &copied.path(""));
    copied
}

/// A centre, a hub and a site on which bundle 1 runs; bundle 2 lies in `next`, both are published.
fn stage() -> SystemFixture {
    let fixture = SystemFixture::new();
    let init = ["init", "control-plane", "--environments", "dev,stage"];
    fixture.run("outhaul", 0, &init);
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    // `dev` has something that `stage` waits for.
    fixture.on_branch("control-plane", "main", |_| {});
    let promote = ["promote", "--control-plane", "control-plane", "--to", "dev"];
    fixture.run("outhaul", 0, &promote);
    let keys = [
        "--fleet",
        "fleet",
        "--passphrase-file",
        "passphrase",
        "--out",
    ];
    let bundle = |more: &[&str]| fixture.plane(0, "bundle", "dev", &[&keys[..], more].concat());
    bundle(&["stick", "--publish", "published"]);
    fixture.run("outhaul-hub", 0, &["--state", "hub", "import", "stick"]);
    fixture.carry("edge-1");
    let published = |name: &str| folder::copy(&fixture.path("published"), &fixture.path(name));
    published("published-1");
    bundle(&["next", "--publish", "published", "--renew"]);
    published("published-2");
    fs::create_dir(fixture.path("outside")).unwrap();
    fs::write(fixture.path("outside/file"), "kept").unwrap();
    fixture
}

fn status(fixture: &SystemFixture) -> serde_json::Value {
    let reported = fixture.agent("edge-1", 0, &["--output", "json", "status"]);
    outhaul_tests::result(&reported.stdout)
}

/// What nothing hostile may change: what runs on site, what the hub and the centre know, what lies outside.
fn standing(fixture: &SystemFixture) -> String {
    let hub = |arguments: &[&str]| {
        let words = [&["--state", "hub"][..], arguments, &["--output", "json"]].concat();
        fixture.run("outhaul-hub", 0, &words).stdout
    };
    let sites: serde_json::Value = serde_json::from_str(&hub(&["sites"])).unwrap();
    let names: Vec<_> = sites["sites"]
        .as_array()
        .or(sites.as_array())
        .into_iter()
        .flatten()
        .map(|site| {
            (
                site["site"].clone(),
                site["actual"].clone(),
                site["key"].clone(),
            )
        })
        .collect();
    let centre = ["site", "list", "--fleet", "fleet", "--output", "json"];
    let outside: Vec<_> = folder::paths(&fixture.path("outside"))
        .into_iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    format!(
        "active {}, hub {names:?}, centre {}, stage at {}, outside {outside:?}",
        status(fixture)["active"],
        fixture.run("outhaul", 0, &centre).stdout,
        fixture.git("control-plane", &["rev-parse", "stage"]),
    )
}
