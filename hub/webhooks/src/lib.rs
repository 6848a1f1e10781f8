//! Sites on which no agent runs: reports that a hub makes of the webhooks of Flux and Argo CD.
//!
//! What comes in: a registration; requests that claim to be events of its cluster. What goes out: reports of the site, signed with a key
//! that the hub derives and marked as made of webhooks, on record like any other. Nothing of a body is read before its secret is
//! checked, an event counts once, and an object that the site was not registered with changes nothing. It decides no gate.

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

pub use argocd::FORMAT as ARGOCD_FORMAT;
pub use event::{SITE_KEY, WebhookEvent};
pub use parse::parse;
pub use proof::{Claim, SIGNATURE_HEADER, is_proven, proof_header};
pub use receive::{Received, WebhookError, needed, receive};
pub use record::{KnownRecord, fetch};
pub use records::{Records, Webhooks};
pub use register::{RegisterError, Registrar, register};
pub use settings::{FollowedObject, MAX_OBJECTS, WebhookSettings};
pub use shown::{Shown, WebhookRefusal, check};

/// What a site was registered with, and what it showed last.
///
/// # Errors
/// What of the registration cannot be read.
pub fn read(site: &outhaul_store::WebhookSite) -> Result<(WebhookSettings, Shown), String> {
    receive::read(site)
}

/// What events of a site without an agent were about that it was not registered with, such as where its objects are misspelt.
pub fn foreign(site: &outhaul_store::WebhookSite) -> Option<String> {
    let name = &site.site;
    match read(site) {
        Ok((_, shown)) => {
            let (count, names) = shown.foreign();
            let names = names.join(", ");
            (count > 0).then(|| format!("{name}: {count} webhook events about objects that it was not registered with: {names}"))
        }
        Err(problem) => Some(format!(
            "{name}: its registration by webhook cannot be read: {problem}"
        )),
    }
}
