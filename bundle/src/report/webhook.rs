//! What webhooks showed of a cluster on which no agent runs, as part of a report that the hub makes of them.
//!
//! What comes in: events of Flux or Argo CD whose secret was checked. What goes out: who sent them, and the last that each object of
//! the platform repository showed, with the digest of the body that did. It is what the cluster's controllers state, and nobody looked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::number;

/// Who sends the webhooks of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookSender {
    /// Flux's notification-controller.
    Flux,
    /// Argo CD's notifications controller.
    Argocd,
}

impl WebhookSender {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Flux, Self::Argocd];

    /// `flux` or `argocd`, as in reports and addresses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flux => "flux",
            Self::Argocd => "argocd",
        }
    }
}

impl fmt::Display for WebhookSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for WebhookSender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|one| one.as_str() == text);
        known.ok_or_else(|| format!("`{text}` is neither `flux` nor `argocd`"))
    }
}

/// What a report that the hub made of webhooks rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookEvidence {
    /// Who sent them.
    pub sender: WebhookSender,
    /// Digest of the body of the event that made this report.
    pub body: Digest,
    /// Each object of the platform repository that the site was registered with, and what it showed last.
    pub objects: Vec<WebhookObject>,
    /// How many events were about objects that the site was not registered with.
    #[serde(default, deserialize_with = "number::one")]
    pub foreign_events: u64,
    /// Names of those objects, the newest last; bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<String>,
}

/// What one object showed last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookObject {
    /// `KIND/NAMESPACE/NAME`.
    pub name: String,
    /// Where it stands.
    pub status: ObjectStatus,
    /// The commit of the platform repository that it shows; absent where it shows none, as a chart's release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What its controller stated, shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When, by the cluster's clock, milliseconds since 1970; 0 where nothing came of it.
    pub at_ms: i64,
    /// Digests of the bodies of that very second, the newest last: an event counts once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bodies: Vec<Digest>,
}

/// Where an object of the platform repository stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectStatus {
    /// Its controller finished, and states success.
    Ready,
    /// It is under way.
    InProgress,
    /// Nothing came of it.
    Silent,
    /// It failed.
    Failed,
}

impl WebhookObject {
    /// One of which nothing came.
    pub fn silent(name: String) -> Self {
        Self {
            name,
            status: ObjectStatus::Silent,
            commit: None,
            message: String::new(),
            at_ms: 0,
            bodies: Vec::new(),
        }
    }
}
