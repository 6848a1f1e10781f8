//! Whether the service that runs follows other settings than `agent.toml` has now.
//!
//! What comes in: the agent, and the target that the service still writes to where that is another one. What goes out: one thing to look after, or
//! nothing. What `status` says of settings is by the file as it is now, except for that target: what the service wrote there is in use. The
//! service goes on with what it read when it started. It changes nothing.

use crate::agent::Agent;
use crate::attention::{Attention, AttentionKind};
use crate::config;
use crate::error::AgentError;
use crate::runner::former_targets::StillFollowed;
use crate::runner::lost_settings;

/// What else a person should do something about, and this.
pub(super) fn beside(
    mut others: Vec<Attention>,
    agent: &Agent,
    followed: Option<&StillFollowed>,
) -> Result<Vec<Attention>, AgentError> {
    let target = followed.and_then(|target| target.setting.as_deref());
    match lost_settings::attention(&agent.state_folder, agent.store.read(), target)? {
        Some(lost) => others.insert(0, lost),
        None => others.extend(not_followed_yet(agent, followed)),
    }
    Ok(others)
}

/// That `agent.toml` was changed after the service read it.
fn not_followed_yet(agent: &Agent, followed: Option<&StillFollowed>) -> Option<Attention> {
    let read = agent.state_folder.service_settings()?;
    if config::mark(&agent.state_folder.config()).as_ref() == Some(&read) {
        return None;
    }
    let goes_on = "agent.toml was changed after the service started: the service goes on with what it read then";
    let restart = "`systemctl restart outhaul-agent`";
    let (message, help) = match followed {
        // The page that the service writes.
        None if agent.has_lock() => (
            format!("{goes_on}, and what stands here is by that"),
            format!("{restart} has the service follow it"),
        ),
        None => (
            format!("{goes_on}, and what stands here is by the file as it is now"),
            format!("{restart} has the service follow it"),
        ),
        Some(target) => (
            format!(
                "{goes_on}: {}; what stands here of files is by the former, and of other settings by the file as it is now",
                target.sentence()
            ),
            target.help(),
        ),
    };
    Some(Attention::of_site(AttentionKind::Settings, message, help))
}
