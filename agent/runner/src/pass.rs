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

use super::{held, index_of, tidy};
use crate::agent::Agent;
use crate::apply;
use crate::cut;
use crate::error::AgentError;
use crate::former_targets;
use crate::generation;
use crate::images::{self, Images};
use crate::reconcilers::BundleReconcilers;
use crate::state::{self, generations, inventory, key};

/// Applies every assignment of `index` that has no recorded result in this pass, then removes what
/// the inventory has beyond it. Stops at the first failure. Returns results, and what was removed or which images are not there.
///
/// What brings the reconciler of the others does not wait for images that cannot be brought; the others do, where they are required.
pub(super) fn pass(
    agent: &mut Agent,
    pass: &str,
    index: &Index,
    wanted: Images,
) -> Result<(Vec<AssignmentResult>, String), AgentError> {
    former_targets::look(agent)?;
    tidy::keep_holds(agent);
    let reconcilers = agent.reconcilers(index)?;
    let done = generations::results(agent.store.read(), pass)?;
    let done: BTreeMap<_, _> = done.into_iter().map(|r| (r.name.clone(), r)).collect();
    let mut results = Vec::new();
    let takes_back = state::meta::<u64>(agent.store.read(), key::TAKES_BACK)? == Some(index.number);
    let (bootstrap, others) = parts(held::free(agent, index)?);
    let mut brought = images::bring(agent, index, wanted);
    for (is_last, part) in [(false, bootstrap), (true, others)] {
        match &brought {
            Err(AgentError::Stopped) => return Err(AgentError::Stopped),
            // What was applied meanwhile may have mended it.
            Err(_) if is_last && !results.is_empty() => {
                brought = Ok(images::bring(agent, index, wanted)?);
            }
            _ => {}
        }
        if is_last {
            brought = Ok(brought?);
        }
        for mut desired in part.clone() {
            if takes_back {
                desired.drift = DriftPolicy::Correct;
            }
            let result = match done.get(&desired.assignment.name) {
                Some(result) => result.clone(),
                None => {
                    let reconciler = reconcilers.for_assignment(&desired.assignment);
                    apply_one(agent, pass, reconciler, &desired)?
                }
            };
            let failed = result.status == ComplianceStatus::Failed;
            results.push(result);
            if failed {
                return Ok((results, brought.unwrap_or_default()));
            }
        }
        if let Some(unready) = unready(agent, &reconcilers, &part)? {
            // It may lack an image that is not there, and that is not the bundle's fault.
            let missing = brought?;
            results.retain(|known| known.name != unready.name);
            results.push(unready);
            return Ok((results, missing));
        }
    }
    let missing = brought?;
    if reconcilers.prunes_last() {
        return Ok((results, missing));
    }
    let removed = remove_surplus(agent, index)?;
    Ok((results, joined(missing, removed)))
}

/// The first assignment that brings the reconciler of the others and is not ready, as failed. Waits for them.
fn unready(
    agent: &Agent,
    reconcilers: &BundleReconcilers,
    part: &[Desired],
) -> Result<Option<AssignmentResult>, AgentError> {
    let bootstrap = part.iter().filter(|one| one.assignment.bootstrap.is_some());
    for desired in bootstrap {
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        let recorded = agent.recorded(reconciler.kind(), desired.assignment.name.as_str())?;
        let verdict = reconciler.health(desired, &recorded, &agent.heartbeat)?;
        if let Some(verdict) = verdict.filter(|one| one.status != ComplianceStatus::Compliant) {
            let message = format!(
                "it brings the reconciler of this bundle and is not ready, so that no other assignment was applied: {}",
                verdict.message
            );
            return Ok(Some(outcome::failed(desired, &message, verdict.steps)));
        }
    }
    Ok(None)
}

/// Removes what a bundle that is healthy does not have any more, where that is done last. Returns one sentence
/// about it, or nothing; what was removed of each assignment is added to its result.
pub(super) fn prune(
    agent: &mut Agent,
    index: &Index,
    results: &mut [AssignmentResult],
) -> Result<String, AgentError> {
    let reconcilers = agent.reconcilers(index)?;
    if !reconcilers.prunes_last() {
        return Ok(String::new());
    }
    let (bootstrap, others) = parts(held::free(agent, index)?);
    let mut reported = prune_each(agent, &reconcilers, others, results)?;
    reported.push(remove_surplus(agent, index)?);
    // What is brought for the others goes when nothing needs it any more.
    reported.extend(prune_each(agent, &reconcilers, bootstrap, results)?);
    reported.retain(|reported| !reported.is_empty());
    Ok(reported.join("; "))
}

/// What brings the reconciler, and the others.
fn parts(all: Vec<Desired>) -> (Vec<Desired>, Vec<Desired>) {
    all.into_iter()
        .partition(|one| one.assignment.bootstrap.is_some())
}

/// Removes what each of these does not have any more; returns what is to be said of it.
fn prune_each(
    agent: &mut Agent,
    reconcilers: &BundleReconcilers,
    part: Vec<Desired>,
    results: &mut [AssignmentResult],
) -> Result<Vec<String>, AgentError> {
    let mut reported = Vec::new();
    for desired in part {
        let name = &desired.assignment.name;
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        if !reconciler.prunes_last() {
            continue;
        }
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
    Ok(reported)
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
    // What brought a reconciler goes after what it had to do with.
    let mut surplus: BTreeMap<(bool, String, String), Vec<Item>> = BTreeMap::new();
    for item in inventory::surplus(agent.store.read(), |name| names.contains(name))? {
        let brought = brought_a_reconciler(agent, &item);
        let key = (brought, item.assignment.clone(), item.kind.clone());
        surplus.entry(key).or_default().push(item);
    }
    let mut reported = Vec::new();
    for ((_, assignment, kind), items) in surplus {
        let settings = apply::for_items_of(&kind, &agent.config);
        let reconciler = agent
            .facilities
            .reconciler(&kind, &settings, &agent.state_folder)?;
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

/// Whether the bundle that brought an item had it for the reconciler of the others. Where that bundle is gone, the item's
/// kind has to do: a stream for Flux or Argo CD has plain manifests for nothing else.
fn brought_a_reconciler(agent: &Agent, item: &Item) -> bool {
    let brought = index_of(agent, item.generation).ok().and_then(|index| {
        let mut all = index.assignments.into_iter();
        all.find(|one| one.name.as_str() == item.assignment)
    });
    brought.map_or(item.kind == "kubernetes", |one| one.bootstrap.is_some())
}

/// Two sentences, or one.
pub(super) fn joined(first: String, second: String) -> String {
    let mut both = vec![first, second];
    both.retain(|sentence| !sentence.is_empty());
    both.join("; ")
}

/// The first failure, in a sentence.
pub(super) fn failure(results: &[AssignmentResult]) -> Option<String> {
    let failed = results
        .iter()
        .find(|r| r.status == ComplianceStatus::Failed)?;
    Some(format!("`{}` failed: {}", failed.name, failed.message))
}
