//! Explain: why a pair is assigned, or which requirement keeps it from being so.
//!
//! What comes in: a control plane, a deployment target and a cluster type. What goes out: for each
//! policy a [`Verdict`] with every requirement that failed and what was there instead, nearest miss
//! first. It decides nothing: it asks the same questions as the schedule.

use serde::Serialize;

use crate::control::ControlPlane;
use crate::control::diagnostic::Location;
use crate::control::model::{ClusterType, DeploymentTarget, Labels, SchedulingPolicy};
use crate::control::selector::{Requirement, Selector};

/// What one policy says about one pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The policy's name.
    pub policy: String,
    /// Where it is written: `file:line`.
    pub at: String,
    /// What it asks of targets, as text.
    pub targets: String,
    /// What it asks of cluster types, as text.
    pub cluster_types: String,
    /// What keeps it from selecting the pair; empty when it does.
    pub misses: Vec<Miss>,
}

/// One requirement that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Miss {
    /// `deployment target` or `cluster type`.
    pub of: &'static str,
    /// The requirement, as text.
    pub requirement: String,
    /// What is there instead.
    pub found: String,
    /// Where the requirement is written: `file:line`.
    pub at: String,
}

/// What each policy says about the pair: those that select it first, then by how little they miss.
pub fn explain(
    control_plane: &ControlPlane,
    target: &DeploymentTarget,
    cluster_type: Option<&ClusterType>,
) -> Vec<Verdict> {
    let verdict = |policy: &SchedulingPolicy| {
        let mut misses = Vec::new();
        if let Some(workspace) = &policy.workspace
            && !workspace.value.is_empty()
            && workspace.value != target.workspace
        {
            misses.push(Miss {
                of: TARGET,
                requirement: format!("workspace = {}", workspace.value),
                found: format!("workspace {}", target.workspace),
                at: workspace.location.file_line(),
            });
        }
        missing(
            &mut misses,
            TARGET,
            &policy.targets,
            &target.labels,
            &policy.location,
        );
        if let Some(cluster_type) = cluster_type {
            let labels = &cluster_type.labels;
            missing(
                &mut misses,
                CLUSTER_TYPE,
                &policy.cluster_types,
                labels,
                &policy.location,
            );
        }
        Verdict {
            policy: policy.name.clone(),
            at: policy.location.file_line(),
            targets: asks(
                policy.workspace.as_ref().map(|w| w.value.as_str()),
                &policy.targets,
            ),
            cluster_types: policy.cluster_types.to_string(),
            misses,
        }
    };
    let mut verdicts: Vec<Verdict> = control_plane.policies.values().map(verdict).collect();
    verdicts.sort_by_key(|verdict| verdict.misses.len());
    verdicts
}

const TARGET: &str = "deployment target";
const CLUSTER_TYPE: &str = "cluster type";

fn asks(workspace: Option<&str>, selector: &Selector) -> String {
    match workspace.filter(|workspace| !workspace.is_empty()) {
        Some(workspace) if selector.requirements.is_empty() => format!("workspace = {workspace}"),
        Some(workspace) => format!("workspace = {workspace} and {selector}"),
        None => selector.to_string(),
    }
}

fn missing(
    misses: &mut Vec<Miss>,
    of: &'static str,
    selector: &Selector,
    labels: &Labels,
    policy: &Location,
) {
    misses.extend(selector.failing(labels).map(|requirement| Miss {
        of,
        requirement: requirement.to_string(),
        found: found(requirement, labels),
        at: requirement.location.as_ref().unwrap_or(policy).file_line(),
    }));
}

/// What is there instead; a label that differs in case or spelling is the likely mistake.
fn found(requirement: &Requirement, labels: &Labels) -> String {
    if let Some(value) = labels.get(requirement.key()) {
        return format!("{} = {value}", requirement.key());
    }
    let known: Vec<&String> = labels.keys().collect();
    match crate::control::kinds::suggest::nearest(requirement.key(), &known) {
        Some(near) => format!("no label `{}`, but `{near}`", requirement.key()),
        None => format!("no label `{}`", requirement.key()),
    }
}
