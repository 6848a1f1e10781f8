//! The fleet in numbers is what the rows of the lists add up to, whatever sites reported.

use std::collections::BTreeMap;

use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, FLEET, NEW, OLD};
use proptest::prelude::*;

use super::kept::{lines_of, steps};
use super::store_with;
use crate::ingest::{Batch, ingest};
use crate::store::{IngestRefusal, NETWORK, Signed, SitePage, Store, StoreError};
use crate::time::HOUR_MS;
use crate::view::{AGES_HOURS, Connection, Measured, Reading};

const NOW: i64 = 1_795_000_000_000;

/// Bundles 1 to 3 of both environments; of `stage` the third is for one site alone.
fn add_bundles(store: &mut Store) {
    for (environment, number) in ["dev", "stage"]
        .iter()
        .flat_map(|e| [(e, 1), (e, 2), (e, 3)])
    {
        let commit = if number == 1 { OLD } else { NEW };
        let mut index = plain::index(&plain::stream(environment, "drone"), number, commit);
        if (*environment, number) == ("stage", 3) {
            index.recipients.insert(plain::name("s4"));
        }
        let signed = Signed {
            issued_ms: NOW - HOUR_MS + i64::try_from(number).unwrap(),
            signed_as: number,
            expires_ms: NOW + HOUR_MS,
        };
        store
            .write(|session| session.add_bundle(&index, plain::content(&index), signed, NOW))
            .unwrap();
    }
}

/// The same numbers, from one row for each site.
fn added_up(store: &mut Store, now_ms: i64) -> Measured {
    let mut sum = Measured::default();
    let reading = store.read(|session| Reading::of(session, SitePage::ALL, now_ms));
    let reading: Reading = reading.unwrap();
    for (row, site) in reading.site_rows(now_ms).into_iter().zip(&reading.sites) {
        let environment = row.environment.clone();
        let kind = (environment.clone(), row.cluster_type.clone(), row.verdict);
        *sum.sites.entry(kind).or_default() += 1;
        if row.connection == Connection::Revoked {
            continue;
        }
        let connection = (environment.clone(), row.connection.as_str());
        *sum.connections.entry(connection).or_default() += 1;
        let bundle = (environment.clone(), row.bundle.as_str());
        *sum.bundles.entry(bundle).or_default() += 1;
        if let Some(newest) = &site.newest {
            let received_ms = newest.received_ms;
            let ages = sum.ages.entry(environment).or_default();
            ages.newest_ms = ages.newest_ms.max(received_ms);
            ages.oldest_ms = match ages.all {
                0 => received_ms,
                _ => ages.oldest_ms.min(received_ms),
            };
            ages.all += 1;
            for (within, hours) in ages.within.iter_mut().zip(AGES_HOURS) {
                *within += u64::from(now_ms - received_ms <= i64::from(hours) * HOUR_MS);
            }
        }
    }
    sum
}

fn measured(store: &mut Store, now_ms: i64) -> Measured {
    let measured = store.read(|session| Measured::take(session, now_ms));
    measured.unwrap_or_else(|error: StoreError| panic!("{error}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn groups_of_sites_are_judged_as_each_of_them(
        lives in proptest::collection::vec((steps(), 0..100i64), 5),
        revoked in 0..8usize,
        later in prop_oneof![Just(0), Just(72), Just(73), 0..1000i64],
    ) {
        let environment = |at: usize| if at < 3 { "dev" } else { "stage" };
        let mut sites: Vec<Site> = (0..7)
            .map(|at| Site::new(&format!("s{at}"), environment(at), "drone"))
            .collect();
        let mut store = store_with(&sites.iter().collect::<Vec<_>>());
        add_bundles(&mut store);
        for (site, (steps, hours)) in sites.iter_mut().zip(&lives) {
            let lines = lines_of(site, steps);
            let batch = Batch { fleet: FLEET, via: "test", received_ms: NOW - hours * HOUR_MS };
            ingest(&mut store, lines.concat().as_slice(), &batch).unwrap();
        }
        store.write(|session| session.revoke_site(&format!("s{revoked}"), NOW)).unwrap();
        let now_ms = NOW + later * HOUR_MS;
        let (found, sum) = (measured(&mut store, now_ms), added_up(&mut store, now_ms));
        prop_assert_eq!(&found.sites, &sum.sites);
        prop_assert_eq!(&found.connections, &sum.connections);
        prop_assert_eq!(&found.bundles, &sum.bundles);
        prop_assert_eq!(&found.ages, &sum.ages);
    }
}

#[test]
fn a_site_that_never_reported_is_not_behind_but_one_of_which_nothing_is_known() {
    let mut silent = [
        Site::new("s0", "dev", "drone"),
        Site::new("s1", "qa", "drone"),
    ];
    let mut store = store_with(&[&silent[0], &silent[1]]);
    add_bundles(&mut store);
    let bundles = |store: &mut Store| measured(store, NOW).bundles;
    let of = |environment: &str, word| (environment.to_owned(), word);
    // Of `qa` no bundle is on record: that is said first, because someone has to bring one.
    let expected = BTreeMap::from([(of("dev", "never"), 1), (of("qa", "unknown"), 1)]);
    assert_eq!(bundles(&mut store), expected);
    let batch = Batch {
        fleet: FLEET,
        via: "test",
        received_ms: NOW,
    };
    ingest(&mut store, silent[0].active(1, OLD).as_slice(), &batch).unwrap();
    assert_eq!(bundles(&mut store)[&of("dev", "behind")], 1);
}

#[test]
fn two_machines_with_one_key_are_counted_as_that_and_streams_and_refusals_as_they_are() {
    let mut sites = [
        Site::new("s0", "dev", "drone"),
        Site::new("s1", "dev", "drone"),
    ];
    let mut store = store_with(&[&sites[0], &sites[1]]);
    add_bundles(&mut store);
    let said = |site: &mut Site, bundle| {
        let (next, previous) = (site.next, site.previous);
        let line = site.active(bundle, OLD);
        (site.next, site.previous) = (next, previous);
        line
    };
    let first = [said(&mut sites[0], 1), said(&mut sites[1], 1)];
    // Another machine says something else under the same number.
    let other = said(&mut sites[1], 2);
    for (lines, accepted) in [(first.concat(), 2), (other, 0)] {
        let batch = Batch {
            fleet: FLEET,
            via: "test",
            received_ms: NOW,
        };
        let done = ingest(&mut store, lines.as_slice(), &batch).unwrap();
        assert_eq!(done.accepted, accepted);
    }
    let found = measured(&mut store, NOW + 2);
    let kind = |state| ("dev".to_owned(), "drone".to_owned(), state);
    assert_eq!(
        found.sites,
        BTreeMap::from([(kind("behind"), 1), (kind("conflict"), 1)])
    );
    assert_eq!(found.sites, added_up(&mut store, NOW + 2).sites);
    let stream = |environment: &str| found.streams[&(environment.to_owned(), "drone".to_owned())];
    assert_eq!(
        (stream("dev").number, stream("dev").issued_ms),
        (3, NOW - HOUR_MS + 3)
    );
    assert_eq!(found.acknowledged, 2);
    let refusal = |source: &str, times| IngestRefusal {
        at_ms: NOW,
        source: source.to_owned(),
        site: None,
        rule: "signature".to_owned(),
        message: "no key of the fleet".to_owned(),
        times,
        first_ms: NOW,
    };
    let exchanged = (("file", "exchanged".to_owned()), 1);
    assert_eq!(found.refusals, BTreeMap::from([exchanged.clone()]));
    store
        .write(|session| {
            session.add_refusal(&refusal(NETWORK, 1))?;
            session.add_refusal(&refusal("a.outhaul", 1))?;
            session.add_refusal(&refusal("b.outhaul", 1))
        })
        .unwrap();
    let of = |way| (way, "signature".to_owned());
    let expected = BTreeMap::from([exchanged, (of("file"), 2), (of("network"), 1)]);
    assert_eq!(measured(&mut store, NOW + 2).refusals, expected);
}
