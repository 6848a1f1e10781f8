//! Removals where the clock, the key, the environment or the number of reports at once is not the usual one.

use std::collections::BTreeMap;

use outhaul_bundle::report::ReportEvent;
use outhaul_bundle::{Instruction, Order};
use outhaul_gate::fold::Removed;
use outhaul_kit::failure::Classified as _;
use outhaul_test_kit::plain::{self, FLEET, NEW};
use outhaul_test_kit::{Site, TOKEN};

use super::super::{state, store_with, take};
use super::{
    another_reports, import, looked_a_hundred_times, moment, of_a_strangers_key, remove, removed,
    week, with_one_site,
};
use crate::error::HubError;
use crate::retention::{self, Rule};
use crate::store::{Carrier, Signed, Store, StoreError};
use crate::time::DAY_MS;
use crate::view::{AssignmentView, SiteView, TimelineRow};

#[test]
fn what_the_report_after_it_confirmed_is_known_when_it_comes_again_after_it_was_removed() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let mut lines: Vec<_> = (0..30).map(|_| site.active(1, NEW)).collect();
    let strangers: Vec<bool> = (1..=30).map(|number| (11..=20).contains(&number)).collect();
    of_a_strangers_key(&site, &mut lines, &strangers);
    take(&mut store, &lines[..21], 10);
    take(&mut store, &lines[21..], 20);
    // Number 21 is what a gate saw.
    remove(&mut store, 5_000, &[moment(15, 0)]);
    assert_eq!(removed(&mut store).of("e1"), [(2, 20), (22, 29)]);
    let again = import(&mut store, &lines[..21], 30);
    assert_eq!(
        (again.accepted, again.no_longer_kept, again.refused_lines),
        (0, 19, 0)
    );
    // One that nothing names is refused.
    let one = import(&mut store, &lines[14..15], 40);
    assert_eq!((one.accepted, one.refused_lines), (0, 1));
}

#[test]
fn reports_of_one_moment_are_looked_at_together_and_parts_go_on_after_what_all_stays() {
    let mut would = None;
    for is_trial in [true, false] {
        let mut site = Site::new("a", "dev", "drone");
        let mut store = store_with(&[&site]);
        // All of the first stay, and more came in one moment than are looked at together.
        let lines: Vec<_> = (0..9).map(|_| site.started()).collect();
        take(&mut store, &lines[..1], 10);
        let refusal = |site: &mut Site| {
            site.say(ReportEvent::Refusal {
                source: "stick".to_owned(),
                rule: "signature".to_owned(),
                message: "not signed".to_owned(),
            })
        };
        take(&mut store, &lines[1..], 10);
        let stay: Vec<_> = (0..9).map(|_| refusal(&mut site)).collect();
        take(&mut store, &stay, 20);
        for number in 0..9 {
            let line = site.active(1, NEW);
            take(&mut store, &[line], 30 + number);
        }
        another_reports(&mut store, 900 * DAY_MS);
        let rule = Rule {
            at_once: 4,
            ..week()
        };
        let done = retention::remove(&mut store, &rule, 900 * DAY_MS, is_trial, &|| false).unwrap();
        assert_eq!(
            done.reports + done.kept.values().sum::<u64>(),
            27,
            "{done:?}"
        );
        // Of each part the newest stays, and the first of all.
        assert!((11..=14).contains(&done.reports), "{done:?}");
        let found = (done.reports, done.kept);
        assert_eq!(would.get_or_insert(found.clone()), &found);
    }
}

#[test]
fn nothing_is_removed_by_a_clock_that_is_years_ahead() {
    let (_, mut store, _) = looked_a_hundred_times();
    let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
    let issued = r#"{"signed": {"version": 1, "issued": "1970-01-10T00:00:00Z"}}"#;
    let files = BTreeMap::from([
        file("root.json", r#"{"signed": {"version": 1}}"#),
        file("timestamp.json", issued),
    ]);
    let trusted = store.write(|session| session.set_trusted("s", &files, &BTreeMap::new()));
    trusted.unwrap();
    for is_trial in [true, false] {
        let done = retention::remove(&mut store, &week(), 900 * DAY_MS, is_trial, &|| false);
        let error = done.unwrap_err().error;
        assert!(matches!(error, HubError::Clock { .. }), "{error}");
        assert_eq!(removed(&mut store), Removed::default());
    }
    // A year ahead is plausible by what the fleet signed: the age counts from what came in last.
    let done = retention::remove(&mut store, &week(), 375 * DAY_MS, false, &|| false).unwrap();
    assert_eq!((done.reports, removed(&mut store)), (0, Removed::default()));
    another_reports(&mut store, 20 * DAY_MS);
    let done = retention::remove(&mut store, &week(), 375 * DAY_MS, false, &|| false).unwrap();
    assert_eq!((done.reports, done.before_ms), (99, 14 * DAY_MS));
}

#[test]
fn a_removal_that_fails_in_the_middle_says_what_it_removed_and_the_next_goes_on() {
    let (_folder, mut store, mut site) = with_one_site();
    let mut lines = Vec::new();
    for _ in 0..4 {
        lines.extend((0..2).map(|_| site.active(1, NEW)));
        // It stays, so that each part is one transaction.
        lines.push(site.say(ReportEvent::Refusal {
            source: "stick".to_owned(),
            rule: "signature".to_owned(),
            message: "not signed".to_owned(),
        }));
    }
    take(&mut store, &lines, 10);
    // Of an older removal by the same person, whose clock was ahead.
    let older = store.write(|session| session.begin_removal(("ann", "older"), 1, 2_000 * DAY_MS));
    assert_eq!(older.unwrap(), 1);
    another_reports(&mut store, 900 * DAY_MS);
    let fails = "CREATE TRIGGER fails BEFORE DELETE ON reports WHEN OLD.number = 7
                 BEGIN SELECT RAISE(ABORT, 'no space'); END";
    store.connection().execute(fails, []).unwrap();
    let failed = retention::remove(&mut store, &week(), 900 * DAY_MS, false, &|| false);
    let failed = failed.unwrap_err();
    assert!(matches!(failed.error, HubError::Store(_)));
    assert_eq!((failed.done.reports, failed.done.removal), (3, Some(2)));
    assert_eq!(removed(&mut store).of("e1"), [(2, 2), (4, 5)]);
    store
        .connection()
        .execute("DROP TRIGGER fails", [])
        .unwrap();
    let done = retention::remove(&mut store, &week(), 900 * DAY_MS, false, &|| false).unwrap();
    assert_eq!(
        removed(&mut store).of("e1"),
        [(2, 2), (4, 5), (7, 8), (10, 10)]
    );
    assert_eq!(done.reports, 3);
}

#[test]
fn what_was_removed_before_an_error_is_said_after_it() {
    let said = |reports| {
        let error = HubError::Removal {
            source: Box::new(HubError::Store(crate::store::StoreError::Corrupt {
                what: "a row".to_owned(),
            })),
            reports,
            number: 7,
        };
        error.help().unwrap()
    };
    let one = "1 report was removed before that, number 7 on record; the same command continues with the others";
    assert!(said(1).starts_with(one), "{}", said(1));
    assert!(
        said(500).starts_with("500 reports were removed"),
        "{}",
        said(500)
    );
}

#[test]
fn what_the_gate_of_another_environment_saw_stays_after_the_site_went_to_this_one() {
    let seen_by_dev = |store: &mut Store| {
        remove(store, 5_000, &[moment(305, 0)]);
        removed(store).of("e1").to_vec()
    };
    let (mut site, mut store, _) = looked_a_hundred_times();
    site.stream = plain::stream("stage", "drone");
    let checked = crate::enrol::check(&site.request(), FLEET).unwrap();
    let again = store.write(|session| crate::enrol::approve(session, &checked, true, 2_000));
    again.unwrap();
    assert_eq!(seen_by_dev(&mut store), [(2, 30), (32, 100)]);

    let (mut site, mut store, _) = looked_a_hundred_times();
    site.stream = plain::stream("stage", "drone");
    let what = Instruction::Move {
        to: site.stream.clone(),
        first: 1,
    };
    let order = Order {
        site: plain::name("a"),
        enrolment: site.enrolment(TOKEN),
        number: 1,
        what,
    };
    let carrier = Carrier {
        role: "s-dev-drone",
        number: 1,
        signed: Signed {
            issued_ms: 5,
            signed_as: 1,
            expires_ms: 99,
        },
    };
    let moved = store.write(|session| {
        session.add_order(&order, &carrier, 5)?;
        session.move_site("a", &site.stream)
    });
    moved.unwrap();
    assert_eq!(seen_by_dev(&mut store), [(2, 30), (32, 100)]);
}

/// As where a gate decided at every second report.
fn every_second_is_gone() -> Store {
    let (_, mut store, _) = looked_a_hundred_times();
    let gone = store.write(|session| {
        let removal = session.begin_removal(("ann", "older"), 5_000, 5_000)?;
        for number in 1..=45 {
            session.remove_reports(
                ("a", "e1"),
                (2 * number, 2 * number),
                (removal, 5_000, 5_000),
            )?;
        }
        session.end_removal(removal, 5_000)
    });
    gone.unwrap();
    store
}

#[test]
fn a_site_was_well_without_a_break_since_the_highest_report_that_is_gone() {
    let mut store = every_second_is_gone();
    let site = state(&mut store, "a");
    let since = store.read(|session| session.well_since(&site, 1, 0));
    // Number 90 is gone, and what it told is not known.
    assert_eq!(since.unwrap(), Some(900));
}

#[test]
fn pages_and_answers_have_a_bounded_number_of_the_ranges_of_a_site() {
    let mut store = every_second_is_gone();
    store
        .read(|session| {
            let some = |after, at_most| session.removed_ranges("a", after, at_most);
            let first = |ranges: &[crate::store::RemovedRange]| -> Vec<u64> {
                ranges.iter().map(|range| range.first).collect()
            };
            assert_eq!(first(&some(None, 2)?), [2, 4]);
            assert_eq!(first(&some(Some(("e1", 4)), 2)?), [6, 8]);
            assert!(some(Some(("e1", 90)), 2)?.is_empty());
            let within = |part, at_most| session.removed_within(("a", "e1"), part, at_most);
            assert_eq!(first(&within((4, 9), 9)?), [8, 6, 4]);
            assert_eq!(first(&within((1, u64::MAX), 2)?), [90, 88]);
            assert!(within((91, 200), 9)?.is_empty());
            let view = AssignmentView::of(session, ("a", "maps-uat"), None, 5_000)?.unwrap();
            let shown = first(&view.no_longer_kept);
            assert_eq!((shown[0], shown.len()), (90, 20));
            assert_eq!(view.more_no_longer_kept, 25);
            // Each look stands alone up to the last one that is gone.
            assert_eq!((view.history[0].first, view.history[1].first), (91, 89));
            let site = SiteView::of(session, "a", None, 5_000)?.unwrap();
            let all = site.no_longer_kept["e1"];
            assert_eq!((all.ranges, all.reports, all.since_ms), (45, 45, 5_000));
            let removed = |row: &&TimelineRow| matches!(row, TimelineRow::Removed { .. });
            let rows = site.timeline.iter();
            // Reports 101 to 91, and 39 others, below each of which one is gone.
            assert_eq!(rows.filter(removed).count(), 40);
            Ok::<_, StoreError>(())
        })
        .unwrap();
}
