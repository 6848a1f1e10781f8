//! Webhooks: what a hub answers to an event of Flux or Argo CD about a site on which no agent runs.
//!
//! What comes in: nothing; the bodies that are sent are Flux's and Argo CD's own. What goes out: what became of one. It decides nothing.

use serde::{Deserialize, Serialize};

/// Largest body of a webhook, in bytes: Flux's longest message with each character escaped.
pub const MAX_WEBHOOK_BYTES: usize = 256 * 1024;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WebhookOutcome {
    /// It is on record as a report of the site.
    Recorded,
    /// It is on record already, or older than what is: nothing changed.
    Known,
    /// It is about an object that the site was not registered with: named and counted, and of no effect.
    Foreign,
}

/// The answer to an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookAnswer {
    /// What became of it.
    pub result: WebhookOutcome,
    /// The object that it is about, `KIND/NAMESPACE/NAME`.
    pub object: String,
    /// How the cluster stands now, where that is on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
