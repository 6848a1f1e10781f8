//! The fold: whatever the order and the transport, the newest state is the newest report of the newest epoch.

mod affected;
mod bounded;
pub(crate) mod bundles;
mod explained;
mod faults;
mod kept;
mod measured;
mod migrated;
mod parts;
mod people;
mod retained;
mod stream_sites;

use outhaul_bundle::report::{
    ComplianceStatus as C, GenerationState as G, ReportEvent, RevertedFrom,
};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, FLEET, NEW, OLD};
use outhaul_tests::postgres;
use proptest::prelude::*;

use crate::enrol::{self, Enrolled};
use crate::ingest::{Batch, Ingested, ingest};
use crate::store::{Signed, SitePage, SiteState, Store, StoreError};

/// A store with nothing in it, of the kind that this run of the tests is for.
pub(crate) fn empty() -> Store {
    match postgres::database_of_run() {
        Some(address) => Store::on_server(&address.parse().unwrap()).unwrap(),
        None => Store::in_memory().unwrap(),
    }
}

#[test]
fn the_tests_of_the_store_hold_on_postgresql() {
    postgres::same_tests_on_postgres("stored::the_tests_of_the_store_hold_on_postgresql", &[]);
}

pub(crate) fn store_with(sites: &[&Site]) -> Store {
    let mut store = crate::stored::empty();
    for site in sites {
        let checked = enrol::check(&site.request(), FLEET).unwrap();
        let done = store
            .write(|session| enrol::approve(session, &checked, false, 10))
            .unwrap();
        assert_eq!(done, Enrolled::Registered);
    }
    store
}

pub(crate) fn take(store: &mut Store, lines: &[Vec<u8>], received_ms: i64) -> Ingested {
    let batch = Batch {
        fleet: FLEET,
        via: "test",
        received_ms,
    };
    let done = ingest(store, lines.concat().as_slice(), &batch).unwrap();
    assert_eq!(done.refused, []);
    done
}

fn state(store: &mut Store, site: &str) -> SiteState {
    let states = store.read(|session| session.site_states()).unwrap();
    states.into_iter().find(|state| state.site == site).unwrap()
}

/// Bundle, its state, and the report that states it.
fn runs(store: &mut Store, site: &str) -> Option<(u64, String, u64)> {
    state(store, site)
        .running
        .map(|r| (r.bundle, r.state, r.report))
}

/// What an agent queues when it leaves bundle 2: one report, of the bundle that is active again.
fn left_again(site: &mut Site, decided_by: Option<&str>) -> Vec<u8> {
    let index = plain::index(&site.stream, 2, NEW);
    let mut event = site.event(1, OLD, G::Active, C::Compliant);
    event.reverted_from = Some(RevertedFrom {
        number: 2,
        index: outhaul_bundle::Digest::of(&index.to_bytes()),
        decided_by: decided_by.map(str::to_owned),
        reason: "the printer stopped".to_owned(),
    });
    site.say(ReportEvent::Generation(event))
}

#[test]
fn a_revert_shows_what_runs_and_why_and_stays_until_a_newer_bundle_comes() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let lines = [
        site.active(1, OLD),
        site.state(2, NEW, G::Staged, C::InProgress),
        site.state(2, NEW, G::Applying, C::InProgress),
        site.state(2, NEW, G::Failed, C::Failed),
        left_again(&mut site, None),
    ];
    take(&mut store, &lines, 100);
    let look = site.event(1, OLD, G::Active, C::Compliant);
    for _ in 0..2 {
        let now = state(&mut store, "a");
        assert_eq!(now.running.unwrap().bundle, 1);
        let attempt = now.attempt.unwrap();
        assert_eq!(
            attempt.sentence(),
            "bundle 2 is reverted: the printer stopped"
        );
        // A look at what runs says nothing of the bundle that was left.
        take(
            &mut store,
            &[site.say(ReportEvent::Observation(look.clone()))],
            200,
        );
    }
    take(&mut store, &[site.active(3, NEW)], 300);
    assert_eq!(state(&mut store, "a").attempt, None);
    let lines = [site.active(2, NEW), left_again(&mut site, Some("bob"))];
    take(&mut store, &lines, 400);
    let attempt = state(&mut store, "a").attempt.unwrap();
    assert_eq!(
        attempt.sentence(),
        "bundle 2 is reverted by bob: the printer stopped"
    );
}

#[test]
fn what_older_agents_wrote_of_a_revert_shows_the_same() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let lines = [
        site.active(1, OLD),
        site.active(2, NEW),
        site.active(1, OLD),
        site.state(2, NEW, G::Reverted, C::Failed),
    ];
    take(&mut store, &lines, 100);
    assert_eq!(runs(&mut store, "a"), Some((1, "active".into(), 3)));
    assert_eq!(state(&mut store, "a").attempt.unwrap().state, "reverted");
}

#[test]
fn what_a_site_refused_is_on_record_also_from_before_there_was_a_table_for_it() {
    let mut site = Site::new("a", "dev", "drone");
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path()).unwrap();
    let checked = enrol::check(&site.request(), FLEET).unwrap();
    store
        .write(|session| enrol::approve(session, &checked, false, 10))
        .unwrap();
    let line = site.say(ReportEvent::Refusal {
        source: "stick".to_owned(),
        rule: "rollback".to_owned(),
        message: "too old".to_owned(),
    });
    take(&mut store, &[line], 100);
    let refused = |store: &mut Store| {
        let found = store
            .read(|session| session.site_refusals(SitePage::ALL))
            .unwrap();
        found["a"].clone()
    };
    let before = refused(&mut store);
    assert_eq!((before.len(), &before[0].rule[..]), (1, "rollback"));
    // As a store of before has it.
    let db = store.connection();
    db.execute_batch("DELETE FROM site_refusals").unwrap();
    store
        .write(|session| session.read_older_refusals())
        .unwrap();
    assert_eq!(refused(&mut store), before);
}

#[test]
fn what_the_network_sends_does_not_push_out_other_refusals() {
    let mut store = crate::stored::empty();
    let refusal = |source: &str, at_ms: i64| crate::store::IngestRefusal {
        at_ms,
        source: source.to_owned(),
        site: Some(format!("site-{at_ms}")),
        rule: "r".to_owned(),
        message: "m".to_owned(),
        times: 1,
        first_ms: at_ms,
    };
    store
        .write(|session| {
            session.add_refusal(&refusal("stick.reports", 1))?;
            (0..600).try_for_each(|at| session.add_refusal(&refusal("http", at)))
        })
        .unwrap();
    let kept = store.read(|session| session.refusals(9999)).unwrap();
    assert_eq!(kept.len(), 501);
    let sources = kept.iter().filter(|one| one.source == "stick.reports");
    assert_eq!(sources.count(), 1);
    assert_eq!(kept[499].at_ms, 100);
}

#[test]
fn a_late_report_changes_history_and_not_the_newest_state() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let (first, late, newest) = (
        site.active(1, OLD),
        site.state(2, NEW, G::Failed, C::Failed),
        site.active(3, NEW),
    );
    take(&mut store, &[first], 100);
    take(&mut store, &[newest], 200);
    assert_eq!(state(&mut store, "a").missing, [(2, 2)]);
    take(&mut store, &[late], 300);
    let now = state(&mut store, "a");
    assert_eq!(now.missing, []);
    assert_eq!(
        now.newest.unwrap().received_ms,
        200,
        "the late stick does not refresh the site"
    );
    assert_eq!(runs(&mut store, "a"), Some((3, "active".into(), 3)));
}

#[test]
fn what_is_on_its_way_or_turned_away_changes_nothing_about_what_runs() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let mut lines = vec![site.active(1, OLD)];
    for step in [G::Received, G::Verified, G::Staged, G::Gated, G::Rejected] {
        lines.push(site.state(2, NEW, step, C::InProgress));
    }
    take(&mut store, &lines, 100);
    assert_eq!(runs(&mut store, "a"), Some((1, "active".into(), 1)));
    let attempt = state(&mut store, "a").attempt.unwrap();
    assert_eq!((attempt.bundle, attempt.state.as_str()), (2, "rejected"));
    take(&mut store, &[site.active(3, NEW)], 100);
    assert_eq!(state(&mut store, "a").attempt, None);
}

#[test]
fn drift_found_later_replaces_the_good_state() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let drift = site.event(1, OLD, G::Active, C::Drifted);
    let lines = [
        site.active(1, OLD),
        site.say(ReportEvent::Observation(drift)),
    ];
    take(&mut store, &lines, 100);
    let running = state(&mut store, "a").running.unwrap();
    assert!(running.assignments.values().all(|a| a.status == "drifted"));
}

#[test]
fn the_newest_epoch_gives_the_present_even_when_the_old_one_still_arrives() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let old = [
        site.active(1, OLD),
        site.active(2, OLD),
        site.active(7, OLD),
    ];
    take(&mut store, &old[..1], 100);
    site.forget("e2");
    take(&mut store, &[site.active(3, NEW)], 200);
    take(&mut store, &old[1..], 300);
    assert_eq!(runs(&mut store, "a"), Some((3, "active".into(), 1)));
    assert_eq!(state(&mut store, "a").newest.unwrap().epoch, "e2");
}

#[test]
fn an_epoch_found_late_goes_behind_when_trusted_clocks_say_so() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    site.at.trusted = true;
    site.at.wall_ms = 50;
    let stick = site.active(1, OLD);
    site.forget("e2");
    site.at.wall_ms = 5_000;
    take(&mut store, &[site.active(2, NEW)], 6_000);
    take(&mut store, &[stick], 7_000);
    assert_eq!(runs(&mut store, "a"), Some((2, "active".into(), 1)));
}

#[test]
fn a_site_that_never_reported_is_there() {
    let site = Site::new("silent", "dev", "drone");
    let mut store = store_with(&[&site]);
    let silent = state(&mut store, "silent");
    assert_eq!((silent.newest, silent.running), (None, None));
}

#[test]
fn duplicates_count_once_and_acknowledgements_stop_at_the_first_gap() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let lines: Vec<_> = (1..=5).map(|number| site.active(number, NEW)).collect();
    let done = take(
        &mut store,
        &[lines[0].clone(), lines[0].clone(), lines[3].clone()],
        100,
    );
    assert_eq!(
        (done.accepted, done.duplicates, done.complete[0].number),
        (2, 1, 1)
    );
    let done = take(&mut store, &lines[1..3], 100);
    assert_eq!((done.accepted, done.complete[0].number), (2, 4));
}

#[test]
fn a_declared_loss_is_no_gap() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let first = site.started();
    for _ in 0..3 {
        site.started();
    }
    let gap = site.say(ReportEvent::Gap {
        from: 2,
        to: 4,
        reason: "the queue was full".into(),
    });
    let done = take(&mut store, &[first, gap], 100);
    assert_eq!(done.complete[0].number, 5);
    let now = state(&mut store, "a");
    assert_eq!((now.missing, now.declared_lost), (vec![], vec![(2, 4)]));
}

#[test]
fn a_write_that_fails_leaves_nothing() {
    let mut store = crate::stored::empty();
    let failed: Result<(), StoreError> = store.write(|session| {
        session.set_setting("half", "written")?;
        Err(StoreError::Corrupt {
            what: "a test".into(),
        })
    });
    assert!(failed.is_err());
    let kept = store.read(|session| session.setting("half")).unwrap();
    assert_eq!(kept, None);
}

#[test]
fn refusals_are_bounded() {
    let mut store = crate::stored::empty();
    store
        .write(|session| {
            for number in 0..1010 {
                session.add_refusal(&crate::store::IngestRefusal {
                    at_ms: number,
                    source: "flood".into(),
                    site: Some(format!("site-{number}")),
                    rule: "malformed".into(),
                    message: "x".repeat(5_000),
                    times: 1,
                    first_ms: number,
                })?;
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
    let kept = store.read(|session| session.refusals(2_000)).unwrap();
    assert_eq!(
        (kept.len(), kept[0].at_ms, kept[0].message.len()),
        (500, 1009, 600)
    );
}

#[test]
fn a_second_store_in_the_same_folder_is_refused_and_a_newer_one_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    Store::create(folder.path()).unwrap();
    assert!(matches!(
        Store::create(folder.path()),
        Err(StoreError::Exists { .. })
    ));
    let db = rusqlite::Connection::open(folder.path().join(crate::store::FILE_NAME)).unwrap();
    db.execute("INSERT INTO migrations (version) VALUES (99)", [])
        .unwrap();
    assert!(matches!(
        Store::open(folder.path()),
        Err(StoreError::Newer { found: 99, .. })
    ));
}

#[test]
fn a_recorded_bundle_reads_back() {
    let mut store = crate::stored::empty();
    let mut index = plain::index(&plain::stream("dev", "drone"), 4, NEW);
    index.assignments[1]
        .overlays
        .push(outhaul_bundle::index::Overlay {
            sites: ["special".parse().unwrap()].into(),
            config_version: plain::config(9, "own"),
            files: Vec::new(),
        });
    index.assignments[1].sites = Some(["special".parse().unwrap(), "a".parse().unwrap()].into());
    let content = plain::content(&index);
    let signed = Signed {
        issued_ms: 1,
        signed_as: 9,
        expires_ms: 2,
    };
    store
        .write(|session| session.add_bundle(&index, content, signed, 3))
        .unwrap();
    let (bundles, assignments) = store
        .read(|session| {
            let role = index.stream.role.as_str();
            Ok::<_, StoreError>((session.bundles()?, session.bundle_assignments(role, 4)?))
        })
        .unwrap();
    assert_eq!(
        (bundles[0].number, bundles[0].base_commit.as_str()),
        (4, NEW)
    );
    assert_eq!(bundles[0].signed, signed);
    assert_eq!(assignments[0].policies, ["functional-test"]);
    assert_eq!(assignments.len(), 2);
    let own = plain::config(9, "own").to_string();
    assert_eq!(assignments[1].config_for("special"), own);
    assert_eq!(
        assignments[1].config_for("a"),
        assignments[1].config_version
    );
    assert!(assignments[0].own.is_empty());
    assert!(assignments[0].is_for("b") && assignments[1].is_for("a"));
    assert!(!assignments[1].is_for("b"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any order, any batches, any repetition: the same state and the same acknowledgement.
    #[test]
    fn the_order_of_arrival_does_not_matter(
        order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle(),
        again in proptest::collection::vec(0..8usize, 0..6),
        cut in 0..8usize,
    ) {
        let mut site = Site::new("a", "dev", "drone");
        let mut store = store_with(&[&site]);
        let lines: Vec<_> = (1..=8u64)
            .map(|n| site.state(n, NEW, if n % 3 == 0 { G::Failed } else { G::Active }, C::Compliant))
            .collect();
        let pick = |ids: &[usize]| ids.iter().map(|id| lines[*id].clone()).collect::<Vec<_>>();
        let mut accepted = take(&mut store, &pick(&order[..cut]), 100).accepted;
        accepted += take(&mut store, &pick(&again), 100).accepted;
        let done = take(&mut store, &pick(&order[cut..]), 100);
        accepted += done.accepted;
        prop_assert_eq!(accepted, 8);
        let done = take(&mut store, &lines, 100);
        prop_assert_eq!((done.duplicates, done.complete[0].number), (8, 8));
        prop_assert_eq!(runs(&mut store, "a"), Some((8, "active".to_owned(), 8)));
        prop_assert_eq!(state(&mut store, "a").missing, vec![]);
    }
}
