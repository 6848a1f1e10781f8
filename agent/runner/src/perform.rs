//! Performing: the work that a task asks for, and the event that it ends with.
//!
//! What comes in: a [`Task`] whose intent is committed. What goes out: the [`Transition`] that the machine gets. It works with the
//! reconciler, the kept generation and the inventory, writes no state of the machine, and decides nothing.

use outhaul_bundle::Index;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_reconcilers::{Reconciler, outcome};

use super::pass::{self, joined};
use super::{Transition, approval, held, index_of, known_again, note_of, observe, soak, tidy};
use crate::agent::Agent;
use crate::content_error::GenerationError;
use crate::error::AgentError;
use crate::images::Images;
use crate::intact::{self, Look};
use crate::machine::{Event, Task};
use crate::serving;
use crate::soak::Health;
use crate::state::{self, generations, key};

/// Does one task, and returns what came of it.
///
/// # Errors
/// [`AgentError`] of this host; nothing is decided then.
pub(super) fn perform(agent: &mut Agent, task: Task) -> Result<Transition, AgentError> {
    if !matches!(task, Task::Discard(_)) {
        agent.check_settings()?;
    }
    Ok(match task {
        Task::Discard(number) => {
            tidy::discard(agent)?;
            Transition::new(
                Event::CopyLost(number),
                "the copy was interrupted before it was whole",
            )
        }
        Task::AskApproval(number) => approval::ask(agent, number)?,
        Task::Apply(number) => apply(agent, number)?,
        Task::Watch(number) => watch(agent, number)?,
        Task::Revert { from, to } => revert(agent, from, to)?,
        Task::Repair(number) => repair(agent, number)?,
        Task::Correct(number) => observe::correct(agent, number)?,
    })
}

/// Makes a kept generation whole where it can be, and only then has its content served. Returns what was put
/// back, in a sentence, or nothing.
fn ready(agent: &Agent, index: &Index, look: Look) -> Result<String, AgentError> {
    let mended = intact::mend(agent, index, look)?;
    serving::switch_to(&agent.state_folder, Some(index.number))?;
    Ok(mended)
}

/// Applies a kept generation. What is not whole on disk is distinguished: the disk, not the bundle, is to blame.
fn pass(
    agent: &mut Agent,
    name: &str,
    number: u64,
    (look, images): (Look, Images),
) -> Result<Result<(Vec<AssignmentResult>, String), GenerationError>, AgentError> {
    let done = index_of(agent, number).and_then(|index| {
        let mended = ready(agent, &index, look)?;
        let (results, note) = pass::pass(agent, name, &index, images)?;
        Ok((results, joined(mended, note)))
    });
    match done {
        Err(AgentError::Generation(error)) => Ok(Err(error)),
        other => other.map(Ok),
    }
}

fn apply(agent: &mut Agent, number: u64) -> Result<Transition, AgentError> {
    // A bundle is not to be left for a program of this machine.
    agent.can_ask()?;
    let (results, note) = match pass(
        agent,
        &format!("apply {number}"),
        number,
        (Look::Changed, Images::Required),
    )? {
        // It may be imported again.
        Err(error) => {
            return Ok(Transition::new(
                Event::FolderLost(number),
                error.to_string(),
            ));
        }
        Ok(done) => done,
    };
    Ok(match pass::failure(&results) {
        None => Transition::with(Event::Applied(number), note, results),
        Some(failure) => Transition::with(Event::Broken(number), failure, results),
    })
}

fn watch(agent: &mut Agent, number: u64) -> Result<Transition, AgentError> {
    let index = match index_of(agent, number) {
        Err(AgentError::Generation(error)) => {
            return Ok(Transition::new(
                Event::FolderLost(number),
                error.to_string(),
            ));
        }
        other => other?,
    };
    let results = generations::results(agent.store.read(), &format!("apply {number}"))?;
    let mut results = looked_after(agent, &index, results, |_| true)?;
    let health = sick(&results).map_or_else(|| soak::health(agent), Health::Bad);
    let unwell = match health {
        Health::Good => None,
        Health::Bad(unwell) => Some(unwell),
        // The work waits, as for anything that lacks on this host; not for ever, because nobody confirms the bundle meanwhile.
        Health::Unasked(lacks) => match soak::in_vain(agent, number)? {
            None => return Err(soak::patient(agent, number, lacks).into()),
            Some(minutes) => Some(format!("{lacks}; it stayed so for {minutes} minutes")),
        },
    };
    if unwell.is_none()
        && let Some(until) = soak::until(agent, number)?
    {
        let note = format!(
            "healthy so far; it is confirmed when it stays so until {until}: the service looks where it runs, or `outhaul-agent apply`"
        );
        return Ok(Transition::with(Event::HealthySoFar(number), note, results));
    }
    Ok(match unwell {
        None => {
            let mut notes = vec![note_before_looks(agent, number)?];
            notes.push(pass::prune(agent, &index, &mut results)?);
            notes.retain(|note| !note.is_empty());
            known_again::know_held(agent)?;
            results.extend(held::results(agent, &index)?);
            Transition::with(Event::Healthy(number), notes.join("; "), results)
        }
        Some(note) => Transition::with(Event::Broken(number), note, results),
    })
}

/// The note of a bundle, without that its health is checked.
fn note_before_looks(agent: &Agent, number: u64) -> Result<String, AgentError> {
    let row = generations::one(agent.store.read(), number)?;
    Ok(row.map_or_else(String::new, |row| row.note.why))
}

/// The results of a pass, with what each reconciler that `of` names says of its assignments since.
fn looked_after(
    agent: &Agent,
    index: &Index,
    mut results: Vec<AssignmentResult>,
    of: impl Fn(&dyn Reconciler) -> bool,
) -> Result<Vec<AssignmentResult>, AgentError> {
    let reconcilers = agent.reconcilers(index)?;
    for desired in held::free(agent, index)? {
        let name = &desired.assignment.name;
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        if !of(reconciler) {
            continue;
        }
        let recorded = agent.recorded(reconciler.kind(), name.as_str())?;
        if let Some(verdict) = reconciler.health(&desired, &recorded, &agent.heartbeat)?
            && let Some(known) = results.iter_mut().find(|r| r.name == *name)
        {
            match verdict.status {
                ComplianceStatus::Compliant => outcome::add_messages(known, verdict.steps),
                _ => *known = verdict,
            }
        }
    }
    Ok(results)
}

/// The same after a return to an earlier state, where others do the work: what they were given is not there yet.
fn confirmed(
    agent: &Agent,
    index: &Index,
    results: Vec<AssignmentResult>,
) -> Result<Vec<AssignmentResult>, AgentError> {
    looked_after(agent, index, results, |one| one.health_waits())
}

/// The first assignment that is not as it should be, in a sentence.
fn sick(results: &[AssignmentResult]) -> Option<String> {
    let sick = results
        .iter()
        .find(|r| r.status != ComplianceStatus::Compliant)?;
    Some(format!("`{}` is not healthy: {}", sick.name, sick.message))
}

fn revert(agent: &mut Agent, from: u64, to: u64) -> Result<Transition, AgentError> {
    let why = note_of(agent.store.read(), from)?;
    let decided = state::meta::<String>(agent.store.read(), key::ROLLBACK)?.is_some();
    let broken = |failure: &str, results| {
        let note = if decided {
            format!("the rollback to bundle {to} failed: {failure}")
        } else {
            format!("{why}; going back to bundle {to} failed as well: {failure}")
        };
        Transition::with(Event::ReturnBroken(from), note, results)
    };
    let (results, removed) = match pass(
        agent,
        &format!("revert {from}"),
        to,
        (Look::Every, Images::Wanted),
    )? {
        Err(error) => return Ok(broken(&error.to_string(), Vec::new())),
        Ok(done) => done,
    };
    if let Some(failure) = pass::failure(&results) {
        return Ok(broken(&joined(failure, removed), results));
    }
    let index = index_of(agent, to)?;
    let mut results = confirmed(agent, &index, results)?;
    if let Some(sick) = sick(&results) {
        return Ok(broken(&joined(sick, removed), results));
    }
    let held = held::results(agent, &index)?;
    let mut note = format!("{why}; bundle {to} is active again");
    let removed = joined(removed, pass::prune(agent, &index, &mut results)?);
    if !removed.is_empty() {
        note = format!("{note}; {removed}");
    }
    results.extend(held);
    Ok(Transition::with(Event::Returned(from), note, results))
}

fn repair(agent: &mut Agent, number: u64) -> Result<Transition, AgentError> {
    let why = note_of(agent.store.read(), number)?;
    let sentence = |what: String| match why.as_str() {
        "" => what,
        why => format!("{why}; {what}"),
    };
    let index = match index_of(agent, number) {
        Err(AgentError::Generation(error)) => {
            let note = sentence(format!("bundle {number} cannot be applied again: {error}"));
            return Ok(Transition::new(Event::RepairBroken, note));
        }
        other => other?,
    };
    let done = ready(agent, &index, Look::Every).and_then(|mended| {
        let pass = format!("repair {number}");
        let (results, note) = pass::pass(agent, &pass, &index, Images::Wanted)?;
        Ok((results, joined(mended, note)))
    });
    let (results, mended) = match done {
        Err(AgentError::Generation(error)) => {
            let note = sentence(format!("applying bundle {number} again failed: {error}"));
            return Ok(Transition::new(Event::RepairBroken, note));
        }
        other => other?,
    };
    let failure = match pass::failure(&results) {
        None => restore(agent, &format!("repair {number}"))?,
        failed => failed,
    };
    let mut results = match failure {
        None => confirmed(agent, &index, results)?,
        Some(_) => results,
    };
    Ok(match failure.or_else(|| sick(&results)) {
        None => {
            let mut note = joined(mended, format!("bundle {number} is active again"));
            let removed = pass::prune(agent, &index, &mut results)?;
            if !removed.is_empty() {
                note = format!("{note}; {removed}");
            }
            results.extend(held::results(agent, &index)?);
            let note = sentence(note);
            Transition::with(Event::Repaired, note, results)
        }
        Some(failure) => {
            let note = sentence(format!("applying bundle {number} again failed: {failure}"));
            Transition::with(Event::RepairBroken, note, results)
        }
    })
}

/// Puts what a person holds back to what it keeps; returns the first failure. For repairs only: a bundle that comes
/// leaves it alone.
fn restore(agent: &mut Agent, pass: &str) -> Result<Option<String>, AgentError> {
    for (name, hold) in held::all(agent)? {
        let Some(desired) = held::kept(agent, &name, &hold) else {
            continue;
        };
        let index = held::only(&index_of(agent, desired.generation)?, &name);
        let reconcilers = agent.reconcilers(&index)?;
        // Of what is kept for it, as of a whole bundle: what is damaged is put back first, and nothing damaged is applied.
        let found = intact::damages(&agent.state_folder, &index, Look::Every);
        match intact::mend_found(agent, &index, Look::Changed, &found) {
            Err(AgentError::Generation(error)) => {
                return Ok(Some(format!("`{name}` failed: {error}")));
            }
            other => other?,
        };
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        let done = pass::apply_one(agent, pass, reconciler, &desired)?;
        if done.status == ComplianceStatus::Failed {
            return Ok(Some(format!("`{name}` failed: {}", done.message)));
        }
    }
    Ok(None)
}
