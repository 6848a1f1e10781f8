//! What bad input gets, from end to end: a reason, what is safe, what to do next, and the exit code.

use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_tests::{Ran, program, run_expecting};

use super::system::{BASE_COMMIT, KEYS, in_folders};

/// A fleet with one bundle, made from two folders, without git.
struct Centre {
    folder: tempfile::TempDir,
}

const CLUSTER_TYPE: &str = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ClusterType\nmetadata:\n  \
    name: bench\n  labels:\n    hosts: \"true\"\nspec:\n  reconciler: out\n  namespaceService: place\n";
const TEMPLATES: &str = "apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata:\n  name: out\nspec:\n  \
    type: reconciler\n  reconciler: folder\n  manifests:\n    - |\n      run: {{ Workload }}\n---\n\
    apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata:\n  name: place\nspec:\n  type: namespace\n  \
    manifests:\n    - |\n      name: {{ Namespace }}\n";
const WORKLOAD: &str = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: WorkloadRegistration\nmetadata:\n  \
    name: lamp\nspec:\n  workload:\n    repo: https://git.example/lamp\n    branch: main\n    path: .\n  \
    workspace: light\n";
const POLICY: &str = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: SchedulingPolicy\nmetadata:\n  \
    name: all\nspec:\n  deploymentTargetSelector:\n    labelSelector: {}\n  clusterTypeSelector:\n    \
    labelSelector:\n      matchLabels:\n        hosts: \"true\"\n";
const LAMP: &str = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Workload\nmetadata:\n  name: lamp\n\
    spec:\n  deploymentTargets:\n    - name: dim\n      environment: dev\n";

impl Centre {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let centre = Self { folder };
        for (path, text) in [
            ("dev/bench.yaml", CLUSTER_TYPE),
            ("dev/policy.yaml", POLICY),
            ("main/templates.yaml", TEMPLATES),
            ("main/lamp.yaml", WORKLOAD),
            ("lamp/workload.yaml", LAMP),
        ] {
            let path = centre.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::write(centre.path("passphrase"), "a passphrase for tests\n").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(centre.path("passphrase"), private).unwrap();
        centre
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn outhaul(&self, code: i32, arguments: &[&str]) -> Ran {
        let mut command = Command::new(program("outhaul").unwrap());
        run_expecting(
            command.current_dir(self.folder.path()).args(arguments),
            code,
        )
        .unwrap()
    }

    fn fleet(&self, name: &str) {
        self.outhaul(
            0,
            &[
                "key",
                "init",
                "--fleet",
                name,
                "--passphrase-file",
                "passphrase",
            ],
        );
    }

    fn bundle(&self, code: i32) -> Ran {
        self.bundle_of("dev", code)
    }

    fn bundle_of(&self, environment: &str, code: i32) -> Ran {
        let at = in_folders("bundle", environment, BASE_COMMIT);
        self.outhaul(code, &[&at[..], &KEYS, &["--out", "stick"]].concat())
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    found.sort();
    found
}

#[test]
fn a_flipped_byte_is_refused_with_exit_code_4() {
    let centre = Centre::new();
    centre.fleet("fleet");
    centre.bundle(0);
    let file = centre.path("stick/dev-bench-1.outhaul");
    let good = std::fs::read(&file).unwrap();
    centre.outhaul(
        0,
        &["inspect", "--fleet", "fleet", "stick/dev-bench-1.outhaul"],
    );
    for at in (0..good.len()).step_by(good.len() / 40) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(&file, &bad).unwrap();
        let ran = centre.outhaul(
            4,
            &["inspect", "--fleet", "fleet", "stick/dev-bench-1.outhaul"],
        );
        assert!(ran.stderr.contains("help:"), "byte {at}: {}", ran.stderr);
    }
}

#[test]
fn another_fleets_bundle_is_refused_with_exit_code_4() {
    let centre = Centre::new();
    centre.fleet("fleet");
    centre.fleet("other");
    centre.bundle(0);
    let ran = centre.outhaul(
        4,
        &["inspect", "--fleet", "other", "stick/dev-bench-1.outhaul"],
    );
    assert!(ran.stderr.contains("another fleet"), "{}", ran.stderr);
}

#[test]
fn the_same_input_needs_no_new_number() {
    let centre = Centre::new();
    centre.fleet("fleet");
    centre.bundle(0);
    let ran = centre.bundle(0);
    assert!(
        ran.stderr.contains("unchanged, number 1 is current"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        files(&centre.path("stick")),
        [centre.path("stick/dev-bench-1.outhaul")]
    );
}

#[test]
fn a_wrong_passphrase_writes_nothing() {
    let centre = Centre::new();
    centre.fleet("fleet");
    std::fs::write(centre.path("passphrase"), "wrong\n").unwrap();
    // As the signing program says: it may be the wrong key as well.
    let ran = centre.bundle(4);
    assert!(
        ran.stderr.contains("passphrase does not open"),
        "{}",
        ran.stderr
    );
    assert!(files(&centre.path("stick")).is_empty());
}

#[test]
fn a_missing_template_names_its_place_and_writes_nothing() {
    let centre = Centre::new();
    centre.fleet("fleet");
    let broken = CLUSTER_TYPE.replace("reconciler: out", "reconciler: flux");
    std::fs::write(centre.path("dev/bench.yaml"), broken).unwrap();
    // The only assignment is broken and was never good: one finding, exit code 1, and no bundle.
    let ran = centre.bundle(1);
    assert!(ran.stderr.contains("dev/bench.yaml:8:15"), "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing was written"), "{}", ran.stderr);
    assert!(files(&centre.path("stick")).is_empty());
}

#[test]
fn an_environment_whose_name_cannot_travel_writes_nothing() {
    let centre = Centre::new();
    centre.fleet("fleet");
    let lamp = LAMP.replace("environment: dev", "environment: dev ice");
    std::fs::write(centre.path("lamp/workload.yaml"), lamp).unwrap();
    let ran = centre.bundle_of("dev ice", 2);
    let reported = "`dev ice` is not a name";
    assert!(ran.stderr.contains(reported), "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing was written"), "{}", ran.stderr);
    assert!(files(&centre.path("stick")).is_empty());
}

#[test]
fn a_folder_without_environments_promotes_nothing() {
    let centre = Centre::new();
    let ran = centre.outhaul(
        2,
        &[
            "promote",
            "--control-plane",
            "main",
            "--from",
            "dev",
            "--to",
            "stage",
            "--hub",
            "https://hub.example",
        ],
    );
    assert!(
        ran.stderr.contains("has no folder `.environments`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn two_renders_in_two_folders_are_the_same_bytes() {
    let render = |centre: &Centre| {
        centre.fleet("fleet");
        let at = in_folders("render", "dev", BASE_COMMIT);
        centre.outhaul(0, &[&at[..], &["--out", "out"]].concat());
        let file = centre.path("out/bench/lamp-dim/reconciler.yaml");
        (
            std::fs::read(file).unwrap(),
            std::fs::read(centre.path("out.outhaul.json")).unwrap(),
        )
    };
    let (one, two) = (Centre::new(), Centre::new());
    let (first, second) = (render(&one), render(&two));
    assert_eq!(first, second);
    assert_eq!(first.0, b"run: lamp\n");
}
