//! What was skipped in silence: a control plane of `outhaul init`, broken in one way each time.
//!
//! What comes in: the control plane that the real program writes, with one mistake in it. What must come
//! out of `outhaul check`: one finding that names the cause and its place. Each is a reviewed snapshot;
//! `a_sound_control_plane_has_no_finding` holds the other side.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::repositories::{commit, git};
use outhaul_tests::Checked as _;

/// A control plane of `outhaul init`, in `cp`.
pub struct InitFixture {
    folder: tempfile::TempDir,
}

impl InitFixture {
    pub fn new() -> Self {
        Self::with(&[])
    }

    pub fn with(options: &[&str]) -> Self {
        let made = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let arguments = [&["init", "cp"], options].concat();
        let (code, text) = made.outhaul(&arguments);
        assert_eq!(code, 0, "{text}");
        made
    }

    pub fn cp(&self) -> PathBuf {
        self.folder.path().join("cp")
    }

    /// Runs the program in the folder above: its exit code, and what it printed.
    pub fn outhaul(&self, arguments: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_outhaul"))
            .current_dir(self.folder.path())
            .env("OUTHAUL_PROJECT", "none")
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .args(arguments)
            .args(
                ["--cache", "cache"]
                    .iter()
                    .filter(|_| arguments[0] != "init"),
            )
            .checked()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout) + &text(output.stderr),
        )
    }

    /// What `outhaul check` says of `dev`.
    pub fn check(&self, options: &[&str]) -> String {
        let arguments = ["check", "--environment", "dev", "--control-plane", "cp"];
        let (code, text) = self.outhaul(&[&arguments, options].concat());
        format!("exit code {code}\n{text}")
    }

    pub fn switch(&self, branch: &str) {
        git(&self.cp(), &["checkout", "--quiet", branch]);
    }

    /// Writes a file on a branch and commits it; a change of `main` is promoted into `dev`.
    pub fn write(&self, branch: &str, path: &str, text: &str) {
        self.switch(branch);
        let file = self.cp().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        self.commit(branch);
    }

    /// Changes one text in one file of a branch, and commits it.
    pub fn edit(&self, branch: &str, path: &str, from: &str, to: &str) {
        self.switch(branch);
        let text = fs::read_to_string(self.cp().join(path)).unwrap();
        assert!(text.contains(from), "{path} has no `{from}`");
        self.write(branch, path, &text.replace(from, to));
    }

    /// Removes files of a branch, and commits that.
    pub fn remove(&self, branch: &str, paths: &[&str]) {
        self.switch(branch);
        git(&self.cp(), &[&["rm", "--quiet", "-r"], paths].concat());
        self.commit(branch);
    }

    pub fn commit(&self, branch: &str) {
        commit(&self.cp(), "One mistake");
        if branch == "main" {
            let newest = git(&self.cp(), &["rev-parse", "main"]);
            self.switch("dev");
            let base = fs::read_to_string(self.cp().join("base-repo.yaml")).unwrap();
            let before = base.split('"').nth(1).unwrap().to_owned();
            self.edit("dev", "base-repo.yaml", &before, &newest);
        }
    }
}

/// As it is for everyone, whatever the commits are called.
macro_rules! snapshot {
    ($seen:expr) => {
        insta::with_settings!({filters => vec![
            (r"@[0-9a-f]{8}:", "@[commit]:"),
            (r"[0-9a-f]{40}", "[commit]"),
        ]}, { insta::assert_snapshot!($seen) })
    };
}
pub(super) use snapshot;

const REGISTRATION: &str = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: WorkloadRegistration\nmetadata:\n  name: other\nspec:\n  \
    workload: {repo: https://git.example.org/cp, branch: hello, path: other}\n  workspace: hello-team\n";

#[test]
fn a_sound_control_plane_has_no_finding() {
    let seen = InitFixture::new().check(&["--strict"]);
    let expected = "exit code 0\ndev: no findings (1 cluster type, 1 target, 1 assignment)\n";
    assert_eq!(seen, expected);
}

#[test]
fn edits_that_are_not_committed() {
    let made = InitFixture::new();
    made.switch("dev");
    let file = made.cp().join("cluster-types/edge.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("folder-namespace", "no-such-template")).unwrap();
    fs::write(made.cp().join("new.yaml"), "a: b\n").unwrap();
    snapshot!(made.check(&[]));
    // And no command is silent about them.
    let at = ["--environment", "dev", "--control-plane", "cp"];
    for command in [
        &["render", "--out", "out"][..],
        &["schedule"],
        &["explain", "hello-dev"],
    ] {
        let (_, seen) = made.outhaul(&[command, &at].concat());
        assert!(seen.contains("warning[uncommitted]"), "{command:?}: {seen}");
    }
}

#[test]
fn edits_of_manifests_that_are_not_committed() {
    let made = InitFixture::new();
    let (cp, manifests) = (made.cp(), made.cp().with_file_name("manifests"));
    made.switch("hello");
    let clone = [
        "clone",
        "--quiet",
        "--branch",
        "hello",
        cp.to_str().unwrap(),
    ];
    git(&cp, &[&clone[..], &[manifests.to_str().unwrap()]].concat());
    let from =
        "repo: https://git.example.org/cp\n        branch: hello\n        path: manifests/dev";
    let to = from.replace("org/cp", "org/manifests");
    made.edit("hello", "workload/hello.yaml", from, &to);
    made.switch("main");
    fs::write(manifests.join("manifests/dev/hello.sh"), "echo\n").unwrap();
    let source = ["--source", "https://git.example.org/manifests=manifests"];
    snapshot!(made.check(&source));
}

#[test]
fn a_working_copy_is_checked_as_it_is() {
    let made = InitFixture::new();
    made.switch("dev");
    made.edit(
        "dev",
        "cluster-types/edge.yaml",
        "manifests: git",
        "manifests: git",
    );
    let file = made.cp().join("cluster-types/edge.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("folder-namespace", "no-such-template")).unwrap();
    fs::write(made.cp().join(".gitignore"), "ignored.yaml\n").unwrap();
    fs::write(made.cp().join("ignored.yaml"), "kind: Site\n").unwrap();
    let status = || git(&made.cp(), &["status", "--porcelain"]);
    let before = status();
    snapshot!(made.check(&["--working-copy"]));
    assert_eq!(status(), before);
    // What is promoted is checked as if it had been.
    git(&made.cp(), &["checkout", "--quiet", "--force", "main"]);
    let file = made.cp().join("configs/common.yaml");
    fs::write(&file, "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n").unwrap();
    let seen = made.check(&["--working-copy"]);
    assert!(seen.contains("cp/configs/common.yaml"), "{seen}");
}

#[test]
fn objects_by_which_flux_would_bring_more() {
    let made = InitFixture::new();
    made.write(
        "dev",
        "flux.yaml",
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: shared}\nspec:\n  url: \
         https://git.example.org/shared\n  ref: {branch: release}\n---\napiVersion: kustomize.toolkit.fluxcd.io/v1\n\
         kind: Kustomization\nmetadata: {name: shared}\nspec:\n  path: ./base\n  sourceRef: {kind: GitRepository, name: \
         shared}\n",
    );
    snapshot!(made.check(&[]));
}

#[test]
fn objects_of_flux_beside_a_workload_are_its_teams_own() {
    let made = InitFixture::new();
    made.write(
        "hello",
        "workload/flux.yaml",
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: own}\nspec: {url: \
         https://git.example.org/own}\n---\nmetadata: {name: nothing}\n",
    );
    let seen = made.check(&["--strict"]);
    assert!(seen.contains("dev: no findings"), "{seen}");
}

#[test]
fn a_kustomization_that_would_change_what_it_lists() {
    let made = InitFixture::new();
    made.write(
        "dev",
        "kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - base-repo.yaml\n  - \
         https://git.example.org/shared//base\nnamePrefix: dev-\n",
    );
    snapshot!(made.check(&[]));
}

#[test]
fn images_that_no_bundle_brings() {
    let made = InitFixture::with(&["--reconciler", "flux-git"]);
    let seen = made.check(&["--strict"]);
    assert!(seen.contains("dev: no findings"), "{seen}");
    let policy = "images: reference";
    made.edit("dev", "delivery/images.yaml", policy, "delivery: bundle");
    snapshot!(made.check(&[]));
}

#[test]
fn sources_that_no_bundle_brings() {
    let made = InitFixture::with(&["--reconciler", "flux-git"]);
    made.edit(
        "dev",
        "delivery/images.yaml",
        "images: reference",
        "images: reference\n  delivery: bundle",
    );
    made.write(
        "hello",
        "manifests/dev/charts.yaml",
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts}\nspec: {url: \
         https://charts.example.org}\n---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: \
         own}\nspec: {url: https://git.example.org/cp.git}\n",
    );
    snapshot!(made.check(&[]));
}

#[test]
fn a_file_that_was_emptied_and_a_content_type_that_nobody_knows() {
    let made = InitFixture::new();
    made.write("dev", "cluster-types/edge.yaml", "");
    let seen = made.check(&[]);
    let message = "warning[empty-file]: this file is empty: what was in it is gone";
    assert!(
        seen.contains(message) && seen.contains("cluster-types/edge.yaml:1:1"),
        "{seen}"
    );

    let made = InitFixture::new();
    made.write(
        "dev",
        "templates/own.yaml",
        "apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata: {name: own}\nspec:\n  type: config\n  \
         contentType: jsn\n  manifests: ['{}']\n",
    );
    let seen = made.check(&[]);
    assert!(
        seen.contains("the files of this template end in `.jsn`, which is not a usual ending")
            && seen.contains("did you mean `json`?"),
        "{seen}"
    );
}

#[test]
fn all_policies_deleted() {
    let made = InitFixture::new();
    made.remove("dev", &["scheduling"]);
    snapshot!(made.check(&[]));
}

#[test]
fn an_empty_environment() {
    let made = InitFixture::new();
    made.remove(
        "dev",
        &["scheduling", "cluster-types", "configs", "base-repo.yaml"],
    );
    snapshot!(made.check(&[]));
}

#[test]
fn a_target_that_is_assigned_nowhere() {
    let made = InitFixture::new();
    made.edit(
        "hello",
        "workload/hello.yaml",
        "    - name: stage\n",
        "    - name: spare\n      environment: dev\n      labels:\n        manifests: gti\n    - name: stage\n",
    );
    snapshot!(made.check(&[]));
}

#[test]
fn a_misspelt_label_of_a_cluster_type() {
    let made = InitFixture::new();
    made.edit(
        "dev",
        "cluster-types/edge.yaml",
        "manifests: git",
        "manifsts: git",
    );
    snapshot!(made.check(&[]));
}

#[test]
fn a_misspelt_label_of_platform_config() {
    let made = InitFixture::new();
    made.edit(
        "dev",
        "configs/environment.yaml",
        "platform-config",
        "platform-confg",
    );
    snapshot!(made.check(&[]));
}

#[test]
fn a_misspelt_group() {
    let made = InitFixture::new();
    let (from, to) = ("scheduler.kalypso.io", "schedular.kalypso.io");
    made.edit("dev", "scheduling/hello-team.yaml", from, to);
    snapshot!(made.check(&[]));
}

#[test]
fn a_misspelt_branch() {
    let made = InitFixture::new();
    made.edit(
        "main",
        "workloads/hello.yaml",
        "branch: hello",
        "branch: helo",
    );
    snapshot!(made.check(&[]));
}

#[test]
fn a_wrong_path() {
    let made = InitFixture::new();
    made.edit(
        "main",
        "workloads/hello.yaml",
        "path: workload",
        "path: workloads",
    );
    snapshot!(made.check(&[]));
}

#[test]
fn a_misspelt_field() {
    let made = InitFixture::new();
    made.edit(
        "dev",
        "scheduling/hello-team.yaml",
        "workspace",
        "worksapce",
    );
    snapshot!(made.check(&[]));
}

#[test]
fn a_missing_kind_and_a_missing_group() {
    let made = InitFixture::new();
    let (path, kind) = ("scheduling/hello-team.yaml", "kind: SchedulingPolicy\n");
    made.edit("dev", path, kind, "");
    made.edit("dev", "configs/environment.yaml", "kind: ConfigMap\n", "");
    let version = "apiVersion: scheduler.kalypso.io/v1alpha1\n";
    made.edit("dev", "cluster-types/edge.yaml", version, "");
    snapshot!(made.check(&[]));
}

#[test]
fn a_base_without_a_commit() {
    let made = InitFixture::new();
    made.switch("dev");
    let text = fs::read_to_string(made.cp().join("base-repo.yaml")).unwrap();
    let commit = text.lines().last().unwrap();
    made.edit("dev", "base-repo.yaml", &format!("{commit}\n"), "");
    snapshot!(made.check(&[]));
}

#[test]
fn a_missing_base_is_the_cause_and_not_every_template() {
    let made = InitFixture::new();
    made.remove("dev", &["base-repo.yaml"]);
    snapshot!(made.check(&[]));
}

#[test]
fn links_in_a_control_plane() {
    let made = InitFixture::new();
    made.switch("dev");
    let cp = made.cp();
    fs::rename(cp.join("scheduling"), cp.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", cp.join("scheduling")).unwrap();
    std::os::unix::fs::symlink("base-repo.yaml", cp.join("base.yaml")).unwrap();
    std::os::unix::fs::symlink("README.md", cp.join("notes.txt")).unwrap();
    made.commit("dev");
    snapshot!(made.check(&[]));
}

#[test]
fn a_base_that_is_reached_in_two_ways_is_read_once() {
    let made = InitFixture::new();
    made.switch("dev");
    let base = fs::read_to_string(made.cp().join("base-repo.yaml")).unwrap();
    let second = base
        .replace("name: main", "name: again")
        .replace("cp\n", "cp.git\n");
    made.write("dev", "again.yaml", &second);
    let seen = made.check(&["--strict"]);
    assert!(seen.contains("dev: no findings"), "{seen}");
}

#[test]
fn a_base_that_leads_to_itself_is_read_once() {
    let made = InitFixture::new();
    // The environment's own branch is its base, too: it holds the object that names it.
    made.switch("dev");
    let base = fs::read_to_string(made.cp().join("base-repo.yaml")).unwrap();
    let commit = base.lines().last().unwrap().to_owned();
    let itself = base
        .replace("name: main", "name: itself")
        .replace("branch: main", "branch: dev")
        .replace(&format!("{commit}\n"), "");
    made.write("dev", "itself.yaml", &itself);
    let seen = made.check(&[]);
    assert!(seen.contains("1 warning."), "{seen}");
    assert!(seen.contains("BaseRepo `itself` has no commit"), "{seen}");
}

#[test]
fn a_registration_of_nothing() {
    let made = InitFixture::new();
    made.write("main", "workloads/other.yaml", REGISTRATION);
    snapshot!(made.check(&[]));
}
