//! Defects in what is where: policies, environments, workspaces, edits that nobody noticed.
//!
//! What comes in: a control plane that changes between two renders. What must come out: what the files
//! say now, whatever was there before.

use std::fs;

use outhaul_test_kit::folder::files;

use super::{ASSIGNMENT, DefectFixture, base_repo};
use crate::runner::repositories::git;

#[test]
fn defect_01_two_policies_may_select_the_same_pair() {
    let fixture = DefectFixture::new();
    let policy = fixture.read("dev/policy.yaml");
    fixture.write(
        "dev/second.yaml",
        &policy.replace("everywhere", "also-everywhere"),
    );
    fixture.render().ok();
    assert!(
        fixture
            .path(&format!("out/{ASSIGNMENT}/reconciler.yaml"))
            .exists()
    );
    let message = fixture.run(&["schedule", "--output", "json"]).ok().stdout;
    let message = outhaul_tests::result(&message);
    let text = message.to_string();
    assert_eq!(
        text.matches("\"hello-test\"").count(),
        1,
        "one assignment: {text}"
    );
    assert!(
        text.contains("[\"also-everywhere\",\"everywhere\"]"),
        "both reasons: {text}"
    );
}

#[test]
fn defect_03_an_edited_cluster_type_renders_again() {
    let fixture = DefectFixture::new();
    assert_eq!(fixture.rendered_data(), "  REGION: East US\n");
    fixture.edit("dev/types.yaml", "region: east-us", "region: west-us");
    assert_eq!(
        fixture.rendered_data(),
        "  {}\n",
        "what matched its label no longer does"
    );
    fixture.edit("dev/types.yaml", "  configType: configmap\n", "");
    fixture.render().ok();
    assert!(
        !fixture
            .path(&format!("out/{ASSIGNMENT}/platform-config.yaml"))
            .exists()
    );
}

#[test]
fn defect_04_content_and_recorded_commit_are_of_one_snapshot() {
    let fixture = DefectFixture::new();
    let first = fixture.repositories();
    let next = fixture.change("main", |folder| {
        let path = folder.join("templates.yaml");
        let text = fs::read_to_string(&path)
            .unwrap()
            .replace("repository:", "source:");
        fs::write(path, text).unwrap();
    });
    let render = || {
        fixture.run_repositories(&["render", "--out", "out"]).ok();
        let commit = fixture.read("out/.github/tracking/Promoted_Commit_Id");
        (
            commit,
            fixture.read(&format!("out/{ASSIGNMENT}/reconciler.yaml")),
        )
    };
    let old = "repository: https://git.example.org/manifests\n";
    assert_eq!(
        render(),
        (first.clone(), old.into()),
        "`main` moved, the pin did not"
    );
    let environment = fixture.change("dev", |folder| {
        fs::write(folder.join("base-repo.yaml"), base_repo(&next)).unwrap();
    });
    assert_eq!(
        render(),
        (next.clone(), old.replace("repository", "source"))
    );
    let record: serde_json::Value =
        serde_json::from_str(&fixture.read("out.outhaul.json")).unwrap();
    assert_eq!(record["snapshot"]["environment"]["commit"], environment);
    assert_eq!(record["snapshot"]["base"]["commit"], next);
    let app = git(&fixture.path("app"), &["rev-parse", "HEAD"]);
    assert_eq!(
        record["snapshot"]["workloads"][0]["commit"], app,
        "workloads too"
    );
}

#[test]
fn defect_20_a_dash_in_an_environments_name_changes_no_workspace() {
    let fixture = DefectFixture::new();
    fixture.edit(
        "app/workload.yaml",
        "environment: dev",
        "environment: dev-eu",
    );
    let input = [
        "--environment",
        "dev-eu",
        "--env-dir",
        "dev",
        "--base-dir",
        "main",
    ];
    fixture
        .type_in(&[&["render", "--out", "out"], &input[..]].concat())
        .ok();
    let namespace = fixture.read(&format!("out/{ASSIGNMENT}/namespace.yaml"));
    assert_eq!(
        namespace,
        "namespace: dev-eu-drone-hello-test\nworkspace: team\n"
    );
}

#[test]
fn defect_21_a_removed_environment_is_reported_and_nothing_is_claimed() {
    let fixture = DefectFixture::new();
    fixture.repositories();
    fixture.run_repositories(&["render", "--out", "out"]).ok();
    let before = files(&fixture.path("out"));
    fixture.change("main", |folder| {
        fs::remove_file(folder.join(".environments/dev.yaml")).unwrap();
    });
    let message = fixture
        .run_repositories(&["render", "--out", "out"])
        .refused(2, "there is no environment `dev`");
    assert!(!message.stderr.contains("deleted"), "{}", message.stderr);
    assert_eq!(
        files(&fixture.path("out")),
        before,
        "what was rendered stays until someone removes it"
    );
}

#[test]
fn defect_22_config_that_cannot_be_read_is_never_left_out() {
    let fixture = DefectFixture::new();
    fixture.render().ok();
    let before = files(&fixture.path("out"));
    fs::write(
        fixture.path("dev/more.yaml"),
        b"apiVersion: v1\nkind: ConfigMap\n# \xff\n",
    )
    .unwrap();
    fixture
        .render()
        .refused(2, "`dev/more.yaml` is not UTF-8 text");
    fixture.write("dev/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: {platform-config: \"true\"}\n");
    fixture.render().refused(2, "dev/more.yaml");
    assert_eq!(files(&fixture.path("out")), before);
}

#[test]
fn defect_28_a_target_that_moved_to_another_environment_is_gone_here() {
    let fixture = DefectFixture::new();
    let workload = fixture.read("app/workload.yaml");
    let (head, first) = workload.split_at(workload.find("    - name: test").unwrap());
    let more: String = (1..5)
        .map(|number| first.replace("name: test", &format!("name: test-{number}")))
        .collect();
    fixture.write("app/workload.yaml", &format!("{head}{first}{more}"));
    fixture.render().ok();
    fixture.write(
        "app/workload.yaml",
        &format!(
            "{head}{}{more}",
            first.replace("environment: dev", "environment: stage")
        ),
    );
    fixture.render().ok();
    assert!(!fixture.path(&format!("out/{ASSIGNMENT}")).exists());
    assert!(
        fixture
            .path("out/drone/hello-test-1/namespace.yaml")
            .exists()
    );
}
