//! The runner: performs what the machine asks for, and returns the result to it.
//!
//! What comes in: events. What goes out: the site in which it came to rest. Each transition is one
//! transaction: the site's rows, journal, reports and record of failures together. Work happens only after
//! its intent is committed; after a stop or cut, [`drive`] goes on with what the site owes. It
//! writes no state that the machine did not decide.

use outhaul_bundle::{Digest, Index};
use rusqlite::{Connection, Transaction};

use outhaul_content::{blobs, content_error, generation, serving};
use outhaul_host::{error, facilities, host, reconcilers};
use outhaul_kit::durable;
use outhaul_reconcilers::{ApplyError, Phase};
use outhaul_settings::{apply, config};
use outhaul_site::{
    advice, cut, identity, incomplete, keys, machine, offer, rehearsal, rescued, secrets, state,
    state_folder,
};

use crate::agent::Agent;
use crate::error::{AgentError, HostFault};
use crate::machine::{Event, Site, State, Task, Work};
use crate::state::generations;
use crate::state::outbox::Author;
use crate::state::{Note, StateError, inventory, returns};

pub mod acks;
pub mod agent;
pub mod approval;
pub mod decisions;
pub mod delays;
pub mod following;
mod former_keys;
pub mod former_targets;
pub mod held;
pub mod held_again;
mod images;
pub mod intact;
mod kept;
pub mod kept_floors;
pub mod known_again;
pub mod lost_database;
pub mod lost_settings;
pub mod observe;
pub mod own_values;
mod pass;
mod perform;
pub mod progress;
pub mod roots;
pub mod soak;
pub mod tidy;

pub use decisions::Rollback;
pub use outhaul_site::stored::Transition;
use outhaul_site::stored::{self, Decision, unknown};

/// How the site stands.
///
/// # Errors
/// [`StateError`]
pub fn site_now(db: &Connection) -> Result<Site, StateError> {
    stored::load(db)
}

/// Does what the site owes until it rests, and returns how it stands then.
///
/// # Errors
/// [`AgentError`]; the state on disk then is one to go on from.
pub fn drive(agent: &mut Agent) -> Result<Site, AgentError> {
    let mut site = site_now(agent.store.read())?;
    if agent.rehearsal.is_some() {
        return Ok(site);
    }
    // A cut may have come between a transition and this.
    serving::publish(&agent.state_folder, &site)?;
    // What keeps the work under way from going on, while a newer bundle is asked about.
    let mut held_up = None;
    let mut owed = machine::owed(&site);
    while let Some(task) = owed {
        if agent.heartbeat.is_cancelled() {
            return Err(AgentError::Stopped);
        }
        agent.heartbeat.beat();
        let done = match perform::perform(agent, task) {
            Err(AgentError::Apply(ApplyError::Stopped)) => return Err(AgentError::Stopped),
            // What was stopped gave no answer that counts against a bundle: it is asked again.
            Ok(done) if done.event.is_failure() && agent.heartbeat.is_cancelled() => {
                return Err(AgentError::Stopped);
            }
            Err(error)
                if error.host_fault() == Some(HostFault::AllWork)
                    && !matches!(task, Task::AskApproval(_)) =>
            {
                let blocked = blocked(agent, &site, error)?;
                // Which approval, windows and delays this site asks for is not known then: nothing begins by the defaults.
                if agent.check_settings().is_err() {
                    return Err(blocked);
                }
                held_up = Some(blocked);
                site = site_now(agent.store.read())?;
                owed = machine::owed_after(&site, Event::Blocked);
                continue;
            }
            other => other?,
        };
        let next = transition_counting_failures(agent, &done)?;
        if next.work != site.work {
            held_up = None;
        }
        owed = machine::owed_after(&next, done.event);
        // What changed nothing would come to the same again.
        if next == site && owed == Some(task) {
            break;
        }
        site = next;
    }
    if let Some(blocked) = held_up {
        return Err(blocked);
    }
    own_values::report(agent)?;
    tidy::tidy_up(agent)?;
    Ok(site)
}

/// Commits what came of a task. That a candidate was left counts against its content, whatever its number; that it works
/// ends the count.
fn transition_counting_failures(agent: &mut Agent, done: &Transition) -> Result<Site, AgentError> {
    let (Event::Broken(number) | Event::Healthy(number)) = done.event else {
        return transition(agent, done);
    };
    let Ok(content) = index_of(agent, number).map(|index| content_of(&index)) else {
        return transition(agent, done);
    };
    let is_candidate = site_now(agent.store.read())?.candidate() == Some(number);
    transition_with(agent, done, |db, _| match done.event {
        _ if !is_candidate => Ok(()),
        Event::Broken(_) => returns::add(db, content),
        _ => returns::forget(db, &content),
    })
}

/// The digest of what a bundle brings to this site, whatever its number and whatever it was rendered from.
pub fn content_of(index: &Index) -> Digest {
    let brings = (&index.reconciler, &index.assignments, &index.served);
    // What was read from JSON can be written as such.
    Digest::of(&serde_json::to_vec(&brings).unwrap_or_default())
}

/// Commits one transition and returns how the site stands then.
///
/// # Errors
/// [`AgentError`]; nothing was changed then.
pub fn transition(agent: &mut Agent, transition: &Transition) -> Result<Site, AgentError> {
    transition_with(agent, transition, |_, _| Ok(()))
}

/// The same, with `more` in the transaction.
///
/// # Errors
/// [`AgentError`]; nothing was changed then.
pub fn transition_with(
    agent: &mut Agent,
    transition: &Transition,
    more: impl FnOnce(&Transaction<'_>, &Author<'_>) -> Result<(), StateError>,
) -> Result<Site, AgentError> {
    transition_on(agent, transition, |_| Ok(()), more)
}

/// The same of a site that `first` has changed in the transaction, before it is decided what follows.
///
/// # Errors
/// [`AgentError`]; nothing was changed then.
pub(crate) fn transition_on(
    agent: &mut Agent,
    transition: &Transition,
    first: impl FnOnce(&Transaction<'_>) -> Result<(), StateError>,
    more: impl FnOnce(&Transaction<'_>, &Author<'_>) -> Result<(), StateError>,
) -> Result<Site, AgentError> {
    let (before, after) = agent.commit(|db, author| {
        first(db)?;
        let before = stored::load(db)?;
        let (after, actions) = machine::step(before.clone(), transition.event);
        more(db, author)?;
        if gives_hold(transition.decision.as_ref()) {
            lost_database::holds_are_known(db)?;
        }
        // A site that a person tidied by hand between two events stays as it is.
        let decided = transition.decision.is_some();
        if after != before || !actions.is_empty() || decided || note_is_new(db, &after, transition)?
        {
            stored::save(db, author, (&before, &after), &actions, transition)?;
        }
        Ok::<_, StateError>((before, after))
    })?;
    if let Some(instant) = instant(&before, &after) {
        cut::here(instant);
    }
    if transition.decision.is_some() || before.hold != after.hold {
        // By it, a restore knows later that the copy of the holds is newer than a backup. It is committed, whatever comes of the files.
        if let Err(error) = tidy::keep_identity(agent) {
            tracing::warn!("which site this is (`site.json`) is not up to date: {error}");
        }
        tidy::keep_holds(agent);
    }
    if agent.rehearsal.is_none() {
        serving::publish(&agent.state_folder, &after)?;
    }
    Ok(after)
}

/// Whether something is held by what a person decided.
fn gives_hold(decision: Option<&Decision>) -> bool {
    match decision {
        Some(Decision::Hold(_)) => true,
        Some(Decision::Assignments(all)) => !all.is_empty(),
        Some(Decision::Release | Decision::Rollback(_) | Decision::ApplyAgain(_)) | None => false,
    }
}

/// What was under way when the agent stopped goes on. Returns what it came to, and whether it had
/// waited until then.
///
/// # Errors
/// [`AgentError`] of what cannot go on now.
pub fn resume(agent: &mut Agent) -> Result<Option<(u64, State, bool)>, AgentError> {
    decisions::deadline::look(agent)?;
    let before = site_now(agent.store.read())?;
    let waiting = before.waiting.map(|waiting| waiting.number);
    let Some(number) = before.worked_on().or(before.incoming).or(waiting) else {
        drive(agent)?;
        return Ok(None);
    };
    let state = |agent: &Agent| -> Result<Option<State>, AgentError> {
        let row = generations::one(agent.store.read(), number)?;
        Ok(row.map(|row| row.state))
    };
    let was = state(agent)?;
    drive(agent)?;
    let is = state(agent)?;
    // One that waits for a person waits on, and one whose health is looked at is looked at again.
    if (waiting == Some(number) || is == Some(State::Soaking)) && was == is {
        return Ok(None);
    }
    let waited = waiting == Some(number);
    Ok(Some((number, is.unwrap_or(State::Rejected), waited)))
}

/// The host, not a bundle, keeps the work from going on: recorded and reported once for each reason.
fn blocked(agent: &mut Agent, site: &Site, error: AgentError) -> Result<AgentError, AgentError> {
    let Some(number) = site.worked_on() else {
        return Ok(error);
    };
    let note = error.to_string();
    let row = generations::one(agent.store.read(), number)?;
    if row.is_some_and(|row| row.note.blocked != note) {
        // What is on the host already, and what is there in parts, is known here and at the hub. The results of
        // going back are not those of the bundle that is left, which this report is about.
        let results = match site.work {
            Work::Reverting { .. } => Vec::new(),
            _ => progress::results(agent, site, &note)?,
        };
        let results = results.into_iter().map(|(_, result)| result).collect();
        let folder = agent.state_folder.clone();
        let blocked = Transition::with(Event::Blocked, note, results);
        transition_with(agent, &blocked, |db, _| {
            lost_settings::note_block(&folder, db, &error)
        })?;
    }
    Ok(AgentError::Blocked {
        number,
        running: advice::what_runs(site, has_begun(agent, site)?),
        help: error.help(),
        problem: error.to_string(),
    })
}

/// Whether the work under way may have changed something on this host.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn has_begun(agent: &Agent, site: &Site) -> Result<bool, AgentError> {
    let (number, pass) = match site.work {
        Work::Applying(number) => (number, format!("apply {number}")),
        // Going back from a candidate of which nothing was applied changes nothing.
        Work::Reverting { from, .. } if site.active.is_none_or(|a| a.number != from) => {
            (from, format!("apply {from}"))
        }
        Work::Reverting { from, to, .. } => (to, format!("revert {from}")),
        // What is applied again is here already: only what was begun of it, or done, may be half of it.
        Work::Repairing => return repair_has_begun(agent, site),
        other => return Ok(other != Work::Idle),
    };
    let db = agent.store.read();
    // What is put on the host is in the inventory before; only what brings nothing begins with a removal.
    let brings = |index: Index| !index.assignments.is_empty();
    let intended = inventory::items(db, None)?;
    Ok(intended
        .iter()
        .any(|item| item.generation == number || item.phase == Phase::Intent)
        || !generations::results(db, &pass)?.is_empty()
        || !index_of(agent, number).is_ok_and(brings))
}

fn repair_has_begun(agent: &Agent, site: &Site) -> Result<bool, AgentError> {
    let db = agent.store.read();
    let done = match stored::pass(site) {
        Some(pass) => !generations::results(db, &pass)?.is_empty(),
        None => false,
    };
    let intended = inventory::items(db, None)?;
    Ok(done || intended.iter().any(|item| item.phase == Phase::Intent))
}

/// The kept index of a generation, as this site gets it.
///
/// # Errors
/// [`AgentError`] when it is not on disk or not the accepted one.
pub fn index_of(agent: &Agent, number: u64) -> Result<Index, AgentError> {
    Ok(whole_index_of(agent, number)?.for_site(&agent.site.name))
}

/// The kept index of a generation, with what it says to other sites.
///
/// # Errors
/// As [`index_of`].
pub fn whole_index_of(agent: &Agent, number: u64) -> Result<Index, AgentError> {
    let row = generations::one(agent.store.read(), number)?.ok_or_else(|| unknown(number))?;
    Ok(generation::read_index(
        &agent.state_folder,
        number,
        &row.index,
        &agent.limits,
    )?)
}

/// The note of a generation's row, without what kept its work from going on meanwhile.
///
/// # Errors
/// [`StateError`]
pub fn note_of(db: &Connection, number: u64) -> Result<String, StateError> {
    let row = generations::one(db, number)?;
    Ok(row.map_or_else(String::new, |row| row.note.unblocked().to_string()))
}

/// Whether an event that changes nothing else says something new of a bundle: why it waits, for example.
fn note_is_new(
    db: &Transaction<'_>,
    site: &Site,
    transition: &Transition,
) -> Result<bool, StateError> {
    let (number, state) = match transition.event {
        Event::MustWait(number) => (number, State::Gated),
        Event::HealthySoFar(number) => (number, State::Soaking),
        _ => return Ok(false),
    };
    let row = generations::one(db, number)?;
    let is_new = |note: &Note| match state {
        State::Soaking => !note.is_as_looked_at(&transition.note),
        _ => note.why != transition.note,
    };
    Ok(site.state_of(number) == Some(state) && row.is_some_and(|row| is_new(&row.note)))
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
        (_, Work::Correcting) => "correcting-committed",
        (Work::Correcting, Work::Idle) => "corrected-committed",
        (Work::Soaking(number), Work::Idle) if newest(after) == Some(number) => "active-committed",
        (Work::Reverting { .. }, Work::Idle) => "reverted-committed",
        _ => return None,
    })
}

fn waiting(site: &Site) -> Option<u64> {
    site.waiting.map(|waiting| waiting.number)
}
