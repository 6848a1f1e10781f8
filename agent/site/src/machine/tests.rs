//! Every site that can be reached with three bundles, with every event, every outcome of every task, and a
//! cut before, in the middle of and after each. The walk is exhaustive within that bound.

use std::collections::{HashSet, VecDeque};
use std::sync::LazyLock;

use super::*;

mod soak;

/// Numbers of bundles that come to a site.
const BUNDLES: u64 = 3;

/// What is on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Host {
    #[default]
    Nothing,
    /// This bundle and nothing else of ours.
    Whole(u64),
    /// Parts of several.
    Mixed,
}

/// What the newest report says of what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Reported {
    #[default]
    Nothing,
    Runs(u64),
    Failed,
    UnderWay,
}

/// Everything that decides what can happen next.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct World {
    site: Site,
    host: Host,
    reported: Reported,
    /// The newest bundle that came.
    newest: u64,
}

impl World {
    /// Takes one step and keeps the book of what was reported; checks what must hold at every step.
    fn step(&self, event: Event) -> World {
        let (site, actions) = step(self.site.clone(), event);
        let mut next = World {
            site,
            ..self.clone()
        };
        for action in &actions {
            next.reported = match *action {
                Action::Report(number, State::Active) => Reported::Runs(number),
                Action::Report(_, State::Failed) | Action::ReportAgain(_, State::Failed) => {
                    Reported::Failed
                }
                Action::Report(_, State::Applying | State::Soaking) => Reported::UnderWay,
                Action::ReportRevert { to, .. } => Reported::Runs(to),
                Action::Report(_, State::Staged | State::Gated | State::Rejected)
                | Action::Remember(_)
                | Action::End(..)
                | Action::Forget(_) => next.reported,
                other => panic!("{other:?}"),
            };
        }
        next.check(self, event, &actions);
        next
    }

    fn check(&self, before: &World, event: Event, actions: &[Action]) {
        let site = &self.site;
        let context = || format!("{before:?} --{event:?}--> {site:?} {actions:?}");
        // What is worked on or gone back to is on disk.
        if let Work::Reverting { from, to, .. } = site.work {
            assert!(site.keeps(from) && site.keeps(to), "{}", context());
            assert_ne!(from, to, "{}", context());
        }
        for number in [site.worked_on(), site.active.map(|active| active.number)] {
            assert!(
                number.is_none_or(|number| site.keeps(number)),
                "{}",
                context()
            );
        }
        // As the database finds it again: by its number, below the active one.
        assert!(
            site.earlier
                .iter()
                .all(|earlier| site.active.is_some_and(|active| *earlier < active.number)),
            "{}",
            context()
        );
        assert!(
            site.earlier.is_sorted_by(|newer, older| newer > older),
            "{}",
            context()
        );
        // What a person keeps for an assignment is on disk, until a copy takes its number or nobody keeps it.
        for pin in &before.site.pins {
            let ended = matches!(event, Event::Unpinned { number, .. } if number == Some(*pin))
                || [Event::CopyBegun(*pin), Event::FolderLost(*pin)].contains(&event);
            assert!(ended || site.pins.contains(pin), "{}", context());
        }
        assert!(
            site.pins.iter().all(|pin| site.keeps(*pin)),
            "{}",
            context()
        );
        assert!(
            site.work != Work::Repairing || site.active.is_some(),
            "{}",
            context()
        );
        // A bundle that mattered either still does, or its end is reported.
        for number in 1..=BUNDLES {
            let ended = actions.iter().any(
                |action| matches!(action, Action::End(n, _) | Action::Forget(n) if *n == number),
            );
            let matters = site.state_of(number).is_some();
            if before.site.state_of(number).is_some() {
                assert_ne!(matters, ended, "bundle {number}: {}", context());
            } else {
                assert!(!ended, "bundle {number}: {}", context());
            }
        }
        // A person's hold lets nothing new through.
        if before.site.hold && event != Event::Released {
            let candidate = site.candidate();
            assert!(
                candidate.is_none() || candidate == before.site.candidate(),
                "{}",
                context()
            );
        }
    }

    /// A site at rest says exactly what is on its host.
    fn check_at_rest(&self) {
        let Some(active) = self.site.active else {
            assert!(
                self.host == Host::Nothing || self.reported == Reported::Failed,
                "{self:?}"
            );
            return;
        };
        if active.broken {
            assert_eq!(self.reported, Reported::Failed, "{self:?}");
        } else {
            assert_eq!(self.reported, Reported::Runs(active.number), "{self:?}");
            assert_eq!(self.host, Host::Whole(active.number), "{self:?}");
        }
    }

    /// The host after an attempt to apply something was cut off or failed in the middle.
    fn partly(&self) -> World {
        World {
            host: Host::Mixed,
            ..self.clone()
        }
    }

    /// The host after `number` was applied and what the inventory has beyond it was removed.
    fn wholly(&self, number: u64) -> World {
        World {
            host: Host::Whole(number),
            ..self.clone()
        }
    }

    /// Every way in which the task that is owed can come out, cuts included.
    fn outcomes(&self, task: Task) -> Vec<World> {
        let applied = |number, worked: Event, broke: Event| {
            let cut = self.partly();
            vec![
                cut.clone(),
                // Done, and the power goes before that is recorded.
                self.wholly(number),
                self.wholly(number).step(worked),
                cut.step(broke),
                cut.step(Event::Blocked),
                self.step(Event::Blocked),
            ]
        };
        match task {
            Task::Discard(number) => vec![self.step(Event::CopyLost(number))],
            Task::AskGate(number) => vec![
                self.step(Event::GateOpen(number)),
                self.step(Event::GateShut(number)),
                self.step(Event::FolderLost(number)),
            ],
            Task::Apply(number) => {
                let mut all = applied(number, Event::Applied(number), Event::Broken(number));
                all.push(self.step(Event::FolderLost(number)));
                all
            }
            Task::Watch(number) => vec![
                self.step(Event::Healthy(number)),
                self.step(Event::HealthySoFar(number)),
                self.step(Event::Broken(number)),
                self.step(Event::FolderLost(number)),
                // A look that failed, and the power goes before that is recorded, is a look that was not.
                self.clone(),
            ],
            Task::Revert { from, to } => {
                let mut all = applied(to, Event::Returned(from), Event::ReturnBroken(from));
                all.push(self.step(Event::ReturnBroken(from)));
                all
            }
            Task::Repair(number) => {
                let mut all = applied(number, Event::Repaired, Event::RepairBroken);
                all.push(self.step(Event::RepairBroken));
                all
            }
        }
    }

    /// What comes from outside at any time: people, sticks, orders, damage, and results that come late.
    fn others(&self) -> Vec<World> {
        let mut all = Vec::new();
        if self.newest < BUNDLES {
            let newest = self.newest + 1;
            let begun = self.step(Event::CopyBegun(newest));
            all.push(World { newest, ..begun });
        }
        let mut events = vec![
            Event::Held,
            Event::Released,
            Event::Withdrawn,
            Event::RollbackOrdered(None),
            Event::RepairDue,
            Event::KeptAtMost(1),
            Event::Unpinned {
                number: None,
                repair: true,
            },
        ];
        for number in 1..=self.newest {
            events.push(Event::RollbackOrdered(Some(number)));
            // One assignment is kept: at the active bundle, or put back to an earlier one.
            let active = self.site.active.map(|active| active.number);
            if self.site.pins.is_empty() && active == Some(number) {
                events.push(Event::Pinned {
                    number,
                    repair: false,
                });
            }
            if self.site.pins.is_empty() && self.site.earlier.contains(&number) {
                events.push(Event::Pinned {
                    number,
                    repair: true,
                });
            }
            if self.site.pins.contains(&number) {
                events.push(Event::Unpinned {
                    number: Some(number),
                    repair: true,
                });
            }
            events.push(Event::CopyEnded(number));
            events.push(Event::CopyLost(number));
            events.push(Event::Approved(number));
            events.push(Event::GateShut(number));
            // Also while work is under way that cannot go on.
            events.push(Event::GateOpen(number));
            // A bundle that failed or was left is let through again, a lower one after a higher one is
            // taken back.
            if self.site.incoming.is_none() && self.site.state_of(number).is_none() {
                events.push(Event::CopyBegun(number));
            }
            let site = &self.site;
            if site.earlier.contains(&number) || site.waiting.is_some_and(|w| w.number == number) {
                events.push(Event::FolderLost(number));
            }
            // Late results of work that another process ended meanwhile.
            if site.work != Work::Applying(number) {
                events.push(Event::Applied(number));
            }
            if site.candidate() != Some(number) {
                events.push(Event::Broken(number));
                events.push(Event::Healthy(number));
                events.push(Event::HealthySoFar(number));
            }
            if !matches!(site.work, Work::Reverting { from, .. } if from == number) {
                events.push(Event::Returned(number));
                events.push(Event::ReturnBroken(number));
            }
        }
        if self.site.work != Work::Repairing {
            events.push(Event::Repaired);
            events.push(Event::RepairBroken);
        }
        all.extend(events.into_iter().map(|event| self.step(event)));
        all
    }

    /// A healthy bundle that the site has not met comes, nobody holds it back, and everything works.
    fn healthy_bundle(&self, number: u64) -> World {
        let mut world = self
            .step(Event::CopyBegun(number))
            .step(Event::CopyEnded(number))
            .step(Event::Approved(number))
            .step(Event::Released);
        for _ in 0..20 {
            let Some(task) = owed(&world.site) else {
                return world;
            };
            world = match task {
                Task::Discard(number) => world.step(Event::CopyLost(number)),
                Task::AskGate(number) => world.step(Event::GateOpen(number)),
                Task::Apply(number) => world.wholly(number).step(Event::Applied(number)),
                Task::Watch(number) => {
                    // However often it is looked at before.
                    let again = world.step(Event::HealthySoFar(number));
                    again
                        .step(Event::HealthySoFar(number))
                        .step(Event::Healthy(number))
                }
                // What came before need not work.
                Task::Revert { from, .. } => world.partly().step(Event::ReturnBroken(from)),
                Task::Repair(_) => world.partly().step(Event::RepairBroken),
            };
        }
        panic!("it never rests: {self:?}");
    }
}

/// Every world that can be reached.
static REACHABLE: LazyLock<HashSet<World>> = LazyLock::new(reachable);

/// Every site that can be reached, for the test that stores and reads them.
pub(crate) fn reachable_sites() -> HashSet<Site> {
    REACHABLE.iter().map(|world| world.site.clone()).collect()
}

fn reachable() -> HashSet<World> {
    let mut seen = HashSet::from([World::default()]);
    let mut queue: VecDeque<World> = seen.iter().cloned().collect();
    while let Some(world) = queue.pop_front() {
        let mut next = world.others();
        if let Some(task) = owed(&world.site) {
            next.extend(world.outcomes(task));
        }
        for world in next {
            if seen.insert(world.clone()) {
                queue.push_back(world);
            }
        }
    }
    seen
}

#[test]
fn from_every_site_a_healthy_bundle_becomes_active_whatever_its_number_and_reports_say_what_runs() {
    let all = &*REACHABLE;
    let sites: HashSet<&Site> = all.iter().map(|world| &world.site).collect();
    // The bound that was exhausted; a machine that lost its states would pass everything else.
    assert!(sites.len() > 300, "{} sites", sites.len());
    for world in all {
        if world.site.work == Work::Idle {
            world.check_at_rest();
        }
        // Also one below all others, when the floors let it in.
        for number in [0, BUNDLES + 1] {
            let after = world.healthy_bundle(number);
            let active = after.site.active.unwrap();
            assert_eq!((active.number, active.broken), (number, false));
            assert_eq!(after.host, Host::Whole(number));
            assert_eq!(after.reported, Reported::Runs(number));
        }
    }
    println!("{} worlds with {} sites", all.len(), sites.len());
}

#[test]
fn every_event_and_every_action_happens_somewhere() {
    let mut actions = HashSet::new();
    let mut changed = HashSet::new();
    let name = |debug: String| debug.split(['(', ' ']).next().unwrap().to_owned();
    for world in &*REACHABLE {
        for event in every_event() {
            let (site, made) = step(world.site.clone(), event);
            if site != world.site || !made.is_empty() {
                changed.insert(name(format!("{event:?}")));
            }
            actions.extend(made.iter().map(|action| name(format!("{action:?}"))));
        }
    }
    let events: HashSet<_> = every_event()
        .into_iter()
        .map(|event| name(format!("{event:?}")))
        .collect();
    assert_eq!(changed, events);
    assert_eq!(actions.len(), 6, "{actions:?}");
}

fn every_event() -> Vec<Event> {
    let mut events = vec![
        Event::Withdrawn,
        Event::Held,
        Event::Released,
        Event::RollbackOrdered(None),
        Event::RepairDue,
        Event::KeptAtMost(0),
        Event::Repaired,
        Event::RepairBroken,
        Event::Blocked,
    ];
    for number in 1..=BUNDLES {
        events.extend([
            Event::CopyBegun(number),
            Event::CopyEnded(number),
            Event::CopyLost(number),
            Event::GateOpen(number),
            Event::GateShut(number),
            Event::Approved(number),
            Event::Applied(number),
            Event::Broken(number),
            Event::Healthy(number),
            Event::HealthySoFar(number),
            Event::FolderLost(number),
            Event::Returned(number),
            Event::ReturnBroken(number),
            Event::Pinned {
                number,
                repair: true,
            },
            Event::Unpinned {
                number: Some(number),
                repair: true,
            },
        ]);
    }
    events
}

#[test]
fn a_rollback_never_installs_what_waits() {
    for world in &*REACHABLE {
        let Some(waiting) = world.site.waiting else {
            continue;
        };
        let (site, _) = step(world.site.clone(), Event::RollbackOrdered(None));
        if site == world.site {
            continue;
        }
        let (after, _) = step(site, Event::GateOpen(waiting.number));
        assert_ne!(after.candidate(), Some(waiting.number), "{world:?}");
    }
}

#[test]
fn a_rollback_goes_to_the_earlier_bundle_that_was_named_and_forgets_those_above_it() {
    let mut goes = 0;
    for world in &*REACHABLE {
        let site = &world.site;
        let idle = site.work == Work::Idle;
        for to in site.earlier.iter().filter(|_| idle) {
            let (site, _) = step(site.clone(), Event::RollbackOrdered(Some(*to)));
            let from = site.active.unwrap().number;
            let decided = true;
            let to = *to;
            assert_eq!(site.work, Work::Reverting { from, to, decided });
            let (after, actions) = step(site, Event::Returned(from));
            assert_eq!(after.active.unwrap().number, to);
            assert!(after.earlier.iter().all(|earlier| *earlier < to));
            assert!(actions.contains(&Action::ReportRevert { from, to }));
            goes += 1;
        }
        // Nobody goes where nothing is kept.
        let (after, _) = step(site.clone(), Event::RollbackOrdered(Some(BUNDLES + 1)));
        assert_eq!(after, *site);
    }
    assert!(goes > 0);
}

#[test]
fn words_round_trip() {
    for state in state::ALL {
        assert_eq!(State::from_word(state.as_str()), Some(state));
    }
}
