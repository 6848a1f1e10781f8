//! Where sites stand with the bundles of their stream: what is kept, counted and listed is what each site's state gives.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G, ReportEvent};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, NEW};

use super::{left_again, store_with, take};
use crate::store::{BundleOfStream, BundlePlace as P, Registration, SiteState, Store, StoreError};

const ROLE: &str = "s-dev-drone";

/// Where a site stands, worked out from its state alone.
fn place(site: &SiteState, number: u64, index: &str) -> P {
    if site.newest.is_none() {
        return P::Never;
    }
    let of_stream = site.running.as_ref().filter(|one| one.role == site.role);
    let running = of_stream.map_or(0, |one| one.bundle);
    if running > number {
        return P::Beyond;
    }
    if running == number {
        return match of_stream.is_some_and(|one| one.index == index) {
            true => P::Runs,
            false => P::OtherContent,
        };
    }
    match site.attempt.as_ref().filter(|one| one.bundle == number) {
        Some(attempt) if attempt.ended() => P::NotTaken,
        Some(_) => P::Took,
        None => P::Behind,
    }
}

/// Holds what is kept, counted and listed to the state of each site.
#[track_caller]
pub(super) fn assert_places(store: &mut Store, role: &str, numbers: std::ops::RangeInclusive<u64>) {
    let of_index = |number: u64| {
        let index = plain::index(&plain::stream("dev", "drone"), number, NEW);
        Digest::of(&index.to_bytes()).to_string()
    };
    let nobody = BTreeSet::new();
    for again in [false, true] {
        if again {
            store
                .write(|session| session.keep_all_stream_sites())
                .unwrap();
        }
        let states = store.read(|session| session.site_states()).unwrap();
        let mine = |site: &&SiteState| site.role == role && site.revoked_ms.is_none();
        let some: BTreeSet<String> = states
            .iter()
            .filter(mine)
            .step_by(2)
            .map(|site| site.site.clone())
            .collect();
        for number in numbers.clone() {
            let index = of_index(number);
            for recipients in [&nobody, &some] {
                let is_for =
                    |site: &&SiteState| recipients.is_empty() || recipients.contains(&site.site);
                let mut expected: BTreeMap<P, Vec<String>> = BTreeMap::new();
                for site in states.iter().filter(mine).filter(is_for) {
                    let at = expected.entry(place(site, number, &index)).or_default();
                    at.push(site.site.clone());
                }
                let asked = BundleOfStream {
                    role,
                    number,
                    index: &index,
                    recipients,
                };
                let (counted, listed) = store
                    .read(|session| {
                        let stream = session.sites_of_stream(role)?;
                        let counted = session.places_of_bundle(asked, &stream)?;
                        let mut listed: BTreeMap<P, Vec<String>> = BTreeMap::new();
                        for place in P::ALL {
                            let mut after = String::new();
                            // In parts of two.
                            loop {
                                let part = session.sites_at(asked, place, &after, 2)?;
                                let Some(last) = part.last() else { break };
                                after.clone_from(&last.site);
                                let names = part.into_iter().map(|site| site.site);
                                listed.entry(place).or_default().extend(names);
                            }
                        }
                        Ok::<_, StoreError>((counted, listed))
                    })
                    .unwrap();
                assert_eq!(listed, expected, "bundle {number}");
                let count = |(place, sites): (&P, &Vec<String>)| (*place, sites.len() as u64);
                assert_eq!(
                    counted,
                    expected.iter().map(count).collect(),
                    "bundle {number}"
                );
            }
        }
    }
}

#[test]
fn each_site_stands_at_one_place_and_pages_list_what_is_counted() {
    let names = [
        "runs", "took", "failed", "left", "beyond", "behind", "never", "other", "gone", "moved",
    ];
    let mut sites: Vec<Site> = names
        .iter()
        .map(|name| Site::new(name, "dev", "drone"))
        .collect();
    let mut store = store_with(&sites.iter().collect::<Vec<_>>());
    let [
        runs,
        took,
        failed,
        left,
        beyond,
        behind,
        _,
        other,
        gone,
        moved,
    ] = sites.as_mut_slice()
    else {
        panic!("ten sites");
    };
    let mut strange = other.event(2, NEW, G::Active, C::Compliant);
    strange.index = Digest::of(b"another index");
    let lines = [
        runs.active(2, NEW),
        took.active(1, NEW),
        took.state(2, NEW, G::Staged, C::InProgress),
        failed.state(2, NEW, G::Rejected, C::InProgress),
        left.active(1, NEW),
        left.state(2, NEW, G::Failed, C::Failed),
        left_again(left, None),
        beyond.active(3, NEW),
        behind.active(1, NEW),
        other.say(ReportEvent::Generation(strange)),
        gone.active(2, NEW),
        moved.active(2, NEW),
    ];
    take(&mut store, &lines, 100);
    assert_places(&mut store, ROLE, 1..=4);
    store
        .write(|session| session.revoke_site("gone", 200))
        .unwrap();
    let stage = plain::stream("stage", "drone");
    store
        .write(|session| session.move_site("moved", &stage))
        .unwrap();
    assert_places(&mut store, ROLE, 1..=4);
    assert_places(&mut store, "s-stage-drone", 1..=4);
    // A site that is let in again counts again.
    let again = Registration {
        site: "gone".to_owned(),
        role: ROLE.to_owned(),
        environment: "dev".to_owned(),
        cluster_type: "drone".to_owned(),
        key_generation: 1,
        enrolled_ms: 300,
        revoked_ms: None,
    };
    store
        .write(|session| session.register_site(&again, "key", "pem"))
        .unwrap();
    assert_places(&mut store, ROLE, 1..=4);
    let two =
        Digest::of(&plain::index(&plain::stream("dev", "drone"), 2, NEW).to_bytes()).to_string();
    let nobody = BTreeSet::new();
    let asked = BundleOfStream {
        role: ROLE,
        number: 2,
        index: &two,
        recipients: &nobody,
    };
    let counted = store.read(|session| {
        let stream = session.sites_of_stream(ROLE)?;
        session.places_of_bundle(asked, &stream)
    });
    let counted: Vec<(P, u64)> = counted.unwrap().into_iter().collect();
    let expected = [
        (P::Runs, 2),
        (P::Took, 1),
        (P::NotTaken, 2),
        (P::OtherContent, 1),
        (P::Beyond, 1),
        (P::Behind, 1),
        (P::Never, 1),
    ];
    assert_eq!(counted, expected);
}
