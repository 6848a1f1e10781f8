//! Clusters that follow the platform repository by themselves, at the same gate as sites that take bundles.

use super::*;

/// A site of which the cluster shows base `commit` in `state`, with everything that bundle 2 wants.
fn follows(name: &str, commit: &str, state: &str) -> SiteState {
    edit(well(name, 2), |_, running| {
        running.bundle = 0;
        running.index = String::new();
        running.base_commit = commit.to_owned();
        running.state = state.to_owned();
        for assignment in running.assignments.values_mut() {
            assignment.config_version = String::new();
        }
    })
}

#[test]
fn a_commit_stands_for_the_first_bundle_of_it_beside_sites_that_take_bundles() {
    let world = World::new().with([well("a", 3), follows("b", NEW, "active")]);
    let decision = world.open();
    assert_eq!(decision.confirmed, 2);
    let evidence = decision.evidence.iter().find(|one| one.site == "b");
    assert_eq!(evidence.unwrap().bundle, 2);
}

#[test]
fn the_environment_of_a_cluster_that_follows_is_the_one_that_its_report_states() {
    let states = |commit: Option<&str>| {
        edit(follows("b", NEW, "active"), |_, running| {
            running.environment_commit = commit.map(str::to_owned);
        })
    };
    for commit in [Some("env-of-its-record"), None] {
        let decision = World::new().with([states(commit)]).open();
        let one = &decision.evidence[0];
        assert_eq!(one.environment_commit.as_deref(), commit);
        // Bundle 2 is only the one of the same base commit: nothing of it ran.
        assert_eq!((one.bundle, one.passed.len()), (2, 0));
    }
}

#[test]
fn an_older_commit_an_unknown_one_and_none_confirm_nothing() {
    World::new()
        .with([follows("b", OLD, "active")])
        .closed("behind");
    let unknown = "f".repeat(40);
    for commit in [unknown.as_str(), ""] {
        let site = follows("b", commit, "active");
        let decision = World::new().with([site]).closed("not-desired");
        assert!(
            decision.reasons[0].contains("this hub knows no bundle"),
            "{decision:?}"
        );
    }
    // What a thief's key signed counts for nothing.
    let mut world = World::new().with([follows("b", NEW, "active")]);
    for bundle in world.bundles.iter_mut().filter(|one| one.number > 1) {
        bundle.taken_back = true;
    }
    assert_eq!(world.ask(NEW, 100).verdict, Closed);
}

#[test]
fn nothing_but_synced_and_complete_confirms() {
    for state in [
        "absent",
        "suspended",
        "stale",
        "other_revision",
        "in_progress",
        "unreachable",
        "failed",
    ] {
        for commit in [NEW, ""] {
            let decision = World::new()
                .with([follows("b", commit, state)])
                .ask(NEW, 100);
            assert_eq!(decision.verdict, Closed, "{state} {commit}");
            let reported = decision.reasons.join(" ");
            assert!(reported.contains(state), "{reported}");
        }
    }
    let lacks = edit(follows("b", NEW, "active"), |_, running| {
        running.assignments.clear();
    });
    World::new().with([lacks]).closed("unconfirmed");
    let fails = edit(follows("b", NEW, "active"), |_, running| {
        for assignment in running.assignments.values_mut() {
            assignment.status = "failed".to_owned();
        }
    });
    World::new().with([fails]).closed("failed");
    // Also where no bundle of what the cluster shows is known, and whatever else is not.
    for state in ["active", "in_progress", "unreachable", "absent"] {
        for (status, standing) in [("failed", "failed"), ("drifted", "drifted")] {
            let fails = edit(follows("b", "", state), |_, running| {
                for assignment in running.assignments.values_mut() {
                    assignment.status = status.to_owned();
                }
            });
            World::new().with([fails]).closed(standing);
        }
    }
}
