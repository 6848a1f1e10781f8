//! Walks the machine with every outcome and cuts the power between any two durable writes.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What is on disk: all that a power cut leaves.
#[derive(Debug, Default)]
struct Disk {
    state: Option<State>,
    reports: Vec<State>,
    refusals: u32,
    remembered: bool,
    /// Recorded results by (pass, assignment).
    results: BTreeMap<(&'static str, u8), bool>,
}

/// The host: what was really done, recorded or not.
#[derive(Debug, Default)]
struct Host {
    runs: BTreeMap<(&'static str, u8), u32>,
    /// Cut-off runs: each may be repeated once.
    interrupted: BTreeMap<(&'static str, u8), u32>,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent turn of fate"
)]
#[derive(Debug, Clone)]
struct Fate {
    assignments: u8,
    blobs_good: bool,
    gate_open: bool,
    fails_at: Option<u8>,
    healthy: bool,
    has_good: bool,
    revert_works: bool,
}

fn fate() -> impl Strategy<Value = Fate> {
    (1u8..5, any::<[bool; 5]>(), proptest::option::of(0u8..5)).prop_map(
        |(assignments, [blobs_good, gate_open, healthy, has_good, revert_works], fails_at)| Fate {
            assignments,
            blobs_good,
            gate_open,
            fails_at,
            healthy,
            has_good,
            revert_works,
        },
    )
}

/// Thrown by a cut.
struct Cut;

struct World {
    disk: Disk,
    host: Host,
    fate: Fate,
    fuel: u32,
}

impl World {
    fn instant(&mut self) -> Result<(), Cut> {
        self.fuel = self.fuel.checked_sub(1).ok_or(Cut)?;
        Ok(())
    }

    /// Commits one transition: state and its transactional actions together, or not at all.
    fn commit(&mut self, event: Event) -> Result<Vec<Action>, Cut> {
        let state = self.disk.state.unwrap_or(State::Received);
        let (next, actions) = step(state, event).unwrap();
        self.instant()?;
        self.disk.state = Some(next);
        for action in actions.iter().filter(|a| a.in_transaction()) {
            match action {
                Action::Report => self.disk.reports.push(next),
                Action::Refuse => self.disk.refusals += 1,
                Action::Remember => self.disk.remembered = true,
                _ => panic!("{action:?}"),
            }
        }
        self.instant()?;
        Ok(actions
            .into_iter()
            .filter(|a| !a.in_transaction())
            .collect())
    }

    fn pass(&mut self, name: &'static str, fails_at: Option<u8>) -> Result<bool, Cut> {
        for assignment in 0..self.fate.assignments {
            let key = (name, assignment);
            if let Some(good) = self.disk.results.get(&key) {
                if !good {
                    return Ok(false);
                }
                continue;
            }
            *self.host.runs.entry(key).or_default() += 1;
            *self.host.interrupted.entry(key).or_default() += 1;
            self.instant()?;
            let good = fails_at != Some(assignment);
            self.disk.results.insert(key, good);
            *self.host.interrupted.entry(key).or_default() -= 1;
            self.instant()?;
            if !good {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn perform(&mut self, action: Action) -> Result<Option<Event>, Cut> {
        self.instant()?;
        let broken = Event::Broken {
            can_revert: self.fate.has_good,
        };
        Ok(match action {
            Action::Stage if self.fate.blobs_good => Some(Event::Staged),
            Action::Stage => Some(Event::Refused),
            Action::AskGate if self.fate.gate_open => Some(Event::GateOpen),
            Action::AskGate => Some(Event::GateShut),
            Action::Apply => {
                let good = self.pass("apply", self.fate.fails_at)?;
                Some(if good { Event::Applied } else { broken })
            }
            Action::Watch => Some(if self.fate.healthy {
                Event::Healthy
            } else {
                broken
            }),
            Action::Revert => {
                let good = self.pass("revert", (!self.fate.revert_works).then_some(0))?;
                Some(if good {
                    Event::RevertDone
                } else {
                    Event::RevertBroken
                })
            }
            _ => None,
        })
    }

    fn drive(&mut self, first: Event) -> Result<(), Cut> {
        let mut event = Some(first);
        while let Some(now) = event.take() {
            for action in self.commit(now)? {
                event = self.perform(action)?.or(event);
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn a_cut_anywhere_loses_nothing_and_repeats_only_the_step_that_it_hit(
        fate in fate(), cuts in proptest::collection::vec(0u32..40, 0..6),
    ) {
        let mut world =
            World { disk: Disk::default(), host: Host::default(), fate: fate.clone(), fuel: 0 };
        for fuel in cuts.into_iter().chain([u32::MAX]) {
            world.fuel = fuel;
            let first = match world.disk.state {
                None => Event::Verified,
                Some(_) => Event::Resumed,
            };
            let _ = world.drive(first);
        }

        // Never forgotten: it ends where the same fate without cuts ends.
        let mut calm = World {
            disk: Disk::default(), host: Host::default(), fate, fuel: u32::MAX,
        };
        let _ = calm.drive(Event::Verified);
        prop_assert_eq!(world.disk.state, calm.disk.state);
        // Every state that was told once is told once.
        prop_assert_eq!(&world.disk.reports, &calm.disk.reports);
        prop_assert_eq!(world.disk.refusals, calm.disk.refusals);
        prop_assert_eq!(world.disk.remembered, calm.disk.remembered);
        prop_assert_eq!(&world.disk.results, &calm.disk.results);
        // Nothing is run again once its result is recorded.
        for (key, runs) in &world.host.runs {
            let interrupted = world.host.interrupted.get(key).copied().unwrap_or(0);
            prop_assert!(*runs <= 1 + interrupted, "{:?} ran {} times", key, runs);
        }
    }
}

#[test]
fn only_soaking_or_an_earlier_success_leads_to_active() {
    let events = [
        Event::Verified,
        Event::Refused,
        Event::Staged,
        Event::SourceLost,
        Event::GateOpen,
        Event::GateShut,
        Event::Applied,
        Event::Broken { can_revert: true },
        Event::Broken { can_revert: false },
        Event::Healthy,
        Event::RollbackOrdered,
        Event::RevertDone,
        Event::RevertBroken,
        Event::Superseded,
        Event::Reinstated,
    ];
    let ways: Vec<_> = ALL
        .into_iter()
        .flat_map(|state| events.into_iter().map(move |event| (state, event)))
        .filter(|(state, event)| matches!(step(*state, *event), Ok((State::Active, _))))
        .collect();
    let expected = [
        (State::Soaking, Event::Healthy),
        (State::Active, Event::Reinstated),
        (State::Superseded, Event::Reinstated),
    ];
    assert_eq!(ways, expected);
}

#[test]
fn what_cannot_happen_is_refused() {
    let refused = step(State::Rejected, Event::GateOpen).unwrap_err();
    assert_eq!(
        refused,
        Impossible {
            state: State::Rejected,
            event: Event::GateOpen
        }
    );
}

#[test]
fn words_round_trip() {
    for state in ALL {
        assert_eq!(State::from_word(state.word()), Some(state));
    }
}
