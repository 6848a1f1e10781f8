//! What one rendering of a control plane was made of: its entities as they were read, and why each assignment is where it is.
//!
//! What comes in: what `outhaul explain --whole` wrote, as bytes that anybody may have sent. What goes out: the document, typed, of which
//! the digest of its snapshot and all that refers to something else in it was checked; or what is wrong with it. Nobody signs
//! it, and nothing of it decides anything: it is for people who ask why. Places are `file:line`.

mod check;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::selection::{PolicyVerdict, SetValue};
use crate::index::Snapshot;

/// The format that this program writes and reads.
pub const EXPLANATION_FORMAT: u32 = 1;
/// Largest document, in bytes: of 10,000 assignments with some twenty values each.
pub const MAX_EXPLANATION_BYTES: usize = 32 * 1024 * 1024;
/// Largest text of a part that a hub keeps, uncompressed: of a document of the largest size with what each part repeats.
pub const MAX_EXPLANATION_TEXT_BYTES: usize = 4 * MAX_EXPLANATION_BYTES;
/// Largest file with one: with the spaces and the envelope of `--output json`.
pub const MAX_EXPLANATION_FILE_BYTES: usize = 2 * MAX_EXPLANATION_BYTES;
/// Longest name in it, in bytes; a commit is one, too.
pub const MAX_EXPLANATION_NAME_BYTES: usize = 512;

/// What one rendering of one environment was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlatformExplanation {
    /// [`EXPLANATION_FORMAT`].
    pub format: u32,
    /// The environment.
    pub environment: String,
    /// The repositories that were read, each at its commit, and the digest over them.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub snapshot: Snapshot,
    /// What people wrote.
    pub entities: Entities,
    /// Every assignment, by cluster type and target.
    pub assignments: Vec<AssignmentExplanation>,
    /// Pairs of cluster type and target that no policy chooses, each with the policy that was nearest to it.
    pub not_assigned: Vec<PairVerdict>,
    /// How many such pairs are left out, because there are too many.
    pub not_assigned_left_out: u64,
    /// Configs, which assignments share; see [`AssignmentExplanation::config`].
    pub configs: Vec<Vec<SetValue>>,
}

/// What people wrote, as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Entities {
    /// The environments of the promotion chain.
    pub environments: Vec<Entity>,
    /// Cluster types.
    pub cluster_types: Vec<Entity>,
    /// Scheduling policies.
    pub policies: Vec<Entity>,
    /// Containers of platform config.
    pub configs: Vec<Entity>,
    /// Templates.
    pub templates: Vec<Entity>,
    /// Schemas of platform config.
    pub schemas: Vec<Entity>,
    /// Registered workloads.
    pub workloads: Vec<Entity>,
    /// Deployment targets of this environment.
    pub targets: Vec<Entity>,
}

impl Entities {
    /// Each kind by its name, in the order in which a page lists them.
    pub fn kinds(&self) -> [(&'static str, &Vec<Entity>); 8] {
        [
            ("environment", &self.environments),
            ("cluster-type", &self.cluster_types),
            ("policy", &self.policies),
            ("config", &self.configs),
            ("template", &self.templates),
            ("schema", &self.schemas),
            ("workload", &self.workloads),
            ("target", &self.targets),
        ]
    }
}

/// One object of a control plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Entity {
    /// Its name.
    pub name: String,
    /// Where it is written: `file:line`.
    pub at: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What else it says: `reconciler`, `workspace`, `targets` and the like, as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
}

/// Why one deployment target is on one cluster type, and what its config holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssignmentExplanation {
    /// The cluster type.
    pub cluster_type: String,
    /// The deployment target.
    pub target: String,
    /// The policies that put it there, sorted.
    pub policies: Vec<String>,
    /// The only sites that it is for; absent for every site of the cluster type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<BTreeSet<String>>,
    /// What policies say of it: those that choose it, then the nearest of those that do not.
    pub verdicts: Vec<PolicyVerdict>,
    /// How many more policies do not choose it.
    pub more_verdicts: usize,
    /// The version of its config, as the signed bundle has it; absent when it cannot be composed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_version: Option<String>,
    /// Its config: a place in [`PlatformExplanation::configs`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<usize>,
    /// Where some sites have another config. A site is in at most one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<OverlayExplanation>,
    /// The schemas of the control plane that check its config.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemas: Vec<String>,
    /// What keeps it from being composed, if anything does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl AssignmentExplanation {
    /// The places of its configs in [`PlatformExplanation::configs`]: its own, and those of overlays.
    pub fn configs(&self) -> impl Iterator<Item = usize> + '_ {
        let overlays = self.overlays.iter().map(|overlay| overlay.config);
        self.config.into_iter().chain(overlays)
    }
}

/// The config of some sites, where it is not the assignment's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OverlayExplanation {
    /// The sites.
    pub sites: BTreeSet<String>,
    /// The version of their config.
    pub config_version: String,
    /// Their config, whole: a place in [`PlatformExplanation::configs`].
    pub config: usize,
}

/// A pair that no policy chooses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PairVerdict {
    /// The cluster type.
    pub cluster_type: String,
    /// The deployment target.
    pub target: String,
    /// What the nearest policy says; absent where there is no policy.
    pub nearest: Option<PolicyVerdict>,
}

/// An explanation on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExplanationRow {
    /// Digest of the document.
    pub digest: String,
    /// The environment.
    pub environment: String,
    /// The digest of its snapshot.
    pub snapshot: String,
    /// The base commit of the snapshot.
    pub base_commit: String,
    /// The commit of the environment's own repository.
    pub environment_commit: String,
    /// How many assignments it explains.
    pub assignments: u64,
    /// Who sent it first: the name of a token, or `NAME (command line)` for someone at the hub's machine.
    pub sent_by: String,
    /// When the hub received it first, RFC 3339.
    pub received_at: String,
    /// Who sent it last.
    pub last_sent_by: String,
    /// When the hub received it last.
    pub last_received_at: String,
    /// How many bytes it is, as JSON.
    pub bytes: u64,
    /// How many bytes the hub keeps of it.
    pub kept_bytes: u64,
}

/// What became of an explanation that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedExplanation {
    /// The explanation, as it is on record.
    #[serde(flatten)]
    pub explanation: ExplanationRow,
    /// Whether it is new.
    pub new: bool,
    /// Explanations of the same snapshot with other content that are on record besides.
    pub others: u64,
    /// Older explanations that gave way to it, because only so many are kept.
    pub removed: u64,
}

/// Why one pair is assigned or not, as one explanation on record has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExplanationAnswer {
    /// The explanation; nobody signed it.
    pub explanation: ExplanationRow,
    /// The repositories that were read, each at its commit.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub snapshot: Snapshot,
    /// The assignment; absent where no policy chooses the pair. Its places of configs count for the document only.
    pub assignment: Option<AssignmentExplanation>,
    /// What keeps the pair from being assigned; absent where it is assigned, or where it was left out.
    pub not_assigned: Option<PairVerdict>,
    /// The values of its config, at the site where one was named; none where the assignment is for other sites only.
    pub values: Vec<SetValue>,
}

/// A control plane as it was read, and what is assigned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlatformAnswer {
    /// The explanation that says so; nobody signed it.
    pub explanation: ExplanationRow,
    /// The repositories that were read, each at its commit.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub snapshot: Snapshot,
    /// What people wrote; empty lists where assignments were left out with `offset`, because they are the same for every part.
    pub entities: Entities,
    /// Assignments that were asked for, by cluster type and target.
    pub assignments: Vec<AssignedPair>,
    /// How many there are in all.
    pub assignments_total: u64,
}

/// A deployment target on a cluster type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssignedPair {
    /// The cluster type.
    pub cluster_type: String,
    /// The deployment target.
    pub target: String,
    /// The policies that put it there.
    pub policies: Vec<String>,
}

/// Why bytes are not an explanation that a hub keeps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplanationError {
    /// Larger than a hub keeps.
    #[error(
        "it has more than {MAX_EXPLANATION_BYTES} bytes, which is the most that a hub keeps of one environment"
    )]
    TooLarge,
    /// Larger than a hub keeps where each cluster type has its own copy of what is shared.
    #[error(
        "with a copy of each config for every cluster type that has it, and the names of its containers for every assignment, it has more \
         than {} MiB, which is the most that a hub keeps of one environment",
        MAX_EXPLANATION_TEXT_BYTES / (1024 * 1024)
    )]
    TooLargeInParts,
    /// Not JSON of the right shape.
    #[error("it is not what `outhaul explain --whole` writes: line {} column {}: {error}", error.line(), error.column())]
    Malformed {
        /// The error of the parser.
        error: serde_json::Error,
    },
    /// Of another program.
    #[error(
        "it is of format {found}, and this program reads format {EXPLANATION_FORMAT}: use an `outhaul` and a hub of the same release"
    )]
    Format {
        /// The format found.
        found: u32,
    },
    /// The digest is not that of the repositories and commits.
    #[error(
        "the digest of its snapshot is not that of the repositories and commits that it names: it was changed, or cut"
    )]
    Snapshot,
    /// It contradicts itself.
    #[error("it contradicts itself: {problem}")]
    Contradiction {
        /// What is wrong.
        problem: String,
    },
}

impl ExplanationError {
    /// The rule that was broken.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::TooLarge | Self::TooLargeInParts => "too-large",
            Self::Malformed { .. } => "malformed",
            Self::Format { .. } => "format",
            Self::Snapshot => "snapshot",
            Self::Contradiction { .. } => "contradiction",
        }
    }
}

/// Which of the two it is.
#[derive(Deserialize)]
struct Head {
    format: Option<u32>,
}

/// What `--output json` puts around a result.
#[derive(Deserialize)]
struct Envelope {
    result: PlatformExplanation,
}

impl PlatformExplanation {
    /// Reads a document, alone or in the envelope of `--output json`.
    ///
    /// # Errors
    /// [`ExplanationError`] with what is wrong; nothing of such a document is used.
    pub fn read(bytes: &[u8]) -> Result<Self, ExplanationError> {
        if bytes.len() > MAX_EXPLANATION_FILE_BYTES {
            return Err(ExplanationError::TooLarge);
        }
        let malformed = |error| ExplanationError::Malformed { error };
        let head: Head = serde_json::from_slice(bytes).map_err(malformed)?;
        let document = match head.format {
            None => {
                let envelope: Envelope = serde_json::from_slice(bytes).map_err(malformed)?;
                envelope.result
            }
            Some(EXPLANATION_FORMAT) => serde_json::from_slice(bytes).map_err(malformed)?,
            Some(found) => return Err(ExplanationError::Format { found }),
        };
        document.check()?;
        Ok(document)
    }
}

#[cfg(test)]
mod tests;
