//! The pages of bundles as text: what they show, and every one of a store for the tests of what hostile texts do.

use std::collections::BTreeMap;

use outhaul_bundle::blob::Sealed;
use outhaul_bundle::index::served::Image;
use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G};
use outhaul_bundle::{Digest, Instruction, Order};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{FLEET, NEW, OLD, name};

use super::super::tests::{NOW, main_of};
use super::{assignment, bundle, bundles, choose_environments, comparison};
use crate::ingest::{Batch, ingest};
use crate::pages::Shown;
use crate::store::Store;
use crate::stored::bundles::{bundle as add, look};
use crate::view::{AssignmentView, BundleAsked, BundleList, BundleView, BundlesWanted, Comparison};

/// A bundle of which each text that is not a name is `attack`; the hub keeps its index.
pub(in crate::pages) fn with_hostile_bundle(store: &mut Store, attack: &str) {
    let plain: String = attack.chars().filter(char::is_ascii_graphic).collect();
    add(
        store,
        ("dev", 3, NEW),
        &[("a.yaml", "one")],
        |index| {
            index.assignments[0].workspace = attack.to_owned();
            index.assignments[0].policies = vec![attack.to_owned()];
            index.snapshot.base.name = attack.to_owned();
            index.snapshot.base.repo = attack.to_owned();
            index
                .served
                .images
                .push(image(&format!("registry.example/{plain}"), b"image"));
        },
        true,
    );
}

fn image(name: &str, content: &[u8]) -> Image {
    Image {
        name: name.to_owned(),
        media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
        manifest: Content {
            digest: Digest::of(content),
            size: content.len() as u64,
        },
        blobs: Vec::new(),
    }
}

/// Every page about bundles, assignments and comparisons of a store.
pub(in crate::pages) fn all(store: &mut Store) -> Vec<String> {
    let visitor = Shown::default();
    let (streams, rows, environments) = store
        .read(|session| {
            let reading = crate::view::Reading::take(session, NOW)?;
            Ok::<_, crate::store::StoreError>((
                session.streams_on_record()?,
                reading.assignment_rows(),
                session.environments()?,
            ))
        })
        .unwrap();
    let list = store.read(|session| BundleList::of(session, BundlesWanted::default(), NOW));
    let mut pages = vec![bundles(&list.unwrap(), &visitor).unwrap()];
    for stream in &streams {
        for number in 1..=stream.newest {
            let asked = BundleAsked {
                environment: &stream.environment,
                cluster_type: &stream.cluster_type,
                number,
                place: None,
                after: "",
            };
            let view = store.read(|session| BundleView::of(session, &asked, NOW));
            pages.extend(view.unwrap().map(|view| bundle(&view, &visitor).unwrap()));
        }
    }
    for row in &rows {
        let names = (row.site.as_str(), row.assignment.as_str());
        let view = store.read(|session| AssignmentView::of(session, names, None, NOW));
        pages.push(assignment(&view.unwrap().unwrap(), &visitor).unwrap());
    }
    if let [first, .., last] = environments.as_slice() {
        let found = store.read(|session| Comparison::of(session, (first, last), "", NOW));
        pages.push(comparison(&found.unwrap().unwrap(), &visitor).unwrap());
    }
    pages.push(choose_environments(&environments, "", &visitor).unwrap());
    pages
}

/// Two environments; in one of them a site runs the older of two bundles, and someone changed it.
fn world() -> Store {
    let mut store = crate::stored::empty();
    let mut edge = Site::new("edge-1", "dev", "drone");
    let silent = Site::new("edge-2", "dev", "drone");
    let mut stage = Site::new("stage-1", "stage", "drone");
    for site in [&edge, &silent, &stage] {
        let checked = crate::enrol::check(&site.request(), FLEET).unwrap();
        store
            .write(|session| crate::enrol::approve(session, &checked, false, NOW - 1_000))
            .unwrap();
    }
    let one = add(
        &mut store,
        ("dev", 1, OLD),
        &[("a.yaml", "one"), ("b.yaml", "x")],
        |_| {},
        true,
    );
    add(
        &mut store,
        ("dev", 2, NEW),
        &[("a.yaml", "two"), ("c.yaml", "new")],
        |index| {
            index
                .served
                .images
                .push(image("registry.example/camera:2", b"camera"));
            index.orders.push(Order {
                site: name("edge-2"),
                number: 1,
                enrolment: Digest::of(b"kit"),
                what: Instruction::Rekey,
            });
            index.blobs.push(Blob {
                digest: Digest::of(b"sealed"),
                size: 60,
                encoding: Encoding::Pack,
                contents: Vec::new(),
                sealed: Some(Sealed {
                    recipients: BTreeMap::from([(name("0123456789abcdef"), name("edge-1"))]),
                    size: 6,
                }),
            });
        },
        true,
    );
    let there = add(
        &mut store,
        ("stage", 1, OLD),
        &[("a.yaml", "one")],
        |_| {},
        true,
    );
    add(
        &mut store,
        ("stage", 2, NEW),
        &[("a.yaml", "two")],
        |_| {},
        false,
    );
    let lines = [
        look(&mut edge, &one, G::Active, C::Compliant),
        look(&mut edge, &one, G::Active, C::Drifted),
        look(&mut stage, &there, G::Active, C::Compliant),
    ];
    let batch = Batch {
        fleet: FLEET,
        via: "stick.reports",
        received_ms: NOW - 500,
    };
    let done = ingest(&mut store, lines.concat().as_slice(), &batch).unwrap();
    assert_eq!(done.accepted, 3, "{done:?}");
    store
}

#[test]
fn bundles_an_assignment_and_two_environments_as_pages() {
    let mut store = world();
    let visitor = Shown::default();
    let list = store.read(|session| BundleList::of(session, BundlesWanted::default(), NOW));
    insta::assert_snapshot!(
        "bundles",
        main_of(&bundles(&list.unwrap(), &visitor).unwrap())
    );
    let asked = BundleAsked {
        environment: "dev",
        cluster_type: "drone",
        number: 2,
        place: None,
        after: "",
    };
    let view = store
        .read(|session| BundleView::of(session, &asked, NOW))
        .unwrap()
        .unwrap();
    insta::assert_snapshot!("bundle", main_of(&bundle(&view, &visitor).unwrap()));
    let names = ("edge-1", "camera-functional");
    let view = store.read(|session| AssignmentView::of(session, names, None, NOW));
    let html = assignment(&view.unwrap().unwrap(), &visitor).unwrap();
    insta::assert_snapshot!("assignment", main_of(&html));
    let found = store.read(|session| Comparison::of(session, ("dev", "stage"), "", NOW));
    let html = comparison(&found.unwrap().unwrap(), &visitor).unwrap();
    insta::assert_snapshot!("compare", main_of(&html));
}
