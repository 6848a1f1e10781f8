//! Removals where the clock, the key, the environment or the number of reports at once is not the usual one.

use std::collections::BTreeMap;

use outhaul_bundle::report::ReportEvent;
use outhaul_bundle::{Instruction, Order};
use outhaul_gate::fold::Removed;

use super::super::{store_with, take};
use super::{import, looked_a_hundred_times, moment, of_a_strangers_key, remove, removed, rule};
use crate::error::HubError;
use crate::fake::{self, FLEET, NEW, Site};
use crate::retention::{self, Rule};
use crate::store::{Carrier, Signed, Store};
use crate::time::DAY_MS;

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
        let rule = Rule {
            at_once: 4,
            ..rule(7)
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
        let done = retention::remove(&mut store, &rule(7), 900 * DAY_MS, is_trial, &|| false);
        let error = done.unwrap_err();
        assert!(matches!(error, HubError::Clock { .. }), "{error}");
        assert_eq!(removed(&mut store), Removed::default());
    }
    let done = retention::remove(&mut store, &rule(7), 300 * DAY_MS, false, &|| false).unwrap();
    assert_eq!(done.reports, 99);
}

#[test]
fn what_the_gate_of_another_environment_saw_stays_after_the_site_went_to_this_one() {
    let seen_by_dev = |store: &mut Store| {
        remove(store, 5_000, &[moment(305, 0)]);
        removed(store).of("e1").to_vec()
    };
    let (mut site, mut store, _) = looked_a_hundred_times();
    site.stream = fake::stream("stage", "drone");
    let checked = crate::enrol::check(&site.request(), FLEET).unwrap();
    let again = store.write(|session| crate::enrol::approve(session, &checked, true, 2_000));
    again.unwrap();
    assert_eq!(seen_by_dev(&mut store), [(2, 30), (32, 100)]);

    let (mut site, mut store, _) = looked_a_hundred_times();
    site.stream = fake::stream("stage", "drone");
    let what = Instruction::Move {
        to: site.stream.clone(),
        first: 1,
    };
    let order = Order {
        site: fake::name("a"),
        enrolment: site.enrolment(fake::TOKEN),
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
