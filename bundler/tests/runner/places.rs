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
