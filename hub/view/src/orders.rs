//! Orders and slips of a site, in the words that people read.
//!
//! What comes in: what the store knows of an order or a slip. What goes out: flat rows for the page and
//! the API. A revoked site's reports are refused, so that nothing can be known of its revocation.

use outhaul_bundle::Instruction;
use serde::Serialize;

use outhaul_gate::time;
use outhaul_store::{AcceptedSlip, SiteOrder};

/// One order of a site's present enrolment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct OrderRow {
    /// Its number.
    pub number: u64,
    /// `approve`, `move`, `rekey` or `revoke`.
    pub kind: String,
    /// The same with what belongs to it.
    pub what: String,
    /// When the first bundle with it was signed, RFC 3339.
    pub ordered_at: Option<String>,
    /// The stream of that bundle.
    pub stream: Option<String>,
    /// The number of that bundle.
    pub bundle: Option<u64>,
    /// `pending` until the site reported about it; `done`; `refused`, which is for good; `revoked`;
    /// `void` when the site was enrolled again.
    pub status: &'static str,
    /// When the hub received the report of it, RFC 3339.
    pub told_at: Option<String>,
    /// When that was by the site's clock, RFC 3339.
    pub site_time: Option<String>,
    /// What the site said.
    pub message: String,
}

/// The last freshness slip that a site took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SlipRow {
    /// The signed time that it brought, RFC 3339.
    pub brought_time: String,
    /// The newest bundle number that it names.
    pub bundle: u64,
    /// Its file's name, or the name of a typed one.
    pub source: String,
    /// When the hub received the report of it, RFC 3339.
    pub told_at: String,
}

impl From<&SiteOrder> for OrderRow {
    fn from(order: &SiteOrder) -> Self {
        let carrier = order.carrier.as_ref();
        let reported = order.reported.as_ref();
        let (status, message) = match reported {
            Some(reported) if reported.done => ("done", reported.message.clone()),
            Some(reported) => ("refused", reported.message.clone()),
            None if order.what == Instruction::Revoke => (
                "revoked",
                "this hub accepts no more reports of the site".to_owned(),
            ),
            None if order.is_void => (
                "void",
                "the site was enrolled again; this was for its earlier enrolment".to_owned(),
            ),
            None => ("pending", String::new()),
        };
        let kind = order.what.as_str();
        let what = match &order.what {
            Instruction::Approve { key } => format!("{kind} key {:.12}", key.hex()),
            Instruction::Move { to, first } => format!(
                "{kind} to {}/{} from bundle {first} on",
                to.environment, to.cluster_type
            ),
            _ => kind.to_owned(),
        };
        Self {
            number: order.number,
            kind: kind.to_owned(),
            what,
            ordered_at: carrier.map(|c| time::rfc3339(c.signed_ms)),
            stream: carrier.map(|c| format!("{}/{}", c.environment, c.cluster_type)),
            bundle: carrier.map(|c| c.bundle),
            status,
            told_at: reported.map(|reported| time::rfc3339(reported.received_ms)),
            site_time: reported.map(|reported| time::rfc3339(reported.wall_ms)),
            message,
        }
    }
}

impl From<&AcceptedSlip> for SlipRow {
    fn from(slip: &AcceptedSlip) -> Self {
        Self {
            brought_time: time::rfc3339(slip.issued_ms),
            bundle: slip.bundle,
            source: slip.source.clone(),
            told_at: time::rfc3339(slip.received_ms),
        }
    }
}
