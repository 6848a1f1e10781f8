//! Bundles as they are listed, an assignment at a site, and environments compared, out of both stores.

use std::collections::BTreeMap;

use outhaul_bundle::index::File;
use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G, ReportEvent};
use outhaul_bundle::{Digest, Index};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, NEW, OLD};

use super::{store_with, take};
use crate::store::{Signed, Store, StoreError};
use crate::view::{
    AssignmentView, BundleAsked, BundleList, BundleView, BundlesWanted, Comparison, NoAssignment,
    TimelineBefore, bundle_rows,
};

const NOW: i64 = 1_000_000_000;

pub(super) fn file(path: &str, text: &str) -> File {
    File {
        path: path.parse().unwrap(),
        content: Digest::of(text.as_bytes()),
        size: text.len() as u64,
        executable: false,
    }
}

/// A bundle of which the first assignment has these files; its index is kept where `is_kept`.
pub(crate) fn bundle(
    store: &mut Store,
    (environment, number, commit): (&str, u64, &str),
    files: &[(&str, &str)],
    change: impl FnOnce(&mut Index),
    is_kept: bool,
) -> Index {
    let mut index = plain::index(&plain::stream(environment, "drone"), number, commit);
    index.assignments[0].files = files.iter().map(|(path, text)| file(path, text)).collect();
    change(&mut index);
    let signed = Signed {
        issued_ms: NOW - 1_000,
        signed_as: number,
        expires_ms: NOW + 1_000,
    };
    let bytes = index.to_bytes();
    store
        .write(|session| {
            session.add_bundle(&index, plain::content(&index), signed, NOW)?;
            if is_kept {
                let role = index.stream.role.as_str();
                session.keep_metadata((role, number), &BTreeMap::new(), &bytes, NOW)?;
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
    index
}

/// A signed look at a bundle with this index.
pub(crate) fn look(site: &mut Site, index: &Index, state: G, status: C) -> Vec<u8> {
    let mut event = site.event(index.number, OLD, state, status);
    event.index = Digest::of(&index.to_bytes());
    event.snapshot = index.snapshot.clone();
    site.say(ReportEvent::Generation(event))
}

pub(super) fn view(store: &mut Store, number: u64) -> BundleView {
    let asked = BundleAsked {
        environment: "dev",
        cluster_type: "drone",
        number,
        place: None,
        after: "",
    };
    store
        .read(|session| BundleView::of(session, &asked, NOW))
        .unwrap()
        .unwrap()
}

/// Four bundles, of which the third is on record without its index.
fn four_bundles() -> Store {
    let mut store = store_with(&[]);
    bundle(
        &mut store,
        ("dev", 1, OLD),
        &[("a.yaml", "one"), ("b.yaml", "four")],
        |_| {},
        true,
    );
    bundle(
        &mut store,
        ("dev", 2, NEW),
        &[("a.yaml", "one"), ("b.yaml", "other!"), ("c.yaml", "one")],
        |_| {},
        true,
    );
    bundle(
        &mut store,
        ("dev", 3, NEW),
        &[("a.yaml", "one")],
        |_| {},
        false,
    );
    bundle(
        &mut store,
        ("dev", 4, NEW),
        &[("a.yaml", "one")],
        |index| drop(index.assignments.pop()),
        true,
    );
    store
}

#[test]
fn sizes_follow_from_digests_and_what_is_not_kept_is_said() {
    let mut store = four_bundles();
    let (rows, more) = store
        .read(|session| bundle_rows(session, ("", ""), (0, 10)))
        .unwrap();
    assert!(!more);
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.number,
                row.sizes.map(|sizes| (sizes.held_bytes, sizes.new_bytes)),
                row.unknown.is_some(),
            )
        })
        .collect();
    let expected = [
        (4, Some((3, None)), true),
        (3, None, true),
        (2, Some((9, Some(6))), false),
        (1, Some((7, Some(7))), false),
    ];
    assert_eq!(told, expected);
    let why = rows[1].unknown.as_deref().unwrap();
    assert!(why.contains("keeps no index of bundle 3"), "{why}");
    // In parts, and none is left out or there twice.
    let mut numbers = Vec::new();
    for offset in 0..5 {
        let part = store.read(|session| bundle_rows(session, ("dev", "drone"), (offset, 1)));
        let (part, more) = part.unwrap();
        assert_eq!(more, offset < 3);
        numbers.extend(part.into_iter().map(|row| row.number));
    }
    assert_eq!(numbers, [4, 3, 2, 1]);
    let none = store
        .read(|session| bundle_rows(session, ("stage", ""), (0, 1)))
        .unwrap();
    assert_eq!(none, (Vec::new(), false));
}

#[test]
fn what_changed_is_shown_per_file_and_is_not_known_without_an_index() {
    let mut store = four_bundles();
    let changes = view(&mut store, 2).changes.unwrap();
    assert_eq!(
        changes.unchanged, 0,
        "the config of both has another digest"
    );
    let files: Vec<_> = changes.assignments[0]
        .files
        .iter()
        .map(|one| {
            (
                one.change,
                one.now
                    .as_ref()
                    .or(one.before.as_ref())
                    .unwrap()
                    .path
                    .clone(),
            )
        })
        .collect();
    assert_eq!(
        files,
        [
            ("changed", "b.yaml".to_owned()),
            ("added", "c.yaml".to_owned())
        ]
    );
    let unknown = view(&mut store, 4);
    assert!(unknown.changes.is_none() && unknown.changes_unknown.unwrap().contains("bundle 3"));
    let first = view(&mut store, 1);
    assert!(first.changes.is_none() && first.changes_unknown.is_none());
    assert_eq!((first.before, first.after), (None, Some(2)));
    // What is recorded is there without an index.
    let three = view(&mut store, 3);
    assert!(three.contents.is_none() && three.assignments.len() == 2);
    assert_eq!(three.assignments[0].content, None);
    store
        .connection()
        .execute_batch("UPDATE accepted_metadata SET index_body = '{}' WHERE number = 4")
        .unwrap();
    let row = view(&mut store, 4).row;
    assert!(row.sizes.is_none() && row.unknown.unwrap().contains("other content"));
}

#[test]
fn the_list_of_a_stream_and_the_list_of_streams_come_in_parts() {
    let mut store = store_with(&[]);
    for number in 1..=52 {
        bundle(&mut store, ("dev", number, NEW), &[], |_| {}, true);
    }
    for at in 0..21 {
        bundle(
            &mut store,
            (&format!("e{at:02}"), 1, NEW),
            &[],
            |_| {},
            true,
        );
    }
    let mut list = |wanted: &BundlesWanted| {
        store
            .read(|session| BundleList::of(session, wanted.clone(), NOW))
            .unwrap()
    };
    let mut wanted = BundlesWanted {
        environment: "dev".to_owned(),
        ..BundlesWanted::default()
    };
    let first = list(&wanted);
    assert!(first.is_one);
    assert_eq!(
        (first.streams[0].rows.len(), first.streams[0].more),
        (50, Some(3))
    );
    wanted.before = Some(3);
    let numbers: Vec<u64> = list(&wanted).streams[0]
        .rows
        .iter()
        .map(|row| row.number)
        .collect();
    assert_eq!(numbers, [2, 1]);
    let all = list(&BundlesWanted::default());
    assert_eq!(
        (all.streams.len(), all.matching, all.streams[0].rows.len()),
        (20, 22, 3)
    );
    let after = BundlesWanted {
        after: all.next.unwrap(),
        ..BundlesWanted::default()
    };
    let last = list(&after);
    let names: Vec<&str> = last
        .streams
        .iter()
        .map(|one| one.environment.as_str())
        .collect();
    assert_eq!((names, last.next), (vec!["e19", "e20"], None));
}

fn at_site(
    store: &mut Store,
    names: (&str, &str),
    before: Option<&str>,
) -> Result<AssignmentView, NoAssignment> {
    let before = before.map(|text| text.parse::<TimelineBefore>().unwrap());
    store
        .read(|session| AssignmentView::of(session, names, before, NOW))
        .unwrap()
}

#[test]
fn an_assignment_shows_both_sides_what_differs_and_what_was_reported() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let one = bundle(
        &mut store,
        ("dev", 1, OLD),
        &[("a.yaml", "one"), ("gone.yaml", "x")],
        |_| {},
        true,
    );
    bundle(
        &mut store,
        ("dev", 2, NEW),
        &[("a.yaml", "two")],
        |_| {},
        true,
    );
    let mut lines = vec![look(&mut site, &one, G::Applying, C::InProgress)];
    lines.extend((0..3).map(|_| look(&mut site, &one, G::Active, C::Compliant)));
    lines.push(site.started());
    lines.extend((0..2).map(|_| look(&mut site, &one, G::Active, C::Drifted)));
    take(&mut store, &lines, 100);
    let found = at_site(&mut store, ("a", "camera-functional"), None).unwrap();
    let (desired, observed) = (found.desired.unwrap(), found.observed.unwrap());
    assert_eq!(
        (desired.bundle, desired.commit.as_str(), desired.files.len()),
        (2, NEW, 1)
    );
    assert_eq!((observed.bundle, observed.commit.as_str()), (1, OLD));
    assert_ne!(desired.content, observed.content);
    let differs: Vec<&str> = found
        .differences
        .as_ref()
        .unwrap()
        .iter()
        .map(|one| one.change)
        .collect();
    assert_eq!(differs, ["changed", "removed"]);
    let spans: Vec<_> = found
        .history
        .iter()
        .map(|span| (span.status.as_str(), span.first, span.last, span.reports))
        .collect();
    assert_eq!(
        spans,
        [
            ("drifted", 6, 7, 2),
            ("compliant", 2, 4, 3),
            ("in_progress", 1, 1, 1)
        ]
    );
    assert_eq!(found.since.unwrap().first, 6);
    assert_eq!(
        at_site(&mut store, ("b", "maps-uat"), None).unwrap_err(),
        NoAssignment::NoSite
    );
    match at_site(&mut store, ("a", "maps"), None).unwrap_err() {
        NoAssignment::Unknown(known) => assert_eq!(known, ["camera-functional", "maps-uat"]),
        NoAssignment::NoSite => panic!("the site is registered"),
    }
    // What is on record under the number is not what the site runs.
    let mut strange = site.event(2, NEW, G::Active, C::Compliant);
    strange.index = Digest::of(b"another index");
    take(
        &mut store,
        &[site.say(ReportEvent::Generation(strange))],
        200,
    );
    let found = at_site(&mut store, ("a", "camera-functional"), None).unwrap();
    assert!(found.differences.is_none());
    assert!(
        found
            .observed
            .unwrap()
            .unknown
            .unwrap()
            .contains("no bundle 2 on record")
    );
}

#[test]
fn a_long_history_comes_in_parts_and_none_is_left_out() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let lines: Vec<Vec<u8>> = (0..120)
        .map(|at| match at % 2 {
            0 => site.active(1, NEW),
            _ => site.state(1, NEW, G::Active, C::Drifted),
        })
        .collect();
    take(&mut store, &lines, 100);
    // As many that say the same as one page does not read.
    let same: Vec<Vec<u8>> = (0..1_100).map(|_| site.active(1, NEW)).collect();
    take(&mut store, &same, 200);
    let mut before: Option<String> = None;
    let mut reports = 0;
    let mut pages = 0;
    loop {
        let part = at_site(&mut store, ("a", "maps-uat"), before.as_deref()).unwrap();
        reports += part.history.iter().map(|span| span.reports).sum::<usize>();
        pages += 1;
        if pages == 1 {
            assert!(part.since.unwrap().is_open && part.history.len() == 1);
        }
        before = part.more;
        if before.is_none() {
            break;
        }
    }
    assert_eq!((reports, pages), (1_220, 4));
}

#[test]
fn two_environments_are_compared_by_what_their_sites_run() {
    let mut here = Site::new("here", "dev", "drone");
    let mut there = Site::new("there", "stage", "drone");
    let mut late = Site::new("late", "stage", "drone");
    let mut store = store_with(&[&here, &there, &late]);
    let same = |index: &mut Index| index.assignments[1].files = vec![file("map.json", "m")];
    let dev = bundle(
        &mut store,
        ("dev", 1, NEW),
        &[("a.yaml", "one")],
        same,
        true,
    );
    let stage = bundle(
        &mut store,
        ("stage", 1, OLD),
        &[("a.yaml", "two")],
        same,
        true,
    );
    bundle(
        &mut store,
        ("stage", 2, NEW),
        &[("a.yaml", "one")],
        |index| {
            same(index);
            // Another target of the same workload, and one of another workload.
            let mut radio = index.assignments[0].clone();
            index.assignments[0].name = plain::name("camera-new");
            radio.name = plain::name("radio-new");
            radio.workload = "radio".to_owned();
            index.assignments.push(radio);
        },
        true,
    );
    let compare = |store: &mut Store| {
        let found = store.read(|session| Comparison::of(session, ("dev", "stage"), "", NOW));
        found.unwrap().unwrap()
    };
    // Nobody runs anything: the newest on record of each.
    let found = compare(&mut store);
    let results = |found: &Comparison| -> Vec<(String, &'static str)> {
        let all = found.types[0].assignments.iter();
        all.map(|one| (one.assignment.clone(), one.result))
            .collect()
    };
    assert!(found.types[0].from.is_desired && found.types[0].to.is_desired);
    let named = |names: &[(&str, &'static str)]| -> Vec<(String, &'static str)> {
        names
            .iter()
            .map(|(name, result)| ((*name).to_owned(), *result))
            .collect()
    };
    let expected = [
        ("radio-new", "only_to"),
        ("camera-functional", "same"),
        ("maps-uat", "same"),
    ];
    assert_eq!(results(&found), named(&expected));
    let also = found.types[0]
        .assignments
        .iter()
        .find_map(|one| one.also.clone());
    assert_eq!(also.as_deref(), Some("camera-new"));
    take(
        &mut store,
        &[
            look(&mut here, &dev, G::Active, C::Compliant),
            look(&mut there, &stage, G::Active, C::Compliant),
        ],
        100,
    );
    let found = compare(&mut store);
    assert_eq!(
        results(&found),
        named(&[("camera-functional", "other"), ("maps-uat", "same")])
    );
    let camera = &found.types[0].assignments[0];
    assert_eq!(
        (camera.from[0].commit.as_str(), camera.to[0].commit.as_str()),
        (NEW, OLD)
    );
    assert_eq!(camera.files[0].change, "changed");
    // What runs there and is not on record is said, not guessed.
    let unknown = plain::index(&late.stream, 7, NEW);
    take(
        &mut store,
        &[look(&mut late, &unknown, G::Active, C::Compliant)],
        100,
    );
    let found = compare(&mut store);
    assert!(
        found.types[0]
            .to
            .unknown
            .iter()
            .any(|why| why.contains("bundle 7")),
        "{found:?}"
    );
    let wrong = store.read(|session| Comparison::of(session, ("dev", "stag"), "", NOW));
    assert_eq!(wrong.unwrap().unwrap_err(), ["dev", "stage"]);
}
