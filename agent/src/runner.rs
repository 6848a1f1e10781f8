//! The runner: performs what the machine asks for, and tells it what came of it.
//!
//! What comes in: events. What goes out: the site in which it came to rest. Each transition is one
//! transaction: the site's rows, journal, reports and memory of failures together. Work happens only after
//! its intent is committed; after a stop or cut, [`Agent::drive`] goes on with what the site owes. It
//! writes no state that the machine did not decide.

use outhaul_bundle::Index;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use rusqlite::{Connection, Transaction};

use crate::advice;
use crate::agent::Agent;
use crate::cut;
use crate::error::AgentError;
use crate::generation;
use crate::machine::{self, Event, Site, State, Task, Work};
use crate::serving;
use crate::state::generations;
use crate::state::outbox::Author;
use crate::state::{self, StateError, inventory, key};
use outhaul_reconcilers::ApplyError;

mod former_keys;
mod gate;
mod observe;
mod pass;
mod people;
mod stored;
mod tidy;

pub use people::Rollback;

/// Begins the part of a note that says what keeps work from going on.
const CANNOT_GO_ON: &str = "it cannot go on: ";

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
        Self::new(event, String::new())
    }
}

impl Happening {
    /// An event and why.
    pub fn new(event: Event, note: impl Into<String>) -> Self {
        Self {
            event,
            note: note.into(),
            results: Vec::new(),
        }
    }

    fn with(event: Event, note: impl Into<String>, results: Vec<AssignmentResult>) -> Self {
        Self {
            results,
            ..Self::new(event, note)
        }
    }
}

/// How the site stands.
///
/// # Errors
/// [`StateError`]
pub fn stands(db: &Connection) -> Result<Site, StateError> {
    stored::load(db)
}

impl Agent {
    /// How the site stands.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn stands(&self) -> Result<Site, StateError> {
        stands(self.store.read())
    }

    /// Does what the site owes until it rests, and returns how it stands then.
    ///
    /// # Errors
    /// [`AgentError`]; the state on disk then is one to go on from.
    pub fn drive(&mut self) -> Result<Site, AgentError> {
        let mut site = self.stands()?;
        if self.rehearsal.is_some() {
            return Ok(site);
        }
        // A cut may have come between a transition and this.
        serving::publish(&self.home, &site)?;
        while let Some(task) = machine::owed(&site) {
            if self.pulse.stopping() {
                return Err(AgentError::Stopped);
            }
            self.pulse.beat();
            let happening = match self.perform(task) {
                Err(AgentError::Apply(ApplyError::Stopped)) => return Err(AgentError::Stopped),
                Err(error) if error.is_of_the_host() => {
                    let blocked = self.blocked(&site, error)?;
                    // A newer bundle does not wait for what cannot go on.
                    match self.stands()?.waiting {
                        Some(waiting) if site.worked_on().is_some() => {
                            let asked = self.ask_gate(waiting.number)?;
                            let next = self.transition(&asked, |_, _| Ok(()))?;
                            if next.work == site.work {
                                return Err(blocked);
                            }
                            site = next;
                            continue;
                        }
                        _ => return Err(blocked),
                    }
                }
                other => other?,
            };
            let next = self.transition(&happening, |_, _| Ok(()))?;
            if next == site {
                break;
            }
            site = next;
        }
        self.tidy_up()?;
        Ok(site)
    }

    /// Commits one transition and returns how the site stands then. `more` joins the transaction.
    ///
    /// # Errors
    /// [`AgentError`]; nothing was changed then.
    pub fn transition(
        &mut self,
        happening: &Happening,
        more: impl FnOnce(&Transaction<'_>, &Author<'_>) -> Result<(), StateError>,
    ) -> Result<Site, AgentError> {
        let (before, after) = self.commit(|db, author| {
            let before = stored::load(db)?;
            let (after, actions) = machine::step(before.clone(), happening.event);
            more(db, author)?;
            // A site that a person tidied by hand between two events stays as it is.
            if after != before || !actions.is_empty() || note_is_new(db, &after, happening)? {
                stored::save(db, author, (&before, &after), &actions, happening)?;
            }
            Ok::<_, StateError>((before, after))
        })?;
        if let Some(instant) = instant(&before, &after) {
            cut::here(instant);
        }
        if self.rehearsal.is_none() {
            serving::publish(&self.home, &after)?;
        }
        Ok(after)
    }

    /// What was under way when the agent stopped goes on. Returns what it came to, and whether it had
    /// waited until then.
    ///
    /// # Errors
    /// [`AgentError`] of what cannot go on now.
    pub fn resume(&mut self) -> Result<Option<(u64, State, bool)>, AgentError> {
        self.settle_visits()?;
        let before = self.stands()?;
        let waiting = before.waiting.map(|waiting| waiting.number);
        let Some(number) = before.worked_on().or(before.incoming).or(waiting) else {
            self.drive()?;
            return Ok(None);
        };
        let state = |agent: &Self| -> Result<Option<State>, AgentError> {
            let row = generations::one(agent.store.read(), number)?;
            Ok(row.map(|row| row.state))
        };
        let was = state(self)?;
        self.drive()?;
        let is = state(self)?;
        // One that waits for a person waits on.
        if waiting == Some(number) && was == is {
            return Ok(None);
        }
        let waited = waiting == Some(number);
        Ok(Some((number, is.unwrap_or(State::Rejected), waited)))
    }

    fn perform(&mut self, task: Task) -> Result<Happening, AgentError> {
        Ok(match task {
            Task::Discard(number) => {
                self.discard()?;
                Happening::new(
                    Event::CopyLost(number),
                    "the copy was cut off before it was whole",
                )
            }
            Task::AskGate(number) => self.ask_gate(number)?,
            Task::Apply(number) => self.apply(number)?,
            Task::Watch(number) => self.watch(number)?,
            Task::Revert { from, to } => self.revert(from, to)?,
            Task::Repair(number) => self.repair(number)?,
        })
    }

    /// The host, not a bundle, keeps the work from going on: recorded and reported once for each reason.
    fn blocked(&mut self, site: &Site, error: AgentError) -> Result<AgentError, AgentError> {
        let Some(number) = site.worked_on() else {
            return Ok(error);
        };
        let mut note = format!("{CANNOT_GO_ON}{error}");
        let row = generations::one(self.store.read(), number)?;
        if row.is_some_and(|row| !row.note.ends_with(&note)) {
            let why = self.note(number)?;
            if !why.is_empty() {
                note = format!("{why}; {note}");
            }
            self.transition(&Happening::new(Event::Blocked, note), |_, _| Ok(()))?;
        }
        Ok(AgentError::Blocked {
            number,
            running: advice::what_runs(site, self.has_begun(site)?),
            help: error.help(),
            problem: error.to_string(),
        })
    }

    /// Whether the work under way may have changed something on this host.
    ///
    /// # Errors
    /// [`AgentError`] of the memory.
    pub fn has_begun(&self, site: &Site) -> Result<bool, AgentError> {
        let Work::Applying(number) = site.work else {
            return Ok(site.work != Work::Idle);
        };
        let db = self.store.read();
        // What is put on the host is in the inventory before; only what brings nothing begins with a removal.
        let brings = |index: Index| !index.assignments.is_empty();
        let intended = inventory::items(db, None)?;
        Ok(intended.iter().any(|item| item.generation == number)
            || !generations::results(db, &format!("apply {number}"))?.is_empty()
            || !self.index(number).is_ok_and(brings))
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

    /// The note of a generation's row, without what kept its work from going on meanwhile.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn note(&self, number: u64) -> Result<String, StateError> {
        let row = generations::one(self.store.read(), number)?;
        let note = row.map(|row| row.note).unwrap_or_default();
        Ok(why(&note).to_owned())
    }

    fn apply(&mut self, number: u64) -> Result<Happening, AgentError> {
        let index = match self.index(number) {
            Err(AgentError::Generation(error)) => {
                return Ok(Happening::new(Event::FolderLost(number), error.to_string()));
            }
            other => other?,
        };
        let (results, note) = match self.pass(&format!("apply {number}"), &index) {
            // The disk, not the bundle: it may be imported again.
            Err(AgentError::Generation(error)) => {
                return Ok(Happening::new(Event::FolderLost(number), error.to_string()));
            }
            other => other?,
        };
        Ok(match pass::failure(&results) {
            None => Happening::with(Event::Applied(number), note, results),
            Some(failure) => Happening::with(Event::Broken(number), failure, results),
        })
    }

    fn watch(&mut self, number: u64) -> Result<Happening, AgentError> {
        let index = match self.index(number) {
            Err(AgentError::Generation(error)) => {
                return Ok(Happening::new(Event::FolderLost(number), error.to_string()));
            }
            other => other?,
        };
        let reconciler = self.reconciler(index.reconciler.kind.as_str())?;
        let mut results = generations::results(self.store.read(), &format!("apply {number}"))?;
        for desired in generation::desired(&self.home, &index, &self.site.name) {
            let name = &desired.assignment.name;
            let recorded = self.recorded(reconciler.kind(), name.as_str())?;
            if let Some(verdict) = reconciler.health(&desired, &recorded, &self.pulse)? {
                let sick = verdict.status != ComplianceStatus::Compliant;
                if let Some(known) = results.iter_mut().find(|r| sick && r.name == *name) {
                    *known = verdict;
                }
            }
        }
        let sick = results
            .iter()
            .find(|r| r.status != ComplianceStatus::Compliant)
            .map(|sick| format!("`{}` is not healthy: {}", sick.name, sick.message));
        Ok(match sick {
            None => Happening::with(Event::Healthy(number), self.note(number)?, results),
            Some(note) => Happening::with(Event::Broken(number), note, results),
        })
    }

    fn revert(&mut self, from: u64, to: u64) -> Result<Happening, AgentError> {
        let why = self.note(from)?;
        let decided = state::meta::<String>(self.store.read(), key::ROLLBACK)?.is_some();
        let broken = |failure: &str, results| {
            let note = if decided {
                format!("the rollback to bundle {to} failed: {failure}")
            } else {
                format!("{why}; going back to bundle {to} failed as well: {failure}")
            };
            Happening::with(Event::ReturnBroken(from), note, results)
        };
        let index = match self.index(to) {
            Err(AgentError::Generation(error)) => {
                return Ok(broken(&error.to_string(), Vec::new()));
            }
            other => other?,
        };
        let (results, removed) = match self.pass(&format!("revert {from}"), &index) {
            Err(AgentError::Generation(error)) => {
                return Ok(broken(&error.to_string(), Vec::new()));
            }
            other => other?,
        };
        if let Some(failure) = pass::failure(&results) {
            return Ok(broken(&failure, results));
        }
        let mut note = format!("{why}; bundle {to} runs again");
        if !removed.is_empty() {
            note = format!("{note}; {removed}");
        }
        Ok(Happening::with(Event::Returned(from), note, results))
    }

    fn repair(&mut self, number: u64) -> Result<Happening, AgentError> {
        let why = self.note(number)?;
        let sentence = |what: String| match why.as_str() {
            "" => what,
            why => format!("{why}; {what}"),
        };
        let index = match self.index(number) {
            Err(AgentError::Generation(error)) => {
                let note = sentence(format!("bundle {number} cannot be applied again: {error}"));
                return Ok(Happening::new(Event::RepairBroken, note));
            }
            other => other?,
        };
        let (results, _) = match self.pass(&format!("repair {number}"), &index) {
            Err(AgentError::Generation(error)) => {
                let note = sentence(format!("applying bundle {number} again failed: {error}"));
                return Ok(Happening::new(Event::RepairBroken, note));
            }
            other => other?,
        };
        Ok(match pass::failure(&results) {
            None => {
                let note = sentence(format!("bundle {number} runs again"));
                Happening::with(Event::Repaired, note, results)
            }
            Some(failure) => {
                let note = sentence(format!("applying bundle {number} again failed: {failure}"));
                Happening::with(Event::RepairBroken, note, results)
            }
        })
    }
}

/// A note without what kept its work from going on.
fn why(note: &str) -> &str {
    let why = note.split(CANNOT_GO_ON).next().unwrap_or_default();
    why.trim_end_matches("; ")
}

/// Whether an event that changes nothing else says something new of a bundle: why it waits, for example.
fn note_is_new(
    db: &Transaction<'_>,
    site: &Site,
    happening: &Happening,
) -> Result<bool, StateError> {
    let Event::GateShut(number) = happening.event else {
        return Ok(false);
    };
    let row = generations::one(db, number)?;
    Ok(site.state_of(number) == Some(State::Gated)
        && row.is_some_and(|row| row.note != happening.note))
}

fn unknown(number: u64) -> StateError {
    StateError::Value {
        what: format!("generation {number}"),
        problem: "it is not there".into(),
    }
}

/// The name of the instant after a change was committed.
fn instant(before: &Site, after: &Site) -> Option<&'static str> {
    let newest = |site: &Site| site.active.map(|active| active.number);
    Some(match (before.work, after.work) {
        _ if before.incoming.is_none() && after.incoming.is_some() => "verified-committed",
        _ if before.incoming.is_some() && before.incoming == waiting(after) => "staged-committed",
        (before, after) if before == after => return None,
        (_, Work::Applying(_)) => "applying-committed",
        (_, Work::Soaking(_)) => "soaking-committed",
        (_, Work::Reverting { .. }) => "reverting-committed",
        (_, Work::Repairing) => "repairing-committed",
        (Work::Repairing, Work::Idle) => "repaired-committed",
        (Work::Soaking(number), Work::Idle) if newest(after) == Some(number) => "active-committed",
        (Work::Reverting { .. }, Work::Idle) => "reverted-committed",
        _ => return None,
    })
}

fn waiting(site: &Site) -> Option<u64> {
    site.waiting.map(|waiting| waiting.number)
}
