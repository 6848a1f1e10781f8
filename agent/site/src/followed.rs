//! What is reported of a cluster that follows the platform repository directly.
//!
//! What comes in: the event that was reported of it. What goes out: sentences for `observe` and `status`, and what to do next.
//! It asks nobody and decides nothing.

use outhaul_bundle::report::{ClusterEvent, ClusterState, ComplianceStatus, FollowedAssignment};

/// Whether everything is applied, at one commit that is known.
pub fn is_well(event: &ClusterEvent) -> bool {
    let compliant = |one: &FollowedAssignment| one.status == ComplianceStatus::Compliant;
    event.state == ClusterState::Synced
        && event.snapshot.is_some()
        && event.assignments.iter().all(compliant)
}

/// One sentence for people.
pub fn sentence(event: &ClusterEvent) -> String {
    let commit = event.commit.as_ref();
    let at = commit.map_or_else(String::new, |commit| format!(" at commit {commit}"));
    let by = match event.reconciler.as_str() {
        "" => String::new(),
        reconciler => format!(" by {reconciler}"),
    };
    let failed = event.state == ClusterState::Synced && !is_well(event);
    let (state, but) = match failed {
        true => (event.state.as_str(), ", but not all of it is applied"),
        false => (event.state.as_str(), ""),
    };
    format!(
        "the cluster is `{state}`{at} of {}{by}{but}",
        event.repository
    )
}

/// The rest of it, a line each.
pub fn details(event: &ClusterEvent) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(snapshot) = &event.snapshot {
        lines.push(format!("  rendered from base {}", snapshot.base.commit));
    }
    if !event.message.is_empty() {
        lines.push(format!("  {}", event.message));
    }
    for one in &event.assignments {
        let word = match one.status {
            ComplianceStatus::Compliant => "as desired",
            ComplianceStatus::Drifted => "drifted",
            ComplianceStatus::Failed => "failed",
            ComplianceStatus::InProgress => "in progress",
        };
        let colon = if one.message.is_empty() { "" } else { ": " };
        lines.push(format!("  {}: {word}{colon}{}", one.name, one.message));
    }
    lines
}

/// All of it, for `status`.
pub fn lines(event: &ClusterEvent) -> Vec<String> {
    let mut lines = vec![sentence(event)];
    lines.extend(details(event));
    lines
}

/// What to do next about a cluster that is not well.
pub fn next(event: &ClusterEvent) -> Option<String> {
    if is_well(event) {
        return None;
    }
    let text = match event.state {
        ClusterState::Synced => {
            "let a Kustomization or Application apply each folder that is named, then `outhaul-agent observe`"
        }
        ClusterState::InProgress => "wait for its controller, then `outhaul-agent observe`",
        ClusterState::OtherRevision => {
            "see why its controller does not apply the commit that it fetched (`kubectl describe` of the object that is \
             named)"
        }
        ClusterState::Stale => {
            "see that its controller runs: `kubectl get pods --all-namespaces --selector \
             app.kubernetes.io/part-of=flux`, or in the namespace of Argo CD"
        }
        ClusterState::Suspended => {
            "someone suspended it: ask who, then `flux resume`, or take the annotation of the Application away"
        }
        ClusterState::Absent => {
            "compare `[observe]` in agent.toml with what the cluster follows: `kubectl get \
             gitrepositories,kustomizations,applications --all-namespaces`"
        }
        ClusterState::Failing => "fix what its controller reports, at the centre or on the cluster",
        ClusterState::Unreachable => {
            "see that the API server and the forge are reached from here, and `[kubernetes]` and `[observe]` in \
             agent.toml"
        }
    };
    Some(text.to_owned())
}
