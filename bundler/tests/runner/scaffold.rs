//! `outhaul init` and `outhaul new`, as typed: what they write passes `check`, and nothing is overwritten.
//!
//! What comes in: the program. What must come out: control planes without a single finding that render
//! at once, and a reason for everything that is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_tests::Checked as _;
use serde_json::Value;

use super::repositories::{commit, git};

/// Where an environment is, with the mapping of a team's folder when there is one.
fn at<'a>(environment: &'a str, lamp: &'a str) -> Vec<&'a str> {
    let mut at = vec!["--environment", environment, "--control-plane", "cp"];
    if !lamp.is_empty() {
        at.extend(["--source", lamp]);
    }
    at
}

struct ScaffoldFixture {
    folder: tempfile::TempDir,
}

impl ScaffoldFixture {
    /// A control plane in `cp`, made with `options`.
    fn new(options: &[&str]) -> Self {
        let made = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let arguments = [&["init", "cp"], options].concat();
        made.outhaul(0, &arguments);
        made
    }

    fn cp(&self) -> PathBuf {
        self.folder.path().join("cp")
    }

    /// Runs it in the folder above the control plane: what it printed, talk and data.
    fn outhaul(&self, code: i32, arguments: &[&str]) -> (String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        let output = command
            .current_dir(self.folder.path())
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .args(arguments)
            .checked()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}\n{out}{err}"
        );
        (out, err)
    }

    /// The mapping for a team's folder, which is opened only when it is typed; empty without one.
    fn lamp(&self) -> String {
        let lamp = self.folder.path().join("lamp");
        match lamp.is_dir() {
            true => format!("{0}={0}", lamp.display()),
            false => String::new(),
        }
    }

    /// An environment has no finding; the number of its assignments.
    fn sound(&self, environment: &str) -> usize {
        let lamp = self.lamp();
        let at = at(environment, &lamp);
        let (out, err) = self.outhaul(0, &[&["check", "--strict"][..], &at].concat());
        assert_eq!(out, "", "{err}");
        self.assignments(environment)
    }

    /// The code of the only finding of an environment without assignments.
    fn finding(&self, environment: &str) -> String {
        let at = ["--environment", environment, "--control-plane", "cp"];
        let (out, _) = self.outhaul(0, &[&["check", "--output", "json"][..], &at].concat());
        let checked = outhaul_tests::result(&out);
        let findings = checked["environments"][0]["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 1, "{out}");
        assert_eq!(self.assignments(environment), 0);
        findings[0]["code"].as_str().unwrap().to_owned()
    }

    /// An environment can be scheduled and rendered; the number of its assignments.
    fn assignments(&self, environment: &str) -> usize {
        let lamp = self.lamp();
        let at = at(environment, &lamp);
        let (out, _) = self.outhaul(0, &[&["schedule", "--output", "json"][..], &at].concat());
        let schedule = outhaul_tests::result(&out);
        let rendered = format!("rendered-{environment}");
        self.outhaul(0, &[&["render", "--out", &rendered][..], &at].concat());
        schedule["assignments"].as_array().unwrap().len()
    }

    /// `new`, in the control plane, on `branch`; committed.
    fn add(&self, branch: &str, arguments: &[&str]) -> String {
        git(&self.cp(), &["checkout", "--quiet", branch]);
        let (out, _) = self.outhaul(0, &[&["new"], arguments, &["--in", "cp"]].concat());
        commit(&self.cp(), "an object");
        out.trim().to_owned()
    }

    /// Moves the first environment to `main`, as the program says.
    fn promote(&self, environment: &str) {
        git(&self.cp(), &["checkout", "--quiet", "main"]);
        let promote = ["promote", "--control-plane", "cp", "--to", environment];
        let lamp = self.lamp();
        let source = ["--source", &lamp];
        let source = if lamp.is_empty() { &[][..] } else { &source };
        self.outhaul(0, &[&promote[..], source].concat());
    }
}

fn reconcilers() -> Vec<String> {
    let made = ScaffoldFixture {
        folder: tempfile::tempdir().unwrap(),
    };
    let (out, _) = made.outhaul(0, &["init", "--list", "--output", "json"]);
    let list = outhaul_tests::result(&out);
    let all = list["templates"].as_array().unwrap();
    let of_reconcilers = all.iter().filter(|t| t["type"] == "reconciler");
    of_reconcilers
        .map(|t| t["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_new_control_plane_has_no_finding_and_renders() {
    let made = ScaffoldFixture::new(&[]);
    assert_eq!((made.sound("dev"), made.sound("stage")), (1, 1));
    let config = made
        .folder
        .path()
        .join("rendered-dev/edge/hello-dev/platform-config.env");
    assert!(
        fs::read_to_string(config)
            .unwrap()
            .contains("GREETING=\"Hello\"")
    );
    assert_eq!(git(&made.cp(), &["status", "--porcelain"]), "");
    // A second one goes somewhere else.
    let (_, err) = made.outhaul(2, &["init", "cp"]);
    assert!(
        err.contains("is not empty") && err.contains("nothing was written"),
        "{err}"
    );
}

#[test]
fn one_with_every_reconciler_has_no_finding_and_renders() {
    let all = reconcilers();
    assert_eq!(all.len(), 10, "{all:?}");
    let mut options = vec![
        "--environments",
        "dev,prod",
        "--url",
        "ssh://git@git.corp.example/cp.git",
    ];
    for name in &all {
        options.extend(["--reconciler", name]);
    }
    let made = ScaffoldFixture::new(&options);
    assert_eq!((made.sound("dev"), made.sound("prod")), (10, 10));
}

#[test]
fn every_kind_of_object_can_be_added_and_nothing_is_found() {
    let made = ScaffoldFixture::new(&[]);
    assert_eq!(
        made.add("main", &["template", "json"]),
        "cp/templates/json.yaml"
    );
    made.promote("dev");
    let cluster_type = [
        "cluster-type",
        "oven",
        "--label",
        "hall=west",
        "--config",
        "json",
    ];
    assert_eq!(made.add("dev", &cluster_type), "cp/cluster-types/oven.yaml");
    let policy = [
        "policy",
        "ovens",
        "--workspace",
        "hello-team",
        "--cluster-label",
        "hall=west",
    ];
    made.add("dev", &policy);
    made.add(
        "dev",
        &[
            "config",
            "west",
            "--label",
            "hall=west",
            "--set",
            "DEGREES=180",
            "--set",
            "NOTE=it's hot",
        ],
    );
    made.add(
        "dev",
        &[
            "site",
            "oven-1",
            "--cluster-type",
            "oven",
            "--label",
            "line=3",
            "--ring",
            "first",
        ],
    );
    assert_eq!(made.sound("dev"), 2);
    let config = made
        .folder
        .path()
        .join("rendered-dev/oven/hello-dev/platform-config.json");
    let config: Value = serde_json::from_slice(&fs::read(config).unwrap()).unwrap();
    assert_eq!(
        (&config["DEGREES"], &config["NOTE"]),
        (&"180".into(), &"it's hot".into())
    );

    // One more link of the chain, with a separate branch.
    made.add("main", &["environment", "prod"]);
    assert_eq!(made.finding("prod"), "empty-environment");
    made.add("prod", &["cluster-type", "oven", "--label", "hall=west"]);
    assert_eq!(made.finding("prod"), "nothing-to-assign");
}

#[test]
fn policies_of_promotion_and_composition_and_acknowledgements_load_without_findings() {
    let made = ScaffoldFixture::new(&[]);
    let policy = [
        "promotion-policy",
        "dev-to-stage",
        "--from",
        "dev",
        "--to",
        "stage",
    ];
    let file = made.add(
        "main",
        &[
            &policy[..],
            &[
                "--min-confirmed-percent",
                "80",
                "--max-report-age-hours",
                "48",
            ],
        ]
        .concat(),
    );
    assert_eq!(file, "cp/.environments/dev-to-stage.yaml");
    let removal = [
        "--removal",
        "8637914a6778c55b",
        "--reason",
        "hall 2: \"closed\"",
    ];
    made.add(
        "dev",
        &[&["acknowledgement", "hall-2"], &removal[..]].concat(),
    );
    // `init` wrote one on each branch; without it each rule is one.
    for (branch, rule) in [("dev", "priority"), ("stage", "name")] {
        let (_, err) = refused(&made, branch, &["composition-policy", "another"]);
        assert!(err.contains("by-specificity"), "{err}");
        git(&made.cp(), &["rm", "--quiet", "configs/composition.yaml"]);
        commit(&made.cp(), "none");
        made.add(
            branch,
            &["composition-policy", "rule", "--precedence", rule],
        );
    }
    assert_eq!((made.sound("dev"), made.sound("stage")), (1, 1));
    // What names nothing that is there is refused.
    let unknown = ["promotion-policy", "x", "--from", "dev", "--to", "stagee"];
    let (_, err) = refused(&made, "main", &unknown);
    assert!(err.contains("did you mean `stage`?"), "{err}");
    let code = [
        "acknowledgement",
        "x",
        "--removal",
        "hall-2",
        "--reason",
        "r",
    ];
    let (_, err) = refused(&made, "dev", &code);
    assert!(err.contains("is not the code of a removal"), "{err}");
}

#[test]
fn an_environment_made_from_another_comes_after_it_and_begins_as_it_is() {
    let made = ScaffoldFixture::new(&["--environments", "dev,stage,prod"]);
    made.add("dev", &["config", "hall", "--set", "HALL=2"]);
    let cluster_type = fs::read_dir(made.cp().join("cluster-types")).unwrap();
    let cluster_type = cluster_type.last().unwrap().unwrap().path();
    let cluster_type = cluster_type
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    made.add("dev", &["site", "bench-9", "--cluster-type", &cluster_type]);
    git(&made.cp(), &["checkout", "--quiet", "main"]);
    let (out, err) = made.outhaul(
        0,
        &["new", "environment", "test", "--in", "cp", "--from", "dev"],
    );
    assert!(err.contains("of `dev`"), "{out}{err}");
    assert!(err.contains("sites/bench-9.yaml"), "{err}");
    commit(&made.cp(), "an environment");
    let text = fs::read_to_string(made.cp().join(".environments/test.yaml")).unwrap();
    assert!(text.contains("outhaul.dev/after: dev"), "{text}");
    let files = git(&made.cp(), &["ls-tree", "-r", "--name-only", "test"]);
    assert!(files.contains("configs/hall.yaml"), "{files}");
    assert!(!files.contains("bench-9"), "{files}");
    let base = git(&made.cp(), &["show", "test:base-repo.yaml"]);
    assert!(
        base.contains(&git(&made.cp(), &["rev-parse", "main~1"])),
        "{base}"
    );
    // No team has anything for it yet, and that is all there is to say.
    assert_eq!(made.finding("test"), "nothing-to-assign");
    let (_, err) = refused(&made, "main", &["environment", "qa", "--from", "devv"]);
    assert!(err.contains("did you mean `dev`?"), "{err}");
}

/// What is refused on `branch`: nothing is written.
fn refused(made: &ScaffoldFixture, branch: &str, arguments: &[&str]) -> (String, String) {
    git(&made.cp(), &["checkout", "--quiet", branch]);
    let said = made.outhaul(2, &[&["new"], arguments, &["--in", "cp"]].concat());
    assert_eq!(git(&made.cp(), &["status", "--porcelain"]), "");
    said
}

#[test]
fn a_teams_own_repository_can_be_described_and_registered() {
    let made = ScaffoldFixture::new(&[]);
    let team = made.folder.path().join("lamp");
    fs::create_dir(&team).unwrap();
    git(&team, &["init", "--quiet"]);
    let workload = [
        "new",
        "workload",
        "lamp",
        "--in",
        "lamp",
        "--environments",
        "dev",
        "--label",
        "lights=halls",
    ];
    made.outhaul(0, &workload);
    commit(&team, "lamp");
    let url = team.to_string_lossy().into_owned();
    made.add(
        "main",
        &[
            "registration",
            "lamp",
            "--workspace",
            "light",
            "--repo",
            &url,
        ],
    );
    made.promote("dev");
    made.add(
        "dev",
        &[
            "policy",
            "lamps",
            "--target-label",
            "lights=halls",
            "--cluster-label",
            "manifests=git",
        ],
    );
    assert_eq!(made.sound("dev"), 2);
}

#[test]
fn what_cannot_be_added_is_refused_with_a_reason() {
    let made = ScaffoldFixture::new(&[]);
    let on = |branch: &str, arguments: &[&str], message: &str| {
        git(&made.cp(), &["checkout", "--quiet", branch]);
        let (_, err) = made.outhaul(2, &[&["new"], arguments, &["--in", "cp"]].concat());
        assert!(err.contains(message) && err.contains("help: "), "{err}");
        assert_eq!(
            git(&made.cp(), &["status", "--porcelain"]),
            "",
            "{arguments:?}"
        );
    };
    let main = "what all environments share (`main`)";
    on("main", &["site", "s-1", "--cluster-type", "edge"], main);
    on("main", &["cluster-type", "oven"], main);
    on("dev", &["template", "json"], "a template belongs on `main`");
    on(
        "dev",
        &["cluster-type", "edge"],
        "there is an object of kind ClusterType called `edge` already, in `cp/cluster-types/edge.yaml:",
    );
    on(
        "dev",
        &["cluster-type", "oven", "--reconciler", "flux-git"],
        "on `main` type `outhaul new template flux-git`",
    );
    on(
        "dev",
        &["site", "s-1", "--cluster-type", "egde"],
        "did you mean `edge`?",
    );
    on(
        "dev",
        &["config", "Bad_Name", "--set", "A=b"],
        "cannot be the name",
    );
    on(
        "main",
        &["template", "helm"],
        "no template `helm` comes with Outhaul",
    );
    on(
        "main",
        &["environment", "dev"],
        "there is an object of kind Environment called `dev` already",
    );
    // A file that is there, whatever is in it.
    git(&made.cp(), &["checkout", "--quiet", "dev"]);
    fs::write(made.cp().join("configs/mine.yaml"), "# mine\n").unwrap();
    commit(&made.cp(), "mine");
    on(
        "dev",
        &["config", "mine", "--set", "A=b"],
        "is there already",
    );
}

#[test]
fn without_git_each_branch_is_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        let output = command
            .current_dir(folder.path())
            .env("PATH", folder.path())
            .args(arguments)
            .checked()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{err}");
        err
    };
    let err = run(&["init", "cp"]);
    let (_, next) = err.split_once("next: outhaul ").unwrap();
    let mut arguments: Vec<&str> = next.split_whitespace().collect();
    arguments.push("--strict");
    run(&arguments);
    assert!(Path::new(&folder.path().join("cp/main/README.md")).is_file());
}
