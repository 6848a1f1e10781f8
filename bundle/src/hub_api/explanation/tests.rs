//! What is read of an explanation, and one test for each reason to refuse it.

use super::*;
use crate::index::Source;

fn source(name: &str) -> Source {
    Source {
        name: name.into(),
        repo: "https://git.example/plane".into(),
        commit: "a".repeat(40),
    }
}

fn entity(name: &str) -> Entity {
    Entity {
        name: name.into(),
        at: "a.yaml:1".into(),
        ..Entity::default()
    }
}

/// What a policy says that puts a pair there.
fn chooses(policy: &str) -> PolicyVerdict {
    let text = serde_json::json!({"policy": policy, "at": "a.yaml:1", "targets": "", "cluster_types": "", "matches": [], "misses": []});
    serde_json::from_value(text).unwrap()
}

fn document() -> PlatformExplanation {
    PlatformExplanation {
        format: EXPLANATION_FORMAT,
        environment: "dev".into(),
        snapshot: Snapshot::of(source("dev"), source("main"), vec![source("press")]),
        entities: Entities {
            cluster_types: vec![entity("bench")],
            policies: vec![entity("all"), entity("other")],
            targets: vec![entity("press-dev"), entity("lamp-dev")],
            ..Entities::default()
        },
        assignments: vec![AssignmentExplanation {
            cluster_type: "bench".into(),
            target: "press-dev".into(),
            policies: vec!["all".into()],
            verdicts: vec![chooses("all")],
            config: Some(0),
            ..AssignmentExplanation::default()
        }],
        not_assigned: vec![PairVerdict {
            cluster_type: "bench".into(),
            target: "lamp-dev".into(),
            nearest: None,
        }],
        not_assigned_left_out: 0,
        configs: vec![Vec::new()],
    }
}

fn read(document: &PlatformExplanation) -> Result<PlatformExplanation, ExplanationError> {
    PlatformExplanation::read(&serde_json::to_vec(document).unwrap())
}

/// The rule that refuses it.
fn rule(bend: impl FnOnce(&mut PlatformExplanation)) -> &'static str {
    let mut bent = document();
    bend(&mut bent);
    read(&bent).unwrap_err().rule()
}

#[test]
fn a_document_comes_back_alone_and_in_its_envelope() {
    let document = document();
    assert_eq!(read(&document).unwrap(), document);
    let envelope =
        serde_json::json!({"command": "outhaul explain", "ok": true, "result": document});
    let bytes = serde_json::to_vec_pretty(&envelope).unwrap();
    assert_eq!(PlatformExplanation::read(&bytes).unwrap(), document);
}

#[test]
fn what_is_too_large_is_refused_before_it_is_parsed() {
    let bytes = vec![b' '; MAX_EXPLANATION_FILE_BYTES + 1];
    assert_eq!(
        PlatformExplanation::read(&bytes).unwrap_err().rule(),
        "too-large"
    );
}

#[test]
fn other_json_and_other_bytes_are_refused() {
    for bytes in [&b"{}"[..], b"", b"[1]", b"{\"result\": null}", b"\xff"] {
        let refused = PlatformExplanation::read(bytes).unwrap_err();
        assert_eq!(refused.rule(), "malformed", "{bytes:?}");
    }
}

#[test]
fn a_format_of_another_release_is_named() {
    assert_eq!(rule(|bent| bent.format = 2), "format");
}

#[test]
fn a_commit_that_was_changed_without_the_digest_is_refused() {
    assert_eq!(
        rule(|bent| bent.snapshot.base.commit = "b".repeat(40)),
        "snapshot"
    );
}

#[test]
fn an_assignment_of_something_that_is_not_in_it_is_refused() {
    let twice = rule(|bent| bent.not_assigned[0].target = "press-dev".into());
    let nowhere = rule(|bent| bent.assignments[0].cluster_type = "yard".into());
    assert_eq!([twice, nowhere], ["contradiction"; 2]);
}

#[test]
fn a_config_that_is_not_there_is_refused() {
    assert_eq!(rule(|bent| bent.configs.clear()), "contradiction");
    let overlay = OverlayExplanation {
        sites: BTreeSet::from(["bench-1".to_owned()]),
        config_version: String::new(),
        config: 1,
    };
    assert_eq!(
        rule(|bent| bent.assignments[0].overlays.push(overlay)),
        "contradiction"
    );
}

#[test]
fn names_that_are_empty_too_long_or_there_twice_are_refused() {
    assert_eq!(rule(|bent| bent.environment.clear()), "contradiction");
    let long = "x".repeat(MAX_EXPLANATION_NAME_BYTES + 1);
    assert_eq!(
        rule(|bent| bent.entities.policies.push(entity(&long))),
        "contradiction"
    );
    assert_eq!(
        rule(|bent| bent.entities.targets.push(entity("lamp-dev"))),
        "contradiction"
    );
}

/// The rule that refuses a document with this snapshot, whose digest is right.
fn of_snapshot(bend: impl FnOnce(&mut Snapshot)) -> &'static str {
    rule(|bent| {
        bend(&mut bent.snapshot);
        bent.snapshot.digest = bent.snapshot.computed_digest();
    })
}

#[test]
fn the_same_sources_in_another_order_or_twice_are_refused() {
    let two = |first: &str, then: &str| {
        let workloads = vec![source(first), source(then)];
        of_snapshot(|snapshot| snapshot.workloads = workloads)
    };
    assert_eq!(
        [two("press", "lamp"), two("lamp", "lamp")],
        ["contradiction"; 2]
    );
    let mut sorted = document();
    sorted.snapshot = Snapshot::of(
        source("dev"),
        source("main"),
        vec![source("press"), source("lamp")],
    );
    read(&sorted).unwrap();
}

#[test]
fn more_sources_than_a_control_plane_registers_are_refused() {
    let many = |count: usize| -> Vec<Source> {
        (0..count).map(|at| source(&format!("{at:05}"))).collect()
    };
    assert_eq!(
        of_snapshot(|one| one.workloads = many(10_001)),
        "contradiction"
    );
    let mut most = document();
    most.snapshot = Snapshot::of(source("dev"), source("main"), many(10_000));
    read(&most).unwrap();
}

#[test]
fn names_and_commits_that_a_database_does_not_index_are_refused() {
    for text in [
        "x".repeat(MAX_EXPLANATION_NAME_BYTES + 1),
        "a\0b".to_owned(),
    ] {
        let rules = [
            of_snapshot(|one| one.base.commit.clone_from(&text)),
            of_snapshot(|one| one.environment.name.clone_from(&text)),
            of_snapshot(|one| one.workloads[0].commit.clone_from(&text)),
            rule(|one| one.environment.clone_from(&text)),
            rule(|one| one.entities.cluster_types.push(entity(&text))),
            rule(|one| one.assignments[0].policies.push(text.clone())),
        ];
        assert_eq!(rules, ["contradiction"; 6], "{}", text.len());
    }
}

#[test]
fn another_environment_than_that_of_the_snapshot_is_refused() {
    assert_eq!(
        rule(|bent| bent.environment = "ghost".into()),
        "contradiction"
    );
}

#[test]
fn policies_that_are_not_there_or_that_no_verdict_chooses_are_refused() {
    let rules = [
        rule(|bent| {
            bent.entities.policies.remove(0);
        }),
        rule(|bent| bent.assignments[0].policies.push("other".into())),
        rule(|bent| bent.assignments[0].policies.clear()),
        rule(|bent| bent.assignments[0].verdicts.push(chooses("other"))),
    ];
    assert_eq!(rules, ["contradiction"; 4]);
}
