//! What people in a hurry do to a centre on their first day, and what they must read then.
//!
//! What comes in: a fleet or a control plane that works, and a slip of the pen, a wrong folder or a wrong file. What
//! must come out: a refusal at its place with what to do next, no bundle that takes files from a site, and nothing
//! written where nothing may be.

use std::fs;

use super::cli::PlaneFixture;
use super::kept::Fleet;
use super::repositories::{commit, git};

/// A first bundle is shipped; then `hello-test` gets `storage: git` without a branch, and the others a new file.
#[test]
fn a_key_that_is_missing_or_misspelt_takes_no_file_from_a_site() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    let first = fleet.last();
    let good = fs::read_to_string(fleet.path("app/workload.yaml")).unwrap();
    for (mistake, reported) in [
        ("storage: git", "`branch` is missing"),
        ("brach: main", "unknown field `brach`"),
    ] {
        let written = format!("        {mistake}\n        repo: https");
        let broken = good.replace("        repo: https", &written);
        fleet.fixture.write("app/workload.yaml", &broken);
        for command in [&["check"][..], &["render", "--out", "rendered"]] {
            let mut command = command.to_vec();
            command.extend(["--source", "https://git.example.org/manifests=manifests"]);
            let seen = fleet.fixture.run(&command);
            assert!(seen.starts_with("exit code 1"), "{command:?} {seen}");
            assert!(seen.contains(reported), "{command:?} {seen}");
        }
        let seen = fleet.bundle(&[]);
        assert!(seen.starts_with("exit code 1"), "{seen}");
        assert!(seen.contains(reported), "{seen}");
        assert!(seen.contains("kept: drone/hello-test stays as"), "{seen}");
        let last = fleet.last();
        let hello = |last: &serde_json::Value| last["assignments"]["hello-test"].clone();
        assert_eq!(hello(&last), hello(&first));
    }
}

#[test]
fn a_payload_without_a_file_breaks_its_assignment_alone() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    let first = fleet.last();
    fs::create_dir_all(fleet.path("nothing")).unwrap();
    git(&fleet.path("nothing"), &["init", "--quiet"]);
    git(
        &fleet.path("nothing"),
        &["commit", "--quiet", "--allow-empty", "-m", "empty"],
    );
    let old = "repo: https://git.example.org/manifests";
    let new = "repo: https://git.example.org/nothing";
    fleet.fixture.edit("app/workload.yaml", old, new);
    let source = ["--source", "https://git.example.org/nothing=nothing"];
    for seen in [
        fleet.bundle(&source),
        fleet.fixture.run(&[&["check"][..], &source].concat()),
    ] {
        assert!(seen.starts_with("exit code 1"), "{seen}");
        let reported = "there is no file in `.` of `https://git.example.org/nothing`";
        assert!(seen.contains(reported), "{seen}");
    }
    let hello = |last: &serde_json::Value| last["assignments"]["hello-test"].clone();
    assert_eq!(hello(&fleet.last()), hello(&first));
    assert_eq!(fleet.last()["assignments"].as_object().unwrap().len(), 5);
}

/// A control plane in a repository, whose environments `dev` and `stage` are on the branches that are given.
fn plane(branches: [&str; 2]) -> PlaneFixture {
    let fixture = PlaneFixture::new();
    let folder = fixture.folder.path().join("plane");
    for (name, after, branch) in [("dev", "", branches[0]), ("stage", "dev", branches[1])] {
        fixture.write(
            &format!("plane/.environments/{name}.yaml"),
            &format!(
                "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata:\n  name: {name}\n  labels:\n    \
                 outhaul.dev/after: \"{after}\"\nspec:\n  controlPlane:\n    repo: https://git.example.org/plane\n    \
                 branch: {branch}\n    path: .\n"
            ),
        );
    }
    git(&folder, &["init", "--quiet", "--initial-branch=main"]);
    commit(&folder, "first");
    let first = git(&folder, &["rev-parse", "HEAD"]);
    for name in ["dev", "stage"] {
        git(&folder, &["checkout", "--quiet", "-b", name, "main"]);
        fixture.write(
            "plane/base.yaml",
            &format!(
                "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: BaseRepo\nmetadata:\n  name: main\nspec:\n  \
                 repo: https://git.example.org/plane\n  branch: main\n  path: .\n  commit: {first}\n"
            ),
        );
        commit(&folder, name);
    }
    git(&folder, &["checkout", "--quiet", "main"]);
    fixture.write("plane/later.yaml", "# later\n");
    commit(&folder, "later");
    fixture
}

#[test]
fn nothing_is_promoted_into_an_environment_that_shares_its_branch() {
    let fixture = plane(["dev", "dev"]);
    let folder = fixture.folder.path().join("plane");
    let before = git(&folder, &["rev-parse", "dev"]);
    for environment in ["dev", "stage"] {
        let command = ["promote", "--control-plane", "plane", "--to", environment];
        let seen = fixture.run_only(&command);
        assert!(seen.starts_with("exit code 2"), "{seen}");
        assert!(seen.contains("are on one branch, `dev`"), "{seen}");
        assert!(seen.contains("stage.yaml:10:13"), "{seen}");
        assert!(
            seen.contains("give each environment its own branch"),
            "{seen}"
        );
    }
    assert_eq!(git(&folder, &["rev-parse", "dev"]), before);
}
