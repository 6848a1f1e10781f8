//! After a bundle was applied, this site's health has to be good for a while before the bundle counts as confirmed.
//!
//! What comes in: the bundle, `[health]` in `agent.toml`, the clocks. What goes out: until when it is looked at, counted
//! over power cuts; and what a program or URL that counts as health says against it. What follows is the machine's business.

use jiff::{SignedDuration, Timestamp};
use outhaul_reconcilers::shortened;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::holds::Deadline;
use crate::state::{self, StateError, key};
use outhaul_asking::Answered;

/// A bundle whose health is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Soak {
    number: u64,
    end: Deadline,
}

/// Counts on, and tells until when bundle `number` is still looked at; `None` when that is over.
///
/// # Errors
/// [`AgentError`] of the memory.
pub(super) fn until(agent: &mut Agent, number: u64) -> Result<Option<Timestamp>, AgentError> {
    let seconds = agent.config.health.soak_s;
    if seconds == 0 {
        return Ok(None);
    }
    let reading = agent.clock_reading()?;
    let stored: Option<Soak> = state::meta(agent.store.read(), key::SOAK)?;
    let known = stored.filter(|soak| soak.number == number);
    let soak = match known {
        Some(soak) => Some(soak),
        None => Deadline::new(&reading, SignedDuration::from_secs(i64::from(seconds)))
            .map(|end| Soak { number, end }),
    };
    // A machine that does not tell one boot from another cannot count: one look has to do.
    let Some(mut soak) = soak else {
        return Ok(None);
    };
    let over = soak.end.has_passed(&reading);
    agent
        .commit(|db, _| state::set_meta(db, key::SOAK, Some(&soak)))
        .map_err(|error: StateError| AgentError::from(error))?;
    Ok((!over).then_some(soak.end.at))
}

/// What speaks against this site's health, in a sentence.
pub(super) fn unwell(agent: &Agent) -> Option<String> {
    agent.config.health.ask.iter().find_map(|one| {
        agent.heartbeat.beat();
        let answered = agent
            .facilities
            .ask(one, &agent.state_folder, &agent.heartbeat);
        let said = match answered {
            Answered::Yes => return None,
            Answered::No(said) => said.lines().next().unwrap_or_default().to_owned(),
            Answered::Absent(problem) | Answered::Silent(problem) => problem,
        };
        let said = outhaul_kit::text::printable(&shortened(&said)).into_owned();
        Some(format!("this site is not well: `{}`: {said}", one.name))
    })
}
