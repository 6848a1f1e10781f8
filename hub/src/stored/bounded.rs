//! Pages about bundles whose indexes are as large as they may be, and streams that share a cluster type, out of both stores.

use std::collections::BTreeMap;

use outhaul_bundle::Index;
use outhaul_bundle::index::Overlay;
use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, NEW, OLD};

use super::bundles::{bundle, look, view};
use super::{store_with, take};
use crate::store::Store;
use crate::view::{Comparison, bundle_rows};

const NOW: i64 = 1_000_000_000;

/// Says of a bundle on record that its index has this size.
fn with_size(store: &mut Store, number: u64, bytes: u64) {
    let text = format!("UPDATE bundles SET index_size = {bytes} WHERE number = {number}");
    store.connection().execute_batch(&text).unwrap();
}

#[test]
fn a_page_is_named_only_where_it_shows_what_a_list_has_no_room_for() {
    let mut store = store_with(&[]);
    for (number, is_kept) in [(1, true), (2, false), (3, true), (4, true)] {
        bundle(&mut store, ("dev", number, NEW), &[], |_| {}, is_kept);
    }
    let why = |store: &mut Store| -> Vec<String> {
        let read = store.read(|session| bundle_rows(session, ("", ""), (0, 10)));
        let rows = read.unwrap().0.into_iter();
        rows.map(|row| row.unknown.unwrap_or_default()).collect()
    };
    // The first takes all room of a list; of the others one is kept, one is not, and one is too large to be.
    with_size(&mut store, 4, 8 * 1024 * 1024);
    with_size(&mut store, 3, 8 * 1024 * 1024 + 1);
    let found = why(&mut store);
    assert!(found[1].contains("more than 8 MiB"), "{found:?}");
    assert!(found[2].contains("keeps no index of bundle 2"), "{found:?}");
    let named = "the page of bundle 1 shows it";
    assert!(found[3].contains(named), "{found:?}");
    assert!(view(&mut store, 1).contents.is_some(), "and it does");
    for number in [2, 3] {
        assert!(view(&mut store, number).contents.is_none());
    }
}

#[test]
fn an_overlay_for_very_many_sites_names_few_of_them_at_each_file() {
    let mut store = store_with(&[]);
    let overlay = |from: usize| Overlay {
        sites: (from..from + 20_000)
            .map(|at| plain::name(&format!("site-{at:06}")))
            .collect(),
        ..overlay_of_one_file()
    };
    let with =
        |from: usize| move |index: &mut Index| index.assignments[0].overlays = vec![overlay(from)];
    bundle(&mut store, ("dev", 1, OLD), &[], with(0), true);
    // The same first sites, and others at the end.
    bundle(
        &mut store,
        ("dev", 2, NEW),
        &[],
        |index| {
            with(0)(index);
            let sites = &mut index.assignments[0].overlays[0].sites;
            sites.pop_last();
            sites.insert(plain::name("site-999999"));
        },
        true,
    );
    let found = view(&mut store, 2);
    let part = &found.assignments[0].files[0].part;
    assert!(part.starts_with("for site-000000, site-000001, "), "{part}");
    assert!(part.contains(" and 19992 more (set "), "{part}");
    assert!(part.len() < 200, "{part}");
    let changes = found.changes.unwrap();
    let of_parts: Vec<_> = changes.assignments[0]
        .files
        .iter()
        .map(|one| one.change)
        .collect();
    assert_eq!(of_parts, ["removed", "added"], "they are two sets of sites");
}

fn overlay_of_one_file() -> Overlay {
    Overlay {
        sites: std::collections::BTreeSet::new(),
        config_version: plain::index(&plain::stream("dev", "drone"), 1, NEW).assignments[0]
            .config_version,
        files: vec![super::bundles::file("own.yaml", "own")],
    }
}

#[test]
fn what_a_page_lists_is_bounded_and_the_rest_is_counted() {
    let mut store = store_with(&[]);
    let many = |word: &'static str| {
        move |index: &mut Index| {
            let one = index.assignments[0].clone();
            index.assignments = (0..300)
                .map(|at| {
                    let mut one = one.clone();
                    one.name = plain::name(&format!("a-{at:03}"));
                    one.workload = "w".repeat(5_000);
                    one.policies = (0..40).map(|at| format!("policy-{at}")).collect();
                    one.files = (0..10)
                        .map(|at| super::bundles::file(&format!("{at}.yaml"), word))
                        .collect();
                    one
                })
                .collect();
        }
    };
    bundle(&mut store, ("dev", 1, OLD), &[], many("one"), true);
    bundle(&mut store, ("dev", 2, NEW), &[], many("other"), true);
    let found = view(&mut store, 2);
    assert_eq!(found.assignments.len(), 200);
    let one = &found.assignments[0];
    assert_eq!((one.policies.len(), one.more_policies), (10, 30));
    assert_eq!(one.workload.chars().count(), 301);
    let listed: usize = found.assignments.iter().map(|one| one.files.len()).sum();
    assert_eq!(listed, 1_000);
    let changes = found.changes.unwrap();
    assert_eq!(
        (changes.assignments.len(), changes.more_assignments),
        (200, 100)
    );
    let files = |of: fn(&crate::view::NamedChange) -> usize| {
        changes.assignments.iter().map(of).sum::<usize>()
    };
    assert_eq!(
        (files(|one| one.files.len()), files(|one| one.more)),
        (1_000, 1_000)
    );
    // Where there is no room for a file that differs, the page does not say that none does.
    let html = crate::pages::bundle(&view(&mut store, 2), &crate::pages::Shown::default()).unwrap();
    assert!(html.contains(">10 more files differ.<") && !html.contains("no file differs"));
    // The same without the index: no more rows are read than are shown.
    bundle(&mut store, ("dev", 3, NEW), &[], many("third"), false);
    let found = view(&mut store, 3);
    assert_eq!((found.contents, found.assignments.len()), (None, 200));
    assert_eq!(found.row.assignments, 300);
}

#[test]
fn two_streams_of_one_cluster_type_do_not_hide_each_other() {
    let mut here = Site::new("here", "dev", "drone");
    let mut there = Site::new("there", "stage", "drone");
    let mut later = Site::new("later", "stage", "drone");
    later.stream.role = plain::name("s-stage-drone-again");
    let mut store = store_with(&[&here, &there, &later]);
    let dev = bundle(
        &mut store,
        ("dev", 1, NEW),
        &[("a.yaml", "one")],
        |_| {},
        true,
    );
    let first = bundle(
        &mut store,
        ("stage", 1, OLD),
        &[("a.yaml", "two")],
        |_| {},
        true,
    );
    let again = |index: &mut Index| index.stream.role = plain::name("s-stage-drone-again");
    let second = bundle(
        &mut store,
        ("stage", 1, NEW),
        &[("a.yaml", "one")],
        again,
        true,
    );
    let compare = |store: &mut Store| {
        let found = store.read(|session| Comparison::of(session, ("dev", "stage"), "", NOW));
        found.unwrap().unwrap().types.remove(0)
    };
    let roles = |found: &crate::view::ComparedStream| -> Vec<Option<String>> {
        found.bundles.iter().map(|one| one.role.clone()).collect()
    };
    let both = [
        Some("s-stage-drone".to_owned()),
        Some("s-stage-drone-again".to_owned()),
    ];
    // Nobody runs anything: the newest of each.
    let found = compare(&mut store);
    assert_eq!(
        (roles(&found.to), found.to.is_desired),
        (both.to_vec(), true)
    );
    assert_eq!(roles(&found.from), [None]);
    let lines = [
        look(&mut here, &dev, G::Active, C::Compliant),
        look(&mut there, &first, G::Active, C::Compliant),
        look(&mut later, &second, G::Active, C::Compliant),
    ];
    take(&mut store, &lines, 100);
    let found = compare(&mut store);
    assert_eq!(
        (roles(&found.to), found.to.is_desired),
        (both.to_vec(), false)
    );
    let camera = found
        .assignments
        .iter()
        .find(|one| one.assignment == "camera-functional")
        .unwrap();
    let contents: BTreeMap<_, _> = camera
        .to
        .iter()
        .map(|one| (&one.content, one.sites))
        .collect();
    assert_eq!((camera.result, contents.len()), ("other", 2), "{camera:?}");
    // An address has no stream in it: no link leads to the other stream's bundle of the number.
    let found = store.read(|session| Comparison::of(session, ("dev", "stage"), "", NOW));
    let shown = crate::pages::Shown::default();
    let html = crate::pages::comparison(&found.unwrap().unwrap(), &shown).unwrap();
    let signs = "bundle 1 of the stream that <code>s-stage-drone-again</code> signs";
    assert!(html.contains(signs), "{html}");
    assert!(
        html.contains("\"/bundles/dev/drone/1\"") && !html.contains("\"/bundles/stage/drone/1\"")
    );
}

#[test]
fn a_page_of_a_comparison_ends_with_the_cluster_type_that_fills_it_and_the_next_one_goes_on() {
    let mut store = store_with(&[]);
    let kinds = ["t-1", "t-2", "t-3", "t-4"];
    for (kind, count) in kinds.into_iter().zip([30, 30, 2, 2]) {
        for environment in ["dev", "stage"] {
            let many = |index: &mut Index| {
                index.stream = plain::stream(environment, kind);
                let one = index.assignments[0].clone();
                let named = |at: usize| {
                    let mut one = one.clone();
                    one.name = plain::name(&format!("a-{at:03}"));
                    one.files = (0..25)
                        .map(|at| super::bundles::file(&format!("{at:02}.yaml"), environment))
                        .collect();
                    one
                };
                index.assignments = (0..count).map(named).collect();
            };
            bundle(&mut store, (environment, 1, NEW), &[], many, true);
        }
    }
    let mut page = |after: &str| {
        let found = store.read(|session| Comparison::of(session, ("dev", "stage"), after, NOW));
        let found = found.unwrap().unwrap();
        let of = |one: &crate::view::ComparedType| {
            let files: usize = one.assignments.iter().map(|one| one.files.len()).sum();
            let more: usize = one.assignments.iter().map(|one| one.more).sum();
            (one.cluster_type.clone(), one.assignments.len(), files, more)
        };
        let types: Vec<_> = found.types.iter().map(of).collect();
        (types, found.next)
    };
    // Each type is whole: 20 files of each assignment that differs, and the other 5 counted.
    let of = |kind: &str, count: usize| (kind.to_owned(), count, count * 20, count * 5);
    assert_eq!(
        page(""),
        (vec![of("t-1", 30), of("t-2", 30)], Some("t-2".to_owned()))
    );
    assert_eq!(page("t-2"), (vec![of("t-3", 2), of("t-4", 2)], None));
}
