//! The whole site as one pure machine: `(site, event) → (site, actions)`.
//!
//! What comes in: how the site stands ([`Site`]) and what just happened ([`Event`]). What goes out: how it
//! stands now, and the rows ([`Action`]) that belong into the same transaction. The work to do next is
//! [`owed`] by the site alone, so that a power cut loses none of it; where work cannot be ended now, an agent that runs on
//! asks about a bundle that waits meanwhile ([`owed_after`]). It does no I/O. Every pair of site
//! and event has an answer: an event about work that is over changes nothing. From every site a healthy
//! bundle that is let in becomes active; `machine/tests.rs` walks all of them. Which numbers are let in is the
//! floors' business: they fall when the fleet takes a key away, so that a lower number may be the newer one.
//!
//! | event | where it counts | the site afterwards |
//! | --- | --- | --- |
//! | copy begun, ended, lost | incoming | incoming; waiting (what waited is superseded); forgotten |
//! | may start | waiting; no hold, no approval missing | applying; whatever work was under way is given up |
//! | must wait | waiting | reported once |
//! | applied, healthy | applying, soaking | soaking; active, and the one before is kept |
//! | healthy so far | soaking | reported once; its health is checked again |
//! | broken | applying, soaking | reverting to the active bundle, or failed when there is none |
//! | rollback | idle, correcting, repairing | reverting from the active bundle to an earlier one; what waits needs approval |
//! | rollback | applying, soaking | reverting from the candidate to the active bundle; likewise |
//! | returned | reverting | the older bundle is active and runs |
//! | return broken | reverting from a candidate | the active bundle is broken |
//! | return broken | reverting from the active bundle | repairing: the active bundle is applied again |
//! | repair due | idle or correcting, with an active bundle | repairing |
//! | drift found | idle, the active bundle; no hold | correcting; reported |
//! | observed, corrected | idle; correcting | reported |
//! | pinned, unpinned | always | what a person keeps for an assignment stays on disk, or need not; perhaps repairing |
//! | kept at most | idle | so many earlier bundles stay on disk |
//! | repaired, repair broken | repairing | it runs; it is broken |
//! | blocked | any work | reported; the work goes on when it can |
//! | folder lost | waiting, previous, candidate | forgotten; not kept; as broken, but not remembered |

pub mod approval;
mod copy;
mod events;
mod state;

use std::collections::BTreeSet;

pub use copy::CopyRefusal;
pub use events::{Action, Event, Task};
pub use state::State;

/// How many bundles before the active one are kept at most, whatever is set.
pub const MAX_EARLIER: usize = 9;

/// How a site stands: every bundle that still matters, and the work under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Site {
    /// The bundle that this site is to run.
    pub active: Option<Active>,
    /// Those that ran before it, whole on disk, the newest first; their numbers are lower.
    pub earlier: Vec<u64>,
    /// Bundles whose content a person keeps for an assignment: they stay on disk whatever runs.
    pub pins: BTreeSet<u64>,
    /// A bundle whose copy was begun.
    pub incoming: Option<u64>,
    /// A bundle that is whole on disk and not applied yet.
    pub waiting: Option<WaitingBundle>,
    /// What is being done to this host.
    pub work: Work,
    /// Whether it was reported of a bundle whose health is looked at that it is good so far.
    pub watched: bool,
    /// Whether a person holds back whatever is new.
    pub hold: bool,
}

/// The bundle that a site is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Active {
    /// Its number.
    pub number: u64,
    /// Whether going back to it or repairing it failed: the host is not as it says.
    pub broken: bool,
}

/// A bundle that waits for its approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WaitingBundle {
    /// Its number.
    pub number: u64,
    /// Whether it was reported that it waits.
    pub gated: bool,
    /// Whether a person rolled back after it came: only a person lets it through.
    pub needs_approval: bool,
}

/// What is being done to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Work {
    /// Nothing.
    #[default]
    Idle,
    /// This bundle is being applied.
    Applying(u64),
    /// It was applied; its health is checked.
    Soaking(u64),
    /// Bundle `to` is applied again in the place of `from`.
    Reverting {
        /// The candidate that failed, or the active bundle.
        from: u64,
        /// The active bundle, or the one before.
        to: u64,
        /// Whether a person wants it.
        decided: bool,
    },
    /// The active bundle is applied again.
    Repairing,
    /// What differs of the active bundle on the host is put back.
    Correcting,
}

/// What is to be done next, by the site alone; `None`: the site is at rest.
pub fn owed(site: &Site) -> Option<Task> {
    if let Some(number) = site.incoming {
        return Some(Task::Discard(number));
    }
    match (site.work, site.active) {
        (Work::Applying(number), _) => Some(Task::Apply(number)),
        (Work::Soaking(number), _) => Some(Task::Watch(number)),
        (Work::Reverting { from, to, .. }, _) => Some(Task::Revert { from, to }),
        (Work::Repairing, Some(active)) => Some(Task::Repair(active.number)),
        (Work::Correcting, Some(active)) => Some(Task::Correct(active.number)),
        _ => site
            .waiting
            .map(|waiting| Task::AskApproval(waiting.number)),
    }
}

/// What is to be done after the step of `event`; `None`: nothing can be done now.
///
/// Work that is looked at again later, or that something on this host keeps from going on, does not keep back a newer bundle: one that waits is
/// asked about. One that was asked about and waits on is asked about again later.
pub fn owed_after(site: &Site, event: Event) -> Option<Task> {
    let waits = |number: u64| site.waiting.is_some_and(|waiting| waiting.number == number);
    match event {
        Event::Blocked => {
            let waiting = site.waiting.filter(|_| site.worked_on().is_some());
            waiting.map(|waiting| Task::AskApproval(waiting.number))
        }
        Event::HealthySoFar(number) if site.work == Work::Soaking(number) => site
            .waiting
            .map(|waiting| Task::AskApproval(waiting.number)),
        Event::MayStart(number) | Event::MustWait(number) | Event::FolderLost(number) => {
            let is_beside = site.worked_on().is_some_and(|other| other != number);
            owed(site).filter(|_| !is_beside && !waits(number))
        }
        _ => owed(site),
    }
}

/// One step of the machine.
pub fn step(mut site: Site, event: Event) -> (Site, Vec<Action>) {
    let mut actions = Vec::new();
    match event {
        Event::CopyBegun(_) | Event::CopyEnded(_) | Event::CopyLost(_) => {
            site.copied(event, &mut actions);
        }
        Event::MayStart(_)
        | Event::MustWait(_)
        | Event::Approved(_)
        | Event::Withdrawn
        | Event::Held
        | Event::Released => site.approval(event, &mut actions),
        Event::Applied(number) if site.work == Work::Applying(number) => {
            site.work = Work::Soaking(number);
        }
        Event::HealthySoFar(number) if site.work == Work::Soaking(number) => {
            if !site.watched {
                actions.push(Action::Report(number, State::Soaking));
            }
            site.watched = true;
        }
        Event::Healthy(number) if site.work == Work::Soaking(number) => {
            site.activate(number, &mut actions);
        }
        Event::Broken(number) if site.candidate() == Some(number) => {
            actions.push(Action::Remember(number));
            site.leave_candidate(number, &mut actions);
        }
        Event::FolderLost(number) => site.folder_lost(number, &mut actions),
        Event::RollbackOrdered(to) => {
            if let Some((from, to)) = site.rollback_target(Some(to)) {
                let decided = true;
                site.work = Work::Reverting { from, to, decided };
                if let Some(waiting) = &mut site.waiting {
                    waiting.needs_approval = true;
                }
            }
        }
        Event::Returned(number) => site.returned(number, &mut actions),
        Event::ReturnBroken(number) => site.return_broken(number, &mut actions),
        Event::RepairDue => site.repair_if(true),
        Event::Observed(_) | Event::DriftFound(_) | Event::Corrected(_) => {
            site.looked_at(event, &mut actions);
        }
        Event::Pinned { number, repair } if site.keeps(number) => {
            site.pins.insert(number);
            site.repair_if(repair);
        }
        Event::Unpinned { number, repair } => {
            if let Some(number) = number {
                site.pins.remove(&number);
            }
            site.repair_if(repair);
        }
        Event::KeptAtMost(count) if site.work == Work::Idle => site.keep_earlier(count),
        Event::Repaired | Event::RepairBroken if site.work == Work::Repairing => {
            site.repaired(event == Event::Repaired, &mut actions);
        }
        Event::Blocked => {
            if let Some(number) = site.worked_on() {
                actions.push(Action::Report(number, State::Failed));
            }
            // That a look found it healthy is news again.
            site.watched = false;
        }
        _ => {}
    }
    site.watched &= matches!(site.work, Work::Soaking(_));
    (site, actions)
}

impl Site {
    /// The bundle that is being applied for the first time.
    pub fn candidate(&self) -> Option<u64> {
        match self.work {
            Work::Applying(number) | Work::Soaking(number) => Some(number),
            _ => None,
        }
    }

    /// The bundle that the work under way is about.
    pub fn worked_on(&self) -> Option<u64> {
        match self.work {
            Work::Idle => None,
            Work::Applying(number)
            | Work::Soaking(number)
            | Work::Reverting { from: number, .. } => Some(number),
            Work::Repairing | Work::Correcting => self.active.map(|active| active.number),
        }
    }

    /// From which bundle to which a rollback would go now: to `wanted`, or to the newest one that ran before.
    pub fn rollback_target(&self, wanted: Option<u64>) -> Option<(u64, u64)> {
        let active = self.active?.number;
        let fits = |to: &u64| wanted.is_none_or(|wanted| wanted == *to);
        match self.work {
            Work::Applying(number) | Work::Soaking(number) => {
                Some(active).filter(fits).map(|to| (number, to))
            }
            Work::Idle | Work::Correcting | Work::Repairing => {
                let to = self.earlier.iter().copied().find(|to| fits(to))?;
                Some((active, to))
            }
            Work::Reverting { .. } => None,
        }
    }

    /// Of the earlier bundles the newest `count` stay, and those that are kept for an assignment.
    pub fn keep_earlier(&mut self, count: usize) {
        let mut at = 0;
        let pins = &self.pins;
        self.earlier.retain(|number| {
            at += 1;
            at <= count || pins.contains(number)
        });
    }

    /// Applying all of the active bundle again puts back what differs of it, too.
    fn repair_if(&mut self, wanted: bool) {
        let is_free = matches!(self.work, Work::Idle | Work::Correcting);
        if wanted && is_free && self.active.is_some() {
            self.work = Work::Repairing;
        }
    }

    /// Whether the bundle stays on disk.
    pub fn keeps(&self, number: u64) -> bool {
        self.state_of(number)
            .is_some_and(|state| state != State::Verified)
            || self.earlier.contains(&number)
            || self.pins.contains(&number)
    }

    /// Earlier bundles of which the folder may go where space is short: nothing is lost but going back to them.
    pub fn removable(&self) -> impl Iterator<Item = u64> {
        let target = match self.work {
            Work::Reverting { to, .. } => Some(to),
            _ => None,
        };
        let earlier = self.earlier.iter().copied();
        earlier.filter(move |number| !self.pins.contains(number) && target != Some(*number))
    }

    /// The bundles that run, wait or are worked on.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let active = self.active.map(|active| active.number);
        let waiting = self.waiting.map(|waiting| waiting.number);
        [active, waiting, self.worked_on()].into_iter().flatten()
    }

    /// The state of a bundle that matters; `None` for those that came to their end.
    pub fn state_of(&self, number: u64) -> Option<State> {
        let active = self.active.filter(|active| active.number == number);
        let state = match self.work {
            Work::Applying(n) if n == number => State::Applying,
            Work::Soaking(n) if n == number => State::Soaking,
            Work::Reverting { from, .. } if from == number => State::Reverting,
            Work::Repairing if active.is_some() => State::Applying,
            _ => match active {
                Some(active) if active.broken => State::Failed,
                Some(_) => State::Active,
                None if self.incoming == Some(number) => State::Verified,
                None => match self.waiting.filter(|waiting| waiting.number == number) {
                    Some(waiting) if waiting.gated => State::Gated,
                    Some(_) => State::Staged,
                    None => return None,
                },
            },
        };
        Some(state)
    }

    fn approval(&mut self, event: Event, actions: &mut Vec<Action>) {
        match (event, &mut self.waiting) {
            (Event::Held, _) => self.hold = true,
            (Event::Released, _) => self.hold = false,
            (Event::Withdrawn, _) => self.withdraw(actions),
            (Event::Approved(number), Some(waiting)) if waiting.number == number => {
                waiting.needs_approval = false;
            }
            (Event::MustWait(number), Some(waiting)) if waiting.number == number => {
                if !waiting.gated {
                    actions.push(Action::Report(number, State::Gated));
                }
                waiting.gated = true;
            }
            (Event::MayStart(number), Some(waiting))
                if waiting.number == number && !waiting.needs_approval && !self.hold =>
            {
                self.waiting = None;
                match self.work {
                    Work::Applying(given_up) | Work::Soaking(given_up) => {
                        actions.push(Action::End(given_up, State::Superseded));
                    }
                    Work::Reverting { from, .. } if !self.is_active(from) => {
                        actions.push(Action::End(from, State::Failed));
                    }
                    _ => {}
                }
                self.work = Work::Applying(number);
                actions.push(Action::Report(number, State::Applying));
            }
            _ => {}
        }
    }

    fn withdraw(&mut self, actions: &mut Vec<Action>) {
        if let Some(waiting) = self.waiting.take() {
            actions.push(Action::End(waiting.number, State::Superseded));
        }
    }

    fn is_active(&self, number: u64) -> bool {
        self.active.is_some_and(|active| active.number == number)
    }

    /// The candidate becomes the active bundle; the one before is kept.
    fn activate(&mut self, number: u64, actions: &mut Vec<Action>) {
        self.work = Work::Idle;
        let broken = false;
        if let Some(before) = self.active.replace(Active { number, broken }) {
            // A higher number was taken back by the fleet: nobody goes back to it.
            // What is on disk for a person's sake ran once as well.
            let mut kept = self.pins.clone();
            kept.extend(self.earlier.iter().copied().chain([before.number]));
            self.earlier = kept.into_iter().rev().filter(|n| *n < number).collect();
            self.keep_earlier(MAX_EARLIER);
            actions.push(Action::End(before.number, State::Superseded));
        }
        actions.push(Action::Report(number, State::Active));
    }

    fn leave_candidate(&mut self, number: u64, actions: &mut Vec<Action>) {
        actions.push(Action::Report(number, State::Failed));
        self.work = match self.active {
            Some(active) => Work::Reverting {
                from: number,
                to: active.number,
                decided: false,
            },
            None => {
                actions.push(Action::End(number, State::Failed));
                Work::Idle
            }
        };
    }

    fn folder_lost(&mut self, number: u64, actions: &mut Vec<Action>) {
        if self.candidate() == Some(number) {
            self.leave_candidate(number, actions);
        } else if self.waiting.is_some_and(|waiting| waiting.number == number) {
            self.waiting = None;
            actions.push(Action::Report(number, State::Rejected));
            actions.push(Action::Forget(number));
        } else if self.work == Work::Idle && !self.is_active(number) {
            self.earlier.retain(|earlier| *earlier != number);
            self.pins.remove(&number);
        }
    }

    fn returned(&mut self, number: u64, actions: &mut Vec<Action>) {
        let Work::Reverting { from, to, decided } = self.work else {
            return;
        };
        if from != number {
            return;
        }
        if self.is_active(from) {
            self.earlier.retain(|earlier| *earlier < to);
        }
        if decided {
            actions.push(Action::Remember(from));
        }
        self.active = Some(Active {
            number: to,
            broken: false,
        });
        self.work = Work::Idle;
        actions.push(Action::End(from, State::Reverted));
        actions.push(Action::ReportRevert { from, to });
    }

    fn return_broken(&mut self, number: u64, actions: &mut Vec<Action>) {
        let Work::Reverting { from, to, .. } = self.work else {
            return;
        };
        if from != number {
            return;
        }
        if self.is_active(from) {
            // What ran until a person wanted it away still works, as far as anybody knows.
            self.work = Work::Repairing;
            return;
        }
        self.work = Work::Idle;
        self.active = Some(Active {
            number: to,
            broken: true,
        });
        actions.push(Action::End(from, State::Failed));
        actions.push(Action::Report(to, State::Failed));
    }

    /// The host was compared with the active bundle: what was found is reported, whatever follows from it.
    fn looked_at(&mut self, event: Event, actions: &mut Vec<Action>) {
        let (number, needed, next) = match event {
            Event::DriftFound(number) if !self.hold => (number, Work::Idle, Work::Correcting),
            Event::Corrected(number) => (number, Work::Correcting, Work::Idle),
            Event::Observed(number) | Event::DriftFound(number) => (number, Work::Idle, Work::Idle),
            _ => return,
        };
        if self.is_active(number) && self.work == needed {
            self.work = next;
            actions.extend(
                self.state_of(number)
                    .map(|state| Action::ReportAgain(number, state)),
            );
        }
    }

    fn repaired(&mut self, worked: bool, actions: &mut Vec<Action>) {
        self.work = Work::Idle;
        let Some(active) = &mut self.active else {
            return;
        };
        actions.push(match (worked, active.broken) {
            (true, _) => Action::Report(active.number, State::Active),
            (false, false) => Action::Report(active.number, State::Failed),
            (false, true) => Action::ReportAgain(active.number, State::Failed),
        });
        active.broken = !worked;
    }
}

#[cfg(test)]
pub(crate) mod tests;
