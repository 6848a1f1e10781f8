//! Sites on which no agent runs: reports that a hub makes of the webhooks of Flux and Argo CD.
//!
//! What comes in: a registration; requests that claim to be events of its cluster. What goes out: reports of the site, signed with a key
//! that the hub derives and marked as made of webhooks, on record like any other. Nothing of a body is read before its secret is
//! checked, an event counts once, and an object that the site was not registered with changes nothing. It decides no gate.

use jiff::Timestamp;
use outhaul_kit::format_count::format_count;
use outhaul_store::{Session, StoreError, WebhookSite};

mod argocd;
mod cluster;
mod compare;
mod contents;
mod desired;
mod event;
mod flux;
mod folder;
mod parse;
mod proof;
mod receive;
mod record;
mod records;
mod register;
mod seen;
mod settings;
mod shown;

use event::shortened;

pub use argocd::FORMAT as ARGOCD_FORMAT;
pub use event::{SITE_KEY, WebhookEvent};
pub use parse::parse;
pub use proof::{Claim, is_proven, proof_header};
pub use receive::{Received, WebhookError, receive};
pub use records::{Records, Webhooks};
pub use register::{RegisterError, Registrar, register};
pub use settings::{FollowedObject, WebhookSettings};
pub use shown::{CheckedEvent, Shown, WebhookRefusal, check};

/// How the names of rules begin that refuse an event.
pub const RULES: &str = "webhook-";

/// What a site was registered with, and what it showed last.
///
/// # Errors
/// What of the registration cannot be read.
pub fn read(site: &WebhookSite) -> Result<(WebhookSettings, Shown), String> {
    receive::read(site)
}

/// Whether a site was registered with an object. A registration that cannot be read has none.
pub fn is_registered(site: &WebhookSite, object: &str) -> bool {
    let settings: Result<WebhookSettings, _> = serde_json::from_str(&site.settings);
    settings.is_ok_and(|settings| settings.objects.iter().any(|one| one.name == object))
}

/// What of the events of a site without an agent changes nothing: those of objects that it was not registered with, such as where these
/// are misspelt, and those that were refused, by rule.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn not_taken(session: &Session<'_>, site: &WebhookSite) -> Result<Vec<String>, StoreError> {
    let name = &site.site;
    let mut lines = Vec::new();
    match read(site) {
        Ok((_, shown)) => {
            let (count, names) = shown.foreign();
            if count > 0 {
                let (events, names) = (counted(count), names.join(", "));
                lines.push(format!(
                    "{name}: {events} about objects that it was not registered with: {names}"
                ));
            }
        }
        Err(problem) => lines.push(format!(
            "{name}: its registration by webhook cannot be read: {problem}"
        )),
    }
    for refused in session.refusals_of(name)? {
        if !refused.rule.starts_with(RULES) {
            continue;
        }
        let (events, last) = (counted(refused.times), moment(refused.at_ms));
        let were = if refused.times == 1 { "was" } else { "were" };
        lines.push(format!(
            "{name}: at least {events} {were} refused by `{}`; the last at {last}: {}",
            refused.rule,
            shortened(&refused.message)
        ));
    }
    Ok(lines)
}

fn moment(at_ms: i64) -> String {
    Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |at| at.to_string())
}

fn counted(count: u64) -> String {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    format_count(count, "webhook event", "webhook events")
}
