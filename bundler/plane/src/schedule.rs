//! Schedule: who runs where, and why.
//!
//! What comes in: a [`ControlPlane`], and the answers of external schedulers. What goes out: a [`Schedule`]: one assignment for each pair of
//! deployment target and cluster type that at least one policy chooses, with every policy that does, and
//! the policies whose program gave no usable answer. It is pure and total: the same values give
//! the same schedule, and no policy can stop another.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::{ClusterType, DeploymentTarget, SchedulingPolicy};

pub mod answers;
pub mod choose;
pub mod explain;
pub mod gone;
pub mod lints;
pub mod sites;

pub use answers::{SchedulerAnswer, SchedulerAnswers};
pub use choose::choose;

/// Names one assignment; ordered by cluster type, then target, as the output is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct AssignmentId {
    /// The cluster type's name.
    pub cluster_type: String,
    /// The deployment target's full name.
    pub target: String,
}

impl AssignmentId {
    /// From `<cluster type>/<target>`.
    pub fn parse(text: &str) -> Option<Self> {
        let (cluster_type, target) = text.split_once('/')?;
        Some(Self {
            cluster_type: cluster_type.to_owned(),
            target: target.to_owned(),
        })
    }
}

impl std::fmt::Display for AssignmentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.cluster_type, self.target)
    }
}

/// One deployment target on one cluster type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// Names of the policies that choose the pair, sorted. Never empty.
    pub policies: Vec<String>,
    /// The only sites that it is for, by name; `None` for every site. Never empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sites: Option<BTreeSet<String>>,
}

/// Every assignment of an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// By cluster type and target.
    pub assignments: BTreeMap<AssignmentId, Assignment>,
    /// Policies that could not be followed, by name.
    pub failures: BTreeMap<String, Diagnostics>,
    /// Pairs that nothing is known of, because a failed policy may mean them and no other policy does:
    /// what runs there now must not be taken for removed.
    pub undecided: BTreeMap<AssignmentId, BTreeSet<String>>,
}

/// Decides what runs where.
pub fn schedule(control_plane: &ControlPlane, answers: &SchedulerAnswers) -> Schedule {
    let mut schedule = Schedule::default();
    for policy in control_plane.policies.values() {
        let targets: Vec<&DeploymentTarget> = control_plane
            .targets
            .values()
            .filter(|t| selects_target(policy, t))
            .collect();
        if targets.is_empty() {
            continue;
        }
        let choice = choose(control_plane, policy);
        let taken = choice.candidates.iter().filter(|c| c.taken());
        let pairs = taken.flat_map(|candidate| {
            targets.iter().map(move |target| {
                let id = AssignmentId {
                    cluster_type: candidate.cluster_type.name.clone(),
                    target: target.name.clone(),
                };
                (id, candidate.sites.as_ref())
            })
        });
        if policy.placement.scheduler.is_none() {
            pairs.for_each(|(id, sites)| schedule.add(id, policy, sites));
            continue;
        }
        match answers.of(policy) {
            Some(SchedulerAnswer::Chosen(chosen)) => {
                for pair in chosen.keys() {
                    let id = AssignmentId {
                        cluster_type: pair.cluster_type.clone(),
                        target: pair.target.clone(),
                    };
                    let candidates = choice.candidates.iter();
                    let mut chosen = candidates.filter(|c| c.cluster_type.name == id.cluster_type);
                    let sites = chosen.next().and_then(|c| c.sites.as_ref());
                    schedule.add(id, policy, sites);
                }
            }
            failed => {
                for (id, _) in pairs {
                    let policies = schedule.undecided.entry(id).or_default();
                    policies.insert(policy.name.clone());
                }
                let finding = unanswered(policy, failed);
                schedule
                    .failures
                    .insert(policy.name.clone(), finding.into());
            }
        }
    }
    let Schedule {
        assignments,
        undecided,
        ..
    } = &mut schedule;
    undecided.retain(|id, _| !assignments.contains_key(id));
    schedule
}

impl Schedule {
    /// What is wrong with the policies that could not be followed.
    pub fn findings(&self) -> Diagnostics {
        let mut all = Diagnostics::new();
        for findings in self.failures.values() {
            all.append(findings.clone());
        }
        all
    }

    /// What is wrong with the policies that leave `id` undecided.
    pub fn why_undecided(&self, id: &AssignmentId) -> Diagnostics {
        let mut all = Diagnostics::new();
        for policy in self.undecided.get(id).into_iter().flatten() {
            all.append(self.failures.get(policy).cloned().unwrap_or_default());
        }
        all
    }

    fn add(
        &mut self,
        id: AssignmentId,
        policy: &SchedulingPolicy,
        sites: Option<&BTreeSet<String>>,
    ) {
        let entry = self.assignments.entry(id);
        let assignment = entry.or_insert_with(|| Assignment {
            policies: Vec::new(),
            sites: sites.cloned(),
        });
        assignment.sites = sites::together(assignment.sites.take(), sites);
        // Policies come sorted by name, so the reasons are sorted too.
        assignment.policies.push(policy.name.clone());
    }
}

/// Why a policy with a scheduler chose nothing.
fn unanswered(policy: &SchedulingPolicy, answer: Option<&SchedulerAnswer>) -> Diagnostic {
    let name = policy.placement.scheduler.as_ref();
    let finding = match answer {
        Some(SchedulerAnswer::Fault {
            message,
            help,
            environment,
        }) => {
            let make = if *environment {
                Diagnostic::environment
            } else {
                Diagnostic::error
            };
            make(
                "scheduler-failed",
                format!("policy `{}` assigns nothing: {message}", policy.name),
            )
            .help(help)
        }
        _ => Diagnostic::error(
            "unknown-scheduler",
            format!(
                "policy `{}` assigns nothing: no program is named for its scheduler",
                policy.name
            ),
        )
        .help(format!(
            "who runs outhaul names it: `--scheduler {}=PROGRAM`; a control plane cannot",
            name.map_or("NAME", |name| name.value.as_str())
        )),
    };
    finding.at(name.map_or(&policy.location, |name| &name.location))
}

/// Whether the policy means this target.
pub fn selects_target(policy: &SchedulingPolicy, target: &DeploymentTarget) -> bool {
    workspace_matches(policy, target) && policy.targets.matches(&target.labels)
}

/// Whether the policy means this cluster type: its selector, before terms, taints and limits.
pub fn selects_cluster_type(policy: &SchedulingPolicy, cluster_type: &ClusterType) -> bool {
    policy.cluster_types.matches(&cluster_type.labels)
}

/// An empty workspace means any.
fn workspace_matches(policy: &SchedulingPolicy, target: &DeploymentTarget) -> bool {
    policy
        .workspace
        .as_ref()
        .is_none_or(|workspace| workspace.value.is_empty() || workspace.value == target.workspace)
}

#[cfg(test)]
mod tests;
