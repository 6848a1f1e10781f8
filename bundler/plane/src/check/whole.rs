//! The environment as a whole: what is missing in it altogether, and targets that run nowhere.
//!
//! What comes in: a control plane and its schedule. What goes out: one warning where there are no
//! cluster types, targets or policies at all, whatever follows from that; and one for each target that
//! no policy places, unless a finding about the nearest policy explains it already.

use std::collections::BTreeSet;

use crate::schedule::explain::{MissRule, explain};
use crate::schedule::{Schedule, SchedulerAnswers};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::{ClusterType, DeploymentTarget};
use outhaul_kit::format_count::format_count;

/// Findings that explain why a policy places nothing.
const EXPLAINED: [&str; 2] = ["selects-nothing", "placed-nowhere"];

/// What is missing altogether.
pub(super) fn missing(plane: &ControlPlane, findings: &mut Diagnostics) {
    let name = &plane.environment;
    let there = [
        format_count(plane.cluster_types.len(), "cluster type", "cluster types"),
        format_count(
            plane.targets.len(),
            "deployment target",
            "deployment targets",
        ),
        format_count(
            plane.policies.len(),
            "scheduling policy",
            "scheduling policies",
        ),
    ]
    .join(", ");
    let missing = (
        plane.cluster_types.is_empty(),
        plane.targets.is_empty(),
        plane.policies.is_empty(),
    );
    // Its targets are for an environment that there is not, which is said at each of them.
    let misspelt = findings.iter().any(|one| one.code == "unknown-environment");
    if missing == (false, true, false) && misspelt {
        return;
    }
    let (code, message, help) = match missing {
        (false, false, false) => return,
        (true, true, true) => (
            "empty-environment",
            format!("environment `{name}` is empty: nothing in it can be assigned"),
            "check the branch and path of its control plane, and its BaseRepo",
        ),
        (false, false, true) => (
            "no-policies",
            format!(
                "environment `{name}` has no scheduling policy, so nothing is assigned ({there})"
            ),
            "write one with `outhaul new policy`, or restore the ones that were deleted",
        ),
        _ => (
            "nothing-to-assign",
            format!("environment `{name}` has nothing to assign: {there}"),
            "add what is missing: `outhaul new --help`; targets come from the workloads that registrations name",
        ),
    };
    let mut help = help.to_owned();
    let others: BTreeSet<&str> = plane
        .other_targets
        .values()
        .map(|target| target.environment.as_str())
        .collect();
    if plane.targets.is_empty() && !others.is_empty() {
        let others: Vec<String> = others.into_iter().map(|name| format!("`{name}`")).collect();
        help = format!("{help}; every target is for {}", others.join(", "));
    }
    let mut finding = Diagnostic::warning(code, message).help(help);
    if let Some(environment) = plane.environments.get(name) {
        finding = finding.at(&environment.location);
    }
    findings.push(finding);
}

/// Targets that no policy places.
pub(super) fn unassigned(plane: &ControlPlane, schedule: &Schedule, findings: &mut Diagnostics) {
    if plane.cluster_types.is_empty() || plane.policies.is_empty() {
        return;
    }
    let ids = schedule.assignments.keys().chain(schedule.undecided.keys());
    let assigned: BTreeSet<&str> = ids.map(|id| id.target.as_str()).collect();
    let of_policies = |finding: &&Diagnostic| EXPLAINED.contains(&finding.code);
    let explained: Vec<String> = findings
        .iter()
        .filter(of_policies)
        .map(|finding| finding.message.clone())
        .collect();
    let targets = plane.targets.values();
    for target in targets.filter(|target| !assigned.contains(target.name.as_str())) {
        findings.extend(nowhere(plane, target, &explained));
    }
}

/// Cluster types that get nothing, where others do: a bundle of one has nothing in it. Of `wanted`, none for all.
pub fn idle(plane: &ControlPlane, schedule: &Schedule, wanted: &[String]) -> Option<Diagnostic> {
    let ids = schedule.assignments.keys().chain(schedule.undecided.keys());
    let served: BTreeSet<&str> = ids.map(|id| id.cluster_type.as_str()).collect();
    if served.is_empty() {
        return None;
    }
    let is_idle = |one: &&ClusterType| {
        !served.contains(one.name.as_str()) && (wanted.is_empty() || wanted.contains(&one.name))
    };
    let idle: Vec<&ClusterType> = plane.cluster_types.values().filter(is_idle).collect();
    let first = idle.first()?;
    let names: Vec<String> = (idle.iter().take(MAX_NAMED))
        .map(|one| format!("`{}`", one.name))
        .collect();
    let more = match idle.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (noun, verb) = match idle.len() {
        1 => ("cluster type", "gets"),
        _ => ("cluster types", "get"),
    };
    let message = format!(
        "{noun} {}{more} {verb} nothing: no policy assigns a deployment target there",
        names.join(", ")
    );
    let finding = Diagnostic::note("idle-cluster-type", message).at(&first.location);
    Some(finding.help(format!(
        "if that is not meant, compare its labels with the policies' `clusterTypeSelector`: `outhaul explain TARGET {}`",
        first.name
    )))
}

/// Most cluster types that are named in one finding.
const MAX_NAMED: usize = 10;

fn nowhere(
    plane: &ControlPlane,
    target: &DeploymentTarget,
    explained: &[String],
) -> Option<Diagnostic> {
    // No program is asked about a target alone.
    let verdicts = explain(plane, &SchedulerAnswers::default(), target, None);
    let nearest = verdicts.first()?;
    let quoted = format!("policy `{}` ", nearest.policy);
    if explained.iter().any(|message| message.starts_with(&quoted)) {
        return None;
    }
    let miss = nearest
        .misses
        .iter()
        .find(|miss| miss.rule == MissRule::Selector);
    let help = match miss {
        Some(miss) => format!(
            "the nearest policy, `{}`, {}",
            nearest.policy,
            miss.sentence()
        ),
        None => format!(
            "policy `{}` selects it and no cluster type for it: `outhaul explain {}` shows why",
            nearest.policy, target.name
        ),
    };
    let message = format!("deployment target `{}` is assigned nowhere", target.name);
    Some(
        Diagnostic::warning("unassigned-target", message)
            .at(&target.location)
            .help(help),
    )
}
