//! Schedule: who runs where, and why.
//!
//! What comes in: a [`ControlPlane`]. What goes out: a [`Schedule`]: one assignment for each pair of
//! deployment target and cluster type that at least one policy selects, with every policy that does.
//! It is pure and total: the same control plane gives the same schedule, and no policy can stop
//! another.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::control::ControlPlane;
use crate::control::model::{ClusterType, DeploymentTarget, SchedulingPolicy};

pub mod explain;

/// Names one assignment; ordered by cluster type, then target, as the output is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct AssignmentId {
    /// The cluster type's name.
    pub cluster_type: String,
    /// The deployment target's full name.
    pub target: String,
}

impl std::fmt::Display for AssignmentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.cluster_type, self.target)
    }
}

/// One deployment target on one cluster type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// Names of the policies that select the pair, sorted. Never empty.
    pub policies: Vec<String>,
}

/// Every assignment of an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// By cluster type and target.
    pub assignments: BTreeMap<AssignmentId, Assignment>,
}

/// Decides what runs where.
pub fn schedule(control_plane: &ControlPlane) -> Schedule {
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
        for cluster_type in control_plane.cluster_types.values() {
            if !selects_cluster_type(policy, cluster_type) {
                continue;
            }
            for target in &targets {
                let id = AssignmentId {
                    cluster_type: cluster_type.name.clone(),
                    target: target.name.clone(),
                };
                let entry = schedule.assignments.entry(id);
                // Policies come sorted by name, so the reasons are sorted too.
                entry
                    .or_insert_with(|| Assignment {
                        policies: Vec::new(),
                    })
                    .policies
                    .push(policy.name.clone());
            }
        }
    }
    schedule
}

/// Whether the policy means this target.
pub fn selects_target(policy: &SchedulingPolicy, target: &DeploymentTarget) -> bool {
    workspace_matches(policy, target) && policy.targets.matches(&target.labels)
}

/// Whether the policy means this cluster type.
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
