//! How far work that is unfinished has come, assignment by assignment.
//!
//! What comes in: the site, the results that its pass recorded, and the inventory. What goes out: each assignment of the
//! bundle that is to run, with what of it is on this host: all, parts, nothing. For `status` and for the
//! report of work that cannot go on. It asks no reconciler and changes nothing.

use std::collections::BTreeSet;

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_reconcilers::{Item, Phase, outcome};
use serde::Serialize;

use super::{held, index_of};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::machine::{Site, Work};
use crate::state::{generations, inventory};

/// How far one assignment has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// The reconciler applied it.
    Applied,
    /// Work on it began and did not end: parts of it may be on this host.
    HalfApplied,
    /// The reconciler could not apply it.
    Failed,
    /// Nothing of it was applied yet.
    NotYet,
    /// It is here as it was applied before, and was not applied again yet.
    NotAgain,
}

impl Progress {
    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::HalfApplied => "half applied",
            Self::Failed => "failed",
            Self::NotYet => "not applied yet",
            Self::NotAgain => "as it was, and not applied again yet",
        }
    }
}

/// One assignment of unfinished work.
#[derive(Debug, Serialize)]
pub struct AssignmentProgress {
    /// Its name.
    pub assignment: String,
    /// How far it has come.
    pub progress: Progress,
}

/// Every assignment of the bundle that the work under way puts on this host; none while there is no work.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn steps(agent: &Agent, site: &Site) -> Result<Vec<AssignmentProgress>, AgentError> {
    let results = results(agent, site, "")?;
    Ok(results
        .into_iter()
        .map(|(progress, result)| AssignmentProgress {
            assignment: result.name.to_string(),
            progress,
        })
        .collect())
}

/// The same as results for a report: `problem` is why it cannot go on.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn results(
    agent: &Agent,
    site: &Site,
    problem: &str,
) -> Result<Vec<(Progress, AssignmentResult)>, AgentError> {
    let (Some(target), Some(pass)) = (target(site), outhaul_site::stored::pass(site)) else {
        return Ok(Vec::new());
    };
    // Which assignments there are cannot be known of a folder that is gone; what needs it says so.
    let Ok(index) = index_of(agent, target) else {
        return Ok(Vec::new());
    };
    let db = agent.store.read();
    let recorded = generations::results(db, &pass)?;
    let first = matches!(site.work, Work::Applying(_));
    let begun = |item: &Item| item.phase == Phase::Intent || (first && item.generation == target);
    let begun: BTreeSet<String> = inventory::items(db, None)?
        .into_iter()
        .filter(begun)
        .map(|item| item.assignment)
        .collect();
    let mut all = Vec::new();
    for desired in held::free(agent, &index)? {
        let name = &desired.assignment.name;
        let known = recorded.iter().find(|result| result.name == *name);
        all.push(match known {
            Some(result) if result.status == ComplianceStatus::Failed => {
                (Progress::Failed, result.clone())
            }
            Some(result) => (Progress::Applied, result.clone()),
            None if begun.contains(name.as_str()) => {
                let message = format!("half applied: {problem}");
                let result = outcome::failed(&desired, &message, Vec::new());
                (Progress::HalfApplied, result)
            }
            None => {
                let progress = match site.work {
                    Work::Repairing | Work::Correcting => Progress::NotAgain,
                    _ => Progress::NotYet,
                };
                let (waits, label) = (ComplianceStatus::InProgress, progress.label());
                (
                    progress,
                    outcome::result(&desired, waits, label, Vec::new()),
                )
            }
        });
    }
    Ok(all)
}

/// The bundle that is to run when the work is done.
fn target(site: &Site) -> Option<u64> {
    match site.work {
        Work::Idle => None,
        Work::Applying(number) | Work::Soaking(number) => Some(number),
        Work::Reverting { to, .. } => Some(to),
        Work::Repairing | Work::Correcting => site.active.map(|active| active.number),
    }
}
