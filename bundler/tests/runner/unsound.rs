//! What only a site would have found, found at the centre: manifests that no cluster takes, a promotion chain that
//! leads nowhere, an assignment that is dropped without a word, a rendering into its own input.
//!
//! What comes in: a small sound control plane with one such mistake. What must come out: the finding at its file and
//! line; that assignment's failure, and the rest shipped.

use std::fs;

use super::cli::PlaneFixture;
use super::kept::Fleet;
use super::repositories::commit;

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n";
const SOURCE: [&str; 2] = ["--source", "https://git.example.org/manifests=manifests"];

/// A fleet whose cluster type applies Kubernetes objects, with sound manifests.
fn kubernetes() -> Fleet {
    let fleet = Fleet::new();
    let fixture = &fleet.fixture;
    let template = |name: &str, kind: &str, more: &str| {
        let object = OBJECT.replace("NAME", &format!("{name}-{{{{ DeploymentTargetName }}}}"));
        let text = object.replace('\n', "\n      ");
        format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata:\n  name: {name}\nspec:\n  type: {kind}\n{more}  \
             manifests:\n    - |\n      {}\n---\n",
            text.trim_end()
        )
    };
    let templates = template("apply", "reconciler", "  reconciler: kubernetes\n")
        + &template("space", "namespace", "");
    fixture.write("main/kubernetes.yaml", &templates);
    fixture.edit("dev/types.yaml", "reconciler: flux", "reconciler: apply");
    fixture.edit(
        "dev/types.yaml",
        "namespaceService: default",
        "namespaceService: space",
    );
    fixture.edit("dev/types.yaml", "  configType: configmap\n", "");
    fixture.write("manifests/here/app.yaml", &OBJECT.replace("NAME", "app"));
    fixture.edit(
        "app/workload.yaml",
        "        repo: https://git.example.org/manifests\n",
        "        repo: https://git.example.org/manifests\n        path: there\n",
    );
    fixture.write("manifests/there/app.yaml", &OBJECT.replace("NAME", "there"));
    commit(&fleet.path("manifests"), "objects");
    fleet
}

#[test]
fn manifests_that_no_cluster_takes_are_one_assignments_failure() {
    let fleet = kubernetes();
    let check = |fleet: &Fleet| {
        fleet
            .fixture
            .run(&[&["check", "--output", "lines"][..], &SOURCE].concat())
    };
    let seen = check(&fleet);
    assert!(!seen.contains(": error["), "{seen}");
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let there = OBJECT.replace("NAME", "there");
    for (number, (text, place, code)) in [
        (
            format!("{there}data:\n<<<<<<< HEAD\n  a: '1'\n=======\n  a: '2'\n>>>>>>> theirs\n"),
            "there/app.yaml:6:1",
            "merge-conflict",
        ),
        (
            "metadata:\n  name: there\n".to_owned(),
            "there/app.yaml:1:1",
            "not-an-object",
        ),
        (
            format!("{there}---\n{there}"),
            "there/app.yaml:6:1",
            "same-object",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        fleet.fixture.write("manifests/there/app.yaml", &text);
        // Something of the others changes with it.
        let other = OBJECT.replace("NAME", &format!("app-{number}"));
        fleet.fixture.write("manifests/here/app.yaml", &other);
        commit(&fleet.path("manifests"), code);
        let seen = check(&fleet);
        let line = format!("{place}: error[{code}]");
        assert!(
            seen.starts_with("exit code 1") && seen.contains(&line),
            "{seen}"
        );
        let seen = fleet.bundle(&[]);
        assert!(seen.starts_with("exit code 1"), "{seen}");
        assert!(seen.contains(code) && seen.contains(place), "{seen}");
        let next = number + 2;
        assert!(
            seen.contains(&format!("dev/drone: number {next}, 5 assignments")),
            "{seen}"
        );
        assert!(
            seen.contains("kept: drone/hello-test stays as snapshot"),
            "{seen}"
        );
    }
}

#[test]
fn a_template_that_makes_no_objects_is_found_when_it_is_rendered() {
    let fleet = kubernetes();
    let name = "  name: apply-{{ DeploymentTargetName }}";
    let broken = "  name: [apply{% if DeploymentTargetName != 'hello-test' %}]{% endif %}";
    fleet.fixture.edit("main/kubernetes.yaml", name, broken);
    let seen = fleet.fixture.run(&["render", "--out", "out"]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains("rendered drone/hello-test/reconciler.yaml:"),
        "{seen}"
    );
    fleet.fixture.edit("main/kubernetes.yaml", broken, name);
    assert!(
        fleet
            .fixture
            .run(&["render", "--out", "out"])
            .starts_with("exit code 0")
    );
}

#[test]
fn an_assignment_that_a_misspelt_environment_drops_is_reported_to_be_removed() {
    let fleet = Fleet::new();
    fleet.bundle(&[]);
    fleet
        .fixture
        .edit("app/workload.yaml", "environment: dev", "environment: dve");
    let seen = fleet.bundle(&[]);
    assert!(
        seen.contains(
            "dev/drone: removed `hello-test`: its deployment target is for environment `dve`"
        ) && seen.contains("workload.yaml:7"),
        "{seen}"
    );
    let seen = fleet.bundle(&[]);
    assert!(
        !seen.contains("removed"),
        "once, with the bundle that does it: {seen}"
    );
}

#[test]
fn a_rendering_does_not_go_into_what_it_is_made_from() {
    let fixture = PlaneFixture::new();
    for folder in ["dev", "main/out", "./main/../dev/deep/er"] {
        let seen = fixture.run(&["render", "--out", folder]);
        assert!(
            seen.starts_with("exit code 2") && seen.contains("from which the rendering is made"),
            "{folder}: {seen}"
        );
    }
    let names = |folder: &str| {
        fs::read_dir(fixture.folder.path().join(folder))
            .unwrap()
            .count()
    };
    assert_eq!((names("dev"), names("main")), (3, 2));
}

fn environment(name: &str, after: &str, branch: &str) -> String {
    format!(
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata:\n  name: {name}\n  labels:\n    \
         outhaul.dev/after: \"{after}\"\nspec:\n  controlPlane:\n    repo: https://git.example.org/plane\n    \
         branch: {branch}\n    path: .\n"
    )
}

#[test]
fn a_promotion_chain_that_leads_nowhere_is_found_where_it_is_written() {
    let fixture = PlaneFixture::new();
    let file = |name: &str| format!("main/.environments/{name}.yaml");
    fixture.write(&file("dev"), &environment("dev", "", "dev"));
    fixture.write(&file("stage"), &environment("stage", "dev", "stage"));
    let check = || fixture.run(&["check", "--output", "lines"]);
    let seen = check();
    assert!(!seen.contains(": error["), "{seen}");

    fixture.write(&file("stage"), &environment("stage", "dve", "stage"));
    let seen = check();
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains(
            "stage.yaml:6:24: error[unknown-environment]: environment `stage` comes after `dve`"
        ),
        "{seen}"
    );
    let seen = fixture.run(&["check"]);
    assert!(seen.contains("did you mean `dev`"), "{seen}");

    fixture.write(&file("stage"), &environment("stage", "dev", "dev"));
    let seen = check();
    assert!(
        seen.contains("stage.yaml:10:13: error[shared-branch]: environments `dev` and `stage` are on one branch"),
        "{seen}"
    );

    fixture.write(&file("dev"), &environment("dev", "stage", "dev"));
    fixture.write(&file("stage"), &environment("stage", "dev", "stage"));
    let seen = check();
    assert!(
        seen.contains("error[promotion-circle]: the promotion chain is a circle:"),
        "{seen}"
    );
    assert_eq!(seen.matches("promotion-circle").count(), 1, "{seen}");
}
