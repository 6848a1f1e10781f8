//! What a hub sends to a webhook: the alerts of a while, as one message.
//!
//! What comes in: the hub's alerts. What goes out: the same as JSON, of [`ALERT_FORMAT`]. Times are RFC 3339 texts. A reader
//! must expect kinds and statuses that it does not know, and the same message twice: `id` is equal then.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The format of an [`AlertMessage`].
pub const ALERT_FORMAT: &str = "outhaul.dev/alert/v1";
/// The header with the signature of the body: `sha256=` and the HMAC-SHA256 in hexadecimal digits.
pub const ALERT_SIGNATURE: &str = "Outhaul-Signature";

/// Alerts of a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertMessage {
    /// [`ALERT_FORMAT`].
    pub format: String,
    /// The same for the same alerts to the same destination, however often they are sent.
    pub id: String,
    /// The fleet's id.
    pub fleet: String,
    /// The oldest first; at most [`AlertMessage::SHOWN`].
    pub alerts: Vec<AlertEntry>,
    /// How many more there are, by kind and status, such as `site stale`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<String, u64>,
}

impl AlertMessage {
    /// Most alerts that one message lists; the others are counted.
    pub const SHOWN: usize = 100;
}

/// One alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertEntry {
    /// Its number at the hub.
    pub number: u64,
    /// When the hub saw it.
    pub at: String,
    /// `site`, `gate`, `refusal`, `request`, `act` or `hub`.
    pub kind: String,
    /// The site, the gate's environment, the rule that refused, or who decided.
    pub subject: String,
    /// The environment, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// `bad`, `good` or `note`.
    pub severity: String,
    /// What it was before; empty where it is new.
    pub was: String,
    /// What it is now, such as `failed`, `stale`, `ok`, `open`.
    pub status: String,
    /// A sentence for people. It may quote what a site reports.
    pub message: String,
}
