//! Which commit, value or act a site broke after: real control planes, bundles, agents and hubs, and a program on site that looks at
//! what was applied.
//!
//! What must come out: the commit that did it first, with what it changed; the undo as a branch that heals the site; what was done on
//! site named as that.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use outhaul_test_kit::folder::fill;
use outhaul_tests::{program, run_compared};
use serde_json::Value;

use super::system::{SystemFixture, TO_STICK};

mod hostile;
mod outside;
mod seeded;

/// Values that the example has besides its own.
const KEYS: usize = 8;

/// What the site asks whether it is well: values begin with `ok`, and the team's script runs.
const CHECK: &str = r#"#!/bin/sh
. "$1/hello-dev/platform-config.env" || exit 1
[ -n "$ENVIRONMENT" ] || { echo "ENVIRONMENT is not set" >&2; exit 1; }
for key in K0 K1 K2 K3 K4 K5 K6 K7 E0 E1 E2 E3 E4 E5 E6 E7; do
  eval "value=\$$key"
  case "$value" in
    ok*|"") ;;
    mute*) echo "a value is $value, which is not allowed" >&2; exit 1 ;;
    *) echo "$key has a value that is not allowed" >&2; exit 1 ;;
  esac
done
ENVIRONMENT=$ENVIRONMENT GREETING=$GREETING sh "$1/hello-dev/payload/hello.sh" 2>&1 >/dev/null | head -n 3 >&2
GREETING=$GREETING sh "$1/hello-dev/payload/hello.sh" >/dev/null 2>&1
"#;

fn values(prefix: &str) -> String {
    (0..KEYS).fold(String::new(), |mut text, key| {
        let _ = writeln!(text, "  {prefix}{key}: \"ok{key}\"");
        text
    })
}

/// A control plane with values that the site looks at, one site, and a first bundle that is well.
fn scene() -> SystemFixture {
    let fixture = SystemFixture::new();
    fixture.run(
        "outhaul",
        0,
        &["init", "control-plane", "--environments", "dev"],
    );
    for (branch, file, prefix) in [
        ("main", "configs/common.yaml", "K"),
        ("dev", "configs/environment.yaml", "E"),
    ] {
        commit(&fixture, branch, "values that the site looks at", |dir| {
            let path = dir.join(file);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{}\n{}", text.trim_end(), values(prefix))).unwrap();
        });
    }
    promote(&fixture);
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    let check = fixture.path("check.sh");
    fs::write(&check, CHECK).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&check, mode).unwrap();
    let applied = fixture.path("sites/edge-1/applied");
    let ask = format!(
        "[health]\nask = [{{ name = \"hello\", program = [\"{}\", \"{}\"] }}]\n",
        check.display(),
        applied.display()
    );
    fs::write(fixture.path("sites/edge-1/agent.toml"), ask).unwrap();
    ship(&fixture, 0);
    fixture
}

/// One commit on a branch of the control plane; its id.
fn commit(
    fixture: &SystemFixture,
    branch: &str,
    subject: &str,
    change: impl FnOnce(&Path),
) -> String {
    let repository = "control-plane";
    fixture.git(repository, &["checkout", "--quiet", branch]);
    change(&fixture.path(repository));
    fixture.git(repository, &["add", "--all"]);
    fixture.git(repository, &["commit", "--quiet", "-m", subject]);
    let id = fixture.git(repository, &["rev-parse", "HEAD"]);
    fixture.git(repository, &["checkout", "--quiet", "--detach"]);
    id
}

/// `dev` takes the newest commit of `main`.
fn promote(fixture: &SystemFixture) {
    let newest = fixture.git("control-plane", &["rev-parse", "main"]);
    commit(fixture, "dev", "promote", |dir| {
        let path = dir.join("base-repo.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let lines = text
            .lines()
            .map(|line| match line.trim_start().starts_with("commit:") {
                true => format!("  commit: \"{newest}\"\n"),
                false => format!("{line}\n"),
            });
        let mut text: String = lines.collect();
        // The same commit again is no change, and git makes no commit of it.
        let _ = writeln!(
            text,
            "# promoted at {}",
            fixture.git("control-plane", &["rev-parse", "dev"])
        );
        fs::write(&path, text).unwrap();
    });
}

/// A bundle to the site and its reports back; the code with which the site ends.
fn ship(fixture: &SystemFixture, code: i32) {
    fixture.bundle("dev");
    fixture.agent("edge-1", code, &["import", "stick"]);
    fixture.home("edge-1");
}

fn replace(dir: &Path, file: &str, from: &str, to: &str) {
    let path = dir.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "`{from}` is not in {file}: {text}");
    fs::write(&path, text.replacen(from, to, 1)).unwrap();
}

/// Sets a value that is there.
fn set(dir: &Path, file: &str, key: &str, value: &str) {
    let path = dir.join(file);
    let text = fs::read_to_string(&path).unwrap();
    let start = format!("  {key}: ");
    let lines = text.lines().map(|line| match line.starts_with(&start) {
        true => format!("{start}\"{value}\"\n"),
        false => format!("{line}\n"),
    });
    fs::write(&path, lines.collect::<String>()).unwrap();
}

fn blame(fixture: &SystemFixture, more: &[&str]) -> Value {
    let asked = ["--state", "hub", "faults", "edge-1", "--output", "json"];
    let told = fixture.run("outhaul-hub", 0, &asked).stdout;
    fs::write(fixture.path("faults.json"), told).unwrap();
    let words = [
        "blame",
        "edge-1",
        "--control-plane",
        "control-plane",
        "--faults",
        "faults.json",
        "--output",
        "json",
    ];
    outhaul_tests::result(
        &fixture
            .run("outhaul", 0, &[&words[..], more].concat())
            .stdout,
    )
}

/// What `outhaul blame` says for people about the faults that were written last.
fn told(fixture: &SystemFixture, code: i32, more: &str) -> String {
    let words = format!("blame edge-1 --control-plane control-plane --faults faults.json {more}");
    let words: Vec<&str> = words.split_whitespace().collect();
    fixture.run("outhaul", code, &words).everything()
}

fn first(answer: &Value) -> &Value {
    &answer["faults"][0]["blame"]["causes"][0]
}

#[test]
fn a_bad_value_is_named_with_its_commit_and_the_undo_heals_the_site() {
    let fixture = scene();
    let value = |key: &'static str, value: &'static str| {
        move |dir: &Path| set(dir, "configs/common.yaml", key, value)
    };
    commit(&fixture, "main", "harmless", value("K1", "ok-new"));
    let bad = commit(&fixture, "main", "a better K2", |dir| {
        set(dir, "configs/common.yaml", "K2", "wrong");
        fs::write(dir.join("NOTES.md"), "why\n").unwrap();
    });
    commit(&fixture, "main", "harmless, too", value("K3", "ok-too"));
    promote(&fixture);
    ship(&fixture, 1);

    let answer = blame(&fixture, &["--undo"]);
    let cause = first(&answer);
    assert_eq!(cause["commit"]["id"], bad, "{answer:#}");
    assert_eq!(cause["commit"]["values"][0]["key"], "K2");
    assert_eq!(cause["commit"]["values"][0]["after"]["value"], "\"wrong\"");
    let causes = answer["faults"][0]["blame"]["causes"].as_array().unwrap();
    assert!(
        causes[1..]
            .iter()
            .all(|other| other["confidence"].as_u64() < cause["confidence"].as_u64()),
        "{causes:#?}"
    );
    let undo = &answer["undone"]["undo"];
    assert_eq!(undo["onto"], "main");
    assert_eq!(undo["paths"], serde_json::json!(["configs/common.yaml"]));
    assert_eq!(undo["left"], serde_json::json!(["NOTES.md"]));
    assert_eq!(
        answer["undone"]["changes"]["counts"]["values"], 1,
        "{answer:#}"
    );

    // No branch that was there moved; merged, it is what the site is well with again.
    let branch = undo["branch"].as_str().unwrap();
    let main = fixture.git("control-plane", &["show", "main:configs/common.yaml"]);
    assert!(main.contains("wrong"), "{main}");
    heal(&fixture, branch, "main");
    let answer = blame(&fixture, &[]);
    assert_eq!(answer["faults"], serde_json::json!([]), "{answer:#}");
}

/// Merges an undo, and ships it.
fn heal(fixture: &SystemFixture, undo: &str, onto: &str) {
    fixture.git("control-plane", &["checkout", "--quiet", onto]);
    fixture.git("control-plane", &["merge", "--quiet", "--ff-only", undo]);
    fixture.git("control-plane", &["checkout", "--quiet", "--detach"]);
    promote(fixture);
    ship(fixture, 0);
}

#[test]
fn what_was_done_on_site_is_named_as_that() {
    let fixture = scene();
    let script = fixture.path("sites/edge-1/applied/hello-dev/payload/hello.sh");
    let text = fs::read_to_string(&script).unwrap();
    fs::write(&script, format!("{text}\n# by hand\n")).unwrap();
    fixture.agent("edge-1", 3, &["run", "--once"]);
    fixture.home("edge-1");
    let answer = blame(&fixture, &[]);
    assert_eq!(
        answer["faults"][0]["fault"]["kind"], "drifted",
        "{answer:#}"
    );
    assert_eq!(first(&answer)["kind"], "drift", "{answer:#}");
    let words = "blame edge-1 --control-plane control-plane --faults faults.json --undo";
    let mut command = fixture.command(&program("outhaul").unwrap());
    let why = "no commit is likelier than every other cause";
    run_compared(
        command.args(words.split(' ')),
        1,
        &[why, "nothing was changed"],
    )
    .unwrap();
}

#[test]
fn what_was_kept_is_compared_with_what_it_was_rendered_from() {
    let fixture = scene();
    // Two containers of one precedence set it: the assignment stays as it was.
    commit(&fixture, "dev", "a greeting of its own", |dir| {
        replace(
            dir,
            "configs/environment.yaml",
            "\ndata:\n",
            "\ndata:\n  GREETING: Hi\n",
        );
    });
    fixture.plane(1, "bundle", "dev", &TO_STICK);
    fixture.run("outhaul-hub", 0, &["--state", "hub", "import", "stick"]);
    fixture.agent("edge-1", 0, &["import", "stick"]);
    fixture.home("edge-1");
    commit(&fixture, "dev", "not so", |dir| {
        replace(dir, "configs/environment.yaml", "  GREETING: Hi\n", "");
    });
    let bad = commit(&fixture, "dev", "E5", |dir| {
        set(dir, "configs/environment.yaml", "E5", "wrong");
    });
    ship(&fixture, 1);
    let answer = blame(&fixture, &[]);
    assert_eq!(first(&answer)["commit"]["id"], bad, "{answer:#}");
    let causes = answer["faults"][0]["blame"]["causes"].as_array().unwrap();
    let commits = causes
        .iter()
        .filter(|cause| cause["kind"] == "commit")
        .count();
    assert_eq!(commits, 1, "what was taken back is no cause: {causes:#?}");
}

#[test]
fn what_other_sites_have_without_harm_speaks_for_the_site_itself() {
    let fixture = scene();
    fixture.site("edge-2", "dev", "edge");
    commit(&fixture, "main", "harmless", |dir| {
        set(dir, "configs/common.yaml", "K1", "ok-new");
    });
    promote(&fixture);
    // What the site asks finds something that came with no bundle.
    let check = fixture.path("check.sh");
    fs::write(&check, "#!/bin/sh\necho the disk is full >&2\nexit 1\n").unwrap();
    ship(&fixture, 1);
    fixture.carry("edge-2");
    fixture.home("edge-2");
    let answer = blame(&fixture, &[]);
    assert_eq!(
        answer["faults"][0]["fault"]["others"]["hello-dev"]["well"], 1,
        "{answer:#}"
    );
    assert_eq!(first(&answer)["kind"], "site", "{answer:#}");
}

#[test]
fn another_bundle_of_the_same_commits_is_told_beside_the_site_itself() {
    let fixture = scene();
    let check = fixture.path("check.sh");
    fs::write(&check, "#!/bin/sh\necho the disk is full >&2\nexit 1\n").unwrap();
    let keys = "--fleet fleet --passphrase-file passphrase --out stick --renew";
    let keys: Vec<&str> = keys.split(' ').collect();
    fixture.plane(0, "bundle", "dev", &keys);
    fixture.run("outhaul-hub", 0, &["--state", "hub", "import", "stick"]);
    fixture.agent("edge-1", 1, &["import", "stick"]);
    fixture.home("edge-1");
    let answer = blame(&fixture, &[]);
    let causes = answer["faults"][0]["blame"]["causes"].as_array().unwrap();
    let kinds: Vec<&str> = causes
        .iter()
        .map(|cause| cause["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["site", "content"], "{answer:#}");
}

#[test]
fn an_undo_that_cannot_be_written_changes_nothing_and_says_why() {
    let fixture = scene();
    let bad = commit(&fixture, "main", "a better K2", |dir| {
        set(dir, "configs/common.yaml", "K2", "wrong");
    });
    promote(&fixture);
    ship(&fixture, 1);
    blame(&fixture, &[]);
    let undo = |more: &[&str], says: &str| {
        let words = "blame edge-1 --control-plane control-plane --faults faults.json --undo";
        let mut command = fixture.command(&program("outhaul").unwrap());
        command.args(words.split(' ')).args(more);
        run_compared(&mut command, 1, &[says, "nothing was changed"]).unwrap();
    };
    // The branch is there; the same line became another; nothing of it is left.
    fixture.git("control-plane", &["branch", "mine", "main"]);
    undo(&["--undo-branch", "mine"], "has a branch `mine` already");
    commit(&fixture, "main", "worse", |dir| {
        set(dir, "configs/common.yaml", "K2", "worse");
    });
    undo(
        &[],
        "later commits changed the same lines of `configs/common.yaml`",
    );
    commit(&fixture, "main", "by hand", |dir| {
        set(dir, "configs/common.yaml", "K2", "ok2");
    });
    undo(
        &[],
        &format!("nothing of commit {bad} is on branch `main` any more"),
    );
}

#[test]
fn mistyped_words_are_named_and_change_nothing() {
    let fixture = scene();
    let told = fixture
        .run("outhaul-hub", 2, &["--state", "hub", "faults", "edge-2"])
        .everything();
    assert!(
        told.contains("no site `edge-2` is registered") && told.contains("edge-1"),
        "{told}"
    );
    // A copy of the files has no older commits: that nothing changed would be wrong.
    set_aside(&fixture);
    fs::write(fixture.path("other.json"), "{\"a\": 1}").unwrap();
    let hub = fixture.serve();
    let faults = "--faults faults.json";
    let asked = format!("--hub {}", hub.url);
    let bad_branch = format!("edge-1 control-plane {asked} --undo --undo-branch ..x");
    // The site, the control plane and the rest; the code; what is said.
    for (line, code, says) in [
        (
            format!("edge-9 control-plane {faults}"),
            2,
            "`edge-1`, not of `edge-9`",
        ),
        (
            "edge-1 control-plane --faults other.json".to_owned(),
            2,
            "does not hold a hub",
        ),
        (
            "edge-1 control-plane --faults nothing".to_owned(),
            3,
            "help: write it with",
        ),
        (
            format!("edge-1 control-plane {faults} --environment prod"),
            2,
            "is of environment `dev`, not `prod`",
        ),
        (format!("edge-1 plain {faults}"), 3, "a plain folder"),
        // The reason stays what it is when something is to be taken back.
        (format!("edge-1 plain {faults} --undo"), 3, "a plain folder"),
        (
            format!("edge-9 control-plane {asked}"),
            2,
            "says: no site `edge-9` is registered",
        ),
        (
            format!("edge-1 nowhere {asked}"),
            2,
            "there is no folder `nowhere`",
        ),
        (bad_branch, 2, "nothing was changed"),
    ] {
        let (site, rest) = line.split_once(' ').unwrap();
        let words = format!("blame {site} --control-plane {rest}");
        let words: Vec<&str> = words.split(' ').collect();
        let told = fixture.run("outhaul", code, &words).everything();
        assert!(told.contains(says), "{line}: {told}");
    }
}

/// A fault, and the control plane without its history in `plain`.
fn set_aside(fixture: &SystemFixture) {
    commit(fixture, "main", "a better K2", |dir| {
        set(dir, "configs/common.yaml", "K2", "wrong");
    });
    promote(fixture);
    ship(fixture, 1);
    blame(fixture, &[]);
    fixture.git("control-plane", &["checkout", "--quiet", "main"]);
    fill(&fixture.path("control-plane"), &fixture.path("plain"));
    fs::remove_dir_all(fixture.path("plain/.git")).unwrap();
}
