//! What people see when something is wrong, and what is then on disk.
//!
//! What comes in: a small sound control plane with one mistake in it. What must come out: a message
//! with file, line and column, what is safe, what to do next, the exit code of the table, and no output
//! folder. Each is a reviewed snapshot.

use std::fs;
use std::path::Path;
use std::process::Command;

use outhaul_tests::Checked as _;

/// A control plane in plain folders: environment `dev`, base `main`, one workload.
pub struct PlaneFixture {
    /// Where it lies.
    pub folder: tempfile::TempDir,
}

pub const CLUSTER_TYPE: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: ClusterType
metadata:
  name: drone
  labels:
    region: east-us
spec:
  reconciler: flux
  namespaceService: default
  configType: configmap
";
pub const POLICY: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: SchedulingPolicy
metadata:
  name: everywhere
spec:
  deploymentTargetSelector:
    workspace: team
    labelSelector:
      matchLabels:
        purpose: test
  clusterTypeSelector:
    labelSelector: {}
";
const CONFIG: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: east
  labels:
    platform-config: \"true\"
    region: east-us
data:
  REGION: East US
";
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
apiVersion: outhaul.dev/v1alpha1
kind: Template
metadata:
  name: default
spec:
  type: namespace
  manifests:
    - |
      namespace: {{ Namespace }}
      purpose: {{ Labels.purpose }}, {{ ConfigData.REGION }}, {{ Manifests | length }} manifest
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: Template
metadata:
  name: configmap
spec:
  type: config
  manifests:
    - |
      data:
        {{ toYaml .ConfigData }}
";
const REGISTRATION: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: WorkloadRegistration
metadata:
  name: app
spec:
  workspace: team
  workload:
    repo: https://git.example.org/app
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

impl PlaneFixture {
    pub fn new() -> Self {
        let fixture = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fixture.write("dev/types.yaml", CLUSTER_TYPE);
        fixture.write("dev/policy.yaml", POLICY);
        fixture.write("dev/config.yaml", CONFIG);
        fixture.write("main/templates.yaml", TEMPLATES);
        fixture.write("main/app.yaml", REGISTRATION);
        fixture.write("app/workload.yaml", WORKLOAD);
        fixture
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Changes one text in one file.
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.folder.path().join(path)).unwrap();
        assert!(text.contains(from), "{path} has no `{from}`");
        self.write(path, &text.replace(from, to));
    }

    /// Runs a subcommand: exit code, standard output, standard error.
    pub fn run(&self, command: &[&str]) -> String {
        let plane = [
            "--environment",
            "dev",
            "--env-dir",
            "dev",
            "--base-dir",
            "main",
            "--source",
            "https://git.example.org/app=app",
            "--cache",
            "cache",
        ];
        self.run_only(&[command, &plane].concat())
    }

    /// The same without saying where the control plane is.
    pub fn run_only(&self, command: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_outhaul"))
            .args(command)
            .current_dir(self.folder.path())
            .checked()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut seen = format!("exit code {}\n", output.status.code().unwrap());
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                seen += &format!("--- {name}\n{}", text(bytes));
            }
        }
        seen
    }

    /// Renders; a failure must leave nothing behind.
    fn render(&self) -> String {
        let seen = self.run(&["render", "--out", "out"]);
        let out: &Path = &self.folder.path().join("out");
        assert_eq!(out.exists(), seen.starts_with("exit code 0"), "{seen}");
        assert!(!self.folder.path().join("out.outhaul.json").exists() || out.exists());
        seen
    }
}

#[test]
fn a_sound_control_plane_renders_and_has_nothing_to_find() {
    let fixture = PlaneFixture::new();
    assert!(
        fixture.render().starts_with("exit code 0"),
        "{}",
        fixture.render()
    );
    let config = fixture
        .folder
        .path()
        .join("out/drone/hello-test/platform-config.yaml");
    assert_eq!(
        fs::read_to_string(config).unwrap(),
        "data:\n  REGION: East US\n"
    );
    let namespace = fixture
        .folder
        .path()
        .join("out/drone/hello-test/namespace.yaml");
    let expected = "namespace: dev-drone-hello-test\npurpose: test, East US, 1 manifest\n";
    assert_eq!(
        fs::read_to_string(namespace).unwrap(),
        expected,
        "Jinja sees the same data"
    );
    insta::assert_snapshot!(fixture.run(&["check"]));
    insta::assert_snapshot!("schedule", fixture.run(&["schedule"]));
    insta::assert_snapshot!("explain", fixture.run(&["explain", "hello-test", "drone"]));
}

#[test]
fn wrong_yaml() {
    let fixture = PlaneFixture::new();
    fixture.edit("dev/types.yaml", "  labels:\n", "  labels: {\n");
    insta::assert_snapshot!(fixture.render());
}

#[test]
fn a_missing_template() {
    let fixture = PlaneFixture::new();
    fixture.edit("dev/types.yaml", "configmap", "confgmap");
    insta::assert_snapshot!(fixture.render());
}

#[test]
fn an_unknown_reconciler() {
    let fixture = PlaneFixture::new();
    fixture.edit("dev/types.yaml", "reconciler: flux", "reconciler: fluxx");
    fixture.edit(
        "main/templates.yaml",
        "  type: namespace\n",
        "  type: namespace\n  reconciler: ansibel\n",
    );
    insta::assert_snapshot!(fixture.render());
}

#[test]
fn an_unreachable_repository() {
    let fixture = PlaneFixture::new();
    fixture.edit(
        "main/app.yaml",
        "https://git.example.org/app",
        "https://nowhere.invalid/app",
    );
    let seen = fixture.run(&["render", "--out", "out"]);
    insta::assert_snapshot!(super::isolation::without_digests(&seen));
}

#[test]
fn an_unknown_field_and_a_number_that_should_be_text() {
    let fixture = PlaneFixture::new();
    fixture.edit("dev/policy.yaml", "matchLabels:", "matchLabel:");
    fixture.edit("dev/config.yaml", "East US", "17");
    insta::assert_snapshot!(fixture.render());
}

#[test]
fn a_value_that_is_not_there_when_a_template_needs_it() {
    let fixture = PlaneFixture::new();
    fixture.edit("main/templates.yaml", ".Manifests.repo", ".Manifests.path");
    fixture.edit("main/templates.yaml", "{{ Namespace }}", "{{ Namespac }}");
    insta::assert_snapshot!(fixture.render());
}

#[test]
fn a_config_that_breaks_its_schema() {
    let fixture = PlaneFixture::new();
    fixture.write(
        "dev/schema.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ConfigSchema\nmetadata:\n  name: s\nspec:\n  schema: |\n    \
         {\"properties\": {\"REGION\": {\"enum\": [\"West US\"]}}, \"required\": [\"DATABASE_URL\"]}\n",
    );
    insta::assert_snapshot!(fixture.render());
}

#[test]
fn a_failed_render_leaves_the_last_one_as_it_is() {
    let fixture = PlaneFixture::new();
    fixture.render();
    let before = outhaul_test_kit::folder::files(&fixture.folder.path().join("out"));
    fixture.edit("dev/types.yaml", "kind:", "kind");
    assert!(
        fixture
            .run(&["render", "--out", "out"])
            .starts_with("exit code 2")
    );
    assert_eq!(
        outhaul_test_kit::folder::files(&fixture.folder.path().join("out")),
        before
    );
}

#[test]
fn check_reports_everything_that_is_doubtful() {
    let fixture = PlaneFixture::new();
    fixture.edit("dev/config.yaml", "region: east-us", "region: east-uss");
    fixture.edit("dev/policy.yaml", "purpose: test", "purpose: tset");
    fixture.write(
        "dev/more.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: all, labels: {platform-config: \"true\"}}\ndata:\n  DEBUG: yes\n---\n\
         apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata: {name: hangar-1}\nspec: {clusterType: dron}\n",
    );
    insta::assert_snapshot!(fixture.run(&["check"]));
}

#[test]
fn names_that_are_not_there_are_met_with_those_that_are() {
    let fixture = PlaneFixture::new();
    insta::assert_snapshot!(
        "explain_wrong_target",
        fixture.run(&["explain", "hello-tset"])
    );
    insta::assert_snapshot!(
        "explain_wrong_key",
        fixture.run(&["explain", "hello-test", "drone", "--key", "REGIO"])
    );
}
