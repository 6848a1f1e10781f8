//! Which sites are gone to, with what, and why others are not.

use std::collections::BTreeSet;

use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G, ReportEvent};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, FLEET, NEW, OLD};

use crate::ingest::{Batch, ingest};
use crate::store::{NETWORK, Signed, SitePage, Store};
use crate::view::*;

const HOUR_MS: i64 = 3_600_000;
const NOW_MS: i64 = 200 * HOUR_MS;

/// A store with bundles 1 (of `OLD`) and 2 (of `NEW`) of `dev`/`drone`.
fn store() -> Store {
    let mut store = crate::stored::empty();
    for (number, commit) in [(1, OLD), (2, NEW)] {
        let index = plain::index(&plain::stream("dev", "drone"), number, commit);
        let signed = Signed {
            issued_ms: 1_000,
            signed_as: number,
            expires_ms: NOW_MS + HOUR_MS,
        };
        store
            .write(|session| session.add_bundle(&index, plain::content(&index), signed, 1_500))
            .unwrap();
    }
    store
}

fn site(store: &mut Store, name: &str) -> Site {
    let site = Site::new(name, "dev", "drone");
    let checked = crate::enrol::check(&site.request(), FLEET).unwrap();
    store
        .write(|session| crate::enrol::approve(session, &checked, false, 1_000))
        .unwrap();
    site
}

/// A report that bundle `number` is active there.
fn runs(site: &mut Site, number: u64) -> Vec<u8> {
    let commit = if number == 1 { OLD } else { NEW };
    let mut event = site.event(number, commit, G::Active, C::Compliant);
    event.index = plain::content(&plain::index(&site.stream, number, commit)).digest;
    site.say(ReportEvent::Generation(event))
}

fn receive(store: &mut Store, lines: &[u8], via: &str, received_ms: i64) {
    let batch = Batch {
        fleet: FLEET,
        via,
        received_ms,
    };
    assert_eq!(ingest(store, lines, &batch).unwrap().refused.len(), 0);
}

fn list(store: &mut Store) -> CarrierList {
    let reading = store.read(|session| Reading::of(session, SitePage::ALL, NOW_MS));
    reading.unwrap().carrying(NOW_MS, |_| true)
}

#[test]
fn a_site_that_is_behind_is_brought_the_newest_bundle_and_others_are_left_out_with_a_reason() {
    let mut store = store();
    for (name, number, via, age) in [
        ("behind", 1, "stick", 1),
        ("connected", 1, NETWORK, 1),
        ("current", 2, "stick", 1),
        ("silent", 2, "stick", 100),
    ] {
        let mut site = site(&mut store, name);
        let line = runs(&mut site, number);
        receive(&mut store, &line, via, NOW_MS - age * HOUR_MS);
    }
    let list = list(&mut store);
    let [bundle] = &list.bundles[..] else {
        panic!("{:?}", list.bundles)
    };
    assert_eq!((bundle.bundle, bundle.sites, bundle.expired), (2, 1, false));
    assert_eq!(bundle.since, BTreeSet::from([1]));
    let stops: Vec<_> = list
        .stops
        .iter()
        .map(|stop| (&stop.site[..], stop.bundle, stop.runs, stop.reports_after))
        .collect();
    assert_eq!(
        stops,
        [
            ("silent", None, Some(2), 1),
            ("behind", Some(2), Some(1), 1)
        ]
    );
    let left_out: Vec<_> = list
        .left_out
        .iter()
        .map(|one| (&one.site[..], &one.reason[..]))
        .collect();
    assert_eq!(
        left_out,
        [
            (
                "connected",
                "reports over the network, last 60 min ago; `behind`"
            ),
            (
                "current",
                "runs the newest bundle, and no report of it is missing; last contact 60 min ago"
            ),
        ]
    );
}

/// Nothing can be left out of a bundle for a site of which nobody knows what it holds.
#[test]
fn a_site_that_never_reported_needs_the_whole_bundle() {
    let mut store = store();
    let mut behind = site(&mut store, "behind");
    let line = runs(&mut behind, 1);
    receive(&mut store, &line, "stick", NOW_MS - HOUR_MS);
    site(&mut store, "new");
    let list = list(&mut store);
    assert_eq!(list.bundles[0].sites, 2);
    assert_eq!(list.bundles[0].since, BTreeSet::new());
    let new = list.stops.iter().find(|stop| stop.site == "new").unwrap();
    assert_eq!(
        (new.bundle, new.runs, new.reports_after),
        (Some(2), None, 0)
    );
    assert!(new.notes[0].contains("its kit"), "{:?}", new.notes);
}

#[test]
fn a_bundle_that_failed_on_site_is_not_brought_again_and_the_reason_is_a_note() {
    let mut store = store();
    let mut site = site(&mut store, "broken");
    let mut line = runs(&mut site, 1);
    let mut event = site.event(2, NEW, G::Reverted, C::Failed);
    event.index = plain::content(&plain::index(&site.stream, 2, NEW)).digest;
    event.message = "the probe failed".to_owned();
    line.extend(site.say(ReportEvent::Generation(event)));
    receive(&mut store, &line, "stick", NOW_MS - HOUR_MS);
    let list = list(&mut store);
    assert_eq!(list.bundles, []);
    let [stop] = &list.stops[..] else {
        panic!("{:?}", list.stops)
    };
    assert_eq!((stop.bundle, stop.verdict), (None, "reverted"));
    let notes = stop.notes.join("\n");
    assert!(notes.contains("the probe failed"), "{notes}");
}

#[test]
fn reports_that_never_arrived_are_a_reason_to_go_to_a_site_that_is_up_to_date() {
    let mut store = store();
    let mut site = site(&mut store, "gap");
    let mut lines = runs(&mut site, 1);
    // The second one is lost on its way.
    drop(runs(&mut site, 1));
    lines.extend(runs(&mut site, 2));
    receive(&mut store, &lines, "stick", NOW_MS - HOUR_MS);
    let list = list(&mut store);
    assert_eq!((list.bundles.len(), list.left_out.len()), (0, 0));
    assert_eq!(list.stops[0].missing, [(2, 2)]);
}

#[test]
fn an_expired_bundle_is_marked_and_each_site_is_in_the_list_once() {
    let mut store = store();
    for at in 0..6 {
        let mut one = site(&mut store, &format!("site-{at}"));
        if at > 0 {
            let line = runs(&mut one, 1 + at % 2);
            let via = if at > 3 { NETWORK } else { "stick" };
            receive(&mut store, &line, via, NOW_MS - HOUR_MS);
        }
    }
    let reading = store.read(|session| Reading::of(session, SitePage::ALL, NOW_MS));
    let list = reading.unwrap().carrying(NOW_MS + HOUR_MS, |_| true);
    assert!(list.bundles[0].expired);
    let mut names: Vec<_> = list.stops.iter().map(|stop| stop.site.clone()).collect();
    names.extend(list.left_out.iter().map(|one| one.site.clone()));
    names.sort();
    let expected: Vec<_> = (0..6).map(|at| format!("site-{at}")).collect();
    assert_eq!(names, expected);
}
