//! A compliance report: what one agent states of its site, once, with a number.
//!
//! What comes in: what the agent observed. What goes out: bytes that the agent signs (in an envelope
//! of `outhaul-signer`) and the hub reads. A report never changes once it has its number, and each
//! carries the digest of the one before, so that a missing or exchanged one shows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::index::{Snapshot, Stream};
use crate::name::Name;
use crate::number;

mod cluster;
mod webhook;

pub use cluster::{ClusterEvent, ClusterState, FollowedAssignment};
pub use webhook::{ObjectStatus, WebhookEvidence, WebhookObject, WebhookSender};

/// The format's name; a reader refuses any other.
pub const FORMAT: &str = "outhaul.dev/report/v1";
/// The envelope's payload type.
pub const PAYLOAD_TYPE: &str = "application/vnd.outhaul.report+json";
/// The payload type of a hub's acknowledgement.
pub const ACK_PAYLOAD_TYPE: &str = "application/vnd.outhaul.ack+json";
/// The payload type of a site's enrolment request.
pub const ENROLMENT_PAYLOAD_TYPE: &str = "application/vnd.outhaul.enrolment+json";
/// Largest report in bytes. 1 MiB: a few thousand task results.
pub const MAX_REPORT_BYTES: usize = 1024 * 1024;
/// Largest enrolment request with its signatures, in bytes.
pub const MAX_ENROLMENT_REQUEST_BYTES: usize = 256 * 1024;
/// Largest file of reports in bytes, which hub and centre read line by line. 1 GiB: more than a site queues, and no file that is read for
/// hours.
pub const MAX_REPORTS_BYTES: u64 = 1 << 30;
/// Most bytes of reports that a hub takes in one request, which it holds in memory.
pub const MAX_REPORTS_AT_ONCE_BYTES: usize = 16 * 1024 * 1024;

/// One compliance report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Always [`FORMAT`].
    pub format: String,
    /// The fleet's id.
    pub fleet: Name,
    /// The site.
    pub site: Name,
    /// The life of the agent's store: a new random value when a store had to be made again.
    pub epoch: Name,
    /// 1, 2, 3 … within the epoch, without gaps.
    #[serde(deserialize_with = "number::one")]
    pub number: u64,
    /// Digest of the payload bytes of report `number - 1`; absent for number 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Digest>,
    /// The site's clock when it happened.
    pub at: SiteTime,
    /// What it reports.
    pub event: ReportEvent,
}

/// A moment by a clock that may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteTime {
    /// Milliseconds since 1970 by the site's own clock.
    pub wall_ms: i64,
    /// Milliseconds since 1970: it is certainly not earlier than this.
    pub lower_bound_ms: i64,
    /// Whether something trustworthy set the clock.
    pub trusted: bool,
}

/// What happened on a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ReportEvent {
    /// A bundle moved through the agent's states.
    Generation(GenerationEvent),
    /// What the reconciler found without a new bundle: drift, or that all is well.
    Observation(GenerationEvent),
    /// What a cluster shows that follows the platform repository directly, without bundles.
    Cluster(Box<ClusterEvent>),
    /// A bundle or command was refused, with the reason; nothing was changed.
    Refusal {
        /// File name or URL, without a machine's folder.
        source: String,
        /// Which rule refused it, for example `signature`, `rollback`, `recipient`.
        rule: String,
        /// What was expected, found, and is safe now.
        message: String,
    },
    /// Reports `from..=to` are gone: why.
    Gap {
        /// First number lost.
        #[serde(deserialize_with = "number::one")]
        from: u64,
        /// Last number lost.
        #[serde(deserialize_with = "number::one")]
        to: u64,
        /// Why.
        reason: String,
    },
    /// Someone on site decided something.
    Decision {
        /// `approve`, `hold`, `release`, `rollback`.
        what: String,
        /// Who, as they named themselves.
        who: String,
        /// The bundle's number, where it is about one. Of a `rollback`: the bundle that is left, and where it is about one assignment the bundle
        /// whose content that has again; of a `hold` of one assignment: the bundle whose content it keeps.
        #[serde(
            default,
            deserialize_with = "number::optional",
            skip_serializing_if = "Option::is_none"
        )]
        number: Option<u64>,
        /// The one assignment that it is about, where it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assignment: Option<Name>,
        /// Why, in their words, shortened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Values that belong to the site: all of them, after one changed or another bundle runs.
    SiteValues {
        /// What happened, as one sentence for people.
        message: String,
        /// Who set or unset one, as they named themselves; absent when a bundle made the difference.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// Every value that the site keeps, sorted by assignment and key.
        values: Vec<SiteValue>,
    },
    /// A freshness slip was trusted: floors rose and time came, nothing was installed.
    FreshnessSlip {
        /// File name, or the name of a typed one.
        source: String,
        /// The signed time that it brought, milliseconds since 1970.
        issued_ms: i64,
        /// The newest bundle number of the stream that it names.
        #[serde(deserialize_with = "number::one")]
        number: u64,
        /// The site's floors after it: versions by name of metadata.
        #[serde(deserialize_with = "number::by_name")]
        versions: BTreeMap<String, u64>,
    },
    /// A signed order was carried out.
    OrderDone {
        /// The order's number.
        #[serde(deserialize_with = "number::one")]
        number: u64,
        /// `approve`, `move`, `rekey`, `revoke`.
        what: String,
        /// One sentence for people: what is different now.
        message: String,
        /// For which enrolment it was given; absent in reports from before orders were distinguished by it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        enrolment: Option<Digest>,
    },
    /// A signed order was looked at and will never be carried out by this site.
    OrderRefused {
        /// The order's number.
        #[serde(deserialize_with = "number::one")]
        number: u64,
        /// As in [`ReportEvent::OrderDone`].
        what: String,
        /// Why.
        message: String,
        /// For which enrolment it was given.
        enrolment: Digest,
    },
    /// The agent started.
    Started {
        /// The agent's version.
        agent_version: String,
    },
}

/// One value that belongs to the site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteValue {
    /// The assignment.
    pub assignment: Name,
    /// The key that the centre opened.
    pub key: String,
    /// The value.
    pub value: String,
    /// Who set it, as they named themselves.
    pub who: String,
    /// Why, in their words, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When, milliseconds since 1970 by the site's clock.
    pub at_ms: i64,
    /// Why what runs does not use it; absent when it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused: Option<String>,
}

/// The state of one bundle on a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerationEvent {
    /// The stream.
    pub stream: Stream,
    /// The bundle's number.
    #[serde(deserialize_with = "number::one")]
    pub number: u64,
    /// Digest of the bundle's `index.json`.
    pub index: Digest,
    /// The commits that it was rendered from.
    pub snapshot: Snapshot,
    /// The state reached.
    pub state: GenerationState,
    /// Each assignment's own result.
    pub assignments: Vec<AssignmentResult>,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The bundle that the site left to run this one again: a revert is this one report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverted_from: Option<RevertedFrom>,
}

/// The bundle that a site left when it went back to the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevertedFrom {
    /// Its number.
    #[serde(deserialize_with = "number::one")]
    pub number: u64,
    /// Digest of its `index.json`.
    pub index: Digest,
    /// The person who decided it; absent when the bundle failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Why, as one sentence for people; never empty.
    pub reason: String,
}

/// Where a bundle stands on a site. `Active` is the only success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GenerationState {
    /// Its bytes are being read.
    Received,
    /// Signatures, number and recipient are right.
    Verified,
    /// Every blob is in the store.
    Staged,
    /// It waits for a window or an approval.
    Gated,
    /// The reconciler is at work.
    Applying,
    /// Applied; its health is being watched.
    Soaking,
    /// Applied and healthy.
    Active,
    /// A newer bundle took its place.
    Superseded,
    /// Refused before anything was changed.
    Rejected,
    /// Applying or health failed.
    Failed,
    /// The site went back to the generation before.
    Reverted,
}

/// The result for one assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssignmentResult {
    /// The assignment's name.
    pub name: Name,
    /// The reconciler's verdict.
    pub status: ComplianceStatus,
    /// Version of the config that runs.
    pub config_version: Digest,
    /// The message of the reconciler, shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Tasks, objects or files, in order, each with its own result; shortened to the telling ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepResult>,
}

/// The result of one task, object or file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepResult {
    /// The task's name, the object's or the file's.
    pub name: String,
    /// `ok`, `changed`, `failed`, `skipped`, `removed`; [`Self::HELD`].
    pub status: String,
    /// The message, shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl StepResult {
    /// The status of the entry that states who holds the assignment: its content is not to be that of the bundle.
    pub const HELD: &'static str = "held";

    /// The entry that states who holds the assignment, in one sentence.
    pub fn held(sentence: String) -> Self {
        Self {
            name: "hold".to_owned(),
            status: Self::HELD.to_owned(),
            message: sentence,
        }
    }

    /// Whether it is that entry.
    pub fn is_held(&self) -> bool {
        self.status == Self::HELD
    }
}

/// Whether an assignment is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComplianceStatus {
    /// As desired.
    Compliant,
    /// Someone changed it on site.
    Drifted,
    /// The reconciler failed.
    Failed,
    /// Under way.
    InProgress,
}

/// What a hub answers: it has every report of `site` in `epoch` up to and including `number`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ack {
    /// The fleet's id.
    pub fleet: Name,
    /// The site.
    pub site: Name,
    /// The epoch.
    pub epoch: Name,
    /// Highest number up to which nothing is missing; 0 when number 1 is missing.
    #[serde(deserialize_with = "number::one")]
    pub number: u64,
    /// The digest of that report's payload as the hub has it. Absent when the number is 0 or was declared
    /// lost. A site that has another report of this number was restored from an older copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The hub's clock, milliseconds since 1970: a site trusts it only within a slack.
    pub hub_time_ms: i64,
}

/// What a new site's agent sends to be enrolled, signed with the key that it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolmentRequest {
    /// The fleet's id.
    pub fleet: Name,
    /// The site.
    pub site: Name,
    /// Its stream.
    pub stream: Stream,
    /// The site's public key, SPKI PEM.
    pub public_key: String,
    /// The public key that the site's kit stands for, 64 hexadecimal digits: its private half is derived
    /// from the kit's token and has signed this request as well, so that the token itself never
    /// travels. Empty when a registered site asks for a new key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kit: String,
    /// The public key that values and bundles are sealed for (`age1…`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seal_key: String,
    /// The number of the order by which a registered site asks for a new key. Its old key has then
    /// signed as well.
    #[serde(
        default,
        deserialize_with = "number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub order: Option<u64>,
}

impl Report {
    /// The bytes that are signed and shipped.
    pub fn to_bytes(&self) -> Vec<u8> {
        let value = serde_json::to_value(self).unwrap_or(serde_json::Value::Null);
        value.to_string().into_bytes()
    }

    /// A report from the verified payload of an envelope.
    ///
    /// # Errors
    /// A sentence that states what is wrong with the payload.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReportError> {
        if bytes.len() > MAX_REPORT_BYTES {
            return Err(ReportError::TooLarge { bytes: bytes.len() });
        }
        let report: Self =
            serde_json::from_slice(bytes).map_err(|error| ReportError::Malformed { error })?;
        if report.format != FORMAT {
            return Err(ReportError::UnknownFormat {
                found: report.format,
            });
        }
        let chained = report.number > 1;
        if report.number == 0 || chained != report.previous.is_some() {
            return Err(ReportError::Unchained {
                number: report.number,
            });
        }
        Ok(report)
    }
}

/// Why bytes are not a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Not JSON of the right shape.
    #[error("not a report: {error}")]
    Malformed {
        /// The error of the parser.
        error: serde_json::Error,
    },
    /// Larger than [`MAX_REPORT_BYTES`].
    #[error("a report of {bytes} bytes, the limit is {MAX_REPORT_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Number 0, or the digest of the report before is missing or superfluous.
    #[error("report {number} does not fit its chain")]
    Unchained {
        /// Its number.
        number: u64,
    },
    /// Another format.
    #[error("a report of format `{found}`, this program reads `{FORMAT}`")]
    UnknownFormat {
        /// The format found.
        found: String,
    },
}
