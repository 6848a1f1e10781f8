//! After a bundle was applied, this site's health has to be good for a while before the bundle counts as confirmed.
//!
//! What comes in: the bundle, `[health]` in `agent.toml`, the clocks. What goes out: until when it is looked at, counted
//! over power cuts and only while somebody looked; and what a program or URL that counts as health says against it. What follows is the machine's business.

use jiff::Timestamp;
use outhaul_reconcilers::shortened;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::soak::Soak;
use crate::state::{self, StateError, key};
use outhaul_asking::Answered;

/// Begins what speaks against this site's health.
pub const UNWELL: &str = "this site is not well";

/// Counts this look on, and returns until when bundle `number` is still looked at; `None` when it was long enough.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn until(agent: &mut Agent, number: u64) -> Result<Option<Timestamp>, AgentError> {
    let seconds = agent.config.health.soak_s;
    if seconds == 0 {
        return Ok(None);
    }
    let reading = agent.clock_reading()?;
    let stored: Option<Soak> = state::meta(agent.store.read(), key::SOAK)?;
    let known = stored.filter(|soak| soak.number == number);
    // A machine that cannot distinguish one boot from another cannot count: one look has to do.
    let begun = || Soak::begin(number, &reading);
    let Some(mut soak) = known.or_else(begun) else {
        return Ok(None);
    };
    soak.look(&reading);
    agent
        .commit(|db, _| state::set_meta(db, key::SOAK, Some(&soak)))
        .map_err(|error: StateError| AgentError::from(error))?;
    Ok(soak.until(seconds, &reading))
}

/// What speaks against this site's health, in a sentence.
pub(super) fn unwell(agent: &Agent) -> Option<String> {
    agent.config.health.ask.iter().find_map(|one| {
        agent.heartbeat.beat();
        let answered =
            agent
                .facilities
                .ask(one, &agent.config, &agent.state_folder, &agent.heartbeat);
        let said = match answered {
            Answered::Yes => return None,
            Answered::No(said) => said.lines().next().unwrap_or_default().to_owned(),
            Answered::Absent(problem) | Answered::Silent(problem) => problem,
        };
        let said = outhaul_kit::text::printable(&shortened(&said)).into_owned();
        Some(format!("{UNWELL}: `{}`: {said}", one.name))
    })
}
