//! Requests that wait, as a person sees them before approving one.
//!
//! What comes in: what the store keeps, and the registered sites. What goes out: rows with the fingerprint
//! of the key, the kit, where it came from, and what it contradicts. It decides nothing.

use outhaul_bundle::report::EnrolmentRequest;
use outhaul_signer::Envelope;
use serde::Serialize;

use outhaul_gate::time;
use outhaul_store::{PendingRequest, SiteState};

/// One request that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct RequestRow {
    /// The site that it names.
    pub site: String,
    /// The environment that it names.
    pub environment: String,
    /// The cluster type that it names.
    pub cluster_type: String,
    /// The fingerprint of its key: to be compared with what the machine shows.
    pub fingerprint: String,
    /// The id of the kit that it proves; empty for a new key by order.
    pub kit: String,
    /// What would be sealed for it (`age1…`).
    pub seal_key: String,
    /// `file`, or the address that sent it.
    pub origin: String,
    /// When the hub received it, RFC 3339.
    pub received_at: String,
    /// What it contradicts: another request for the same site, or the registered key.
    pub conflict: Option<String>,
}

/// A row for each request.
pub fn rows(pending: &[PendingRequest], sites: &[SiteState]) -> Vec<RequestRow> {
    let row = |request: &PendingRequest| {
        let asked: Option<EnrolmentRequest> = Envelope::from_json(&request.envelope)
            .ok()
            .and_then(|envelope| serde_json::from_slice(envelope.unverified_payload()).ok());
        let stream = asked.as_ref().map(|asked| &asked.stream);
        let by_order = asked.as_ref().is_some_and(|asked| asked.order.is_some());
        RequestRow {
            site: request.site.clone(),
            environment: stream.map_or_else(String::new, |s| s.environment.to_string()),
            cluster_type: stream.map_or_else(String::new, |s| s.cluster_type.to_string()),
            fingerprint: request.key_id.clone(),
            kit: request.kit.clone(),
            seal_key: asked
                .as_ref()
                .map_or_else(String::new, |asked| asked.seal_key.clone()),
            origin: if request.peer.is_empty() {
                request.lane.clone()
            } else {
                request.peer.clone()
            },
            received_at: time::rfc3339(request.received_ms),
            conflict: conflict(request, pending, sites, by_order),
        }
    };
    pending.iter().map(row).collect()
}

fn conflict(
    request: &PendingRequest,
    pending: &[PendingRequest],
    sites: &[SiteState],
    by_order: bool,
) -> Option<String> {
    let others: Vec<_> = pending
        .iter()
        .filter(|other| other.site == request.site && other.key_id != request.key_id)
        .map(|other| format!("{:.16}", other.key_id))
        .collect();
    let registered = sites
        .iter()
        .find(|site| site.site == request.site && !by_order)
        .map(|site| {
            let revoked = if site.revoked_ms.is_some() {
                " and revoked"
            } else {
                ""
            };
            format!(
                "the site is registered with key {:.16}{revoked}",
                site.key_id
            )
        });
    let waiting = match others.len() {
        0 => None,
        _ => Some(format!("also requested for key {}", others.join(", "))),
    };
    match (registered, waiting) {
        (Some(one), Some(other)) => Some(format!("{one}; {other}")),
        (one, other) => one.or(other),
    }
}
