//! Whether the service that runs follows other settings than `agent.toml` has now.
//!
//! What comes in: the state folder. What goes out: one thing to look after, or nothing. What `status` says of settings is by the file as it is
//! now; the service goes on with what it read when it started. It changes nothing.

use crate::attention::{Attention, AttentionKind};
use crate::config;
use crate::state_folder::StateFolder;

/// What else a person should do something about, and this.
pub(super) fn beside(mut others: Vec<Attention>, state_folder: &StateFolder) -> Vec<Attention> {
    others.extend(not_followed_yet(state_folder));
    others
}

/// That `agent.toml` was changed after the service read it.
fn not_followed_yet(state_folder: &StateFolder) -> Option<Attention> {
    let read = state_folder.service_settings()?;
    (config::mark(&state_folder.config()).as_ref() != Some(&read)).then(|| {
        Attention::of_site(
            AttentionKind::Settings,
            "agent.toml was changed after the service started: the service goes on with what it read then, and what stands here is by the file \
             as it is now"
                .to_owned(),
            "`systemctl restart outhaul-agent` has the service follow it".to_owned(),
        )
    })
}
