//! What a gate decides from: sites as they reported, bundles as they were verified, what people decided.
//!
//! What comes in: values that a hub's store holds, or that were worked out from signed reports and bundles. What goes
//! out: the same, typed. It checks nothing and decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use outhaul_bundle::{Digest, Index};
use serde::{Deserialize, Serialize};

mod act;

pub use act::{Act, ActKind, StatedCheck};

/// What the hub knows of one site now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteState {
    /// Its name.
    pub site: String,
    /// Its stream's signing role.
    pub role: String,
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Id of the key that it signs with.
    pub key_id: String,
    /// When it was approved, milliseconds since 1970.
    pub enrolled_ms: i64,
    /// When it was revoked.
    pub revoked_ms: Option<i64>,
    /// Since when its reports count: it was registered again then, after it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts_from_ms: Option<i64>,
    /// Its newest report; `None` when it never reported.
    pub newest: Option<Newest>,
    /// What it runs, by its newest report that states it.
    pub running: Option<Running>,
    /// A bundle above that one that is on its way, was turned away, or was left again.
    pub attempt: Option<Attempt>,
    /// Reports of the newest epoch that are missing, as first and last number.
    pub missing: Vec<(u64, u64)>,
    /// Reports of the newest epoch that the site declared lost.
    pub declared_lost: Vec<(u64, u64)>,
    /// Two machines report with its key, and nobody chose which of them it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Conflict>,
}

/// A report that cannot come from the machine whose reports are on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// Its epoch.
    pub epoch: String,
    /// Its number.
    pub number: u64,
    /// Digest of its bytes.
    pub digest: String,
    /// Digest of the report on record that it contradicts.
    pub on_record: String,
    /// What was expected and found.
    pub reason: String,
    /// By which transport it came.
    pub via: String,
    /// When the hub received it first, milliseconds since 1970.
    pub received_ms: i64,
}

/// The newest report of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Newest {
    /// Its epoch.
    pub epoch: String,
    /// Its number.
    pub number: u64,
    /// Digest of its bytes.
    pub digest: String,
    /// By which transport it came.
    pub via: String,
    /// When the hub received it, milliseconds since 1970.
    pub received_ms: i64,
    /// When it was made, by the site's clock.
    pub wall_ms: i64,
    /// Whether that clock was set by something trustworthy.
    pub clock_trusted: bool,
    /// Highest number of the epoch below which nothing is missing.
    pub acked: u64,
}

/// How far a report may be dated after the hub received it, by a clock that the site calls trusted, in milliseconds: a day.
pub const AHEAD_MS: i64 = crate::time::DAY_MS;

impl Newest {
    /// Whether it is dated so far ahead that its clock, or the hub's, is wrong. A clock that the site itself does not trust says nothing.
    pub fn is_future_dated(&self) -> bool {
        self.clock_trusted && self.wall_ms > self.received_ms.saturating_add(AHEAD_MS)
    }

    /// What is wrong with its date, where it [is dated ahead](Self::is_future_dated).
    pub fn ahead_sentence(&self) -> String {
        format!(
            "dated its newest report {} by a clock that it calls trusted, {} after this hub received it: set the clock that is wrong, the \
             site's or the hub's; its next report shows it",
            crate::time::rfc3339(self.wall_ms),
            crate::time::span(self.wall_ms.saturating_sub(self.received_ms))
        )
    }
}

/// What a site runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Running {
    /// Number of the report that states it.
    pub report: u64,
    /// Digest of that report.
    pub digest: String,
    /// When the hub received it, milliseconds since 1970.
    pub received_ms: i64,
    /// When it was made, by the site's own time: its clock, or what it knows to be past where that is later.
    pub made_ms: i64,
    /// The stream's role.
    pub role: String,
    /// The bundle's number.
    pub bundle: u64,
    /// Digest of the bundle's index.
    pub index: String,
    /// The base commit that it was rendered from.
    pub base_commit: String,
    /// The commit of the environment's own branch that it was rendered from; `None` where the report does not state it, or was
    /// recorded before that was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_commit: Option<String>,
    /// `active` is the only success.
    pub state: String,
    /// What the site said.
    pub message: String,
    /// Who sent the webhooks that it rests on, `flux` or `argocd`; empty where an agent looked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub webhook: String,
    /// Each assignment's own result, by name.
    pub assignments: ObservedAssignments,
}

/// Each assignment's own result, by name. Sites that say the same share one, so that a large fleet is not as many copies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedAssignments(Arc<BTreeMap<String, ObservedAssignment>>);

impl From<BTreeMap<String, ObservedAssignment>> for ObservedAssignments {
    fn from(results: BTreeMap<String, ObservedAssignment>) -> Self {
        Self(Arc::new(results))
    }
}

impl Deref for ObservedAssignments {
    type Target = BTreeMap<String, ObservedAssignment>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// What is changed is this one's own from then on.
impl DerefMut for ObservedAssignments {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl Serialize for ObservedAssignments {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

/// What a site says of one assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObservedAssignment {
    /// `compliant`, `drifted`, `failed`, `in_progress`.
    pub status: String,
    /// Version of the config that runs.
    pub config_version: String,
    /// What the reconciler said.
    pub message: String,
}

/// A bundle above the one that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// Number of the report about it.
    pub report: u64,
    /// The bundle's number.
    pub bundle: u64,
    /// How far it came: `received`, `verified`, `staged`, `gated`, `rejected`, `failed`, or `reverted` when
    /// the site left it again.
    pub state: String,
    /// What the site said; for `reverted` why.
    pub message: String,
    /// The person who decided to leave it; `None` when it failed.
    pub decided_by: Option<String>,
}

impl Attempt {
    /// Whether it ended without the bundle running.
    pub fn ended(&self) -> bool {
        matches!(self.state.as_str(), "rejected" | "reverted" | "failed")
    }

    /// `bundle 2 is reverted by bob: the label printer stopped`.
    pub fn sentence(&self) -> String {
        let by = match &self.decided_by {
            Some(who) => format!(" by {who}"),
            None => String::new(),
        };
        let colon = if self.message.is_empty() { "" } else { ": " };
        format!(
            "bundle {} is {}{by}{colon}{}",
            self.bundle, self.state, self.message
        )
    }
}

/// One bundle of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesiredBundle {
    /// The stream's signing role.
    pub role: String,
    /// The environment.
    pub environment: String,
    /// The cluster type.
    pub cluster_type: String,
    /// Its number.
    pub number: u64,
    /// Digest of its index.
    pub index: String,
    /// The base commit that it was rendered from.
    pub base_commit: String,
    /// The commit of the environment's own branch that it was rendered from.
    pub environment_commit: String,
    /// The sites that it is for; empty means every site of the stream.
    pub recipients: BTreeSet<String>,
    /// Whether a key that signed it was taken away from its stream since: it proves nothing any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub taken_back: bool,
    /// When it was signed, and as which of the fleet's signatures.
    #[serde(flatten)]
    pub signed: Signed,
}

/// What the metadata says of a bundle's signature. Compares as the order of signing: signed times are
/// whole seconds, and two bundles may be signed within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Signed {
    /// When it was signed, milliseconds since 1970.
    pub issued_ms: i64,
    /// The version of the fleet's timestamp that it came with first.
    pub signed_as: u64,
    /// When its signature expires.
    pub expires_ms: i64,
}

/// One assignment that a bundle wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesiredAssignment {
    /// The assignment's name.
    pub assignment: String,
    /// The workload.
    pub workload: String,
    /// The workspace.
    pub workspace: String,
    /// The policies that put it here.
    pub policies: Vec<String>,
    /// The only sites that it is for; absent for every site of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sites: Option<BTreeSet<String>>,
    /// Version of its config.
    pub config_version: String,
    /// Sites that are to have another version: which.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, String>,
}

impl DesiredBundle {
    /// The bundle that an index with this digest describes.
    pub fn of(index: &Index, digest: &Digest, signed: Signed) -> Self {
        Self {
            role: index.stream.role.to_string(),
            environment: index.stream.environment.to_string(),
            cluster_type: index.stream.cluster_type.to_string(),
            number: index.number,
            index: digest.to_string(),
            base_commit: index.snapshot.base.commit.clone(),
            environment_commit: index.snapshot.environment.commit.clone(),
            recipients: index.recipients.iter().map(ToString::to_string).collect(),
            taken_back: false,
            signed,
        }
    }
}

impl DesiredAssignment {
    /// The assignments of an index, by name.
    pub fn all_of(index: &Index) -> Vec<Self> {
        let mut all: Vec<Self> = index.assignments.iter().map(Self::of).collect();
        all.sort_by(|a, b| a.assignment.cmp(&b.assignment));
        all
    }

    fn of(one: &outhaul_bundle::index::Assignment) -> Self {
        let mut own = BTreeMap::new();
        for overlay in &one.overlays {
            for site in &overlay.sites {
                own.insert(site.to_string(), overlay.config_version.to_string());
            }
        }
        let names = |sites: &BTreeSet<_>| sites.iter().map(ToString::to_string).collect();
        Self {
            assignment: one.name.to_string(),
            workload: one.workload.clone(),
            workspace: one.workspace.clone(),
            policies: one.policies.clone(),
            sites: one.sites.as_ref().map(names),
            config_version: one.config_version.to_string(),
            own,
        }
    }

    /// Whether one site is to have it.
    pub fn is_for(&self, site: &str) -> bool {
        self.sites.as_ref().is_none_or(|sites| sites.contains(site))
    }

    /// The version of its config that one site is to have.
    pub fn config_for(&self, site: &str) -> &str {
        self.own.get(site).unwrap_or(&self.config_version)
    }
}

/// When a hub was restored from a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restored {
    /// When, milliseconds since 1970.
    pub at_ms: i64,
    /// When the backup was made.
    pub backup_ms: i64,
}

impl Restored {
    /// Whether what a person decided holds at gates: choices, holds, withdrawals and what is said of the clock stay, anything else is given
    /// again.
    pub fn holds(&self, act: &Act) -> bool {
        act.at_ms > self.at_ms
            || matches!(
                act.kind,
                ActKind::Choose
                    | ActKind::Clock
                    | ActKind::Hold
                    | ActKind::Lost
                    | ActKind::Withdraw
            )
    }

    /// Whether a report counts: it came after the restore, and was made not before the backup.
    pub fn counts(&self, received_ms: i64, made_ms: i64) -> bool {
        received_ms > self.at_ms && made_ms >= self.backup_ms
    }
}
