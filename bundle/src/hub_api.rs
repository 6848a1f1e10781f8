//! What a hub is asked over HTTP, and what it answers: one type for both sides.
//!
//! What comes in: the values that the hub decides, and the bytes that `outhaul` and the agent receive. What
//! goes out: the same, typed. Times are RFC 3339 texts. It decides nothing and sends nothing. A word that
//! a newer hub may add reads as unknown, never as success; what is signed (acknowledgements) is carried
//! as it is and verified by whoever has the key.

use std::ops::RangeInclusive;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

mod affected;
mod alerts;
mod bounds;
mod bundles;
mod checks;
mod explanation;
mod faults;
mod kalypso;
mod on_record;
mod received;
mod rules;
mod selection;
mod values;
mod webhook;

pub use affected::{
    AdvisoryRow, AffectedBundle, AffectedComponent, AffectedSite, AffectedSites, AffectedVerdict,
    ClearedComponent, ImportNote, ImportOutcome, ImportedDocument,
};
pub use alerts::{ALERT_FORMAT, ALERT_SIGNATURE, AlertEntry, AlertMessage};
pub use bundles::{BundleRow, BundleSites, BundleSizes};
pub use checks::{
    CheckAnswer, CheckOutcome, CheckRequest, CheckRule, MAX_CHECK_BYTES, MAX_CHECK_DETAIL_BYTES,
};
pub use explanation::{
    AssignedPair, AssignmentExplanation, EXPLANATION_FORMAT, Entities, Entity, ExplanationAnswer,
    ExplanationError, ExplanationRow, MAX_EXPLANATION_BYTES, MAX_EXPLANATION_FILE_BYTES,
    MAX_EXPLANATION_NAME_BYTES, MAX_EXPLANATION_TEXT_BYTES, OverlayExplanation, PairVerdict,
    PlatformAnswer, PlatformExplanation, RecordedExplanation,
};
pub use faults::{FaultDetail, FaultKind, OtherSites, SiteAct, SiteFault, SiteFaults, SiteLook};
pub use kalypso::{Descriptor, ReportedReconciler};
pub use on_record::{AccessRow, ActRow, DecisionAnswer, DecisionRow, EvidenceRow};
pub use received::{
    Enrolled, RecordedBundle, RefusedGroup, RefusedLine, ReportsAnswer, RequestAnswer,
};
pub use rules::{
    APPROVALS, ApprovalRule, ClosedTime, Day, GateRules, MIN_SITES, PartRule, PromotionWindow,
    RuleVerdict, SOAK_HOURS, time_ms,
};
pub use selection::{
    LabelMatch, LayerAt, LayerRole, Miss, MissRule, PolicyVerdict, SetValue, Weight,
};
pub use values::SiteValueRow;
pub use webhook::{MAX_WEBHOOK_BYTES, WebhookAnswer, WebhookOutcome};

/// Where the answers are, below the hub's address.
pub mod path {
    /// Who did what with which right: [`AccessRow`](super::AccessRow)s.
    pub const ACCESS: &str = "/api/v1/access";
    /// What people and checks put on record about gates: [`ActRow`](super::ActRow)s.
    pub const ACTS: &str = "/api/v1/acts";
    /// The advisories on record: [`AdvisoryRow`](super::AdvisoryRow)s.
    pub const ADVISORIES: &str = "/api/v1/advisories";
    /// Which sites an advisory is about: [`AffectedSites`](super::AffectedSites).
    pub const AFFECTED: &str = "/api/v1/affected";
    /// Desired beside actual state, one row per assignment and site.
    pub const ASSIGNMENTS: &str = "/api/v1/assignments";
    /// Takes bundles; answers which are on record: [`BundleRow`](super::BundleRow)s.
    pub const BUNDLES: &str = "/api/v1/bundles";
    /// Takes the outcome of a check: a [`CheckRequest`](super::CheckRequest); answers with a [`CheckAnswer`](super::CheckAnswer).
    pub const CHECKS: &str = "/api/v1/checks";
    /// What gates decided: [`DecisionRow`](super::DecisionRow)s.
    pub const DECISIONS: &str = "/api/v1/decisions";
    /// One of them with what it rests on: a [`DecisionAnswer`](super::DecisionAnswer).
    pub const DECISION: &str = "/api/v1/decision";
    /// Why one pair is assigned or not, and its values: an [`ExplanationAnswer`](super::ExplanationAnswer).
    pub const EXPLANATION: &str = "/api/v1/explanation";
    /// Takes what `outhaul explain --whole` wrote; answers which are on record: [`ExplanationRow`](super::ExplanationRow)s.
    pub const EXPLANATIONS: &str = "/api/v1/explanations";
    /// What is not well at one site and since when: [`SiteFaults`](super::SiteFaults).
    pub const FAULTS: &str = "/api/v1/faults";
    /// A [`GateAnswer`](super::GateAnswer) to a [`GateQuery`](super::GateQuery).
    pub const GATE: &str = "/api/v1/gate";
    /// This API, as an OpenAPI document.
    pub const OPENAPI: &str = "/api/v1/openapi.json";
    /// What was refused, one row per site and rule.
    pub const REFUSALS: &str = "/api/v1/refusals";
    /// When reports were removed because they are old, and which numbers of a site are no longer kept.
    pub const REMOVALS: &str = "/api/v1/removals";
    /// The entities of a control plane as they were read, and what is assigned: a [`PlatformAnswer`](super::PlatformAnswer).
    pub const PLATFORM: &str = "/api/v1/platform";
    /// Takes reports; answers with a [`ReportsAnswer`](super::ReportsAnswer). Answers which a site signed, as lines.
    pub const REPORTS: &str = "/api/v1/reports";
    /// Takes enrolment requests; answers with a [`RequestAnswer`](super::RequestAnswer).
    pub const REQUESTS: &str = "/api/v1/requests";
    /// The values that one site set itself, within what the centre opens.
    pub const SITE_VALUES: &str = "/api/v1/values";
    /// One row per site.
    pub const SITES: &str = "/api/v1/sites";
    /// Events of a site on which no agent runs; below it `SENDER/SITE`.
    pub const WEBHOOKS: &str = "/api/v1/webhooks";
    /// The same, as routes and the document name it.
    pub const WEBHOOK: &str = "/api/v1/webhooks/{sender}/{site}";
}

/// How old the newest report of a site may be, in hours, for it to count at a gate.
pub const MAX_AGE_HOURS: RangeInclusive<u32> = 1..=87_600;
/// How old it may be where nobody says otherwise.
pub const DEFAULT_MAX_AGE_HOURS: u32 = 72;
/// The name of the rule that sites which have to report have the commit.
pub const RULE_COMMIT: &str = "commit";
/// The name of the rule that none of them failed.
pub const RULE_NO_FAILURES: &str = "no-failures";
/// The name of the rule that enough of them confirm.
pub const RULE_CONFIRMED: &str = "confirmed";
/// The share of sites that must confirm, in percent.
pub const QUORUM_PERCENT: RangeInclusive<u32> = 1..=100;
/// The share that must where nobody says otherwise.
pub const DEFAULT_QUORUM_PERCENT: u8 = 100;

/// The editions of the rules of gates that these types can hold a decision of.
pub const GATE_EDITIONS: RangeInclusive<u32> = 1..=5;

/// The question to a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct GateQuery {
    /// The environment.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub environment: String,
    /// The full id of the base commit.
    #[cfg_attr(
        feature = "openapi",
        param(pattern = "^(sha256:)?([0-9a-f]{40}|[0-9a-f]{64})$")
    )]
    pub commit: String,
    /// Within [`MAX_AGE_HOURS`]; the hub has a default.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 87_600))]
    pub max_age_hours: Option<u32>,
    /// Within [`QUORUM_PERCENT`]; the hub's default is 100.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 100))]
    pub quorum_percent: Option<u8>,
    /// The environment that the commit is to be promoted to.
    #[serde(default)]
    pub to: Option<String>,
    /// [`GateRules`] as JSON. Without them those count that were last recorded for the step.
    #[serde(default)]
    pub rules: Option<String>,
}

impl GateQuery {
    /// Path and query. The environment's name and the commit's id need no escaping.
    pub fn path(&self) -> String {
        let mut path = format!(
            "{}?environment={}&commit={}",
            path::GATE,
            self.environment,
            self.commit
        );
        if let Some(hours) = self.max_age_hours {
            path.push_str(&format!("&max_age_hours={hours}"));
        }
        if let Some(percent) = self.quorum_percent {
            path.push_str(&format!("&quorum_percent={percent}"));
        }
        if let Some(to) = &self.to {
            path.push_str(&format!("&to={}", escaped(to)));
        }
        if let Some(rules) = &self.rules {
            path.push_str(&format!("&rules={}", escaped(rules)));
        }
        path
    }
}

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Text as a value in a query.
pub fn escaped(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Open or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    /// The commit may not be promoted.
    Closed,
    /// The commit may be promoted.
    Open,
}

impl GateVerdict {
    /// `open` or `closed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
}

/// What a gate decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Decision {
    /// Open or closed.
    pub verdict: GateVerdict,
    /// The environment asked about.
    pub environment: String,
    /// The base commit asked about.
    pub commit: String,
    /// When it was decided.
    pub decided_at: String,
    /// The edition of the rules by which it was decided; 1 where nothing is written.
    #[serde(default = "first_edition", skip_serializing_if = "is_first_edition")]
    pub edition: u32,
    /// The hub was restored from a backup: nothing from before that counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoredHub>,
    /// The oldest report that counted, in hours.
    pub max_age_hours: i64,
    /// The share of counted sites that had to confirm.
    pub quorum_percent: u8,
    /// The environment that the commit was to be promoted to, where the question named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Each rule, what was found, and what would make it met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleVerdict>,
    /// Sites that had to report: registered, neither revoked, waived nor deferred.
    pub counted: usize,
    /// Those of them that confirmed.
    pub confirmed: usize,
    /// Why it is closed, one sentence each; empty when it is open.
    pub reasons: Vec<String>,
    /// What does not close it but should be known.
    pub notes: Vec<String>,
    /// The status of each site.
    pub sites: Vec<SiteDecision>,
    /// The reports that the decision rests on.
    pub evidence: Vec<Evidence>,
}

fn first_edition() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_first_edition(edition: &u32) -> bool {
    *edition == 1
}

/// When a hub was restored, and from a backup of when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RestoredHub {
    /// When it was restored.
    pub at: String,
    /// When the backup was made.
    pub backup_at: String,
}

/// A decision as the hub answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GateAnswer {
    /// The decision.
    #[serde(flatten)]
    pub decision: Decision,
    /// Whether it is on record: an answer that says the same as the one before it is no second entry, and `true` all the same.
    pub recorded: bool,
    /// Where rules of the question are looser than those on record, which then count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules_on_record: Option<String>,
    /// An answer to a question only, which lets nothing be promoted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub what_if: bool,
}

/// One report that a decision rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Evidence {
    /// The site.
    pub site: String,
    /// Its epoch.
    pub epoch: String,
    /// The report's number.
    pub report: u64,
    /// Digest of the report as signed.
    pub digest: String,
    /// When the hub received it.
    pub received_at: String,
    /// The bundle that it reports.
    pub bundle: u64,
    /// The state that it reports.
    pub state: String,
    /// Who sent the webhooks that the hub made the report of; absent where the site's agent signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// The commit of the environment's own branch that what it runs was made from: which content of the base commit that is, is
    /// written there. Of the verified bundle; of a cluster that follows the platform repository by the site's signed report. Absent
    /// where neither states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_commit: Option<String>,
    /// The base commit that what it runs was made from. Absent where the hub does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_commit: Option<String>,
    /// Where what it runs was made from another base commit than the one asked about: the same of the bundles of its stream
    /// that were made from that one, up to the one that it runs, the newest first and at most [`MAX_PASSED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<String>,
}

impl Evidence {
    /// The report, and what it states, in words.
    pub fn sentence(&self) -> String {
        let short = |id: &str| -> String {
            let id = id.strip_prefix("sha256:").unwrap_or(id);
            id.chars().take(12).collect()
        };
        let shown = match self.bundle {
            // Bundles are numbered from 1: the cluster shows none that is known.
            0 => "no known bundle,".to_owned(),
            number => format!("bundle {number}"),
        };
        let (site, report, digest) = (&self.site, self.report, short(&self.digest));
        let state = &self.state;
        let mut text = format!("`{site}` report {report} ({digest}): {shown} {state}");
        if let Some(sender) = &self.webhook {
            text.push_str(&format!(", by webhook of {sender} alone"));
        }
        if let Some(commit) = &self.environment_commit {
            text.push_str(&format!(", of the environment at {}", short(commit)));
        }
        text
    }
}

/// Most entries of [`Evidence::passed`].
pub const MAX_PASSED: usize = 20;

/// The status of a site at a gate. [`SiteStatus::Confirmed`] is the only success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SiteStatus {
    /// It runs a bundle before the one asked about.
    Behind,
    /// What it runs was reported before the hub was restored from a backup.
    BeforeRestore,
    /// Two machines report with its key, and nobody chose which of them it is.
    Conflict,
    /// It runs the commit or a later one, and all is as desired.
    Confirmed,
    /// Someone expects it later, by a deadline that is not over.
    Deferred,
    /// Someone changed on site what was applied.
    Drifted,
    /// Applying or health failed.
    Failed,
    /// Its newest report is dated long after the hub received it, by a clock that it calls trusted.
    FutureDated,
    /// Reports are missing that may report a failure.
    Gap,
    /// It is applying the bundle.
    InProgress,
    /// It never reported.
    NeverReported,
    /// It reported, but not yet what it runs.
    NoState,
    /// This hub knows no bundle of the site's stream with this commit.
    NotDesired,
    /// What it runs is not what this hub knows under that number.
    OtherContent,
    /// It runs a bundle of another stream.
    OtherStream,
    /// It was deferred until a deadline that is over.
    Overdue,
    /// What it runs was signed by a key that was taken away from its stream since.
    SignerRevoked,
    /// Its newest report is too old.
    Stale,
    /// It does not report an assignment, or runs another config version.
    Unconfirmed,
    /// Someone allowed promotion without it.
    Waived,
    /// It shows the commit by webhook alone, and no rule of the gate says that this counts.
    WebhookOnly,
    /// A word of a newer hub.
    #[serde(other)]
    Unknown,
}

impl SiteStatus {
    /// Whether it closes the gate whatever the quorum.
    pub fn always_closes(self) -> bool {
        matches!(
            self,
            Self::Conflict
                | Self::Failed
                | Self::Drifted
                | Self::OtherContent
                | Self::OtherStream
                | Self::Overdue
        )
    }

    /// Whether the site is one of those that a quorum can go without.
    pub fn is_missing(self) -> bool {
        !self.always_closes() && self.is_counted() && self != Self::Confirmed
    }

    /// Whether it is one of those that should have confirmed.
    pub fn is_counted(self) -> bool {
        !matches!(self, Self::Waived | Self::Deferred)
    }

    /// The word used in reasons.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::BeforeRestore => "before-restore",
            Self::Conflict => "conflict",
            Self::Confirmed => "confirmed",
            Self::Deferred => "deferred",
            Self::Drifted => "drifted",
            Self::Failed => "failed",
            Self::FutureDated => "future-dated",
            Self::Gap => "gap",
            Self::InProgress => "in-progress",
            Self::NeverReported => "never-reported",
            Self::NoState => "no-state",
            Self::NotDesired => "not-desired",
            Self::OtherContent => "other-content",
            Self::OtherStream => "other-stream",
            Self::Overdue => "overdue",
            Self::SignerRevoked => "signer-revoked",
            Self::Stale => "stale",
            Self::Unconfirmed => "unconfirmed",
            Self::Unknown => "unknown",
            Self::Waived => "waived",
            Self::WebhookOnly => "webhook-only",
        }
    }
}

/// One site at a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteDecision {
    /// The site.
    pub site: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Its status.
    pub standing: SiteStatus,
    /// Why, in words.
    pub message: String,
    /// The bundle that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<u64>,
    /// The first bundle that would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<u64>,
    /// When its newest report was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
}

impl SiteDecision {
    /// `stale: site `x` last reported 80 h ago …`
    pub fn sentence(&self) -> String {
        let word = self.standing.as_str();
        format!("{word}: site `{}` {}", self.site, self.message)
    }
}

/// The answer with any status but 200.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorAnswer {
    /// What was expected and found.
    pub error: String,
    /// The rule, when what was sent broke one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}
