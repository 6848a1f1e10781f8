//! Overlays: who gets one, what is in it, and that sharing and order change nothing.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::tests::{self, config, load, plane, site};
use super::super::{Composition, Mode, compose, compose_for_site};
use crate::schedule::{SchedulerAnswers, schedule};
use outhaul_control::ControlPlane;

fn composition(plane: &ControlPlane) -> Composition {
    compose(
        plane,
        &schedule(plane, &SchedulerAnswers::default()),
        Mode::default(),
    )
}

/// Who has which overlay: sites and the value of `LEVEL`.
fn overlays(plane: &ControlPlane) -> Vec<(Vec<String>, String)> {
    let made = composition(plane);
    assert!(made.failures.is_empty(), "{:?}", made.failures);
    let printed = |overlay: &super::super::Overlay| {
        let level = overlay
            .composed
            .values
            .as_map()
            .unwrap()
            .get("LEVEL")
            .unwrap();
        let sites = overlay.sites.iter().cloned().collect();
        (sites, level.as_str().unwrap().to_owned())
    };
    made.overlays.values().flatten().map(printed).collect()
}

fn printed(sites: &[&str], level: &str) -> (Vec<String>, String) {
    (
        sites.iter().map(ToString::to_string).collect(),
        level.to_owned(),
    )
}

#[test]
fn sites_get_what_their_name_their_ring_and_their_labels_ask_for() {
    let text = config("a", "region: west", "LEVEL: info")
        + &config("b", "site: press-1", "LEVEL: one")
        + &config("c", "ring: first, region: west", "LEVEL: first")
        + &config("d", "hall: north", "LEVEL: north")
        + &site("press-1", "", "")
        + &site("press-2", "ring: first", "")
        + &site("press-3", "", "hall: north")
        + &site("press-4", "", "hall: north, colour: blue")
        + &site("press-5", "ring: second", "hall: south");
    assert_eq!(
        overlays(&plane(&text)),
        [
            printed(&["press-1"], "one"),
            printed(&["press-2"], "first"),
            printed(&["press-3", "press-4"], "north"),
        ]
    );
}

#[test]
fn a_site_of_another_cluster_type_or_a_value_that_is_the_same_gives_no_overlay() {
    let text = config("a", "region: west", "LEVEL: info")
        + &config("b", "hall: north", "LEVEL: info")
        + &config("c", "site: elsewhere", "LEVEL: other")
        + &site("press-1", "", "hall: north")
        + &site("elsewhere", "", "").replace("clusterType: press", "clusterType: robot");
    assert!(overlays(&plane(&text)).is_empty());
}

#[test]
fn precedence_is_that_of_all_containers_and_not_that_of_sites() {
    let by_name = config("a", "site: press-1", "LEVEL: site")
        + &config("z", "region: west", "LEVEL: region")
        + &site("press-1", "", "");
    assert!(overlays(&plane(&by_name)).is_empty());
    let policy = "---\napiVersion: outhaul.dev/v1alpha1\nkind: CompositionPolicy\nmetadata: {name: house}\n\
                  spec: {precedence: specificity}\n";
    let specific = by_name.replace("site: press-1", "site: press-1, region: west") + policy;
    assert_eq!(overlays(&plane(&specific)), [printed(&["press-1"], "site")]);
}

#[test]
fn labels_of_the_pair_are_never_looked_up_in_a_site() {
    let text = config("a", "region: west", "LEVEL: info")
        + &config("b", "workload: paint, hall: north", "LEVEL: other")
        + &site("press-1", "", "hall: north, workload: paint");
    assert!(overlays(&plane(&text)).is_empty());
}

#[test]
fn what_is_wrong_with_a_site_is_reported_with_its_name() {
    let schema = "---\napiVersion: scheduler.kalypso.io/v1alpha1\nkind: ConfigSchema\n\
                  metadata: {name: level, labels: {region: west}}\nspec:\n  schema: |\n    \
                  {\"properties\": {\"LEVEL\": {\"enum\": [\"info\", \"debug\"]}}}\n";
    let text = config("a", "region: west", "LEVEL: info")
        + &config("b", "hall: north", "LEVEL: loud")
        + &site("press-1", "", "hall: north")
        + &site("press-2", "", "hall: north")
        + &site("press-3", "", "hall: north, colour: blue")
        + &config("c", "colour: blue", "COLOUR: blue")
        + schema;
    let plane = load(&text).unwrap();
    let made = composition(&plane);
    assert!(made.assignments.is_empty());
    let failures: Vec<String> = made.failures.values().map(tests::printed).collect();
    insta::assert_snapshot!(failures.join("\n"));
}

/// Containers with labels from a small world, and sites that live in it.
fn world() -> impl Strategy<Value = Vec<String>> {
    let labels =
        proptest::collection::btree_map("region|hall|line|site|ring", "west|north|s[0-3]", 0..3);
    let container = (labels.clone(), "[A-C]", "[x-z]").prop_map(|(labels, key, value)| {
        let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        (labels.join(", "), format!("{key}: {value}"))
    });
    let sites = (proptest::option::of("north|west"), labels);
    (
        proptest::collection::vec(container, 0..8),
        proptest::collection::vec(sites, 1..5),
    )
        .prop_map(|(containers, sites)| {
            let containers = containers
                .iter()
                .enumerate()
                .map(|(at, (labels, data))| config(&format!("c{at}"), labels, data));
            let sites = sites.iter().enumerate().map(|(at, (ring, labels))| {
                let ring = ring
                    .as_ref()
                    .map_or(String::new(), |ring| format!("ring: {ring}"));
                let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}: {v}")).collect();
                site(&format!("s{at}"), &ring, &labels.join(", "))
            });
            containers.chain(sites).collect()
        })
}

proptest! {
    #[test]
    fn an_overlay_is_what_the_site_would_compose_alone(documents in world()) {
        let plane = plane(&documents.concat());
        let made = composition(&plane);
        for (id, base) in &made.assignments {
            let overlays = made.overlays.get(id).map_or(&[][..], Vec::as_slice);
            let mut seen = BTreeSet::new();
            for site in overlays.iter().flat_map(|overlay| &overlay.sites) {
                prop_assert!(seen.insert(site));
            }
            for site in plane.sites.values() {
                let alone = compose_for_site(
                    &plane,
                    &plane.cluster_types[&id.cluster_type],
                    &plane.targets[&id.target],
                    site,
                    Mode::default(),
                )
                .unwrap();
                let shared = overlays
                    .iter()
                    .find(|overlay| overlay.sites.contains(&site.name))
                    .map_or(base, |overlay| &overlay.composed);
                prop_assert_eq!(&alone.version, &shared.version, "{}", site.name);
            }
        }
    }

    #[test]
    fn the_order_of_documents_changes_nothing(documents in world(), turn in 0..8_usize) {
        let all = |documents: &[String]| overlays_by_version(&plane(&documents.concat()));
        let mut turned = documents.clone();
        turned.rotate_left(turn % documents.len());
        prop_assert_eq!(all(&documents), all(&turned));
    }
}

fn overlays_by_version(plane: &ControlPlane) -> Vec<(Vec<String>, String)> {
    composition(plane)
        .overlays
        .values()
        .flatten()
        .map(|o| {
            (
                o.sites.iter().cloned().collect(),
                o.composed.version.to_string(),
            )
        })
        .collect()
}
