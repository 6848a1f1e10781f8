//! What a hub answers about its record: what gates decided, what people and checks put on record, and who did what with which right.
//!
//! What comes in: entries of the hub's store. What goes out: the same, typed, one row for each entry, with times as RFC 3339 texts. It
//! decides nothing.

use serde::{Deserialize, Serialize};

use super::{Decision, GateRules};

/// A decision of a gate, in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecisionRow {
    /// Its number.
    pub number: i64,
    /// When; absent of one that is no longer kept, of which number, verdict and digest stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    /// The environment asked about; empty of one that is no longer kept.
    pub environment: String,
    /// The environment that the commit was to be promoted to, where the question named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The base commit asked about; empty of one that is no longer kept.
    pub commit: String,
    /// `open` or `closed`.
    pub verdict: String,
    /// Who asked: the name of a token, or `command line`.
    pub asked_by: String,
    /// Its digest in the chain of decisions, as `outhaul-audit` computes it; empty of one from before there was a chain.
    pub digest: String,
}

/// One decision of a gate with what it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecisionAnswer {
    /// Its number.
    pub number: i64,
    /// The decision as it was recorded: its sites are in `evidence`.
    pub decision: Decision,
    /// The rules that it was asked with; absent where the hub that made it did not keep them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<GateRules>,
    /// How many more reasons and notes there were than are kept.
    pub sentences_left_out: u64,
    /// Each site, and the report that its status rests on.
    pub evidence: Vec<EvidenceRow>,
}

/// A site in the evidence of a decision on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EvidenceRow {
    /// The site.
    pub site: String,
    /// Its status at the gate.
    pub status: String,
    /// The numbering of its report; absent where it rests on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// The number of its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<u64>,
    /// Digest of that report as it was signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What a person decided, or a person or a check stated, on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActRow {
    /// Its number.
    pub number: i64,
    /// `approve`, `check`, `choose`, `clock`, `defer`, `hold`, `lost`, `waive` or `withdraw`.
    pub kind: String,
    /// When.
    pub at: String,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// What it decides or states, in a sentence.
    pub sentence: String,
    /// The environment, of an approval, a hold or a check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The base commit, of an approval, a check, or a hold of one commit only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The site, of a waiver, a deferral or a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The number of the entry that it withdraws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdraws: Option<i64>,
    /// Whether a later entry withdrew it.
    pub withdrawn: bool,
    /// Whether gates count it now: of an approval, a hold, a waiver or a deferral; absent of any other. A deferral past its deadline is counted:
    /// it closes gates. After a restore, what was decided before it is not counted, but for holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<bool>,
}

/// One use of a right, or one that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccessRow {
    /// Its number.
    pub number: i64,
    /// When.
    pub at: String,
    /// The name of the token, of a person of the identity provider, or of who used the command line; empty for a stranger.
    pub who: String,
    /// `token`, `page`, `oidc`, `command line`, or `expected kit` of a site that one registered.
    pub how: String,
    /// The network from which it came; empty for the command line.
    pub peer: String,
    /// What was done, such as `login`, `approve` or `token create`.
    pub action: String,
    /// To what.
    pub detail: String,
    /// Whether it was allowed.
    pub allowed: bool,
}
