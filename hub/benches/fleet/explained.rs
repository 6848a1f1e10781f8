//! What explanations cost with as many on record as a hub keeps of an environment, beside 100,000 sites.
//!
//! What comes in: the store of the pages (`pages.rs`). What goes out: how long it takes to keep one more where the oldest gives way, to
//! list them, and to find the one of a bundle. The pages that show one are measured with the others.

use outhaul_bundle::hub_api::{
    AssignmentExplanation, EXPLANATION_FORMAT, Entities, Entity, PlatformExplanation, SetValue,
};
use outhaul_bundle::index::{Snapshot, Source};
use outhaul_hub::Store;
use outhaul_hub::store::{PackedExplanation, PutExplanation, Sender, StoreError};
use outhaul_hub::view::explained::packed;
use outhaul_test_kit::plain::{self, OLD};

use super::{ASSIGNMENTS, least, milliseconds};

/// More than are kept.
const SENT: u64 = 220;
/// Cluster types of the document that is sent last, which pages show; the others have one each.
const TYPES: usize = 50;
const VALUES: usize = 30;

/// Keeps [`SENT`] documents, all of which were rendered from other commits, and measures.
pub(super) fn measure(name: &str, store: &mut Store) {
    let mut sent = 0;
    let mut another = |types: usize| {
        sent += 1;
        packed(&document(sent, types)).unwrap().unwrap()
    };
    for _ in 0..SENT {
        let one = another(1);
        put(store, &one);
    }
    let documents: Vec<PackedExplanation> = (0..=super::ROUNDS).map(|_| another(1)).collect();
    let mut next = documents.iter();
    let keeping = least(|| put(store, next.next().unwrap()));
    put(store, &another(TYPES));
    let mut listed = 0;
    let listing = least(|| {
        let all = store.read(|session| session.explanations("dev", 1_000));
        listed = all
            .unwrap_or_else(|error: StoreError| panic!("{error}"))
            .len();
    });
    let bundle = snapshot(sent);
    let finding = least(|| {
        let found = store.read(|session| session.explanations_of("dev", &bundle));
        let found = found.unwrap_or_else(|error: StoreError| panic!("{error}"));
        assert_eq!(found.len(), 1);
    });
    println!(
        "{name}, 100,000 sites, {listed} explanations of one environment after {sent} that were sent: one more in {:.1} ms, the list in \
         {:.1} ms, the one of a bundle in {:.1} ms",
        milliseconds(keeping),
        milliseconds(listing),
        milliseconds(finding)
    );
}

fn put(store: &mut Store, one: &PackedExplanation) {
    let sender = Sender {
        name: "centre",
        is_admin: false,
    };
    let done = store.write(|session| session.put_explanation(one, sender, 1_000));
    let done = done.unwrap_or_else(|error: StoreError| panic!("{error}"));
    assert!(
        matches!(done, PutExplanation::Kept { new: true, .. }),
        "{done:?}"
    );
}

/// Of the base that every bundle has, so that each is held against what bundles need.
fn snapshot(number: u64) -> Snapshot {
    let source = |name: &str, commit: String| Source {
        name: name.to_owned(),
        repo: "https://git.example/plane".to_owned(),
        commit,
    };
    let base = plain::index(&plain::stream("dev", "t-0"), 1, OLD)
        .snapshot
        .base;
    Snapshot::of(
        source("dev", format!("{number:040x}")),
        source(&base.name, base.commit.clone()),
        Vec::new(),
    )
}

fn document(number: u64, types: usize) -> PlatformExplanation {
    let entity = |name: String| Entity {
        name,
        at: "a.yaml:1".to_owned(),
        ..Entity::default()
    };
    let target = |at: usize| format!("workload-{at:02}-functional");
    let assignment = |at: usize| AssignmentExplanation {
        cluster_type: format!("t-{}", at / ASSIGNMENTS),
        target: target(at % ASSIGNMENTS),
        config: Some(at),
        ..AssignmentExplanation::default()
    };
    let value = |at: usize, key: usize| SetValue {
        key: format!("KEY_{key}"),
        value: Some(format!("{number} {at}").into()),
        layers: Vec::new(),
    };
    let count = types * ASSIGNMENTS;
    PlatformExplanation {
        format: EXPLANATION_FORMAT,
        environment: "dev".to_owned(),
        snapshot: snapshot(number),
        entities: Entities {
            cluster_types: (0..types).map(|at| entity(format!("t-{at}"))).collect(),
            targets: (0..ASSIGNMENTS).map(|at| entity(target(at))).collect(),
            ..Entities::default()
        },
        assignments: (0..count).map(assignment).collect(),
        not_assigned: Vec::new(),
        not_assigned_left_out: 0,
        configs: (0..count)
            .map(|at| (0..VALUES).map(|key| value(at, key)).collect())
            .collect(),
    }
}
