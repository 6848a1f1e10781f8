//! Looking for drift on a schedule, and correcting it where the stream says so.
//!
//! What comes in: the active generation. What goes out: a queued observation with each assignment's
//! verdict. Under a hold nothing is corrected. A host that cannot be looked at is itself a finding.

use outhaul_bundle::index::DriftPolicy;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, ReportEvent};
use outhaul_reconcilers::{Desired, outcome, shortened};

use rusqlite::Connection;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::generation;
use crate::intact::{self, Damage};
use crate::machine::{Event, Work};
use crate::reconcilers::BundleReconcilers;
use crate::runner::{self, held};
use crate::state::events::generation_event;
use crate::state::{self, Hold, generations, key, outbox};

/// Compares the active generation with this host and queues what was found. `None`: nothing is
/// active, or something is being changed.
///
/// # Errors
/// [`AgentError`] of the store; what a reconciler cannot do is reported as a failed result.
pub fn observe(agent: &mut Agent) -> Result<Option<Vec<AssignmentResult>>, AgentError> {
    let site = runner::site_now(agent.store.read())?;
    let Some(active) = site.active else {
        return Ok(None);
    };
    // What is being changed is neither compared nor put back; what came of it was reported.
    if site.work != Work::Idle {
        return Ok(None);
    }
    // What the agent itself left broken is tried again, whatever the stream says of drift.
    if active.broken && !site.hold {
        runner::transition(agent, &Event::RepairDue.into())?;
        runner::drive(agent)?;
        return Ok(state::meta(agent.store.read(), key::RESULTS)?);
    }
    let active = active.number;
    let index = match runner::index_of(agent, active) {
        Err(AgentError::Generation(error)) => {
            let results = without_folder(agent.store.read(), active, &error.to_string())?;
            record_found(
                agent,
                active,
                &results,
                &format!("{error}; import it again"),
            )?;
            return Ok(Some(results));
        }
        other => other?,
    };
    let look_at = intact::due(agent, active)?;
    let damaged = intact::damages(&agent.state_folder, &index, look_at);
    let mended = match intact::mend_found(agent, &index, look_at, &damaged) {
        Err(AgentError::Generation(error)) => Err(error.to_string()),
        other => Ok(other?),
    };
    let reconcilers = agent.reconcilers(&index)?;
    let desired = held::free(agent, &index)?;
    let mut results = look(agent, &reconcilers, &desired)?;
    let drifted = |r: &AssignmentResult| r.status == ComplianceStatus::Drifted;
    let held = state::meta::<Hold>(agent.store.read(), key::HOLD)?.is_some();
    let mut message = "";
    if results.iter().any(drifted) {
        message = "drift was found";
        if index.reconciler.drift == DriftPolicy::Correct && !held {
            record_found(
                agent,
                active,
                &results,
                "drift was found and is being corrected",
            )?;
            for desired in desired.iter().filter(|desired| {
                results
                    .iter()
                    .any(|r| drifted(r) && r.name == desired.assignment.name)
            }) {
                let name = desired.assignment.name.as_str();
                let reconciler = reconcilers.for_assignment(&desired.assignment);
                let recorded = agent.recorded(reconciler.kind(), name)?;
                reconciler.apply(desired, &recorded, &mut agent.store, &agent.heartbeat)?;
            }
            wait_for(agent, &reconcilers, &desired)?;
            results = look(agent, &reconcilers, &desired)?;
            message = if results.iter().any(drifted) {
                "drift is still there after correcting it"
            } else {
                "drift was corrected"
            };
        }
    }
    results.extend(held::results(agent, &index)?);
    let message = match mended {
        Ok(mended) if message.is_empty() => mended,
        Ok(mended) if mended.is_empty() => message.to_owned(),
        Ok(mended) => format!("{message}; {mended}"),
        Err(lost) => {
            // Which assignment needs what is served is not known here.
            if damaged.iter().any(Damage::is_served) {
                fail_all(&mut results, &lost);
            }
            format!("{lost}; import bundle {active} again")
        }
    };
    record_found(agent, active, &results, &message)?;
    Ok(Some(results))
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
    problem: &str,
) -> Result<Vec<AssignmentResult>, AgentError> {
    let mut results = generations::results(db, &format!("apply {active}"))?;
    fail_all(&mut results, problem);
    Ok(results)
}

/// Waits for those who make real what was put back; how it went is looked at afterwards.
fn wait_for(
    agent: &Agent,
    reconcilers: &BundleReconcilers,
    desired: &[Desired],
) -> Result<(), AgentError> {
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
    agent: &mut Agent,
    reconcilers: &BundleReconcilers,
    desired: &[Desired],
) -> Result<Vec<AssignmentResult>, AgentError> {
    let mut results = Vec::new();
    for desired in desired {
        agent.heartbeat.beat();
        let failed = |problem: String| outcome::failed(desired, &problem, Vec::new());
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        let recorded = agent.recorded(reconciler.kind(), desired.assignment.name.as_str())?;
        results.push(match generation::check(desired) {
            Ok(()) => reconciler
                .observe(desired, &recorded, &agent.heartbeat)
                .unwrap_or_else(|error| failed(error.to_string())),
            Err(torn) => failed(torn.to_string()),
        });
    }
    Ok(results)
}

fn record_found(
    agent: &mut Agent,
    active: u64,
    results: &[AssignmentResult],
    message: &str,
) -> Result<(), AgentError> {
    agent.commit(|db, author| {
        if let Some(generation) = generations::one(db, active)? {
            let event = generation_event(&generation, results, message);
            outbox::queue(db, author, ReportEvent::Observation(event))?;
        }
        state::set_meta(db, key::RESULTS, Some(&results))?;
        state::set_meta(db, key::OBSERVED, Some(&author.reading.wall_ms()))?;
        Ok::<_, AgentError>(())
    })
}
