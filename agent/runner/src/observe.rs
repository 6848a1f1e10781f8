//! Looking for drift on a schedule, and correcting it where the stream says so.
//!
//! What comes in: the active generation. What goes out: the machine's step for what was found, with a queued observation
//! of each assignment's verdict. Under a hold nothing is corrected. A host that cannot be read is a finding.

use outhaul_bundle::Index;
use outhaul_bundle::index::DriftPolicy;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_reconcilers::marks::Marks;
use outhaul_reconcilers::{ApplyError, Desired, outcome, shortened};
use rusqlite::Connection;

use super::pass::apply_one;
use super::{Transition, held};
use crate::agent::Agent;
use crate::content_error::GenerationError;
use crate::error::AgentError;
use crate::generation;
use crate::intact::{self, Damage, Look};
use crate::machine::{Event, Work};
use crate::state::{self, generations, key};

/// Compares the active generation with this host, queues what was found, and puts back what differs where the
/// stream says so. `None`: nothing is active, or something else is being changed.
///
/// # Errors
/// [`AgentError`] of the store; what a reconciler cannot do is reported as a failed result.
pub fn observe(agent: &mut Agent) -> Result<Option<Vec<AssignmentResult>>, AgentError> {
    let site = crate::site_now(agent.store.read())?;
    let Some(active) = site.active else {
        return Ok(None);
    };
    // What the agent itself left broken is tried again, whatever the stream says of drift.
    if site.work == Work::Idle && active.broken && !site.hold {
        crate::transition(agent, &Event::RepairDue.into())?;
        crate::drive(agent)?;
        return Ok(state::meta(agent.store.read(), key::RESULTS)?);
    }
    let unchanged_ms = agent.config.unchanged_s.saturating_mul(1000);
    let results = compared(agent, unchanged_ms)?;
    let site = crate::site_now(agent.store.read())?;
    if site.work != Work::Correcting {
        return Ok(results);
    }
    crate::drive(agent)?;
    Ok(state::meta(agent.store.read(), key::RESULTS)?)
}

/// Compares the active generation with this host and queues what was found; nothing is put back. `None`: nothing is
/// active, or something is being changed.
///
/// # Errors
/// As [`observe`].
pub fn compare(agent: &mut Agent) -> Result<Option<Vec<AssignmentResult>>, AgentError> {
    compared(agent, 0)
}

/// The same. What the last report said is not reported again for `unchanged_ms`.
fn compared(
    agent: &mut Agent,
    unchanged_ms: u64,
) -> Result<Option<Vec<AssignmentResult>>, AgentError> {
    let site = crate::site_now(agent.store.read())?;
    // What is being changed is not compared; what came of it was reported.
    let Some(active) = site.active.filter(|_| site.work == Work::Idle) else {
        return Ok(None);
    };
    agent.check_settings()?;
    let active = active.number;
    let index = match crate::index_of(agent, active) {
        Err(AgentError::Generation(error)) => {
            let lost = without_folder(agent.store.read(), active, &error)?;
            let results = lost.results.clone();
            let event = lost.event(Event::Observed(active));
            crate::transition(
                agent,
                &Transition {
                    unchanged_ms,
                    ..event
                },
            )?;
            return Ok(Some(results));
        }
        other => other?,
    };
    let mut found = find(agent, &index, intact::due(agent, active)?)?;
    let results = found.results.clone();
    let mut event = Event::Observed(active);
    if found.drifted && index.reconciler.drift == DriftPolicy::Correct && !site.hold {
        event = Event::DriftFound(active);
        found.say_first("drift was found and is being corrected");
    } else if found.drifted {
        found.say_first("drift was found");
    }
    // That something is corrected now is always said.
    let unchanged_ms = match event {
        Event::Observed(_) => unchanged_ms,
        _ => 0,
    };
    let event = found.event(event);
    crate::transition(
        agent,
        &Transition {
            unchanged_ms,
            ..event
        },
    )?;
    Ok(Some(results))
}

/// Puts back what differs of the active generation: the assignments that drifted, and no other; under a hold none.
///
/// # Errors
/// As [`observe`], and [`AgentError::Stopped`].
pub(super) fn correct(agent: &mut Agent, active: u64) -> Result<Transition, AgentError> {
    let event = Event::Corrected(active);
    let index = match crate::index_of(agent, active) {
        Err(AgentError::Generation(error)) => {
            return Ok(without_folder(agent.store.read(), active, &error)?.event(event));
        }
        other => other?,
    };
    // A power cut came, and then a person's hold: what is left is looked at.
    let is_held = crate::site_now(agent.store.read())?.hold;
    let mut desired = held::free(agent, &index)?;
    desired.retain(|_| !is_held);
    let pass = format!("correct {active}");
    let done = generations::results(agent.store.read(), &pass)?;
    let mut failures = Vec::new();
    for result in look(agent, &desired, &index)? {
        let known = done.iter().any(|done| done.name == result.name);
        let one = desired
            .iter()
            .find(|one| one.assignment.name == result.name);
        let Some(one) = one.filter(|_| is_drifted(&result) && !known) else {
            continue;
        };
        let reconcilers = agent.reconcilers(&index)?;
        let reconciler = reconcilers.for_assignment(&one.assignment);
        let failed = match apply_one(agent, &pass, reconciler, one) {
            Ok(result) if result.status == ComplianceStatus::Failed => Some(result.message),
            Ok(_) => None,
            Err(AgentError::Apply(ApplyError::Stopped)) => return Err(AgentError::Stopped),
            // The host is as it was: the next look finds it again.
            Err(error @ (AgentError::Apply(_) | AgentError::Generation(_))) => {
                Some(error.to_string())
            }
            Err(error) => return Err(error),
        };
        failures
            .extend(failed.map(|why| format!("`{}` could not be put back: {why}", result.name)));
    }
    wait_for(agent, &index, &desired)?;
    let mut found = find(agent, &index, Look::Changed)?;
    found.say_first(match (found.drifted, is_held) {
        (true, true) => "drift was found",
        (true, false) => "drift is still there after correcting it",
        (false, _) => "drift was corrected",
    });
    found.notes.extend(failures);
    Ok(found.event(event))
}

/// What a comparison came to.
struct Comparison {
    results: Vec<AssignmentResult>,
    /// Whether an assignment that nobody holds differs.
    drifted: bool,
    notes: Vec<String>,
}

impl Comparison {
    fn say_first(&mut self, note: &str) {
        self.notes.insert(0, note.to_owned());
    }

    fn event(self, event: Event) -> Transition {
        Transition::with(event, self.notes.join("; "), self.results)
    }
}

/// Compares this host with a generation whose files are put back first, where they can be.
fn find(agent: &mut Agent, index: &Index, look_at: Look) -> Result<Comparison, AgentError> {
    let damaged = intact::damages_kept(&agent.state_folder, index, look_at);
    let mended = match intact::mend_found(agent, index, look_at, &damaged) {
        Err(AgentError::Generation(error)) => Err(error.to_string()),
        other => Ok(other?),
    };
    let desired = held::free(agent, index)?;
    let mut results = look(agent, &desired, index)?;
    let drifted = results.iter().any(is_drifted);
    results.extend(held::results(agent, index)?);
    let mut notes = Vec::new();
    match mended {
        Ok(mended) => notes.extend(Some(mended).filter(|mended| !mended.is_empty())),
        Err(lost) => {
            // Which assignment needs what is served is not known here.
            if damaged.iter().any(Damage::is_served) {
                fail_all(&mut results, &lost);
            }
            notes.push(format!("{lost}; import bundle {} again", index.number));
        }
    }
    Ok(Comparison {
        results,
        drifted,
        notes,
    })
}

fn is_drifted(result: &AssignmentResult) -> bool {
    result.status == ComplianceStatus::Drifted
}

fn fail_all(results: &mut [AssignmentResult], problem: &str) {
    for result in results {
        result.status = ComplianceStatus::Failed;
        result.message = shortened(problem);
        result.steps.clear();
    }
}

/// What was last known of each assignment, when nothing says any more how it should be.
fn without_folder(
    db: &Connection,
    active: u64,
    lost: &GenerationError,
) -> Result<Comparison, AgentError> {
    let mut results = generations::results(db, &format!("apply {active}"))?;
    fail_all(&mut results, &lost.to_string());
    Ok(Comparison {
        results,
        drifted: false,
        notes: vec![format!("{lost}; import it again")],
    })
}

/// Waits for those who make real what was put back; how it went is looked at afterwards.
fn wait_for(agent: &Agent, index: &Index, desired: &[Desired]) -> Result<(), AgentError> {
    let reconcilers = agent.reconcilers(index)?;
    for desired in desired {
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        if !reconciler.health_waits() {
            continue;
        }
        let recorded = agent.recorded(reconciler.kind(), desired.assignment.name.as_str())?;
        if let Err(error) = reconciler.health(desired, &recorded, &agent.heartbeat) {
            tracing::warn!("{error}");
        }
    }
    Ok(())
}

fn look(
    agent: &Agent,
    desired: &[Desired],
    index: &Index,
) -> Result<Vec<AssignmentResult>, AgentError> {
    let reconcilers = agent.reconcilers(index)?;
    let mut results = Vec::new();
    for desired in desired {
        agent.heartbeat.beat();
        let failed = |problem: String| outcome::failed(desired, &problem, Vec::new());
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        let recorded = agent.recorded(reconciler.kind(), desired.assignment.name.as_str())?;
        // What is kept was looked at just before: only what changed since is read.
        let folder = generation::marks(&agent.state_folder, desired.generation);
        let mut marks = Marks::to_read(&folder, intact::CONTENTS);
        results.push(match generation::check_by(desired, &mut marks) {
            Ok(()) => reconciler
                .observe(desired, &recorded, &agent.heartbeat)
                .unwrap_or_else(|error| failed(error.to_string())),
            Err(torn) => failed(torn.to_string()),
        });
    }
    Ok(results)
}
