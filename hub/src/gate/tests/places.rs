//! What the evidence of a decision names: reports, and commits of the environment.

use super::*;

#[test]
fn evidence_names_the_environment_of_what_runs_and_of_the_bundles_with_the_commit_before_it() {
    let of = |decision: &Decision, name: &str| {
        let one = decision.evidence.iter().find(|one| one.site == name);
        let one = one.unwrap();
        assert!(one.base_commit.is_some());
        (one.environment_commit.clone(), one.passed.clone())
    };
    // Of the bundle that was verified, whatever the report states.
    let lies = edit(well("b", 3), |_, running| {
        running.environment_commit = Some("another".to_owned());
    });
    let decision = World::new().with([well("a", 2), lies]).open();
    assert_eq!(of(&decision, "a"), (Some("env-of-2".to_owned()), vec![]));
    assert_eq!(of(&decision, "b"), (Some("env-of-3".to_owned()), vec![]));
    // A later base commit: that of what runs, and those that it had of the one asked about.
    let mut world = World::new().with([well("a", 4), well("b", 5)]);
    world.bundles.push(bundle(4, &"e".repeat(40)));
    world.bundles.push(bundle(5, &"e".repeat(40)));
    world.bundles.push(bundle(6, NEW));
    let decision = world.ask(NEW, 100);
    let before = vec!["env-of-3".to_owned(), "env-of-2".to_owned()];
    assert_eq!(of(&decision, "a"), (Some("env-of-4".to_owned()), before));
    // No signed bundle, no environment.
    world.bundles[4].index = digest(99);
    assert_eq!(of(&world.ask(NEW, 100), "b").0, None);
}

#[test]
fn opens_when_every_site_confirms_and_keeps_the_evidence() {
    let decision = World::new().with([well("a", 2), well("b", 3)]).open();
    assert_eq!((decision.counted, decision.confirmed), (2, 2));
    let evidence: Vec<_> = decision
        .evidence
        .iter()
        .map(|e| (&*e.site, e.report, &*e.digest))
        .collect();
    assert_eq!(evidence, [("a", 7, "sha256:a"), ("b", 7, "sha256:b")]);
}
