//! What a document may not have copied, and what is kept of one that may.

use outhaul_bundle::hub_api::{EXPLANATION_FORMAT, Entity, LayerAt, LayerRole};
use outhaul_bundle::index::{Snapshot, Source};

use super::*;

/// One config for so many cluster types, with a value and a container of so many bytes.
fn shared(cluster_types: usize, value: usize, container: usize) -> PlatformExplanation {
    let source = |name: &str| Source {
        name: name.to_owned(),
        repo: String::new(),
        commit: "a".repeat(40),
    };
    let entity = |name: String| Entity {
        name,
        ..Entity::default()
    };
    let names: Vec<String> = (0..cluster_types).map(|at| format!("type-{at}")).collect();
    let assignments = names.iter().map(|name| AssignmentExplanation {
        cluster_type: name.clone(),
        target: "press".to_owned(),
        config: Some(0),
        ..AssignmentExplanation::default()
    });
    PlatformExplanation {
        format: EXPLANATION_FORMAT,
        environment: "dev".to_owned(),
        snapshot: Snapshot::of(source("dev"), source("main"), Vec::new()),
        assignments: assignments.collect(),
        entities: Entities {
            cluster_types: names.into_iter().map(entity).collect(),
            targets: vec![entity("press".to_owned())],
            ..Entities::default()
        },
        not_assigned: Vec::new(),
        not_assigned_left_out: 0,
        configs: vec![vec![SetValue {
            key: "A".to_owned(),
            value: Some("x".repeat(value).into()),
            layers: vec![LayerAt {
                role: LayerRole::Decides,
                container: "c".repeat(container),
                at: String::new(),
                text: String::new(),
            }],
        }]],
    }
}

fn rule(document: &PlatformExplanation) -> Option<&'static str> {
    let packed = packed(document).unwrap();
    packed.err().map(|error| error.rule())
}

#[test]
fn a_large_config_of_many_cluster_types_is_refused_before_it_is_copied() {
    // A document of 2 MiB, of which the copies would have 2 GiB.
    assert_eq!(rule(&shared(1_000, 2 << 20, 1)), Some("too-large"));
    assert_eq!(rule(&shared(10, 2 << 20, 1)), None);
}

#[test]
fn containers_that_are_named_for_each_assignment_are_counted() {
    let mut many = shared(1, 1, 500);
    let layer = many.configs[0][0].layers[0].clone();
    for at in 0..1_000 {
        let container = format!("{at:0500}");
        let layer = LayerAt {
            container,
            ..layer.clone()
        };
        many.configs[0][0].layers.push(layer);
    }
    let one = many.assignments[0].clone();
    many.assignments = (0..400)
        .map(|at| AssignmentExplanation {
            target: format!("press-{at}"),
            ..one.clone()
        })
        .collect();
    assert_eq!(rule(&many), Some("too-large"));
    many.assignments.truncate(100);
    assert_eq!(rule(&many), None);
}
