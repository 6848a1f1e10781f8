//! What is written is what is read: every site that the machine can reach survives the database.

use std::path::Path;

use jiff::Timestamp;
use outhaul_bundle::Digest;
use outhaul_bundle::fake::FakeBundle;
use outhaul_signer::{LowerBound, SigningKey};

use super::*;
use crate::machine::tests::reachable_sites;
use crate::state::Store;
use crate::state::clock::ClockReading;
use crate::state::holds::AssignmentHold;

/// More numbers than any of the sites has.
const NUMBERS: u64 = 4;

struct Speaker {
    site: state::SiteIdentity,
    key: SigningKey,
    reading: ClockReading,
}

impl Speaker {
    fn new() -> Self {
        let index = FakeBundle::new(1, &[]).unwrap().index;
        Self {
            site: state::SiteIdentity {
                fleet: "f".parse().unwrap(),
                name: "s".parse().unwrap(),
                stream: index.stream,
                hub_url: String::new(),
                hub_key: String::new(),
                epoch: "e".parse().unwrap(),
                enrolment: None,
                hub_ca: String::new(),
            },
            key: SigningKey::generate().unwrap(),
            reading: ClockReading {
                bound: LowerBound::new(Timestamp::UNIX_EPOCH),
                wall: Timestamp::UNIX_EPOCH,
                wall_trusted: false,
                boot: None,
            },
        }
    }

    fn author(&self) -> Author<'_> {
        Author {
            site: &self.site,
            key: &self.key,
            reading: &self.reading,
            max_rows: 100,
        }
    }
}

/// Rows of bundles that ran once or never, as the events before left them.
fn rows(db: &Connection, site: &Site) {
    let index = FakeBundle::new(1, &[]).unwrap().index;
    db.execute_batch("DELETE FROM generation; DELETE FROM meta")
        .unwrap();
    for number in 1..=NUMBERS {
        let ran = site.active.is_some_and(|active| active.number == number);
        let generation = Generation {
            number,
            index: Digest::of(&[u8::try_from(number).unwrap()]),
            state: State::Superseded,
            stream: index.stream.clone(),
            snapshot: index.snapshot.clone(),
            source: String::new(),
            note: crate::state::Note::default(),
            good: ran || site.earlier.contains(&number),
            whole: true,
            signers: std::collections::BTreeSet::new(),
        };
        generations::put(db, &generation).unwrap();
    }
}

#[test]
fn every_site_that_can_be_reached_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(Path::new(&folder.path().join("agent.db"))).unwrap();
    let speaker = Speaker::new();
    let sites = reachable_sites();
    assert!(sites.len() > 300, "{}", sites.len());
    let read = |db: &Transaction<'_>| {
        for site in &sites {
            rows(db, site);
            let pinned = site.pins.iter().map(|pin| {
                let hold = AssignmentHold {
                    who: "ann".into(),
                    why: String::new(),
                    generation: Some(*pin),
                    approves: None,
                };
                (format!("a{pin}"), hold)
            });
            let pinned = Decision::Assignments(pinned.collect());
            let mut decisions = vec![pinned];
            if site.hold {
                decisions.push(Decision::Hold(Hold {
                    who: "ann".into(),
                    why: String::new(),
                    until: None,
                }));
            }
            if matches!(site.work, Work::Reverting { decided: true, .. }) {
                decisions.push(Decision::Rollback("ann".into()));
            }
            // Each decision is one transition; the last one leads to this site.
            for decision in decisions {
                let decided = Transition::decided(Event::Held, "", decision);
                save(
                    db,
                    &speaker.author(),
                    (&Site::default(), site),
                    &[],
                    &decided,
                )?;
            }
            assert_eq!(load(db)?, *site);
        }
        Ok::<_, StateError>(())
    };
    store.commit(read).unwrap();
}

/// How many reports wait after the same look, with these changes of it, `at_s` after the first.
#[test]
fn a_look_that_finds_what_was_reported_is_reported_again_after_its_time_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(Path::new(&folder.path().join("agent.db"))).unwrap();
    let mut speaker = Speaker::new();
    let number = 1;
    let site = Site {
        active: Some(Active {
            number,
            broken: false,
        }),
        ..Site::default()
    };
    let result = |message: &str| AssignmentResult {
        name: "app".parse().unwrap(),
        config_version: Digest::of(b""),
        status: outhaul_bundle::report::ComplianceStatus::Compliant,
        message: message.into(),
        steps: Vec::new(),
    };
    let mut reported = |at_s: i64, event: Event, message: &str| {
        speaker.reading.wall = Timestamp::from_second(at_s).unwrap();
        let transition = Transition {
            unchanged_ms: 3_600_000,
            ..Transition::with(event, "", vec![result(message)])
        };
        let actions = match event {
            Event::Repaired => [Action::Report(number, State::Active)],
            _ => [Action::ReportAgain(number, State::Active)],
        };
        let save = |db: &Transaction<'_>| {
            if generations::all(db)?.is_empty() {
                rows(db, &site);
            }
            let before = outbox::count(db)?;
            let author = speaker.author();
            save(db, &author, (&site, &site), &actions, &transition)?;
            Ok::<_, StateError>(outbox::count(db)? - before)
        };
        store.commit(save).unwrap()
    };
    let observed = Event::Observed(number);
    assert_eq!(reported(1_000, observed, ""), 1, "the first");
    assert_eq!(reported(1_900, observed, ""), 0);
    assert_eq!(reported(2_800, observed, "other"), 1, "it found something");
    assert_eq!(reported(3_700, observed, ""), 1, "it is as before again");
    assert_eq!(reported(7_299, observed, ""), 0);
    assert_eq!(reported(7_300, observed, ""), 1, "the last one is old");
    assert_eq!(reported(7_000, observed, ""), 1, "by another clock");
    assert_eq!(reported(7_100, Event::Repaired, ""), 1, "it is no look");
    assert_eq!(reported(7_200, observed, ""), 1, "the first look after it");
    assert_eq!(reported(7_300, observed, ""), 0);
}
