//! The runner: performs what the machine asks for, and tells it what came of it.
//!
//! What comes in: an event about one bundle. What goes out: the state in which the bundle came to rest.
//! Each transition is one transaction: state, journal line, report and memory of failures together.
//! Work happens only after its intent is committed; after a stop or cut, [`Agent::resume`] goes on.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Index;
use outhaul_bundle::report::{
    AssignmentResult, ComplianceStatus, Event as Told, GenerationEvent, RevertedFrom,
};
use rusqlite::Transaction;

use crate::agent::Agent;
use crate::apply;
use crate::cut;
use crate::error::AgentError;
use crate::generation::{self, Desired};
use crate::machine::{self, Action, Event, State};
use crate::state::generations::{self, Generation};
use crate::state::outbox::Author;
use crate::state::{self, StateError, inventory, key, outbox};

mod gate;
mod observe;
mod rollback;
mod tidy;

/// An event with what is to be told of it.
#[derive(Debug, Clone)]
pub struct Happening {
    /// The event.
    pub event: Event,
    /// One sentence: why.
    pub note: String,
    /// Each assignment's result, where there are any.
    pub results: Vec<AssignmentResult>,
}

impl From<Event> for Happening {
    fn from(event: Event) -> Self {
        Self {
            event,
            note: String::new(),
            results: Vec::new(),
        }
    }
}

/// What a report says of a generation.
pub fn generation_event(
    generation: &Generation,
    results: &[AssignmentResult],
    message: &str,
) -> GenerationEvent {
    GenerationEvent {
        stream: generation.stream.clone(),
        number: generation.number,
        index: generation.index,
        snapshot: generation.snapshot.clone(),
        state: generation.state.reported(),
        assignments: results.to_vec(),
        message: apply::shortened(message),
        reverted_from: None,
    }
}

impl Agent {
    /// Drives a bundle from `happening` until it rests. Returns where.
    ///
    /// # Errors
    /// [`AgentError`]; the state on disk then is one to resume from.
    pub fn drive(&mut self, number: u64, happening: Happening) -> Result<State, AgentError> {
        let mut next = Some(happening);
        let mut state = State::Received;
        while let Some(now) = next.take() {
            let actions;
            (state, actions) = self.transition(number, &now, |_, _| Ok(()))?;
            for action in actions {
                if self.pulse.stopping() {
                    return Err(AgentError::Stopped);
                }
                if let Some(came) = self.perform(number, action)? {
                    next = Some(came);
                }
            }
        }
        Ok(state)
    }

    /// Commits one transition and returns the work that is left. `more` joins the transaction.
    ///
    /// # Errors
    /// [`AgentError`]; nothing was changed then.
    pub fn transition(
        &mut self,
        number: u64,
        happening: &Happening,
        more: impl FnOnce(&Transaction<'_>, &Author<'_>) -> Result<(), StateError>,
    ) -> Result<(State, Vec<Action>), AgentError> {
        let (state, actions) = self.commit(|db, author| {
            let mut generation = generations::one(db, number)?.ok_or_else(|| unknown(number))?;
            let before = generation.state;
            let (next, actions) = machine::step(before, happening.event)?;
            more(db, author)?;
            generation.state = next;
            if happening.event != Event::Resumed {
                generation.note.clone_from(&happening.note);
                generation.whole |= next == State::Staged;
                generation.good |= next == State::Active;
                generations::put(db, &generation)?;
                let at = author.moment.wall_ms();
                generations::journal(db, number, at, next.word(), &happening.note)?;
            }
            match next {
                State::Rejected => generations::forget(db, number)?,
                State::Active if happening.event == Event::Healthy => {
                    take_over(db, author, &generation)?;
                }
                _ => {}
            }
            if matches!(next, State::Active) && !happening.results.is_empty() {
                state::set_meta(db, key::RESULTS, Some(&happening.results))?;
            }
            for action in actions.iter().filter(|action| action.in_transaction()) {
                record(db, author, *action, &generation, happening)?;
            }
            Ok::<_, AgentError>((next, actions))
        })?;
        if let (Some(instant), true) = (instant(state), happening.event != Event::Resumed) {
            cut::here(instant);
        }
        let work = actions
            .into_iter()
            .filter(|action| !action.in_transaction())
            .collect();
        Ok((state, work))
    }

    /// Goes on with everything that a stop or power cut left unfinished.
    ///
    /// # Errors
    /// [`AgentError`] of the first that cannot go on.
    pub fn resume(&mut self) -> Result<Vec<(u64, State)>, AgentError> {
        let mut resumed = Vec::new();
        let all = generations::all(self.store.read())?;
        for generation in all.into_iter().rev().filter(|g| g.state.unfinished()) {
            let state = self.drive(generation.number, Event::Resumed.into())?;
            resumed.push((generation.number, state));
        }
        Ok(resumed)
    }

    fn perform(&mut self, number: u64, action: Action) -> Result<Option<Happening>, AgentError> {
        self.pulse.beat();
        Ok(match action {
            // The intake stages by itself; only a cut-off copy comes here, and its source is gone.
            Action::Stage => Some(Happening {
                note: "the copy was cut off before it was whole".into(),
                ..Event::SourceLost.into()
            }),
            Action::Discard => {
                self.discard()?;
                None
            }
            Action::AskGate => Some(self.ask_gate(number)?),
            Action::Apply => Some(self.apply(number)?),
            Action::Watch => Some(self.watch(number)?),
            Action::Revert => Some(self.revert(number)?),
            Action::CleanUp => {
                self.clean_up()?;
                None
            }
            Action::Report | Action::Refuse | Action::Remember => None,
        })
    }

    /// The kept index of a generation, as this site gets it.
    ///
    /// # Errors
    /// [`AgentError`] when it is not on disk or not the accepted one.
    pub fn index(&self, number: u64) -> Result<Index, AgentError> {
        Ok(self.whole_index(number)?.for_site(&self.site.name))
    }

    /// The kept index of a generation, with what it says to other sites.
    ///
    /// # Errors
    /// As [`Agent::index`].
    pub fn whole_index(&self, number: u64) -> Result<Index, AgentError> {
        let row = generations::one(self.store.read(), number)?.ok_or_else(|| unknown(number))?;
        Ok(generation::read_index(
            &self.home,
            number,
            &row.index,
            &self.limits,
        )?)
    }

    fn apply(&mut self, number: u64) -> Result<Happening, AgentError> {
        let index = self.index(number)?;
        let (results, note) = self.pass(&format!("apply {number}"), &index)?;
        Ok(match failure(&results) {
            None => Happening {
                event: Event::Applied,
                note,
                results,
            },
            Some(failure) => self.broken(number, failure, results)?,
        })
    }

    fn watch(&mut self, number: u64) -> Result<Happening, AgentError> {
        let index = self.index(number)?;
        let reconciler = self.reconciler(index.reconciler.kind.as_str())?;
        let row = generations::one(self.store.read(), number)?.ok_or_else(|| unknown(number))?;
        let mut results = generations::results(self.store.read(), &format!("apply {number}"))?;
        for desired in generation::desired(&self.home, &index) {
            let name = &desired.assignment.name;
            let recorded = self.recorded(reconciler.kind(), name.as_str())?;
            if let Some(verdict) = reconciler.health(&desired, &recorded, &self.pulse)? {
                let sick = verdict.status != ComplianceStatus::Compliant;
                if let Some(known) = results.iter_mut().find(|r| sick && r.name == *name) {
                    *known = verdict;
                }
            }
        }
        match results
            .iter()
            .find(|r| r.status != ComplianceStatus::Compliant)
        {
            None => Ok(Happening {
                event: Event::Healthy,
                note: row.note,
                results,
            }),
            Some(sick) => {
                let note = format!("`{}` is not healthy: {}", sick.name, sick.message);
                self.broken(number, note, results)
            }
        }
    }

    fn broken(
        &mut self,
        number: u64,
        note: String,
        results: Vec<AssignmentResult>,
    ) -> Result<Happening, AgentError> {
        let can_revert = self.good_before(number)?.is_some();
        Ok(Happening {
            event: Event::Broken { can_revert },
            note,
            results,
        })
    }

    /// The generation that a site goes back to from `number`.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn good_before(&self, number: u64) -> Result<Option<u64>, StateError> {
        let active: Option<u64> = state::meta(self.store.read(), key::ACTIVE)?;
        let mut usable = generations::all(self.store.read())?;
        usable.retain(|g| g.good && g.whole && g.number != number);
        let running = usable.iter().find(|g| Some(g.number) == active);
        let older = usable.iter().find(|g| g.number < number);
        Ok(running.or(older).map(|g| g.number))
    }

    fn revert(&mut self, number: u64) -> Result<Happening, AgentError> {
        let left = generations::one(self.store.read(), number)?.ok_or_else(|| unknown(number))?;
        let (why, left_index) = (left.note, left.index);
        let Some(good) = self.good_before(number)? else {
            let note = format!("{why}; and nothing to go back to is left on disk");
            return Ok(Happening {
                note,
                ..Event::RevertBroken.into()
            });
        };
        let index = self.index(good)?;
        let (results, note) = self.pass(&format!("revert {number}"), &index)?;
        if let Some(failure) = failure(&results) {
            let note = format!("{why}; going back to generation {good} failed as well: {failure}");
            return Ok(Happening {
                event: Event::RevertBroken,
                note,
                results,
            });
        }
        // The older one is active again, in the same transaction in which the newer one is reverted.
        let reinstated = Happening {
            event: Event::Reinstated,
            note,
            results,
        };
        let note = format!("{why}; bundle {good} runs again");
        let mut told = note.clone();
        if !reinstated.note.is_empty() {
            told = format!("{told}; {}", reinstated.note);
        }
        let decided_by: Option<String> = state::meta(self.store.read(), key::ROLLBACK)?;
        let reverted = Happening {
            note,
            ..Event::RevertDone.into()
        };
        self.transition(number, &reverted, |db, author| {
            let mut generation = generations::one(db, good)?.ok_or_else(|| unknown(good))?;
            generation.state = State::Active;
            generations::put(db, &generation)?;
            state::set_meta(db, key::ACTIVE, Some(&good))?;
            state::set_meta(db, key::RESULTS, Some(&reinstated.results))?;
            state::set_meta::<String>(db, key::ROLLBACK, None)?;
            let mut event = generation_event(&generation, &reinstated.results, &told);
            event.reverted_from = Some(RevertedFrom {
                number,
                index: left_index,
                decided_by,
                reason: apply::shortened(&why),
            });
            outbox::queue(db, author, Told::Generation(event)).map(|_| ())
        })?;
        // Already committed: what is left is the work that the new state owes.
        Ok(Event::Resumed.into())
    }

    /// Applies every assignment of `index` that has no recorded result in this pass, then removes what
    /// the inventory has beyond it. Stops at the first failure. Returns results and what was removed.
    fn pass(
        &mut self,
        pass: &str,
        index: &Index,
    ) -> Result<(Vec<AssignmentResult>, String), AgentError> {
        let reconciler = self.reconciler(index.reconciler.kind.as_str())?;
        let done = generations::results(self.store.read(), pass)?;
        let done: BTreeMap<_, _> = done.into_iter().map(|r| (r.name.clone(), r)).collect();
        let mut results = Vec::new();
        for desired in generation::desired(&self.home, index) {
            let result = match done.get(&desired.assignment.name) {
                Some(result) => result.clone(),
                None => self.apply_one(pass, reconciler.as_ref(), &desired)?,
            };
            let failed = result.status == ComplianceStatus::Failed;
            results.push(result);
            if failed {
                return Ok((results, String::new()));
            }
        }
        let names: BTreeSet<&str> = index.assignments.iter().map(|a| a.name.as_str()).collect();
        let note = self.remove_surplus(&names)?;
        Ok((results, note))
    }

    fn apply_one(
        &mut self,
        pass: &str,
        reconciler: &dyn apply::Reconciler,
        desired: &Desired,
    ) -> Result<AssignmentResult, AgentError> {
        if self.pulse.stopping() {
            return Err(AgentError::Stopped);
        }
        self.pulse.beat();
        let name = desired.assignment.name.as_str().to_owned();
        let number = desired.generation;
        self.commit(|db, author| {
            generations::journal(
                db,
                number,
                author.moment.wall_ms(),
                "step",
                &format!("{pass}: {name}"),
            )
        })?;
        cut::here("step-intended");
        let recorded = self.recorded(reconciler.kind(), &name)?;
        let result = match desired.check() {
            Ok(()) => reconciler.apply(desired, &recorded, &mut self.store, &self.pulse)?,
            Err(torn) => apply::result(
                desired,
                ComplianceStatus::Failed,
                &torn.to_string(),
                Vec::new(),
            ),
        };
        cut::here("step-applied");
        self.commit(|db, _| generations::record(db, pass, &result))?;
        cut::here("step-recorded");
        Ok(result)
    }

    /// Removes recorded assignments that are not in `names`. Returns one sentence about it, or nothing.
    fn remove_surplus(&mut self, names: &BTreeSet<&str>) -> Result<String, AgentError> {
        let items = inventory::items(self.store.read(), None)?;
        let mut surplus: BTreeMap<(String, String), Vec<inventory::Item>> = BTreeMap::new();
        for item in items {
            if item.phase != "left" && !names.contains(item.assignment.as_str()) {
                let key = (item.assignment.clone(), item.kind.clone());
                surplus.entry(key).or_default().push(item);
            }
        }
        let mut told = Vec::new();
        for ((assignment, kind), items) in surplus {
            let reconciler = apply::reconciler_of(&kind, &self.config, &self.home)?;
            let steps = reconciler.remove(&assignment, &items, &mut self.store, &self.pulse)?;
            let trouble = steps
                .iter()
                .find(|step| matches!(step.status.as_str(), "failed" | "skipped"));
            told.push(match trouble.filter(|step| !step.message.is_empty()) {
                None => format!("removed `{assignment}`"),
                Some(step) => format!("`{assignment}`: {}", step.message),
            });
        }
        Ok(told.join("; "))
    }
}

fn unknown(number: u64) -> StateError {
    StateError::Value {
        what: format!("generation {number}"),
        problem: "it is not there".into(),
    }
}

fn failure(results: &[AssignmentResult]) -> Option<String> {
    let failed = results
        .iter()
        .find(|r| r.status == ComplianceStatus::Failed)?;
    Some(format!("`{}` failed: {}", failed.name, failed.message))
}

/// The generation becomes the active one; the one before is superseded.
fn take_over(
    db: &Transaction<'_>,
    author: &Author<'_>,
    generation: &Generation,
) -> Result<(), AgentError> {
    let before: Option<u64> = state::meta(db, key::ACTIVE)?;
    if let Some(mut old) = before
        .filter(|before| *before != generation.number)
        .map(|before| generations::one(db, before))
        .transpose()?
        .flatten()
    {
        let (next, _) = machine::step(old.state, Event::Superseded)?;
        old.state = next;
        generations::put(db, &old)?;
        generations::journal(db, old.number, author.moment.wall_ms(), next.word(), "")?;
    }
    Ok(state::set_meta(db, key::ACTIVE, Some(&generation.number))?)
}

/// The rows of the actions that belong into the transaction.
fn record(
    db: &Transaction<'_>,
    author: &Author<'_>,
    action: Action,
    generation: &Generation,
    happening: &Happening,
) -> Result<(), StateError> {
    match action {
        Action::Report => {
            let event = generation_event(generation, &happening.results, &happening.note);
            outbox::queue(db, author, Told::Generation(event)).map(|_| ())
        }
        Action::Remember => {
            generations::remember(db, &generation.index, generation.number, &happening.note)
        }
        // A refusal has its own words, which the intake knows and queues itself.
        _ => Ok(()),
    }
}

/// The name of the instant after a state was committed.
fn instant(state: State) -> Option<&'static str> {
    Some(match state {
        State::Verified => "verified-committed",
        State::Staged => "staged-committed",
        State::Applying => "applying-committed",
        State::Soaking => "soaking-committed",
        State::Active => "active-committed",
        State::Reverting => "reverting-committed",
        State::Reverted => "reverted-committed",
        _ => return None,
    })
}
