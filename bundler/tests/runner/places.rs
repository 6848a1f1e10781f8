//! Errors that point at their cause: the wrong name in a template, the wrong key in a config.
//!
//! What comes in: a control plane of `outhaul init` for two reconcilers, with one mistake. What must come
//! out of `outhaul check`: one finding, at what has to be changed. Each is a reviewed snapshot.

use super::silent::{InitFixture, snapshot};

fn made() -> InitFixture {
    InitFixture::with(&["--reconciler", "folder", "--reconciler", "flux-git"])
}

fn with(path: &str, from: &str, to: &str) -> String {
    let made = made();
    made.edit("main", path, from, to);
    made.check(&[])
}

#[test]
fn a_field_that_templates_do_not_have() {
    let seen = with(
        "templates/folder.yaml",
        "{{ Workload | quote }}",
        "{{ Worklod | quote }}",
    );
    snapshot!(seen);
}

#[test]
fn a_field_that_templates_do_not_have_in_a_loop() {
    let seen = with(
        "templates/env-file.yaml",
        "in ConfigData |",
        "in ConfigDta |",
    );
    snapshot!(seen);
}

#[test]
fn a_key_of_the_manifests_that_is_not_set() {
    let seen = with(
        "templates/flux-git.yaml",
        "branch: {{ Manifests.branch",
        "branch: {{ Manifests.brnch",
    );
    snapshot!(seen);
}

#[test]
fn a_key_of_the_config_that_nobody_sets() {
    let seen = with(
        "templates/folder.yaml",
        "{{ Workload | quote }}",
        "{{ ConfigData.GREETNG | quote }}",
    );
    snapshot!(seen);
}

#[test]
fn a_key_that_no_template_can_use_is_wrong_where_it_is_written() {
    let seen = with(
        "configs/common.yaml",
        "  GREETING:",
        "  \"my key\": x\n  GREETING:",
    );
    snapshot!(seen);
}

#[test]
fn a_field_that_go_templates_do_not_have() {
    let made = made();
    let template = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Template\nmetadata: {name: go}\nspec:\n  type: namespace\n  \
                    manifests:\n    - |\n      name: {{ .Namespace }}\n      workload: {{ .Worklod }}\n";
    made.write("main", "templates/go.yaml", template);
    let path = "cluster-types/edge-folder.yaml";
    made.edit(
        "dev",
        path,
        "namespaceService: folder-namespace",
        "namespaceService: go",
    );
    snapshot!(made.check(&[]));
}

#[test]
fn a_control_plane_that_cannot_be_written_whole_leaves_nothing_and_the_next_try_works() {
    let folder = tempfile::tempdir().unwrap();
    let init = |limit: &str, to: &str| {
        let program = env!("CARGO_BIN_EXE_outhaul");
        // A file that may not grow is what a full disk is to the program that writes it.
        let line = format!("trap '' XFSZ; {limit} exec {program} init {to}");
        let output = std::process::Command::new("sh")
            .args(["-c", &line])
            .current_dir(folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("XDG_STATE_HOME", folder.path().join("state"))
            .output()
            .unwrap();
        (output.status.code(), output.stderr)
    };
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for to in ["new", "empty"] {
        let (code, said) = init("ulimit -f 1;", to);
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(code, Some(3), "{said}");
        let left = std::fs::read_dir(folder.path().join(to)).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{said}");
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name());
        assert!(!names.any(|name| name.to_string_lossy().starts_with(".outhaul-init-")));
        let (code, said) = init("", to);
        assert_eq!(code, Some(0), "{}", String::from_utf8_lossy(&said));
        assert!(folder.path().join(to).join("README.md").is_file());
    }
}
