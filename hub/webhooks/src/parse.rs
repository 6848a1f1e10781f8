//! The body of a webhook, read as what its sender writes.
//!
//! What comes in: who sends, and bytes whose proof holds. What goes out: one event, or why it is not one. Pure.

use outhaul_bundle::hub_api::MAX_WEBHOOK_BYTES;
use outhaul_bundle::report::WebhookSender;

use crate::event::WebhookEvent;
use crate::{argocd, flux};

/// Reads a body.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse(sender: WebhookSender, body: &[u8]) -> Result<WebhookEvent, String> {
    if body.len() > MAX_WEBHOOK_BYTES {
        return Err(format!("it has more than {MAX_WEBHOOK_BYTES} bytes"));
    }
    match sender {
        WebhookSender::Flux => flux::parse(body),
        WebhookSender::Argocd => argocd::parse(body),
    }
}
