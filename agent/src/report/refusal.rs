//! A hub that takes nothing of this site: which rule refuses it, since when, and what to do.
//!
//! What comes in: the lines that a hub refused. What goes out: a [`HubRefusal`] in the memory, for `status`, the log and
//! the exit code, until the hub takes a report again. Nothing leaves the queue for it: a hub's word that is not signed
//! is trusted for a message, and for nothing else.

use outhaul_bundle::hub_api::RefusedLine;
use outhaul_reconcilers::shortened;
use outhaul_site::state::refusal::{HubRefusal, OF_THE_SITE};

use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::{self, key};

/// The refusal as an error of the command or the round.
pub fn error(refusal: &HubRefusal) -> AgentError {
    AgentError::Failed {
        message: refusal.sentence(),
        help: refusal.help(),
    }
}

/// The refusal that holds now.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn present(agent: &Agent) -> Result<Option<HubRefusal>, AgentError> {
    Ok(state::meta(agent.store.read(), key::HUB_REFUSAL)?)
}

/// Remembers what a hub at `url` answered to reports: that it refuses this site, or that it does not.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn note(
    agent: &mut Agent,
    url: &str,
    refused: &[RefusedLine],
) -> Result<Option<HubRefusal>, AgentError> {
    let own = agent.site.name.clone();
    let line = refused.iter().find(|line| {
        OF_THE_SITE.contains(&line.rule.as_ref())
            && line.site.as_deref().is_none_or(|site| site == own.as_str())
    });
    let before = present(agent)?;
    if line.is_none() && before.is_none() {
        return Ok(None);
    }
    agent.commit(|db, author| {
        let at_ms = author.reading.wall_ms();
        let now = line.map(|line| {
            let same = before.as_ref().filter(|before| before.rule == line.rule);
            HubRefusal {
                rule: line.rule.to_string(),
                reason: shortened(&line.reason),
                url: url.to_owned(),
                since_ms: same.map_or(at_ms, |before| before.since_ms),
                at_ms,
                times: same.map_or(0, |before| before.times).saturating_add(1),
            }
        });
        state::set_meta(db, key::HUB_REFUSAL, now.as_ref())?;
        Ok::<_, AgentError>(now)
    })
}
