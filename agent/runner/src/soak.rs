//! After a bundle was applied, this site's health has to be good for a while before the bundle counts as confirmed.
//!
//! What comes in: the bundle, `[health]` in `agent.toml`, the clocks. What goes out: until when it is looked at, counted
//! over power cuts and only while someone looked; and what a program or URL that counts as health says against it, or that this machine cannot ask
//! it. What follows is the machine's business.

use jiff::Timestamp;
use outhaul_reconcilers::{ApplyError, shortened};

use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::soak::{Soak, patience_s};
use crate::state::{self, StateError, key};
use outhaul_asking::Answered;

/// Begins what speaks against this site's health.
pub const UNWELL: &str = "this site is not well";

/// Begins what is said where it cannot be asked: [`ApplyError::Health`] does.
pub const UNASKED: &str = "this site's health cannot be checked";

/// What was found of this site's health.
#[derive(Debug)]
pub(super) enum Health {
    /// Nothing speaks against it.
    Good,
    /// What speaks against it, in a sentence.
    Bad(String),
    /// It cannot be asked on this machine now, which says nothing of any bundle.
    Unasked(ApplyError),
}

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
    keep(agent, &soak)?;
    Ok(soak.until(seconds, &reading))
}

/// Counts this look on, at which health could not be asked, and returns for how many minutes that has been so where nobody waits for it any
/// more.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn in_vain(agent: &mut Agent, number: u64) -> Result<Option<u64>, AgentError> {
    let seconds = agent.config.health.soak_s;
    let reading = agent.clock_reading()?;
    let stored: Option<Soak> = state::meta(agent.store.read(), key::SOAK)?;
    let known = stored.filter(|soak| soak.number == number);
    // A machine that cannot count waits until a person decides.
    let Some(mut soak) = known.or_else(|| Soak::begin(number, &reading)) else {
        return Ok(None);
    };
    soak.look_in_vain(&reading);
    keep(agent, &soak)?;
    let minutes = soak.unasked_ms / 60_000;
    Ok(soak.is_given_up(seconds).then_some(minutes))
}

/// Why health cannot be asked, with until when that is waited for.
pub(super) fn patient(agent: &Agent, number: u64, lacks: ApplyError) -> ApplyError {
    let minutes = patience_s(agent.config.health.soak_s).div_ceil(60);
    match lacks {
        ApplyError::Health {
            name,
            problem,
            help,
        } => ApplyError::Health {
            name,
            problem: format!(
                "{problem}; bundle {number} is left if that lasts for {minutes} minutes"
            ),
            help,
        },
        other => other,
    }
}

fn keep(agent: &mut Agent, soak: &Soak) -> Result<(), AgentError> {
    agent
        .commit(|db, _| state::set_meta(db, key::SOAK, Some(soak)))
        .map_err(|error: StateError| AgentError::from(error))
}

/// What programs, URLs and objects say of this site's health. What one says against it counts, whatever cannot be asked beside it.
pub(super) fn health(agent: &Agent) -> Health {
    let mut unasked = None;
    for one in &agent.config.health.ask {
        agent.heartbeat.beat();
        let answered =
            agent
                .facilities
                .ask(one, &agent.config, &agent.state_folder, &agent.heartbeat);
        let said = match answered {
            Answered::Yes => continue,
            Answered::No(said) => said.lines().next().unwrap_or_default().to_owned(),
            Answered::Absent(problem) | Answered::Silent(problem) => problem,
            Answered::Unasked(mut lacks) => {
                lacks.problem = in_one_line(&lacks.problem);
                unasked.get_or_insert_with(|| outhaul_asking::cannot_ask(one, lacks));
                continue;
            }
        };
        return Health::Bad(format!("{UNWELL}: `{}`: {}", one.name, in_one_line(&said)));
    }
    unasked.map_or(Health::Good, Health::Unasked)
}

fn in_one_line(said: &str) -> String {
    outhaul_kit::text::printable(&shortened(said)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_where_health_cannot_be_asked_is_recognised() {
        let error = ApplyError::Health {
            name: "press".to_owned(),
            problem: "it is not there".to_owned(),
            help: String::new(),
        };
        assert!(error.to_string().starts_with(UNASKED), "{error}");
    }
}
