//! A site with its host, its inventory and its newest report, and everything that can happen to them.
//!
//! What comes in: how they stand. What goes out: every way in which they can stand next: what people, sticks and power cuts
//! do, and each outcome of each task. Each step is checked against what must always hold.

use std::collections::BTreeSet;

use super::super::*;
use super::BUNDLES;

/// What is on the host, and what the inventory lists of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Host {
    /// Bundles of which something is there.
    there: BTreeSet<u64>,
    /// Bundles of which the inventory lists something: what can be removed.
    listed: BTreeSet<u64>,
    /// Whether the newest work on it came to its end, and nobody touched it since.
    whole: bool,
}

impl Host {
    pub(super) fn is_whole(&self, number: u64) -> bool {
        self.whole && self.there == BTreeSet::from([number])
    }

    /// The intent to apply something of this bundle is on disk; the host is as it was.
    fn intend(&mut self, number: u64) {
        self.listed.insert(number);
    }

    fn begin(&mut self, number: u64) {
        self.intend(number);
        self.there.insert(number);
        self.whole = false;
    }

    /// All of the bundle is applied, then what the inventory lists beyond it is removed, and nothing else.
    fn finish(&mut self, number: u64) {
        self.begin(number);
        let surplus: Vec<u64> = self
            .listed
            .iter()
            .copied()
            .filter(|n| *n != number)
            .collect();
        for surplus in surplus {
            self.there.remove(&surplus);
            self.listed.remove(&surplus);
        }
        self.whole = true;
    }
}

/// What the newest report says of what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Reported {
    #[default]
    Nothing,
    Runs(u64),
    /// The bundle is active, and the host differs from it.
    Drifted,
    Failed,
    UnderWay,
}

/// Everything that decides what can happen next.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct World {
    pub(super) site: Site,
    pub(super) host: Host,
    pub(super) reported: Reported,
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
                // An observation has what was found of each assignment.
                Action::ReportAgain(number, State::Active) => match next.host.is_whole(number) {
                    true => Reported::Runs(number),
                    false => Reported::Drifted,
                },
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
        // Nothing is on the host that the inventory does not list: all of it can be removed.
        let host = &self.host;
        assert!(host.there.is_subset(&host.listed), "{}", context());
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
    pub(super) fn check_at_rest(&self) {
        let Some(active) = self.site.active else {
            assert!(
                self.host.there.is_empty() || self.reported == Reported::Failed,
                "{self:?}"
            );
            return;
        };
        if active.broken {
            assert_eq!(self.reported, Reported::Failed, "{self:?}");
        } else if self.reported == Reported::Drifted {
            assert!(!self.host.whole, "{self:?}");
        } else {
            assert_eq!(self.reported, Reported::Runs(active.number), "{self:?}");
            assert!(self.host.is_whole(active.number), "{self:?}");
        }
    }

    fn on_host(&self, change: impl FnOnce(&mut Host)) -> World {
        let mut world = self.clone();
        change(&mut world.host);
        world
    }

    /// The host after an attempt to apply `number` was cut off or failed in the middle.
    fn partly(&self, number: u64) -> World {
        self.on_host(|host| host.begin(number))
    }

    /// The host after `number` was applied and what the inventory has beyond it was removed.
    fn wholly(&self, number: u64) -> World {
        self.on_host(|host| host.finish(number))
    }

    /// Every way in which the task that is owed can come out, cuts included.
    pub(super) fn outcomes(&self, task: Task) -> Vec<World> {
        let applied = |number, worked: Event, broke: Event| {
            let cut = self.partly(number);
            vec![
                // The power goes when the intent is on disk and nothing else.
                self.on_host(|host| host.intend(number)),
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
            Task::AskApproval(number) => vec![
                self.step(Event::MayStart(number)),
                self.step(Event::MustWait(number)),
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
            Task::Correct(number) => vec![
                self.partly(number),
                self.wholly(number),
                self.wholly(number).step(Event::Corrected(number)),
                // Put back in part, and found to be so.
                self.partly(number).step(Event::Corrected(number)),
                self.step(Event::Blocked),
            ],
        }
    }

    /// What comes from outside at any time: people, sticks, orders, damage, and results that come late.
    pub(super) fn others(&self) -> Vec<World> {
        let mut all = Vec::new();
        if self.newest < BUNDLES {
            let newest = self.newest + 1;
            let begun = self.step(Event::CopyBegun(newest));
            all.push(World { newest, ..begun });
        }
        // Someone changes the host, and that is found; it is put back by someone, and that is found.
        if let (Some(active), Work::Idle) = (self.site.active, self.site.work) {
            let number = active.number;
            let changed = self.on_host(|host| host.whole = false);
            all.push(changed.step(Event::DriftFound(number)));
            all.push(changed.step(Event::Observed(number)));
            let only = BTreeSet::from([number]);
            if self.host.there == only {
                let back = self.on_host(|host| host.whole = true);
                all.push(back.step(Event::Observed(number)));
            }
        }
        let mut events = vec![
            Event::Held,
            Event::Released,
            Event::Withdrawn,
            Event::RepairDue,
            Event::KeptAtMost(1),
            Event::Unpinned {
                number: None,
                repair: true,
            },
        ];
        for number in 1..=self.newest {
            events.push(Event::RollbackOrdered(number));
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
            events.push(Event::MustWait(number));
            // Also while work is under way that cannot go on.
            events.push(Event::MayStart(number));
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
            if site.work != Work::Correcting {
                events.push(Event::Corrected(number));
            }
            if site.work != Work::Idle {
                events.push(Event::Observed(number));
                events.push(Event::DriftFound(number));
            }
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
    pub(super) fn healthy_bundle(&self, number: u64) -> World {
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
                Task::AskApproval(number) => world.step(Event::MayStart(number)),
                Task::Apply(number) => world.wholly(number).step(Event::Applied(number)),
                Task::Watch(number) => {
                    // However often it is looked at before.
                    let again = world.step(Event::HealthySoFar(number));
                    again
                        .step(Event::HealthySoFar(number))
                        .step(Event::Healthy(number))
                }
                // What came before need not work.
                Task::Revert { from, to } => world.partly(to).step(Event::ReturnBroken(from)),
                Task::Repair(number) => world.partly(number).step(Event::RepairBroken),
                Task::Correct(number) => world.partly(number).step(Event::Corrected(number)),
            };
        }
        panic!("it never rests: {self:?}");
    }
}
