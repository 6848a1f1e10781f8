//! A reconciler that Outhaul does not know, from the control plane to a site: by its name and a program alone.
//!
//! What comes in: `examples/cluster`, whose template says another reconciler, and `examples/hooks/static-pods`.
//! What must come out: the stream is rendered, packed and named, arrives on a stick, is applied by the program,
//! observed, pruned and rolled back.

use std::fs;
use std::path::Path;

use outhaul_test_kit::folder::paths;
use outhaul_tests::{available_or_skip, workspace_root};

use super::cluster::{SITE, follow_the_example};
use super::system::SystemFixture;

fn names(folder: &Path) -> Vec<String> {
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<String> = paths(folder).iter().map(name).collect();
    names.sort();
    names
}

/// Replaces a word in every file of a branch of the control plane.
fn replace(fixture: &SystemFixture, from: &str, to: &str) {
    fixture.on_branch("control-plane", "main", |folder| {
        for path in paths(&folder.join("templates")) {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace(from, to)).unwrap();
        }
    });
}

#[test]
fn any_reconciler_is_rendered_delivered_applied_observed_pruned_and_rolled_back_by_its_name() {
    if !available_or_skip("python3") {
        return;
    }
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    replace(
        &fixture,
        "  reconciler: kubernetes",
        "  reconciler: kubernets",
    );
    let near = fixture.plane(0, "check", "dev", &[]);
    assert!(
        near.everything().contains("did you mean `kubernetes`?"),
        "{near:?}"
    );
    replace(
        &fixture,
        "  reconciler: kubernets",
        "  reconciler: static-pods",
    );

    fixture.bundle("dev");
    let named = fixture.run("outhaul", 0, &["inspect", "stick/dev-store-1.outhaul"]);
    assert!(
        named.stdout.contains("applied by  static-pods"),
        "{named:?}"
    );
    // A site that has no such program says so, and what to set.
    let refused = fixture.agent(SITE, 2, &["import", "stick"]);
    assert!(
        refused
            .stderr
            .contains("`static-pods`, which this agent does not have"),
        "{refused:?}"
    );

    let pods = fixture.path("pods");
    fs::create_dir(&pods).unwrap();
    let program = workspace_root().join("examples/hooks/static-pods");
    let config = format!(
        "reconciler = \"static-pods\"\n[hook]\nprogram = \"{}\"\nenvironment = {{ STATIC_PODS = \"{}\" }}\n",
        program.display(),
        pods.display()
    );
    fs::write(fixture.path(&format!("sites/{SITE}/agent.toml")), config).unwrap();
    fixture.carry(SITE);
    let first = names(&pods);
    assert!(
        first
            .iter()
            .any(|name| name.ends_with(".payload.report.yaml")),
        "{first:?}"
    );

    fixture.on_branch("manifests", "dev", |folder| {
        fs::write(folder.join("extra.yaml"), "kind: Pod\n").unwrap();
    });
    fixture.bundle("dev");
    fixture.carry(SITE);
    let second = names(&pods);
    assert_eq!(second.len(), first.len() + 1, "{second:?}");

    let report = pods.join(
        second
            .iter()
            .find(|name| name.ends_with("report.yaml"))
            .unwrap(),
    );
    fs::write(&report, "someone's").unwrap();
    // The hub's address answers nobody; everything else of the round is done.
    fixture.agent(SITE, 3, &["run", "--once"]);
    assert_ne!(
        fs::read_to_string(&report).unwrap(),
        "someone's",
        "the stream corrects drift"
    );

    fixture.agent(SITE, 0, &["rollback", "--who", "ann"]);
    assert_eq!(
        names(&pods),
        first,
        "what came with the second bundle is pruned"
    );
    fixture.home(SITE);
}
