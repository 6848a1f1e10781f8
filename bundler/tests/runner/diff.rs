//! What a change does, as `outhaul diff` prints it.
//!
//! What comes in: two versions of a small control plane. What must come out: the difference as people
//! read it, as a pull request shows it, and its exit code. Each is a reviewed snapshot.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::repositories::{commit, git};
use outhaul_tests::Checked as _;

const GROUP: &str = "apiVersion: scheduler.kalypso.io/v1alpha1";

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn cluster_type(name: &str, region: &str) -> String {
    format!(
        "{GROUP}\nkind: ClusterType\nmetadata:\n  name: {name}\n  labels:\n    region: {region}\nspec:\n  \
         reconciler: flux\n  namespaceService: default\n  configType: config\n"
    )
}

fn policy(name: &str, purpose: &str, region: &str) -> String {
    format!(
        "{GROUP}\nkind: SchedulingPolicy\nmetadata:\n  name: {name}\nspec:\n  deploymentTargetSelector:\n    \
         labelSelector:\n      matchLabels: {{purpose: {purpose}}}\n  clusterTypeSelector:\n    labelSelector:\n      \
         matchLabels: {{region: {region}}}\n"
    )
}

fn config(name: &str, region: &str, data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels:\n    platform-config: \"true\"\n    \
         region: {region}\ndata:\n{data}"
    )
}

/// The environment's own files, before or after.
fn environment(folder: &Path, after: bool) {
    write(folder, "drone.yaml", &cluster_type("drone", "east"));
    write(folder, "large.yaml", &cluster_type("large", "west"));
    write(
        folder,
        "test.yaml",
        &policy("test-in-the-east", "test", "east"),
    );
    let url = if after {
        "mysql://east-2"
    } else {
        "mysql://east"
    };
    let data = format!(
        "  DATABASE_URL: {url}\n  REGION: East\n  TOKEN: ENC[age,0123456789abcdef/dev/app+hello/TOKEN,{}]\n",
        if after { "bmV3" } else { "b2xk" }
    );
    write(folder, "east-config.yaml", &config("east", "east", &data));
    write(
        folder,
        "west-config.yaml",
        &config("west", "west", "  REGION: West | the far one\n"),
    );
    let mut sites = String::new();
    for at in 1..=if after { 4 } else { 3 } {
        sites += &format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata: {{name: east-{at}}}\nspec: {{clusterType: drone}}\n---\n"
        );
    }
    write(folder, "sites.yaml", &sites);
    if after {
        write(
            folder,
            "load.yaml",
            &policy("load-in-the-west", "load", "west"),
        );
    }
}

fn base(folder: &Path) {
    let template = |name: &str, kind: &str, text: &str| {
        format!(
            "{GROUP}\nkind: Template\nmetadata:\n  name: {name}\nspec:\n  type: {kind}\n  manifests:\n    - |\n      {text}\n---\n"
        )
    };
    let templates = template("flux", "reconciler", "name: {{ .DeploymentTargetName }}")
        + &template("default", "namespace", "namespace: {{ .Namespace }}")
        + &template("config", "config", "{{ toYaml .ConfigData }}");
    write(folder, "templates.yaml", &templates);
    let registration = format!(
        "{GROUP}\nkind: WorkloadRegistration\nmetadata:\n  name: app\nspec:\n  workspace: team\n  workload:\n    \
         repo: https://git.example.org/app\n    branch: main\n    path: .\n"
    );
    write(folder, "app.yaml", &registration);
}

fn app(folder: &Path) {
    let target = |name: &str, purpose: &str| {
        format!(
            "    - name: {name}\n      environment: dev\n      labels: {{purpose: {purpose}}}\n"
        )
    };
    let text = format!(
        "{GROUP}\nkind: Workload\nmetadata:\n  name: hello\nspec:\n  deploymentTargets:\n{}{}{}",
        target("test", "test"),
        target("smoke", "test"),
        target("load", "load")
    );
    write(folder, "workload.yaml", &text);
}

fn diff(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_outhaul"))
        .arg("diff")
        .args(arguments)
        .args([
            "--source",
            "https://git.example.org/app=app",
            "--cache",
            "cache",
        ])
        .current_dir(folder)
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

fn folders() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    environment(&folder.path().join("before"), false);
    environment(&folder.path().join("after"), true);
    base(&folder.path().join("main"));
    app(&folder.path().join("app"));
    folder
}

const FOLDERS: [&str; 6] = [
    "before",
    "after",
    "--environment",
    "dev",
    "--base-dir",
    "main",
];

#[test]
fn two_folders_as_text() {
    insta::assert_snapshot!(diff(folders().path(), &FOLDERS));
}

#[test]
fn two_folders_as_markdown() {
    let seen = diff(
        folders().path(),
        &[&FOLDERS[..], &["--output", "markdown"]].concat(),
    );
    insta::assert_snapshot!(seen);
}

#[test]
fn both_sides_that_do_not_load_are_reported() {
    let folder = folders();
    write(folder.path(), "before/large.yaml", "apiVersion: [\n");
    let bad = config("east", "east", "  PORT: 80\n");
    write(folder.path(), "after/east-config.yaml", &bad);
    insta::assert_snapshot!(diff(folder.path(), &FOLDERS));
}

#[test]
fn an_assignment_that_breaks_is_reported_as_broken() {
    let folder = folders();
    let schema = format!(
        "{GROUP}\nkind: ConfigSchema\nmetadata:\n  name: strict\n  labels:\n    region: east\nspec:\n  schema: |\n    \
         {{\"type\": \"object\", \"required\": [\"OWNER\"]}}\n"
    );
    write(folder.path(), "after/schema.yaml", &schema);
    insta::assert_snapshot!(diff(folder.path(), &FOLDERS));
}

#[test]
fn revisions_of_a_control_plane_name_their_environment_themselves() {
    let folder = folders();
    let plane = folder.path().join("plane");
    fs::create_dir(&plane).unwrap();
    git(&plane, &["init", "--quiet", "--initial-branch", "main"]);
    base(&plane);
    for name in ["dev", "stage"] {
        let environment = format!(
            "{GROUP}\nkind: Environment\nmetadata:\n  name: {name}\nspec:\n  controlPlane:\n    \
             repo: https://git.example.org/plane\n    branch: {name}\n    path: .\n"
        );
        write(&plane, &format!(".environments/{name}.yaml"), &environment);
    }
    let main = commit(&plane, "what is promoted");
    for name in ["dev", "stage"] {
        git(&plane, &["checkout", "--quiet", "--orphan", name]);
        git(&plane, &["rm", "-rf", "--quiet", "."]);
        environment(&plane, false);
        let base = format!(
            "{GROUP}\nkind: BaseRepo\nmetadata:\n  name: main\nspec:\n  repo: https://git.example.org/plane\n  \
             branch: main\n  path: .\n  commit: {main}\n"
        );
        write(&plane, "base.yaml", &base);
        commit(&plane, name);
    }
    git(&plane, &["checkout", "--quiet", "-b", "change", "dev"]);
    environment(&plane, true);
    commit(&plane, "a change");
    git(&plane, &["checkout", "--quiet", "-b", "retitled", "main"]);
    let templates = fs::read_to_string(plane.join("templates.yaml")).unwrap();
    let templates = templates.replace("namespace: {{", "title: {{");
    write(&plane, "templates.yaml", &templates);
    commit(&plane, "another key");

    let run = |words: &[&str]| {
        diff(
            folder.path(),
            &[words, &["--control-plane", "plane"]].concat(),
        )
    };
    // The name of a branch says which environment it is; what it changes is reported as for two folders.
    let seen = run(&["dev", "change"]);
    assert!(
        seen.starts_with("exit code 1\n--- stdout\ndev: dev -> change\n2 of 2 cluster types"),
        "{seen}"
    );
    assert!(seen.contains("(load.yaml:4)"), "{seen}");
    // So does a commit that follows it.
    let id = git(&plane, &["rev-parse", "change"]);
    assert_eq!(
        run(&["change~1", &id[..9]]).lines().nth(3),
        seen.lines().nth(3)
    );
    // What is promoted is compared for every environment.
    let seen = run(&["main", "retitled"]);
    assert!(
        seen.contains(
            "dev: main -> retitled\n1 of 2 cluster types: 2 assignments changed, 2 files changed"
        ),
        "{seen}"
    );
    assert!(
        seen.contains("\nstage: main -> retitled: no difference"),
        "{seen}"
    );
    assert!(run(&["main", "main"]).starts_with("exit code 0\n"));
    assert!(
        run(&["dev", "nobody"]).contains("`nobody` is neither a revision of `plane` nor a folder")
    );
}

/// A config with a key for each number, some of them changed.
fn many_keys(changed: &[usize]) -> String {
    let line = |at: usize| match changed.contains(&at) {
        true => format!("  KEY_{at:02}: other\n  NEW_{at:02}: more\n"),
        false => format!("  KEY_{at:02}: same\n"),
    };
    config("many", "east", &(0..40).map(line).collect::<String>())
}

#[test]
fn the_hunks_are_what_git_apply_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (side, changed) in [("before", &[][..]), ("after", &[3, 4, 20, 39])] {
        let side = path.join(side);
        write(&side, "drone.yaml", &cluster_type("drone", "east"));
        write(
            &side,
            "test.yaml",
            &policy("test-in-the-east", "test", "east"),
        );
        write(&side, "many.yaml", &many_keys(changed));
    }
    base(&path.join("main"));
    app(&path.join("app"));
    let command = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        command.current_dir(path).args(words);
        command.args(["--source", "https://git.example.org/app=app"]);
        command.checked().unwrap()
    };
    for side in ["before", "after"] {
        let out = format!("rendered-{side}");
        let render = [
            "render",
            "--environment",
            "dev",
            "--env-dir",
            side,
            "--base-dir",
            "main",
            "--base-commit",
            "1111111111111111111111111111111111111111",
            "--out",
            &out,
        ];
        let ran = command(&render);
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    let ran = command(&[
        "diff",
        "rendered-before",
        "rendered-after",
        "--output",
        "json",
    ]);
    let message = outhaul_tests::result(&String::from_utf8(ran.stdout).unwrap());
    let environment = &message["environments"][0];
    let counts = &environment["counts"];
    assert_eq!(counts["files"]["changed"], 2, "{counts}");
    assert_eq!(counts["assignments"]["changed"], 2, "{counts}");
    assert_eq!(counts["lines_added"], 16, "{counts}");
    assert!(!environment.to_string().contains("delta"), "{environment}");
    let mut patch = String::new();
    for file in environment["cluster_types"]["drone"]["files"]
        .as_array()
        .unwrap()
    {
        let name = format!("drone/{}", file["path"].as_str().unwrap());
        patch += &format!("--- a/{name}\n+++ b/{name}\n");
        for line in file["diff"].as_array().unwrap() {
            patch += &format!("{}\n", line.as_str().unwrap());
        }
    }
    assert_eq!(patch.matches("\n@@ -").count(), 6, "{patch}");
    write(path, "change.patch", &patch);
    git(path, &["init", "--quiet"]);
    git(
        path,
        &["apply", "--directory=rendered-before", "change.patch"],
    );
    for target in ["hello-test", "hello-smoke"] {
        let file = format!("drone/{target}/platform-config.yaml");
        let read = |side: &str| fs::read_to_string(path.join(side).join(&file)).unwrap();
        assert_eq!(read("rendered-before"), read("rendered-after"), "{patch}");
    }
}

#[test]
fn an_assignment_that_is_repaired_is_reported_with_its_values() {
    let folder = folders();
    let schema = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ConfigSchema\nmetadata:\n  name: strict\n  \
                  labels:\n    region: east\nspec:\n  schema: |\n    {\"type\": \
                  \"object\", \"properties\": {\"DATABASE_URL\": {\"pattern\": \"-2$\"}}}\n";
    for side in ["before", "after"] {
        write(folder.path(), &format!("{side}/schema.yaml"), schema);
    }
    let seen = diff(folder.path(), &FOLDERS);
    assert!(seen.contains("2 assignments repaired"), "{seen}");
    assert!(
        seen.contains("DATABASE_URL: \"mysql://east\" -> \"mysql://east-2\""),
        "{seen}"
    );
}
