//! What a cluster shows that follows the platform repository directly, as a report of it.
//!
//! What comes in: what was read of the cluster's Flux or Argo CD, and the record that lies in the commit which it shows.
//! What goes out: one event. It names no bundle: the hub finds the bundle of the same base commit. Only
//! [`ClusterState::Synced`] is success, and nothing that was not seen is in it.

use serde::{Deserialize, Serialize};

use super::{ComplianceStatus, StepResult, WebhookEvidence};
use crate::index::{Snapshot, Stream};
use crate::name::Name;

/// What a cluster shows of the platform repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterEvent {
    /// The stream that the site belongs to.
    pub stream: Stream,
    /// Who applies on this cluster: `flux`, `argocd`; empty when neither was found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reconciler: String,
    /// The address of the platform repository as the cluster has it.
    pub repository: String,
    /// The commit of that repository that the cluster shows; absent when it shows none, or several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The commits that this commit was rendered from, by its own record; absent when that was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// How the cluster stands.
    pub state: ClusterState,
    /// What the commit holds for this cluster type, and whether the cluster applies it.
    pub assignments: Vec<FollowedAssignment>,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What it rests on where no agent looked: the hub made this report of webhooks, and signed it with a key that it derives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookEvidence>,
}

impl ClusterEvent {
    /// The base commit that the cluster runs, as far as is known: by the record, else the commit itself.
    pub fn base_commit(&self) -> &str {
        match (&self.snapshot, &self.commit) {
            (Some(snapshot), _) => &snapshot.base.commit,
            (None, Some(commit)) => commit,
            (None, None) => "",
        }
    }
}

/// One assignment of the commit that the cluster shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowedAssignment {
    /// The assignment's name.
    pub name: Name,
    /// The verdict of whoever applies it; an assignment that nobody applies has failed.
    pub status: ComplianceStatus,
    /// What was found, shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The cluster's objects that apply it, each with its own state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepResult>,
}

/// How a cluster stands towards the platform repository, the worst last. `Synced` is the only success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterState {
    /// Everything that follows the repository is ready, at one commit.
    Synced,
    /// It is under way.
    InProgress,
    /// What is applied is another revision than the one that was fetched, or there are several.
    OtherRevision,
    /// Its controller has not looked at what is asked for now.
    Stale,
    /// A person suspended it.
    Suspended,
    /// Nothing on the cluster follows the repository.
    Absent,
    /// What states how it stands cannot be asked: the API server, or of a report by webhook the forge that has the record.
    Unreachable,
    /// It failed, in the words of the controller: what cannot be read besides hides no failure.
    Failing,
}

impl ClusterState {
    /// As reports write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::InProgress => "in_progress",
            Self::OtherRevision => "other_revision",
            Self::Stale => "stale",
            Self::Suspended => "suspended",
            Self::Absent => "absent",
            Self::Failing => "failing",
            Self::Unreachable => "unreachable",
        }
    }
}
