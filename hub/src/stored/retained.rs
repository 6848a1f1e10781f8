//! Old reports that are removed: whatever a decision saw, and whatever is the present, is the same without them.

use std::collections::BTreeMap;

use outhaul_bundle::report::{
    ComplianceStatus as C, GenerationState as G, PAYLOAD_TYPE, Report, ReportEvent,
};
use outhaul_gate::facts::SiteState;
use outhaul_gate::fold::{self, Removed, SeenReport};
use outhaul_signer::envelope::Envelope;
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{FLEET, NEW};
use proptest::prelude::*;

use super::kept::{Step, lines_of, seen, steps};
use super::{state, store_with, take};
use crate::ingest::{Batch, Ingested, ingest};
use crate::retention::{self, Rule};
use crate::store::{GateMoment, KeptBecause, Store, StoreError};
use crate::time::DAY_MS;

/// What one report tells: as in other histories, or a look at what runs, which comes again and again.
#[derive(Debug, Clone)]
enum Told {
    Step(Step),
    Look(u64, G, C),
}

fn told() -> impl Strategy<Value = Vec<Told>> {
    let states = prop_oneof![3 => Just(G::Active), 1 => Just(G::Failed)];
    let statuses = prop_oneof![4 => Just(C::Compliant), 1 => Just(C::Drifted)];
    let look =
        (1..4u64, states, statuses).prop_map(|(bundle, state, how)| Told::Look(bundle, state, how));
    let looks = proptest::collection::vec(look, 1..8);
    let some = (steps(), looks).prop_map(|(steps, looks)| {
        let mut told: Vec<Told> = steps.into_iter().take(4).map(Told::Step).collect();
        told.extend(looks);
        told
    });
    proptest::collection::vec(some, 1..5).prop_map(|parts| parts.concat())
}

fn lines(site: &mut Site, told: &[Told]) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for (at, one) in told.iter().enumerate() {
        match one {
            Told::Step(Step::Starts) => {
                site.forget(&format!("e{}", at + 2));
                lines.push(site.active(1, NEW));
            }
            Told::Step(step) => lines.extend(lines_of(site, std::slice::from_ref(step))),
            Told::Look(bundle, state, status) => {
                let event = site.event(*bundle, NEW, *state, *status);
                lines.push(site.say(ReportEvent::Observation(event)));
            }
        }
    }
    lines
}

/// Some of a site's lines signed by a key that the hub never heard of.
fn of_a_strangers_key(site: &Site, lines: &mut [Vec<u8>], which: &[bool]) {
    let key = outhaul_signer::key::SigningKey::generate().unwrap();
    for (line, _) in lines.iter_mut().zip(which).filter(|(_, is)| **is) {
        let envelope = Envelope::from_json(line).unwrap();
        // One that is not chained is refused whoever signs it, and a numbering begins with a report that is signed by the key on record.
        let report = Report::from_bytes(envelope.unverified_payload());
        if report.is_ok_and(|report| report.number > 1) {
            let payload = envelope.unverified_payload().to_vec();
            *line = outhaul_test_kit::line(Envelope::sign(PAYLOAD_TYPE, payload, &key).to_json());
        }
    }
    assert_ne!(key.public().id(), site.key.public().id());
}

fn import(store: &mut Store, lines: &[Vec<u8>], received_ms: i64) -> Ingested {
    let batch = Batch {
        fleet: FLEET,
        via: "test",
        received_ms,
    };
    ingest(store, lines.concat().as_slice(), &batch).unwrap()
}

/// Removes everything that was received before a moment and may go; returns how many, and how many others stay for which reason.
fn remove(
    store: &mut Store,
    before_ms: i64,
    moments: &[GateMoment],
) -> (u64, BTreeMap<KeptBecause, u64>) {
    remove_in_parts(store, before_ms, moments, 1_000)
}

/// The same, so many looked at together.
fn remove_in_parts(
    store: &mut Store,
    before_ms: i64,
    moments: &[GateMoment],
    at_once: u32,
) -> (u64, BTreeMap<KeptBecause, u64>) {
    store
        .write(|session| {
            let removal = session.begin_removal(("ann", "older"), before_ms, before_ms)?;
            let mut count = 0;
            let mut kept = BTreeMap::new();
            let mut from_ms = i64::MIN;
            while let Some(old) = session.old_reports("a", (from_ms, before_ms), at_once)? {
                let plan = old.removable(moments);
                for epoch in &plan.epochs {
                    for number in &epoch.numbers {
                        let place = ("a", epoch.epoch.as_str());
                        let range = (*number, *number);
                        count += session
                            .remove_reports(place, range, (removal, before_ms, before_ms))?
                            .0;
                    }
                }
                for (because, some) in plan.kept {
                    *kept.entry(because).or_default() += some;
                }
                if old.before_ms >= before_ms {
                    break;
                }
                from_ms = old.before_ms;
            }
            session.end_removal(removal, before_ms)?;
            Ok::<_, StoreError>((count, kept))
        })
        .unwrap()
}

fn removed(store: &mut Store) -> Removed {
    let ranges = store
        .read(|session| session.removed_ranges("a", None, 1_000))
        .unwrap();
    let mut found = Removed::default();
    for range in ranges {
        let of = found.0.entry(range.epoch).or_default();
        of.push((range.first, range.last));
    }
    found
}

/// What the gate saw at a moment: the state, and since when the site was well.
fn saw(store: &mut Store, moment: &GateMoment) -> (SiteState, Option<i64>) {
    let reports: Vec<SeenReport> = seen(store);
    let removed = removed(store);
    let mut site = SiteState {
        newest: None,
        running: None,
        attempt: None,
        missing: Vec::new(),
        declared_lost: Vec::new(),
        ..state(store, "a")
    };
    fold::present(&mut site, &reports, &removed, moment.at_ms);
    let enough_ms = moment.at_ms - moment.soak_ms;
    let times = (enough_ms, moment.at_ms);
    let since = fold::well_since(&site, (&reports, &removed), 1, times, None);
    // Of those that are well for long enough it does not matter since when.
    (
        site,
        since
            .map(|since| since.max(enough_ms))
            .filter(|_| moment.soak_ms > 0),
    )
}

fn moment(at_ms: i64, soak_ms: i64) -> GateMoment {
    GateMoment {
        id: at_ms,
        environment: "dev".to_owned(),
        at_ms,
        soak_ms,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_decisions_saw_and_the_present_are_the_same_without_what_was_removed(
        (told, order) in told().prop_flat_map(|told| {
            let places: Vec<usize> = (0..told.len()).collect();
            // Most come in order, some late.
            let late = proptest::collection::vec(prop_oneof![5 => Just(0usize), 1 => 1..9usize], told.len());
            (Just(told), late.prop_map(move |late| {
                let mut order = places.clone();
                order.sort_by_key(|at| at + late[*at]);
                order
            }))
        }),
        at_once in 1..4usize,
        asked in proptest::collection::vec((0..300i64, prop_oneof![2 => Just(0i64), 1 => 1..150i64]), 0..6),
        (first, then) in (0..200i64, 0..200i64),
        looks_back in prop_oneof![Just(0i64), 1..200i64],
        parts in prop_oneof![Just(1_000u32), 1..6u32],
        strangers in proptest::collection::vec(prop_oneof![3 => Just(false), 1 => Just(true)], 20),
    ) {
        let mut site = Site::new("a", "dev", "drone");
        let mut store = store_with(&[&site]);
        let mut lines = lines(&mut site, &told);
        of_a_strangers_key(&site, &mut lines, &strangers);
        for (at, part) in order.chunks(at_once).enumerate() {
            let part: Vec<_> = part.iter().map(|at| lines[*at].clone()).collect();
            import(&mut store, &part, 10 + 10 * i64::try_from(at).unwrap());
        }
        // What another key signed counts where the report after it does.
        let refused = import(&mut store, &lines, 150).refused_lines;
        let now = state(&mut store, "a");
        let mut moments: Vec<GateMoment> = asked.iter().map(|(at, soak)| moment(*at, *soak)).collect();
        moments.push(moment(1_000, looks_back));
        moments.sort_by_key(|moment| moment.at_ms);
        let before: Vec<_> = moments.iter().map(|one| saw(&mut store, one)).collect();
        for before_ms in [first, first + then] {
            // What no decision asked about is the same for every moment from then on.
            let later: Vec<GateMoment> = (0..4).map(|at| moment(before_ms + 40 * at, 0)).collect();
            let saw_later: Vec<_> = later.iter().map(|one| saw(&mut store, one)).collect();
            remove_in_parts(&mut store, before_ms, &moments, parts);
            for (one, before) in moments.iter().zip(&before).chain(later.iter().zip(&saw_later)) {
                prop_assert_eq!(&saw(&mut store, one), before, "at {}", one.at_ms);
            }
            prop_assert_eq!(&state(&mut store, "a"), &now);
            let (kept, reported) = store
                .read(|session| Ok::<_, StoreError>((session.site_states()?, session.site_states_from_history()?)))
                .unwrap();
            prop_assert_eq!(kept, reported);
        }
        // None is counted again, in whatever order they come again.
        let again = import(&mut store, &lines, 2_000);
        prop_assert_eq!(again.accepted, 0);
        prop_assert_eq!(again.refused_lines, refused);
        let gone = removed(&mut store);
        let ranges = gone.0.values().flatten();
        let gone: u64 = ranges.map(|(from, to)| to - from + 1).sum();
        prop_assert_eq!(again.no_longer_kept, gone);
        prop_assert_eq!(&state(&mut store, "a"), &now);
    }
}

/// A site that looks at what runs a hundred times, every ten milliseconds.
fn looked_a_hundred_times() -> (Site, Store, Vec<Vec<u8>>) {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let mut lines = vec![site.active(1, NEW)];
    for _ in 0..100 {
        let event = site.event(1, NEW, G::Active, C::Compliant);
        lines.push(site.say(ReportEvent::Observation(event)));
    }
    for (at, line) in (0i64..).zip(&lines) {
        take(&mut store, std::slice::from_ref(line), 10 * at);
    }
    (site, store, lines)
}

#[test]
fn most_looks_go_and_the_first_the_last_and_the_acknowledged_one_stay() {
    let (mut site, mut store, lines) = looked_a_hundred_times();
    let (count, kept) = remove(&mut store, 500, &[]);
    // Report 1, and report 50, which is the newest of the old ones.
    assert_eq!((count, kept.values().sum()), (48, 2));
    assert_eq!(removed(&mut store).of("e1"), [(2, 49)]);
    // All of it: the newest is the acknowledged one and the present state.
    assert_eq!(remove(&mut store, 5_000, &[]).0, 51);
    assert_eq!(removed(&mut store).of("e1"), [(2, 100)]);
    let ranges = store
        .read(|session| session.removed_ranges("a", None, 1_000))
        .unwrap();
    assert_eq!(
        (ranges.len(), ranges[0].since_ms, &*ranges[0].by),
        (1, 500, "ann")
    );
    let removals = store.read(|session| session.removals(9)).unwrap();
    let removals: Vec<_> = removals
        .iter()
        .map(|one| (one.id, one.reports, one.ended_ms))
        .collect();
    assert_eq!(removals, [(2, 51, Some(5_000)), (1, 48, Some(500))]);
    let again = take(&mut store, &lines, 6_000);
    assert_eq!(
        (again.accepted, again.duplicates, again.no_longer_kept),
        (0, 101, 99)
    );
    assert_eq!(again.complete[0].number, 101);
    let next = take(&mut store, &[site.active(1, NEW)], 6_000);
    assert_eq!((next.accepted, next.complete[0].number), (1, 102));
}

#[test]
fn what_a_gate_looks_back_to_stays_and_what_is_gone_breaks_a_longer_run() {
    let (_, mut store, _) = looked_a_hundred_times();
    remove(&mut store, 900, &[moment(1_000, 300)]);
    let site = state(&mut store, "a");
    let since = |store: &mut Store, enough_ms| {
        store
            .read(|session| session.well_since(&site, 1, enough_ms))
            .unwrap()
    };
    assert_eq!(since(&mut store, 700), Some(700));
    // Report 1 stays and is well, and nobody knows what was between.
    assert_eq!(since(&mut store, 0), Some(700));
}

#[test]
fn a_report_of_a_removed_number_by_a_strangers_key_is_refused() {
    let (mut site, mut store, _) = looked_a_hundred_times();
    remove(&mut store, 5_000, &[]);
    site.next = 40;
    site.key = outhaul_signer::key::SigningKey::generate().unwrap();
    let done = import(&mut store, &[site.active(1, NEW)], 6_000);
    assert_eq!(
        (done.no_longer_kept, &*done.refused[0].rule),
        (0, "signature")
    );
}

#[test]
fn nothing_of_a_site_goes_of_which_two_machines_reported() {
    let (mut site, mut store, _) = looked_a_hundred_times();
    site.next = 30;
    site.previous = Some(outhaul_bundle::Digest::of(b"of another machine"));
    let done = import(&mut store, &[site.active(2, NEW)], 1_500);
    assert_eq!(done.refused[0].rule, "exchanged");
    let (count, kept) = remove(&mut store, 5_000, &[]);
    assert_eq!((count, kept.get(&KeptBecause::Conflict)), (0, Some(&101)));
}

#[test]
fn results_that_no_report_names_any_more_are_gone_and_others_stay() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    for (at, status) in (0i64..).zip([
        C::Compliant,
        C::Drifted,
        C::Compliant,
        C::Failed,
        C::Compliant,
    ]) {
        let event = site.event(1, NEW, G::Active, status);
        let line = site.say(ReportEvent::Observation(event));
        take(&mut store, &[line], 10 * at);
    }
    let sets = |store: &Store| -> i64 {
        let text = "SELECT COUNT(DISTINCT digest) FROM assignment_sets";
        store
            .connection()
            .query_row(text, [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(sets(&store), 3);
    remove(&mut store, 40, &[]);
    assert_eq!(sets(&store), 2, "report 4 is the newest of the old ones");
    remove(&mut store, 400, &[]);
    assert_eq!(sets(&store), 1);
}

fn week() -> Rule {
    Rule::by_hand(7, "ann")
}

/// Another site reports: its reports came in at `received_ms`, so that this may be the present.
fn another_reports(store: &mut Store, received_ms: i64) {
    let mut other = Site::new("z", "dev", "drone");
    let checked = crate::enrol::check(&other.request(), FLEET).unwrap();
    let approved = store.write(|session| crate::enrol::approve(session, &checked, true, 10));
    approved.unwrap();
    take(store, &[other.active(1, NEW)], received_ms);
}

#[test]
fn a_numbering_stays_whole_where_a_report_counts_by_the_one_after_it_only() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let another = outhaul_signer::key::SigningKey::generate().unwrap();
    let known = std::mem::replace(&mut site.key, another);
    let mut lines: Vec<_> = (0..3).map(|_| site.active(1, NEW)).collect();
    site.key = known;
    lines.extend((0..9).map(|_| site.active(1, NEW)));
    assert_eq!(take(&mut store, &lines, 10).accepted, 12);
    another_reports(&mut store, 900 * DAY_MS);
    let done = retention::remove(&mut store, &week(), 900 * DAY_MS, false, &|| false).unwrap();
    assert_eq!((done.reports, done.unconfirmed), (0, vec!["a".to_owned()]));
    // All of them signed by the key on record.
    site.forget("e2");
    let lines: Vec<_> = (0..9).map(|_| site.active(1, NEW)).collect();
    take(&mut store, &lines, 20);
    let done = retention::remove(&mut store, &week(), 900 * DAY_MS, false, &|| false).unwrap();
    assert_eq!(done.reports, 7);
    assert_eq!(removed(&mut store).of("e2"), [(2, 8)]);
}

/// A store in a file, which another connection may open, with one registered site.
fn with_one_site() -> (tempfile::TempDir, Store, Site) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path()).unwrap();
    let site = Site::new("a", "dev", "drone");
    let checked = crate::enrol::check(&site.request(), FLEET).unwrap();
    let approved = store.write(|session| crate::enrol::approve(session, &checked, false, 10));
    approved.unwrap();
    (folder, store, site)
}

#[test]
fn what_a_gate_decides_while_reports_are_removed_keeps_what_it_rests_on() {
    let (folder, mut store, mut site) = with_one_site();
    for number in 1..=9 {
        let line = site.active(1, NEW);
        take(&mut store, &[line], 10 * number);
    }
    another_reports(&mut store, 900 * DAY_MS);
    let gate = std::cell::RefCell::new(Some(Store::open(folder.path()).unwrap()));
    let decides = || {
        if let Some(mut gate) = gate.borrow_mut().take() {
            let decision = crate::store::PastDecision {
                id: 0,
                at_ms: 45,
                environment: "dev".to_owned(),
                commit: NEW.to_owned(),
                verdict: "closed".to_owned(),
                asked_by: "pipeline".to_owned(),
                to: None,
            };
            let kept = gate.write(|session| session.add_decision(&decision, "f", "{}", &[]));
            kept.unwrap();
        }
        false
    };
    let done = retention::remove(&mut store, &week(), 900 * DAY_MS, false, &decides).unwrap();
    assert_eq!(done.reports, 6);
    assert_eq!(removed(&mut store).of("e1"), [(2, 3), (5, 8)]);
}

#[test]
fn a_removal_that_is_stopped_says_so_and_is_not_ended() {
    let (_, mut store, _) = looked_a_hundred_times();
    another_reports(&mut store, 900 * DAY_MS);
    let done = retention::remove(&mut store, &week(), 900 * DAY_MS, false, &|| true).unwrap();
    assert_eq!((done.reports, done.removal, done.stopped), (0, None, true));
    assert_eq!(removed(&mut store), Removed::default());
}

mod cases;
