//! Assignments that a person holds: what of a bundle is theirs to change, and what stays.
//!
//! What comes in: the index of a bundle, and the holds. What goes out: the assignments that the bundle may change; and for
//! the held ones what they keep (the content of the bundle that they are held at, from its own folder) and how
//! they stand, with who holds them and why. Held assignments are neither applied nor removed with a bundle, and do not
//! decide whether it is healthy.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};
use outhaul_bundle::{Digest, Index};
use outhaul_reconcilers::{Desired, outcome, shortened};

pub use crate::state::holds::{by_whom, forget, sentence};

use super::index_of;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::generation;
use crate::state::holds::{self, AssignmentHold};
use crate::state::{self, floors, key};

/// Every held assignment, by name.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn all(agent: &Agent) -> Result<BTreeMap<String, AssignmentHold>, AgentError> {
    Ok(holds::of_assignments(agent.store.read())?)
}

/// The names of the held assignments.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn names(agent: &Agent) -> Result<BTreeSet<String>, AgentError> {
    Ok(all(agent)?.into_keys().collect())
}

/// The assignments of a bundle that nobody holds.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn free(agent: &Agent, index: &Index) -> Result<Vec<Desired>, AgentError> {
    let held = names(agent)?;
    let mut all = generation::desired(&agent.state_folder, index, &agent.site.name);
    all.retain(|desired| !held.contains(desired.assignment.name.as_str()));
    Ok(all)
}

/// What a held assignment keeps; `None` when it is not installed, or the folder with its content is gone.
pub fn kept(agent: &Agent, name: &str, hold: &AssignmentHold) -> Option<Desired> {
    let index = index_of(agent, hold.generation?).ok()?;
    generation::desired(&agent.state_folder, &index, &agent.site.name)
        .into_iter()
        .find(|desired| desired.assignment.name.as_str() == name)
}

/// A held assignment of which the content that it keeps is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// Its name.
    pub name: String,
    /// The bundle that brought what it keeps.
    pub generation: u64,
    /// Whether this site takes that bundle no more: it has accepted a newer one.
    pub is_too_old: bool,
}

impl Lacking {
    /// What is the matter.
    pub fn sentence(&self) -> String {
        let Self {
            name, generation, ..
        } = self;
        format!(
            "`{name}` is held at what bundle {generation} brought, and bundle {generation} is not here"
        )
    }

    /// The way out.
    pub fn help(&self) -> String {
        let Self {
            name, generation, ..
        } = self;
        let release = format!("`outhaul-agent hold --release --assignment {name}`");
        match self.is_too_old {
            true => format!(
                "release the hold: {release}; bundle {generation} is older than what this site has accepted, and is refused"
            ),
            false => format!(
                "import bundle {generation} first (`outhaul-agent import FOLDER`), or release the hold: {release}"
            ),
        }
    }
}

/// The held assignments of which the content that they keep is not here: this site does not know the bundle that brought it, or its folder is
/// gone.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn lacking(agent: &Agent) -> Result<Vec<Lacking>, AgentError> {
    let mut found = Vec::new();
    for (name, hold) in all(agent)? {
        let Some(generation) = hold.generation else {
            continue;
        };
        if index_of(agent, generation).is_ok() {
            continue;
        }
        found.push(Lacking {
            is_too_old: takes_from(agent)? > generation,
            name,
            generation,
        });
    }
    Ok(found)
}

/// The oldest bundle that this site takes: older ones are refused. Where the floors cannot be known, none is refused by them.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn takes_from(agent: &Agent) -> Result<u64, AgentError> {
    let floors = floors::floors(agent.store.read(), &agent.state_folder.floors());
    let floors = floors.unwrap_or_default();
    Ok(floors::takes_from(&floors, agent.site.stream.role.as_str()))
}

/// An index with this assignment alone, and without what the bundle serves: so much of its content is looked at for it.
pub fn only(index: &Index, name: &str) -> Index {
    let mut one = index.clone();
    one.assignments
        .retain(|assignment| assignment.name.as_str() == name);
    one.served = outhaul_bundle::index::Served::default();
    one
}

/// Whether a bundle has the same content for an assignment as what is kept of it.
pub fn is_same(index: &Index, kept: &Desired) -> bool {
    index.assignments.contains(&kept.assignment)
}

/// What was found of an assignment last; of one of which nothing was, only its name.
fn last_known(agent: &Agent, name: &str) -> Result<Option<AssignmentResult>, AgentError> {
    let known: Option<Vec<AssignmentResult>> = state::meta(agent.store.read(), key::RESULTS)?;
    let mut known = known.unwrap_or_default().into_iter();
    if let Some(found) = known.find(|found| found.name.as_str() == name) {
        return Ok(Some(found));
    }
    // A hold was given by a name of an assignment.
    Ok(name.parse().ok().map(|name| AssignmentResult {
        name,
        status: ComplianceStatus::Failed,
        config_version: Digest::of(b""),
        message: String::new(),
        steps: Vec::new(),
    }))
}

/// How the held assignments stand beside bundle `index`. One whose content differs from the bundle's is not as
/// desired, and says by whose decision.
///
/// # Errors
/// [`AgentError`] of the store; what a reconciler cannot do is reported as a failed result.
pub fn results(agent: &Agent, index: &Index) -> Result<Vec<AssignmentResult>, AgentError> {
    let mut results = Vec::new();
    for (name, hold) in all(agent)? {
        let Some(desired) = kept(agent, &name, &hold) else {
            let wanted = generation::desired(&agent.state_folder, index, &agent.site.name)
                .into_iter()
                .find(|desired| desired.assignment.name.as_str() == name);
            let message = sentence(&hold, hold.generation);
            let step = vec![StepResult::held(message.clone())];
            let unknown = hold.generation.map(|number| {
                format!(
                    "{message}; bundle {number} is not here, and what runs cannot be compared with it"
                )
            });
            results.extend(match (wanted, unknown) {
                // One that neither runs nor is wanted has nothing to be said of.
                (None, None) => None,
                (Some(wanted), None) => {
                    let waits = ComplianceStatus::InProgress;
                    Some(outcome::result(&wanted, waits, &message, step))
                }
                (Some(wanted), Some(unknown)) => Some(outcome::failed(&wanted, &unknown, step)),
                // The bundle does not have it, and nothing here says how it is to be.
                (None, Some(unknown)) => last_known(agent, &name)?.map(|known| AssignmentResult {
                    status: ComplianceStatus::Failed,
                    message: shortened(&unknown),
                    steps: step,
                    ..known
                }),
            });
            continue;
        };
        agent.heartbeat.beat();
        let reconcilers = agent.reconcilers(&index_of(agent, desired.generation)?)?;
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        let recorded = agent.recorded(reconciler.kind(), &name)?;
        let found = reconciler.observe(&desired, &recorded, &agent.heartbeat);
        let mut result =
            found.unwrap_or_else(|error| outcome::failed(&desired, &error.to_string(), Vec::new()));
        let message = sentence(&hold, hold.generation);
        result.steps.insert(0, StepResult::held(message.clone()));
        result.steps.truncate(outcome::MAX_STEPS);
        result.message = match result.message.as_str() {
            "" => message,
            more => shortened(&format!("{message}; {more}")),
        };
        if result.status == ComplianceStatus::Compliant && !is_same(index, &desired) {
            result.status = ComplianceStatus::Drifted;
        }
        results.push(result);
    }
    Ok(results)
}
