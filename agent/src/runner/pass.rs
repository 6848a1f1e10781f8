//! One pass over a bundle's assignments: each applied once, then what the inventory has beyond it removed, at once
//! or when the bundle is known to be healthy, as its reconciler asks.
//!
//! What comes in: the index of the bundle that is to run. What goes out: each assignment's result, recorded
//! before the next begins, so that a cut repeats only the one that it hit. It stops at the first failure,
//! and removes only what the inventory lists.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Index;
use outhaul_bundle::index::DriftPolicy;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_reconcilers::{Desired, Item, Reconciler, outcome};

use super::held;
use crate::agent::Agent;
use crate::apply;
use crate::cut;
use crate::error::AgentError;
use crate::generation;
use crate::state::{self, generations, inventory, key};

/// Applies every assignment of `index` that has no recorded result in this pass, then removes what
/// the inventory has beyond it. Stops at the first failure. Returns results and what was removed.
pub(super) fn pass(
    agent: &mut Agent,
    pass: &str,
    index: &Index,
) -> Result<(Vec<AssignmentResult>, String), AgentError> {
    let reconciler = agent.reconciler(index.reconciler.kind.as_str())?;
    let done = generations::results(agent.store.read(), pass)?;
    let done: BTreeMap<_, _> = done.into_iter().map(|r| (r.name.clone(), r)).collect();
    let mut results = Vec::new();
    let takes_back = state::meta::<u64>(agent.store.read(), key::TAKES_BACK)? == Some(index.number);
    for mut desired in held::free(agent, index)? {
        if takes_back {
            desired.drift = DriftPolicy::Correct;
        }
        let result = match done.get(&desired.assignment.name) {
            Some(result) => result.clone(),
            None => apply_one(agent, pass, reconciler.as_ref(), &desired)?,
        };
        let failed = result.status == ComplianceStatus::Failed;
        results.push(result);
        if failed {
            return Ok((results, String::new()));
        }
    }
    if reconciler.prunes_last() {
        return Ok((results, String::new()));
    }
    let note = remove_surplus(agent, index)?;
    Ok((results, note))
}

/// Removes what a bundle that is healthy does not have any more, where that is done last. Returns one sentence
/// about it, or nothing; what was removed of each assignment is added to its result.
pub(super) fn prune(
    agent: &mut Agent,
    index: &Index,
    results: &mut [AssignmentResult],
) -> Result<String, AgentError> {
    let reconciler = agent.reconciler(index.reconciler.kind.as_str())?;
    if !reconciler.prunes_last() {
        return Ok(String::new());
    }
    let mut reported = Vec::new();
    for desired in held::free(agent, index)? {
        let name = &desired.assignment.name;
        let recorded = agent.recorded(reconciler.kind(), name.as_str())?;
        let done = reconciler.prune(&desired, &recorded, &mut agent.store, &agent.heartbeat)?;
        let Some(done) = done else { continue };
        if !done.message.is_empty() {
            reported.push(format!("`{name}`: {}", done.message));
        }
        if let Some(known) = results.iter_mut().find(|known| known.name == *name) {
            outcome::add_steps(known, done);
        }
    }
    reported.push(remove_surplus(agent, index)?);
    reported.retain(|reported| !reported.is_empty());
    Ok(reported.join("; "))
}

pub(super) fn apply_one(
    agent: &mut Agent,
    pass: &str,
    reconciler: &dyn Reconciler,
    desired: &Desired,
) -> Result<AssignmentResult, AgentError> {
    if agent.heartbeat.is_cancelled() {
        return Err(AgentError::Stopped);
    }
    agent.heartbeat.beat();
    let name = desired.assignment.name.as_str().to_owned();
    let number = desired.generation;
    agent.commit(|db, author| {
        generations::journal(
            db,
            number,
            author.reading.wall_ms(),
            "step",
            &format!("{pass}: {name}"),
        )
    })?;
    cut::here("step-intended");
    let recorded = agent.recorded(reconciler.kind(), &name)?;
    generation::check(desired)?;
    let result = reconciler.apply(desired, &recorded, &mut agent.store, &agent.heartbeat)?;
    cut::here("step-applied");
    agent.commit(|db, _| generations::record(db, pass, &result))?;
    cut::here("step-recorded");
    Ok(result)
}

/// Removes recorded assignments that are not in `index`. Returns one sentence about it, or nothing.
fn remove_surplus(agent: &mut Agent, index: &Index) -> Result<String, AgentError> {
    let instead = index.number;
    let held = held::names(agent)?;
    let mut names: BTreeSet<&str> = index.assignments.iter().map(|a| a.name.as_str()).collect();
    names.extend(held.iter().map(String::as_str));
    let items = inventory::items(agent.store.read(), None)?;
    let mut surplus: BTreeMap<(String, String), Vec<Item>> = BTreeMap::new();
    for item in items {
        if item.phase != "left" && !names.contains(item.assignment.as_str()) {
            let key = (item.assignment.clone(), item.kind.clone());
            surplus.entry(key).or_default().push(item);
        }
    }
    let mut reported = Vec::new();
    for ((assignment, kind), items) in surplus {
        let reconciler = apply::reconciler_of(&kind, &agent.config, &agent.state_folder)?;
        let steps = reconciler.remove(
            instead,
            &assignment,
            &items,
            &mut agent.store,
            &agent.heartbeat,
        )?;
        let trouble = steps
            .iter()
            .find(|step| matches!(step.status.as_str(), "failed" | "skipped"));
        reported.push(match trouble.filter(|step| !step.message.is_empty()) {
            // What was deleted may leave something behind all the same.
            None => match steps.iter().find(|step| !step.message.is_empty()) {
                None => format!("removed `{assignment}`"),
                Some(step) => format!("removed `{assignment}`: `{}`: {}", step.name, step.message),
            },
            Some(step) => format!("`{assignment}`: {}", step.message),
        });
    }
    Ok(reported.join("; "))
}

/// The first failure, in a sentence.
pub(super) fn failure(results: &[AssignmentResult]) -> Option<String> {
    let failed = results
        .iter()
        .find(|r| r.status == ComplianceStatus::Failed)?;
    Some(format!("`{}` failed: {}", failed.name, failed.message))
}
