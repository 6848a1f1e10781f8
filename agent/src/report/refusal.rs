//! A hub that takes nothing of this site: which rule refuses it, since when, and what to do.
//!
//! What comes in: the lines that a hub refused. What goes out: a [`HubRefusal`] in the memory, for `status`, the log and
//! the exit code, until the hub takes a report again. Nothing leaves the queue for it: a hub's word that is not signed
//! is believed for a message, and for nothing else.

use outhaul_bundle::hub_api::RefusedLine;
use outhaul_reconcilers::shortened;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::{self, key};

/// Rules by which a hub refuses a site and not one report of it.
const OF_THE_SITE: [&str; 6] = [
    "revoked",
    "unknown-site",
    "retired-key",
    "epoch-key",
    "signature",
    "fleet",
];

/// Why a hub takes nothing of this site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubRefusal {
    /// The hub's rule: `revoked`, `unknown-site`, `retired-key`, `epoch-key`, `signature`, `fleet`.
    pub rule: String,
    /// In the hub's words.
    pub reason: String,
    /// The hub's address.
    pub url: String,
    /// When it was refused first, milliseconds since 1970 by the site's clock.
    pub since_ms: i64,
    /// When it was refused last.
    pub at_ms: i64,
    /// How often in a row.
    pub times: u64,
}

impl HubRefusal {
    /// One sentence for people.
    pub fn sentence(&self) -> String {
        format!(
            "the hub {} takes no report of this site ({}): {}; every report stays in the queue",
            self.url, self.rule, self.reason
        )
    }

    /// What to do next.
    pub fn help(&self) -> String {
        match self.rule.as_str() {
            "revoked" => "ask whoever runs the hub why this site was revoked; a new kit (`outhaul site enrol` at the \
                          centre, `outhaul-agent enrol` here) is the way back",
            "unknown-site" => "bring the enrolment request to the hub (`outhaul-agent export FOLDER`), where \
                               `outhaul-hub site add` takes it",
            "retired-key" | "epoch-key" | "signature" => {
                "the hub has another key under this site's name: ask whoever runs it which machine has it \
                 (`outhaul-hub sites`); if that machine replaced this one, take this one out of service, else enrol it \
                 again with a new kit"
            }
            _ => "this site is of another fleet than its hub: compare `hub.url` in agent.toml with the kit",
        }
        .to_owned()
    }

    /// As an error of the command or the round.
    pub fn error(&self) -> AgentError {
        AgentError::Failed {
            message: self.sentence(),
            help: self.help(),
        }
    }
}

/// The refusal that holds now.
///
/// # Errors
/// [`AgentError`] of the memory.
pub fn present(agent: &Agent) -> Result<Option<HubRefusal>, AgentError> {
    Ok(state::meta(agent.store.read(), key::HUB_REFUSAL)?)
}

/// Remembers what a hub at `url` answered to reports: that it refuses this site, or that it does not.
///
/// # Errors
/// [`AgentError`] of the memory.
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
