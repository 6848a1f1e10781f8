//! What policies say of one pair of cluster type and deployment target, and who set the values of its config.
//!
//! What comes in: what `outhaul explain` worked out. What goes out: the same, typed, for its JSON and for a hub that keeps it. Places
//! are `file:line`. It decides nothing, and a value that is sealed or looks like a secret is not in it.

use serde::{Deserialize, Serialize};

/// What one policy says about one pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PolicyVerdict {
    /// The policy's name.
    pub policy: String,
    /// Where it is written: `file:line`.
    pub at: String,
    /// What it asks of targets, as text.
    pub targets: String,
    /// What it asks of cluster types, as text.
    pub cluster_types: String,
    /// What it asks of sites, and which it means, as text; absent when it means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<String>,
    /// What speaks for the cluster type, when the policy weighs any; see [`Weight`].
    pub weight: Option<Weight>,
    /// What it asks of labels and the pair has.
    #[serde(default)]
    pub matches: Vec<LabelMatch>,
    /// What keeps it from choosing the pair; empty when it does.
    pub misses: Vec<Miss>,
}

impl PolicyVerdict {
    /// Whether it puts the pair there.
    pub fn chooses(&self) -> bool {
        self.misses.is_empty()
    }
}

/// One thing that a policy asks of labels, and the label that meets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LabelMatch {
    /// `deployment target` or `cluster type`.
    pub of: String,
    /// What is asked, as text.
    pub requirement: String,
    /// What is there.
    pub found: String,
    /// Where what is asked is written: `file:line`.
    pub at: String,
}

/// How a cluster type fares among those that a policy may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Weight {
    /// Its place among the candidates, from 1.
    pub rank: usize,
    /// How many candidates there are.
    pub of: usize,
    /// The weights of what it meets, added.
    pub score: u32,
    /// What it meets: `+80 disk = ssd (file:line)`.
    pub met: Vec<String>,
    /// Taints that put it behind the others: `name (file:line)`.
    pub avoided: Vec<String>,
    /// What the scheduling program said of the pair.
    pub said: Option<String>,
}

impl Weight {
    /// It as one sentence for people, without a full stop.
    pub fn sentence(&self) -> String {
        let mut text = format!("score {}, place {} of {}", self.score, self.rank, self.of);
        if !self.met.is_empty() {
            text = format!("{text}: {}", self.met.join(", "));
        }
        if !self.avoided.is_empty() {
            text = format!("{text}; last because of taint {}", self.avoided.join(", "));
        }
        if let Some(said) = &self.said {
            text = format!("{text}; the scheduler reports: {said}");
        }
        text
    }
}

/// One thing that keeps a policy from choosing a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Miss {
    /// Which rule it is.
    pub rule: MissRule,
    /// `deployment target`, `cluster type` or `site`.
    pub of: String,
    /// What is asked, as text.
    pub requirement: String,
    /// What is there instead.
    pub found: String,
    /// Where what is asked is written: `file:line`.
    pub at: String,
}

/// The rules by which a policy can pass a pair over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MissRule {
    /// A selector or the workspace.
    Selector,
    /// No required term matches.
    Required,
    /// A taint that is not tolerated.
    Taint,
    /// `spread`.
    Spread,
    /// `maxClusterTypes`.
    Limit,
    /// The scheduling program.
    Scheduler,
    /// `siteSelector` matches no site of the cluster type.
    Sites,
    /// A word of a newer program.
    #[serde(other)]
    Unknown,
}

impl Miss {
    /// It as one sentence for people, without a full stop.
    pub fn sentence(&self) -> String {
        let Self {
            of,
            requirement,
            found,
            at,
            ..
        } = self;
        match self.rule {
            MissRule::Selector | MissRule::Required => {
                format!("needs a {of} with {requirement} ({at}); it has {found}")
            }
            MissRule::Taint => format!("kept away by {found} ({at}): {requirement}"),
            MissRule::Spread | MissRule::Limit => format!("takes {requirement} ({at}); {found}"),
            MissRule::Sites => format!("is only for sites with {requirement} ({at}); {found}"),
            MissRule::Scheduler | MissRule::Unknown => format!("{requirement} ({at}); {found}"),
        }
    }
}

/// One key of a composed config, and who set it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetValue {
    /// The key.
    pub key: String,
    /// Its value as JSON, or `"sealed"`, or that it looks like a secret; absent when nothing that applies sets it.
    pub value: Option<serde_json::Value>,
    /// Who set it: the one that counts first.
    pub layers: Vec<LayerAt>,
}

/// What one container did with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LayerRole {
    /// Its value is the value.
    Decides,
    /// Its value is merged over the others.
    MergedIn,
    /// Others are merged over its value.
    Under,
    /// Its value is replaced.
    Overridden,
    /// A word of a newer program.
    #[serde(other)]
    Unknown,
}

impl LayerRole {
    /// For people, before the container's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decides => "from",
            Self::MergedIn => "merged in from",
            Self::Under => "over",
            Self::Overridden => "overrides",
            Self::Unknown => "besides",
        }
    }
}

/// A container's value for a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LayerAt {
    /// What it did.
    pub role: LayerRole,
    /// The container.
    pub container: String,
    /// Where: `file:line`.
    pub at: String,
    /// The text as written, or `sealed`.
    pub text: String,
}
