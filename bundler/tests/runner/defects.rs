//! The thirty numbered defects of Kalypso, one test each, on a small real control plane.
//!
//! What comes in: three folders of YAML that a test changes, or repositories made of them. What must
//! come out of the program: the right behaviour, and Kalypso's bytes where `--compat` promises them.
//! `docs/kalypso.md` lists every defect with its test; a test here reads that list.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_test_kit::folder::fill;

use super::cli::{CLUSTER_TYPE, POLICY};
use super::repositories::{commit, git, on_branch};
use outhaul_tests::Checked as _;

mod composing;
mod delivering;
mod reading;
mod rendering;

/// Where the workload lies.
const APP: &str = "https://git.example.org/app.git";

const TEMPLATES: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: Template
metadata:
  name: flux
spec:
  type: reconciler
  manifests:
    - |
      repository: {{ .Manifests.repo }}
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: Template
metadata:
  name: default
spec:
  type: namespace
  manifests:
    - |
      namespace: {{ .Namespace }}
      workspace: {{ .Workspace }}
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: Template
metadata:
  name: configmap
spec:
  type: config
  manifests:
    - |
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: platform-config
      data:
      {{ toYaml .ConfigData | indent 2 }}
";
const REGISTRATION: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: WorkloadRegistration
metadata:
  name: app
spec:
  workspace: team
  workload:
    repo: https://git.example.org/app.git
    branch: main
    path: .
";
const WORKLOAD: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: Workload
metadata:
  name: hello
spec:
  deploymentTargets:
    - name: test
      environment: dev
      labels:
        purpose: test
      manifests:
        repo: https://git.example.org/manifests
";

/// What the template `configmap` writes before the data.
pub const HEAD: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: platform-config\ndata:\n";
/// The folder of the only assignment.
pub const ASSIGNMENT: &str = "drone/hello-test";
/// A container of platform config.
pub fn config(name: &str, labels: &str, data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels: {{platform-config: \"true\"{}{labels}}}\ndata:\n{data}",
        if labels.is_empty() { "" } else { ", " }
    )
}

/// A control plane of one cluster type and one target.
pub struct DefectFixture {
    folder: tempfile::TempDir,
}

/// What a command gave.
pub struct Seen {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Seen {
    /// The same, when it succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self
    }

    /// The same, when it found something in what is written and complained of `text`.
    #[track_caller]
    pub fn complains(self, text: &str) -> Self {
        let code = self.code;
        assert!(
            matches!(code, 1 | 2),
            "{code}: {}{}",
            self.stdout,
            self.stderr
        );
        self.refused(code, text)
    }

    /// The same, when it ended with `code` and complained of `text`.
    #[track_caller]
    pub fn refused(self, code: i32, text: &str) -> Self {
        let all = format!("{}{}", self.stdout, self.stderr);
        assert_eq!(self.code, code, "{all}");
        assert!(all.contains(text), "`{text}` is not in: {all}");
        self
    }
}

impl DefectFixture {
    pub fn new() -> Self {
        let fixture = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fixture.write("dev/types.yaml", CLUSTER_TYPE);
        fixture.write("dev/policy.yaml", POLICY);
        fixture.write(
            "dev/config.yaml",
            &config("east", "region: east-us", "  REGION: East US\n"),
        );
        fixture.write("main/templates.yaml", TEMPLATES);
        fixture.write("main/app.yaml", REGISTRATION);
        fixture.write("app/workload.yaml", WORKLOAD);
        fixture
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The only config: a container that applies everywhere.
    pub fn data(&self, data: &str) {
        self.write("dev/config.yaml", &config("all", "", data));
    }

    /// Changes one text in one file.
    #[track_caller]
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(path)).unwrap();
        assert!(text.contains(from), "{path} has no `{from}`");
        self.write(path, &text.replace(from, to));
    }

    /// The template of the config file, with other text.
    pub fn config_template(&self, text: &str) {
        let templates = fs::read_to_string(self.path("main/templates.yaml")).unwrap();
        let (before, _) = templates.split_once("  name: configmap\n").unwrap();
        let block = text.replace('\n', "\n      ");
        self.write(
            "main/templates.yaml",
            &format!("{before}  name: configmap\nspec:\n  type: config\n  manifests:\n    - |\n      {block}\n"),
        );
    }

    /// A command as people type it, in the scene's folder.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        command.args(words).current_dir(self.folder.path());
        command
    }

    /// Runs a subcommand on the three folders.
    pub fn run(&self, words: &[&str]) -> Seen {
        let input = [
            "--environment",
            "dev",
            "--env-dir",
            "dev",
            "--base-dir",
            "main",
        ];
        self.type_in(&[words, &input, &["--cache", "cache"]].concat())
    }

    /// Runs a subcommand with the workload's source mapped and nothing else given.
    pub fn type_in(&self, words: &[&str]) -> Seen {
        let mut command = self.command(words);
        seen(command.args(["--source", &format!("{APP}=app")]))
    }

    /// Renders into `out`.
    pub fn render(&self) -> Seen {
        self.run(&["render", "--out", "out"])
    }

    /// Renders as Kalypso would, into `compat`.
    pub fn render_compat(&self) -> Seen {
        self.run(&["render", "--compat", "--out", "compat"])
    }

    #[track_caller]
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The data of the assignment's `ConfigMap` after a render that succeeds.
    #[track_caller]
    pub fn rendered_data(&self) -> String {
        self.render().ok();
        self.platform_config("out")
    }

    /// The same as Kalypso would write it.
    #[track_caller]
    pub fn compat_data(&self) -> String {
        self.render_compat().ok();
        self.platform_config("compat")
    }

    #[track_caller]
    fn platform_config(&self, out: &str) -> String {
        let text = self.read(&format!("{out}/{ASSIGNMENT}/platform-config.yaml"));
        let text = text.strip_prefix(HEAD).unwrap_or(&text);
        text.to_owned()
    }

    /// Makes a repository `control-plane` (branches `main` and `dev`) and one `app` of the folders.
    /// Returns the commit of `main`, which `dev` is pinned to.
    pub fn repositories(&self) -> String {
        let plane = self.path("control-plane");
        fs::create_dir(&plane).unwrap();
        git(&plane, &["init", "--quiet"]);
        fill(&self.path("main"), &plane);
        let environments = plane.join(".environments");
        fs::create_dir(&environments).unwrap();
        let environment = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata: {name: dev}\n\
            spec:\n  controlPlane: {repo: https://git.example.org/control-plane, branch: dev, path: .}\n";
        fs::write(environments.join("dev.yaml"), environment).unwrap();
        let base = commit(&plane, "base");
        git(&plane, &["checkout", "--quiet", "--orphan", "dev"]);
        git(&plane, &["rm", "-rfq", "."]);
        fill(&self.path("dev"), &plane);
        fs::write(plane.join("base-repo.yaml"), base_repo(&base)).unwrap();
        commit(&plane, "environment");
        git(&plane, &["checkout", "--quiet", "main"]);
        let app = self.path("app");
        git(&app, &["init", "--quiet"]);
        commit(&app, "workload");
        base
    }

    /// Changes a branch of the control plane's repository and goes back to `main`.
    pub fn change(&self, branch: &str, change: impl FnOnce(&Path)) -> String {
        let plane = self.path("control-plane");
        let made = on_branch(&plane, branch, change);
        git(&plane, &["checkout", "--quiet", "main"]);
        made
    }

    /// Runs a subcommand on the repositories.
    pub fn run_repositories(&self, words: &[&str]) -> Seen {
        let input = ["--control-plane", "control-plane", "--environment", "dev"];
        self.type_in(&[words, &input, &["--cache", "cache"]].concat())
    }
}

/// A `BaseRepo` named `main`, at a commit.
pub fn base_repo(commit: &str) -> String {
    format!(
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: BaseRepo\nmetadata: {{name: main}}\nspec:\n  \
         repo: https://git.example.org/control-plane\n  branch: main\n  path: .\n  commit: {commit}\n"
    )
}

/// Runs a command to its end.
pub fn seen(command: &mut Command) -> Seen {
    let output = command.checked().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Seen {
        code: output.status.code().unwrap(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

/// Every defect has a test here, a row in the table for people, and the row names the test.
#[test]
fn every_defect_has_a_test_and_a_row() {
    let tests = [
        include_str!("defects/composing.rs"),
        include_str!("defects/delivering.rs"),
        include_str!("defects/reading.rs"),
        include_str!("defects/rendering.rs"),
    ]
    .concat();
    let names: Vec<&str> = tests
        .lines()
        .filter_map(|line| line.strip_prefix("fn ")?.split('(').next())
        .filter(|name| name.starts_with("defect_"))
        .collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/kalypso.md");
    let page = fs::read_to_string(page).unwrap();
    for number in 1..=30 {
        let start = format!("defect_{number:02}_");
        let of_it: Vec<_> = names
            .iter()
            .filter(|name| name.starts_with(&start))
            .collect();
        assert!(!of_it.is_empty(), "defect {number} has no test");
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| {number} |")));
        let row = row.unwrap_or_else(|| panic!("defect {number} has no row in docs/kalypso.md"));
        for name in of_it {
            assert!(
                row.contains(&format!("`{name}`")),
                "row {number} does not name `{name}`"
            );
        }
    }
}
