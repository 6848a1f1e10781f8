//! The text of a pull request: what is reported without a difference, and that it fits.

use outhaul_bundle::index::Source;

use super::*;
use outhaul_control::ControlPlane;
use outhaul_diff::{ClusterTypeChange, Counts, Presence, SitesTouched, Version};

fn source(name: &str, commit: char) -> Source {
    Source {
        name: name.into(),
        repo: format!("https://git.example/{name}"),
        commit: commit.to_string().repeat(40),
    }
}

fn body_of(workloads: usize, plan: &CommitChanges, change: &Result<Difference, String>) -> String {
    let workloads = (0..workloads).map(|at| source(&format!("app-{at:03}"), 'c'));
    let snapshot = outhaul_bundle::index::Snapshot::of(
        source("dev", 'a'),
        source("main", 'b'),
        workloads.collect(),
    );
    let desired = Desired {
        environment: "dev",
        tree: &BTreeMap::new(),
        snapshot: &snapshot,
        promoted: None,
        failures: &BTreeMap::new(),
        undecided: &BTreeMap::new(),
        control_plane: &ControlPlane::default(),
        adopt: false,
        overridden: None,
    };
    body(&desired, plan, change)
}

fn paths(count: usize, long: usize) -> BTreeSet<String> {
    let long = "x".repeat(long);
    (0..count)
        .map(|at| format!("type-{at:04}/{long}/namespace.yaml"))
        .collect()
}

#[test]
fn without_the_older_commits_the_files_are_reported_and_why() {
    let plan = CommitChanges {
        changed: ["drone/hello/namespace.yaml".to_owned()].into(),
        added: ["drone/new/namespace.yaml".to_owned()].into(),
        by_hand: ["drone/hello/namespace.yaml".to_owned()].into(),
        ..CommitChanges::default()
    };
    let why = "repository `https://git.example/app` has no commit 1234".to_owned();
    insta::assert_snapshot!(body_of(1, &plan, &Err(why)));
}

#[test]
fn a_text_without_an_end_is_cut_and_says_so() {
    let plan = CommitChanges {
        changed: paths(3_000, 300),
        added: paths(3_000, 2_000),
        ..CommitChanges::default()
    };
    let text = body_of(400, &plan, &Err(String::new()));
    assert!(text.len() < 65_536, "{}", text.len());
    assert!(text.contains("and 2950 more cluster types"), "{text}");
    assert!(text.trim_end().ends_with("has a limit."), "{text}");

    let version = |name: &str| Version {
        name: name.to_owned(),
        snapshot: outhaul_bundle::index::Snapshot::of(
            source("dev", 'a'),
            source("main", 'b'),
            Vec::new(),
        ),
    };
    let change = |at: usize| {
        let change = ClusterTypeChange {
            selected: Vec::new(),
            presence: Presence::Added,
            added: Vec::new(),
            removed: Vec::new(),
            reasons: Vec::new(),
            broken: Vec::new(),
            values: Vec::new(),
            templates: Vec::new(),
            files: Vec::new(),
            sites: SitesTouched::default(),
        };
        (format!("type-{at:04}"), change)
    };
    let difference = Difference {
        environment: "dev".into(),
        before: version("before"),
        after: version("after"),
        cluster_types: (0..2_000).map(change).collect(),
        unchanged_cluster_types: 0,
        counts: Counts::default(),
    };
    let text = body_of(400, &plan, &Ok(difference));
    assert!(text.len() < 65_536, "{}", text.len());
    assert!(text.contains("sections were left out**"), "{text}");
    // What was rendered from what is reported all the same.
    assert!(text.contains("- `main`: `bbbb"), "{text}");
    assert!(text.contains("- and 352 more, all of them in"), "{text}");
}
