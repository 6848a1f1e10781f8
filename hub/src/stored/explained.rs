//! Explanations on both stores: which are kept, which is shown, and what the pages make of what anybody may have written.

mod pairs;

use std::collections::BTreeMap;

use outhaul_bundle::Index;
use outhaul_bundle::hub_api::{
    AssignmentExplanation, EXPLANATION_FORMAT, Entities, Entity, LayerAt, LayerRole,
    PlatformExplanation, SetValue,
};
use outhaul_bundle::index::Snapshot;
use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, NEW, OLD};

use super::bundles::{bundle, look};
use super::{store_with, take};
use crate::explanations;
use crate::pages::{self, Shown};
use crate::retention::Rule;
use crate::store::{Sender, Store};
use crate::view::explained::{
    self, EntityView, ExplainAsked, ExplainView, KindView, PlatformAsked, PlatformList,
    PlatformView, platform_answer,
};

const NOW: i64 = 1_000_000_000;
const CENTRE: Sender<'static> = Sender {
    name: "centre",
    is_admin: false,
};
const TARGET: &str = "camera-functional";

fn entity(name: &str, facts: &[(&str, &str)]) -> Entity {
    let facts = facts.iter();
    Entity {
        name: name.to_owned(),
        at: "plane/a.yaml:3".to_owned(),
        labels: BTreeMap::from([("hall".to_owned(), "a".to_owned())]),
        facts: facts
            .map(|(fact, text)| ((*fact).to_owned(), (*text).to_owned()))
            .collect(),
    }
}

/// What a bundle was rendered from: one assignment of `drone`, whose one value is `value`.
fn document(index: &Index, value: &str) -> PlatformExplanation {
    let layer = |role, container: &str, text: &str| LayerAt {
        role,
        container: container.to_owned(),
        at: format!("plane/{container}.yaml:8"),
        text: text.to_owned(),
    };
    let snapshot = &index.snapshot;
    PlatformExplanation {
        format: EXPLANATION_FORMAT,
        environment: "dev".to_owned(),
        snapshot: Snapshot::of(
            snapshot.environment.clone(),
            snapshot.base.clone(),
            snapshot.workloads.clone(),
        ),
        entities: Entities {
            cluster_types: vec![entity("drone", &[("reconciler template", "files")])],
            policies: vec![entity("functional-test", &[])],
            configs: vec![entity("common", &[]), entity("west", &[])],
            templates: vec![entity("files", &[])],
            workloads: vec![entity("camera", &[("workspace", "vision")])],
            targets: vec![entity(
                TARGET,
                &[("registration", "camera"), ("workload", "camera")],
            )],
            ..Entities::default()
        },
        assignments: vec![AssignmentExplanation {
            cluster_type: "drone".to_owned(),
            target: TARGET.to_owned(),
            policies: vec!["functional-test".to_owned()],
            config_version: Some(index.assignments[0].config_version.to_string()),
            config: Some(0),
            ..AssignmentExplanation::default()
        }],
        not_assigned: Vec::new(),
        not_assigned_left_out: 0,
        configs: vec![vec![SetValue {
            key: "WIDTH".to_owned(),
            value: Some(value.into()),
            layers: vec![
                layer(LayerRole::Decides, "west", value),
                layer(LayerRole::Overridden, "common", "62"),
            ],
        }]],
    }
}

/// Puts one on record; whether it is new, how many others of the snapshot there are, and how many were removed.
fn put(store: &mut Store, document: &PlatformExplanation, now_ms: i64) -> (bool, u64, u64) {
    let packed = explained::packed(document).unwrap().unwrap();
    let done = store.write(|session| explanations::put(&packed, session, CENTRE, now_ms));
    let done = done.unwrap().unwrap();
    (done.new, done.others, done.removed)
}

fn asked<'a>(site: &'a str, digest: &'a str) -> ExplainAsked<'a> {
    ExplainAsked {
        environment: "dev",
        cluster_type: "drone",
        target: TARGET,
        site,
        digest,
    }
}

fn explained(store: &mut Store, asked: &ExplainAsked<'_>) -> ExplainView {
    let view = store.read(|session| ExplainView::of(session, asked, NOW));
    view.unwrap().unwrap()
}

/// The value that is shown.
fn width(view: &ExplainView) -> Option<&str> {
    let shown = view.shown.as_ref()?;
    Some(shown.values[0].value.as_str())
}

/// A store with one bundle that nobody runs.
fn one_bundle() -> (Store, Index) {
    let mut store = store_with(&[]);
    let index = bundle(&mut store, ("dev", 1, OLD), &[("a", "a")], |_| {}, true);
    (store, index)
}

#[test]
fn the_content_that_came_last_is_shown_and_the_others_stay_on_record() {
    let (mut store, index) = one_bundle();
    let (first, second) = (document(&index, "62"), document(&index, "100"));
    assert_eq!(put(&mut store, &first, NOW), (true, 0, 0));
    assert_eq!(put(&mut store, &second, NOW + 1), (true, 1, 0));
    let view = explained(&mut store, &asked("", ""));
    assert_eq!(width(&view), Some("100"));
    let others = &view.shown.as_ref().unwrap().others;
    assert_eq!(others.len(), 1);
    // The other one can be chosen, and comes first again when it is sent again, also where the clock was put back.
    let chosen = explained(&mut store, &asked("", &others[0].digest));
    assert_eq!(width(&chosen), Some("62"));
    assert_eq!(put(&mut store, &first, NOW - 5), (false, 1, 0));
    assert_eq!(width(&explained(&mut store, &asked("", ""))), Some("62"));
}

#[test]
fn of_one_snapshot_three_contents_are_kept() {
    let (mut store, index) = one_bundle();
    let mut last = (true, 0, 0);
    for (at, value) in (0..).zip(["1", "2", "3", "4"]) {
        last = put(&mut store, &document(&index, value), NOW + at);
    }
    assert_eq!(last, (true, 2, 1));
    let rows = store
        .read(|session| session.explanations("dev", 10))
        .unwrap();
    assert_eq!(rows.len(), 3);
    let digest = |value: &str| {
        let packed = explained::packed(&document(&index, value))
            .unwrap()
            .unwrap();
        packed.digest().to_owned()
    };
    assert!(rows.iter().all(|row| row.digest != digest("1")));
    assert_eq!(rows[0].digest, digest("4"));
}

#[test]
fn an_environment_keeps_fifty_and_what_its_bundles_need() {
    let (mut store, index) = one_bundle();
    put(&mut store, &document(&index, "needed"), NOW);
    let mut other = document(&index, "other");
    for at in 0..55 {
        other.snapshot.base.commit = format!("{at:040}");
        other.snapshot.digest = other.snapshot.computed_digest();
        put(&mut store, &other, NOW + 1 + at);
    }
    let rows = store
        .read(|session| session.explanations("dev", 500))
        .unwrap();
    assert_eq!(rows.len(), 51);
    assert_eq!(
        width(&explained(&mut store, &asked("", ""))),
        Some("needed")
    );
}

#[test]
fn old_ones_that_no_bundle_needs_are_removed_with_old_reports_and_that_is_on_record() {
    let (mut store, index) = one_bundle();
    put(&mut store, &document(&index, "needed"), NOW);
    let mut other = document(&index, "other");
    other.snapshot.base.commit = "f".repeat(40);
    other.snapshot.digest = other.snapshot.computed_digest();
    put(&mut store, &other, NOW);
    let entry = Rule::by_hand(7, "ann").entry("explanations", NOW + 9);
    let remove = |store: &mut Store, before_ms, is_trial| {
        explanations::remove_old(store, before_ms, &entry, is_trial).unwrap()
    };
    assert_eq!(remove(&mut store, NOW, false), 0);
    assert_eq!(remove(&mut store, NOW + 9, true), 1);
    assert_eq!(remove(&mut store, NOW + 9, false), 1);
    assert_eq!(remove(&mut store, NOW + 9, false), 0);
    let rows = store
        .read(|session| session.explanations("dev", 10))
        .unwrap();
    assert_eq!(rows.len(), 1);
    let log = store
        .read(|session| session.access_log(i64::MAX, 10))
        .unwrap();
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].detail, "explanations older than 7 days");
}

#[test]
fn a_site_is_shown_the_explanation_of_what_it_runs_and_the_config_is_compared_with_the_signed_index()
 {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let runs = bundle(&mut store, ("dev", 1, OLD), &[("a", "a")], |_| {}, true);
    // A bundle has the sources of its payloads besides.
    let desired = bundle(
        &mut store,
        ("dev", 2, NEW),
        &[("a", "b")],
        |index| {
            let mut payload = index.snapshot.base.clone();
            payload.name = "manifests:camera".to_owned();
            index.snapshot.workloads.push(payload);
        },
        true,
    );
    let report = look(&mut site, &runs, G::Active, C::Compliant);
    take(&mut store, &[report], NOW);

    let none = explained(&mut store, &asked("a", ""));
    assert!(none.shown.is_none());
    let of_bundles: Vec<_> = none
        .bundles
        .iter()
        .map(|one| {
            (
                one.number,
                one.is_desired,
                one.running,
                one.explanation.is_some(),
            )
        })
        .collect();
    assert_eq!(of_bundles, [(1, false, 1, false), (2, true, 0, false)]);
    let html = pages::explain(&none, &Shown::default()).unwrap();
    assert!(html.contains("--whole --send"), "{html}");

    let mut rendered = document(&desired, "desired");
    rendered.snapshot = Snapshot::of(
        desired.snapshot.environment.clone(),
        desired.snapshot.base.clone(),
        runs.snapshot.workloads.clone(),
    );
    put(&mut store, &rendered, NOW);
    let view = explained(&mut store, &asked("a", ""));
    let shown = view.shown.as_ref().unwrap();
    assert_eq!((width(&view), &shown.bundles), (Some("desired"), &vec![2]));
    assert_eq!(
        (&shown.same_config, &shown.other_config),
        (&vec![2], &vec![])
    );

    let html = pages::explain(&view, &Shown::default()).unwrap();
    assert!(
        html.contains("its values are not compared with anything that was signed"),
        "{html}"
    );
    assert!(!html.contains("same config<"), "{html}");

    let mut forged = document(&runs, "runs");
    forged.assignments[0].config_version = Some(desired.assignments[0].config_version.to_string());
    put(&mut store, &forged, NOW);
    let view = explained(&mut store, &asked("a", ""));
    let shown = view.shown.as_ref().unwrap();
    assert_eq!((width(&view), &shown.bundles), (Some("runs"), &vec![1]));
    assert_eq!(
        (&shown.same_config, &shown.other_config),
        (&vec![], &vec![1])
    );
    let html = pages::explain(&view, &Shown::default()).unwrap();
    for text in [
        "another config version than the signed index",
        "not signed by the fleet",
        "plane&#x2f;west.yaml:8",
        "<code>62</code>",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    // The stream as a whole has both, and begins with what a site runs.
    let stream = explained(&mut store, &asked("", ""));
    assert_eq!(stream.bundles.len(), 2);
    assert_eq!(width(&stream), Some("runs"));
}

#[test]
fn what_somebody_wrote_into_an_explanation_is_shown_and_never_acts() {
    const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\"'&";
    let (mut store, index) = one_bundle();
    let mut bad = document(&index, HOSTILE);
    for list in [
        &mut bad.entities.cluster_types,
        &mut bad.entities.policies,
        &mut bad.entities.configs,
        &mut bad.entities.workloads,
    ] {
        let mut one = entity(HOSTILE, &[(HOSTILE, HOSTILE)]);
        one.at = HOSTILE.to_owned();
        one.labels.insert(HOSTILE.to_owned(), HOSTILE.to_owned());
        list.push(one);
    }
    bad.assignments[0].policies.push(HOSTILE.to_owned());
    bad.assignments[0].problems.push(HOSTILE.to_owned());
    bad.configs[0][0].layers[0].container = HOSTILE.to_owned();
    bad.configs[0][0].layers[0].at = HOSTILE.to_owned();
    put(&mut store, &bad, NOW);
    let shown = Shown::default();
    let question = PlatformAsked {
        environment: "dev",
        digest: "",
        after: "",
    };
    let view = explained(&mut store, &asked("", ""));
    let html = store
        .read(|session| {
            let list = PlatformList::of(session, NOW)?;
            let platform = PlatformView::of(session, &question, NOW)?.unwrap();
            let kind = KindView::of(session, &question, "config", NOW)?.unwrap();
            let named = ("config", HOSTILE);
            let entity = EntityView::of(session, &question, named, 0, NOW)?.unwrap();
            Ok::<_, crate::error::HubError>([
                pages::explain(&view, &shown)?,
                pages::platforms(&list, &shown)?,
                pages::platform(&platform, &shown)?,
                pages::platform_kind(&kind, &shown)?,
                pages::platform_entity(&entity.unwrap(), &shown)?,
            ])
        })
        .unwrap();
    for page in html {
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains('\u{202e}'), "{page}");
    }
}

#[test]
fn ten_thousand_assignments_are_kept_small_and_shown_in_parts() {
    let (mut store, index) = one_bundle();
    let mut large = document(&index, "62");
    let one = large.assignments.pop().unwrap();
    let values: Vec<SetValue> = (0..20)
        .map(|at| SetValue {
            key: format!("KEY_{at}"),
            ..large.configs[0][0].clone()
        })
        .collect();
    large.configs.clear();
    large.entities.cluster_types = (0..100)
        .map(|at| entity(&format!("type-{at:03}"), &[]))
        .collect();
    large.entities.targets = (0..100)
        .map(|at| entity(&format!("camera-{at:03}"), &[("registration", "camera")]))
        .collect();
    for cluster_type in &large.entities.cluster_types {
        large.configs.push(values.clone());
        for target in &large.entities.targets {
            large.assignments.push(AssignmentExplanation {
                cluster_type: cluster_type.name.clone(),
                target: target.name.clone(),
                config: Some(large.configs.len() - 1),
                ..one.clone()
            });
        }
    }
    put(&mut store, &large, NOW);
    let question = PlatformAsked {
        environment: "dev",
        digest: "",
        after: "",
    };
    let (row, platform, policy, answer) = store
        .read(|session| {
            let named = ("policy", "functional-test");
            let policy = EntityView::of(session, &question, named, 9_900, NOW)?.unwrap();
            Ok::<_, crate::store::StoreError>((
                session.explanations("dev", 1)?.remove(0),
                PlatformView::of(session, &question, NOW)?.unwrap(),
                policy.unwrap(),
                platform_answer(session, &question, (9_990, 100))?.unwrap(),
            ))
        })
        .unwrap();
    assert!(
        row.bytes < 8_000_000 && row.kept_bytes < row.bytes / 8,
        "{row:?}"
    );
    assert_eq!(platform.next.as_deref(), Some("camera-049"));
    assert_eq!(platform.workloads[0].targets[0].more, 80);
    assert_eq!(
        (policy.uses.len(), policy.next, policy.entity.used),
        (100, None, 10_000)
    );
    assert_eq!(
        (answer.assignments.len(), answer.assignments_total),
        (10, 10_000)
    );
    // The entities came with the first part.
    assert!(answer.entities.cluster_types.is_empty());
    let html = pages::platform(&platform, &Shown::default()).unwrap();
    assert!(html.len() < 600_000, "{}", html.len());
    let pair = ExplainAsked {
        cluster_type: "type-099",
        target: "camera-099",
        ..asked("", "")
    };
    assert_eq!(width(&explained(&mut store, &pair)), Some("62"));
}
