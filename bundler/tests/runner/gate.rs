//! The gate before every environment but the first, as typed: what goes through, what does not, and what
//! going past it leaves on record.
//!
//! What comes in: a control plane that `outhaul init` wrote, and `FakeHub`, which answers as a test says (the
//! real hub is asked in `tests/`). What must come out: no environment moves and nothing is shipped without
//! evidence, and a refusal leaves branches, fleet and output as they were.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use outhaul_tests::Checked as _;

use super::promotion::{WAIVED, fake_hub};
use super::repositories::{commit, git};

pub struct GateFixture {
    folder: tempfile::TempDir,
    hub: String,
    open: Arc<Mutex<Vec<&'static str>>>,
}

/// Exit code, data, messages.
type Ran = (i32, String, String);

impl GateFixture {
    pub fn new() -> Self {
        let open = Arc::default();
        let folder = tempfile::tempdir().unwrap();
        let made = Self {
            hub: fake_hub(Arc::clone(&open), Arc::default(), folder.path().join("cp")),
            folder,
            open,
        };
        made.ok("init cp --environments dev,stage,prod");
        fs::write(made.path("passphrase"), "a passphrase for tests\n").unwrap();
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(made.path("passphrase"), private).unwrap();
        made.ok("key init --fleet fleet --passphrase-file passphrase");
        made
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        let output = command
            .current_dir(self.folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            // What is not typed is not there: `init` writes a project file.
            .env("OUTHAUL_PROJECT", "none")
            .env("XDG_STATE_HOME", self.path("state"))
            .args(words)
            .checked()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    #[track_caller]
    pub fn ends(&self, code: i32, words: &str) -> Ran {
        let words: Vec<&str> = words.split_whitespace().collect();
        let ran = self.run(&words);
        assert_eq!(ran.0, code, "{words:?}\n{}{}", ran.1, ran.2);
        ran
    }

    #[track_caller]
    pub fn ok(&self, words: &str) -> Ran {
        self.ends(0, words)
    }

    pub fn at(&self, branch: &str) -> String {
        git(&self.path("cp"), &["rev-parse", branch])
    }

    pub fn base(&self, branch: &str) -> String {
        let text = git(
            &self.path("cp"),
            &["show", &format!("{branch}:base-repo.yaml")],
        );
        let (_, commit) = text.split_once("commit: ").unwrap();
        commit.trim().trim_matches('"').to_owned()
    }

    /// The hub's URL.
    pub fn hub(&self) -> &str {
        &self.hub
    }

    /// Has the hub open the gates of these environments.
    pub fn opens(&self, names: &[&'static str]) {
        self.open.lock().unwrap().extend(names);
    }

    /// Has the hub close every gate.
    pub fn closes(&self) {
        self.open.lock().unwrap().clear();
    }

    /// A change on `main`: its commit.
    pub fn change(&self) -> String {
        let path = self.path("cp/configs/common.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("Hello", "Good morning")).unwrap();
        commit(&self.path("cp"), "Another greeting")
    }
}

const KEYS: &str = "--fleet fleet --passphrase-file passphrase";

#[test]
fn nothing_but_the_first_environment_moves_without_a_gate() {
    let made = GateFixture::new();
    let (stage, prod) = (made.at("stage"), made.at("prod"));
    let new = made.change();
    let promote = "promote --control-plane cp";
    for to in ["stage", "prod"] {
        for more in ["", &format!(" --commit {new}"), " --commit main"] {
            let (_, _, err) = made.ends(1, &format!("{promote} --to {to}{more}"));
            assert!(
                err.contains("no hub was named") && err.contains("--override-gate"),
                "{err}"
            );
        }
    }
    // Not past the one between, and not by calling a later one the first.
    let hub = made.hub.clone();
    made.open.lock().unwrap().extend(["dev", "stage"]);
    let (_, _, err) = made.ends(1, &format!("{promote} --from dev --to prod --hub {hub}"));
    assert!(err.contains("may only be promoted from `stage`"), "{err}");
    let (_, _, err) = made.ends(1, &format!("{promote} --watch --first prod --interval 0"));
    assert!(
        err.contains("`prod` is not the first of the chain: `stage`"),
        "{err}"
    );
    assert_eq!((made.at("stage"), made.at("prod")), (stage, prod));

    made.ok(&format!("{promote} --to dev"));
    assert_eq!(made.base("dev"), new);
    made.open.lock().unwrap().clear();
    let (_, _, err) = made.ends(1, &format!("{promote} --to stage --hub {hub}"));
    assert!(err.contains("the gate of `dev` is closed"), "{err}");
    let note = format!("note: press-8 is {WAIVED}");
    assert!(err.contains(&note), "{err}");
    assert!(err.contains("note: the rules on record count"), "{err}");
    made.open.lock().unwrap().push("dev");
    let (_, _, err) = made.ok(&format!("{promote} --to stage --hub {hub}"));
    assert!(err.contains("`stage` moved to"), "{err}");
    assert!(err.contains(&note), "{err}");
    assert_eq!(made.base("stage"), new);
    let log = git(&made.path("cp"), &["log", "-1", "--format=%B", "stage"]);
    let evidence = format!("Outhaul-Promoted: stage {new}\nOuthaul-Gate: open dev");
    assert!(log.ends_with(&evidence), "{log}");
    assert!(log.contains(&format!("\n- {note}\n")), "{log}");
}

#[test]
fn going_past_a_gate_takes_a_name_and_a_reason_and_stays_on_record() {
    let made = GateFixture::new();
    let new = made.change();
    let to_prod = [
        "promote",
        "--control-plane",
        "cp",
        "--to",
        "prod",
        "--commit",
        &new,
    ];
    let with = |more: &[&str]| made.run(&[&to_prod[..], more].concat());
    let before = made.at("prod");
    for incomplete in [
        &["--override-gate", "the line stands still"][..],
        &["--override-by", "Jo Park"],
        &["--override-gate", " ", "--override-by", "Jo Park"],
        &[
            "--override-gate",
            "a\nOuthaul-Gate: open stage",
            "--override-by",
            "Jo Park",
        ],
    ] {
        assert_eq!(with(incomplete).0, 2, "{incomplete:?}");
    }
    assert_eq!(made.at("prod"), before);
    let given = [
        "--override-gate",
        "the line stands still",
        "--override-by",
        "Jo Park",
    ];
    let (code, _, err) = with(&given);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("gate overridden by Jo Park: the line stands still"),
        "{err}"
    );
    assert_eq!(made.base("prod"), new);
    let log = git(&made.path("cp"), &["log", "-1", "--format=%B", "prod"]);
    assert!(
        log.contains(
            "Outhaul-Override-By: Jo Park\nOuthaul-Override-Reason: the line stands still"
        ),
        "{log}"
    );
    // And the first has nothing to go past.
    let first = ["promote", "--control-plane", "cp", "--to", "dev"];
    assert_eq!(made.run(&[&first[..], &given].concat()).0, 2);
    // What is shipped says it, too.
    let (_, _, err) = made.ok(&format!(
        "bundle --environment prod --control-plane cp {KEYS} --out stick"
    ));
    assert!(err.contains("overridden by Jo Park"), "{err}");
}

#[test]
fn what_ships_a_later_environment_asks_for_the_evidence() {
    let made = GateFixture::new();
    let plane = "--environment stage --control-plane cp";
    let bundle = format!("bundle {plane} {KEYS} --out stick");
    let publish = format!("publish git {plane} --to platform.git");
    git(
        &made.path("."),
        &["init", "--quiet", "--bare", "platform.git"],
    );
    for command in [&bundle, &publish] {
        let (_, out, err) = made.ends(1, command);
        assert!(
            err.contains("no record shows that it came there through the gate of `dev`"),
            "{err}"
        );
        assert!(
            err.contains("nothing was written") && out.is_empty(),
            "{out}{err}"
        );
    }
    assert!(!made.path("stick").exists());
    assert!(!made.path("fleet/overrides").exists());
    assert_eq!(git(&made.path("platform.git"), &["branch", "--list"]), "");

    // Past it: recorded by the fleet, and shown with the bundle.
    let past = [
        "--override-gate",
        "first delivery",
        "--override-by",
        "Jo Park",
    ];
    let words: Vec<&str> = bundle.split(' ').chain(past).collect();
    let (code, _, err) = made.run(&words);
    assert_eq!(code, 0, "{err}");
    let inspect = "inspect --fleet fleet stick/stage-edge-1.outhaul";
    let (_, out, _) = made.ok(inspect);
    assert!(
        out.contains("promoted    past the gate: gate overridden by Jo Park: first delivery"),
        "{out}"
    );
    made.ok(&bundle);
    made.ends(1, &publish);
    let words: Vec<&str> = publish.split(' ').chain(past).collect();
    assert_eq!(made.run(&words).0, 0);
    let log = git(
        &made.path("platform.git"),
        &["log", "-1", "--format=%B", "stage"],
    );
    assert!(
        log.contains("Outhaul-Override-By: Jo Park\nOuthaul-Override-Reason: first delivery"),
        "{log}"
    );

    // Through it: the commit that it moved to says so, and the one that someone wrote by hand does not.
    made.open.lock().unwrap().push("dev");
    let new = made.change();
    made.ok("promote --control-plane cp --to dev");
    made.ok(&format!(
        "promote --control-plane cp --to stage --hub {}",
        made.hub
    ));
    made.ok(&bundle);
    made.ok(&publish);
    let by_hand = commit(&made.path("cp"), "by hand");
    super::repositories::on_branch(&made.path("cp"), "stage", |copy| {
        let path = copy.join("base-repo.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace(&new, &by_hand)).unwrap();
    });
    made.ends(1, &bundle);
    made.ends(1, &publish);
}

#[test]
fn two_folders_are_no_way_around_the_gate() {
    let made = GateFixture::new();
    git(
        &made.path("cp"),
        &["worktree", "add", "--quiet", "../stage", "stage"],
    );
    let bundle = format!(
        "bundle --environment stage --env-dir stage --base-dir cp --source https://git.example.org/cp=cp {KEYS} --out stick"
    );
    let (_, _, err) = made.ends(1, &bundle);
    assert!(err.contains("through the gate of `dev`"), "{err}");
    assert!(!made.path("stick").exists());
}

#[test]
fn a_commit_is_found_loaded_and_rendered_before_anything_moves() {
    let made = GateFixture::new();
    let before = made.at("dev");
    let promote = "promote --control-plane cp --to dev --commit";
    let none = "1".repeat(40);
    for (text, message) in [
        (none.as_str(), "names no commit of"),
        ("HEAD", "`HEAD` is whatever is checked out somewhere"),
        ("no-such-branch", "it has no such commit, branch or tag"),
    ] {
        let (_, _, err) = made.ends(2, &format!("{promote} {text}"));
        assert!(
            err.contains(message) && err.contains("nothing was changed"),
            "{err}"
        );
    }
    let schema = made.path("cp/schemas/hello.yaml");
    let good = fs::read_to_string(&schema).unwrap();
    fs::write(
        &schema,
        good.replace("\"required\": [", "\"required\": [\"NOWHERE\", "),
    )
    .unwrap();
    let breaks = commit(&made.path("cp"), "asks for a key that nobody sets");
    let (_, _, err) = made.ends(1, &format!("{promote} {breaks}"));
    assert!(
        err.contains("NOWHERE") && err.contains("`dev` cannot be moved to"),
        "{err}"
    );
    fs::write(&schema, "kind: [").unwrap();
    let unreadable = commit(&made.path("cp"), "no YAML");
    let (_, _, err) = made.ends(1, &format!("{promote} {unreadable}"));
    assert!(err.contains("schemas/hello.yaml:1"), "{err}");
    assert_eq!(made.at("dev"), before);

    fs::write(&schema, &good).unwrap();
    let mended = commit(&made.path("cp"), "as it was");
    let (_, out, _) = made.ok(&format!("{promote} {} --output json", &mended[..10]));
    let message = outhaul_tests::result(&out);
    assert!(out.contains(&mended), "{message}");
    assert_eq!(made.base("dev"), mended);
}

#[test]
fn a_second_stick_gets_the_same_bytes_sealed_or_not() {
    let made = GateFixture::new();
    made.ok("secret keygen --out edge.key");
    let key = fs::read_to_string(made.path("edge.key")).unwrap();
    let public = key
        .lines()
        .find_map(|line| line.split("public key: ").nth(1))
        .unwrap();
    fs::write(made.path("readers"), format!("edge-1 {public}\n")).unwrap();
    // Whoever is no site is named before anything is made, and so when nothing is.
    let nothing = format!(
        "bundle --environment dev --control-plane cp {KEYS} --seal-for readers --cluster-type nope --out none"
    );
    let (_, _, err) = made.ends(2, &nothing);
    assert!(err.contains("`edge-1` is not a site on record"), "{err}");
    for (seal, number) in [("", 1), (" --seal-for readers", 2)] {
        let bundle = format!("bundle --environment dev --control-plane cp {KEYS}{seal} --out");
        made.ok(&format!("{bundle} first{number}"));
        let file = format!("dev-edge-{number}.outhaul");
        let first = fs::read(made.path(&format!("first{number}/{file}"))).unwrap();
        let (_, out, _) = made.ok(&format!("{bundle} second{number}"));
        assert!(
            out.contains(&format!("unchanged, number {number} again")),
            "{out}"
        );
        let second = fs::read(made.path(&format!("second{number}/{file}"))).unwrap();
        assert!(first == second, "{seal}: other bytes");
        // Onto a stick that has it nothing is written, and one that was damaged is set right.
        let (_, out, err) = made.ok(&format!("{bundle} second{number}"));
        assert!(out.is_empty() && err.contains("is current"), "{out}{err}");
        fs::write(made.path(&format!("second{number}/{file}")), &first[..100]).unwrap();
        made.ok(&format!("{bundle} second{number}"));
        assert!(fs::read(made.path(&format!("second{number}/{file}"))).unwrap() == first);
        let (_, out, _) = made.ok(&format!("inspect --fleet fleet second{number}/{file}"));
        let message = match seal {
            "" => "sealed      no: whoever has the file can read it",
            _ => {
                "sealed      for `edge-1`; no other key opens the contents. Names, sizes and the SHA-256 of each content are not sealed"
            }
        };
        assert!(out.contains(message), "{out}");
    }
    // What cannot be handed out is said, and a new number is for whom asks for one.
    let kept = fs::read_dir(made.path("fleet/bundles")).unwrap();
    let kept: Vec<_> = kept.map(|entry| entry.unwrap().path()).collect();
    let of = |end: &str| {
        kept.iter()
            .filter(|path| path.to_string_lossy().ends_with(end))
            .count()
    };
    // The one before the newest is there for `copy --since`: what it had, and its file to compare with.
    assert_eq!(
        (
            kept.len(),
            of(".2.outhaul"),
            of(".1.outhaul"),
            of(".1.blobs.json")
        ),
        (4, 1, 1, 1),
        "two bundles, what the newest is, and what the one before had: {kept:?}"
    );
}

#[test]
fn a_recipient_that_is_no_site_spends_no_number() {
    let made = GateFixture::new();
    let enrol =
        "site enrol edge-1 --fleet fleet --environment dev --cluster-type edge --out edge-1.kit";
    made.ok(&format!("{enrol} --control-plane cp"));
    let bundle = format!("bundle --environment dev --control-plane cp {KEYS} --out stick --for");
    let (_, _, err) = made.ends(2, &format!("{bundle} edge-2"));
    assert!(
        err.contains("`edge-2` is not a site of dev/edge") && err.contains("did you mean `edge-1`"),
        "{err}"
    );
    assert!(!made.path("stick").exists());
    let (_, out, _) = made.ok(&format!("{bundle} edge-1"));
    assert!(out.contains("number 1"), "{out}");
}

#[test]
fn no_kit_is_written_for_a_stream_that_does_not_exist() {
    let made = GateFixture::new();
    let enrol = |stream: &str, more: &str| {
        let (environment, cluster_type) = stream.split_once('/').unwrap();
        format!(
            "site enrol edge-1 --fleet fleet --environment {environment} --cluster-type {cluster_type} --out kit {more}"
        )
    };
    for (stream, more, message) in [
        (
            "dve/edge",
            "--control-plane cp",
            "there is no environment `dve`",
        ),
        ("dev/egde", "--control-plane cp", "called `egde`"),
        ("dev/edge", "", "this command cannot know that it exists"),
    ] {
        let (_, _, err) = made.ends(2, &enrol(stream, more));
        assert!(
            err.contains(message) && err.contains("nothing was written"),
            "{err}"
        );
        assert!(!made.path("kit").exists() && !made.path("fleet/sites").exists());
    }
    made.ok(&enrol("dev/edge", "--control-plane cp"));
    assert!(made.path("kit").exists());
    let wrong = "site move edge-1 --fleet fleet --to dev/egde --control-plane cp";
    let before = fs::read(made.path("fleet/sites/edge-1.json")).unwrap();
    made.ends(2, wrong);
    assert_eq!(
        fs::read(made.path("fleet/sites/edge-1.json")).unwrap(),
        before
    );
}

#[test]
fn a_template_that_needs_little_is_never_stopped() {
    let made = GateFixture::new();
    // The allocator's reserve and the process's limit raced: one run in five was stopped.
    for round in 0..30 {
        let (_, out, err) = made.ok("check --control-plane cp");
        assert!(!err.contains("was stopped"), "round {round}: {out}{err}");
    }
}
