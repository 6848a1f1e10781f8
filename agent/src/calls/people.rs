//! What people ordered, as a call: what was decided in, what came of it out.
//!
//! What comes in: an agent with the lock, and an order that is committed already. What goes out: the
//! [`CommandResult`] that the command prints, when the work has come to its end. The order stands whoever does the
//! work, and also when nobody waits for the answer. It decides nothing.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Call, CommandResult, Performer};
use crate::advice;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::intake::visit;
use crate::interrupted;
use crate::machine::{Site, State};
use crate::runner::{self, Rollback, held};
use crate::state::generations;

/// An order of a person that is committed, and not carried out yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordered {
    /// The active bundle, or the one under way, is applied again.
    Apply {
        /// Its number.
        number: u64,
    },
    /// A bundle that waits is applied.
    Approve {
        /// Its number.
        number: u64,
        /// Who let it through.
        who: String,
    },
    /// The bundle before is active again.
    Rollback(Rollback),
    /// The first bundle, on which work was unfinished, was given up.
    GiveUp {
        /// Its number.
        number: u64,
    },
}

impl Ordered {
    /// What was ordered, for the journal.
    pub fn sentence(&self) -> String {
        match self {
            Self::Apply { number } => format!("apply bundle {number}"),
            Self::Approve { number, who } => {
                format!("go on with bundle {number}, approved by {who}")
            }
            Self::Rollback(Rollback { from, to }) => {
                format!("roll back from bundle {from} to bundle {to}")
            }
            Self::GiveUp { number } => format!("tidy up after bundle {number}, which was given up"),
        }
    }
}

/// Has an order carried out, here or by the process that has the lock, and waits for what comes of it.
///
/// # Errors
/// [`AgentError`] of the state folder.
pub fn outcome(
    state: &Path,
    here: Option<Agent>,
    ordered: Ordered,
) -> Result<CommandResult, AgentError> {
    if let Some(mut agent) = here {
        interrupted::stops(&agent.heartbeat);
        return Ok(carry_out(&mut agent, &ordered));
    }
    let call = Call::Ordered(ordered.clone());
    Ok(match super::perform_or_wait(state, &call)? {
        Performer::ThisProcess(mut agent) => {
            interrupted::stops(&agent.heartbeat);
            carry_out(&mut agent, &ordered)
        }
        Performer::OtherProcess(answer) => answer,
    })
}

/// Carries an order out as far as it goes.
pub fn carry_out(agent: &mut Agent, ordered: &Ordered) -> CommandResult {
    let mut answer = CommandResult::default();
    if let Err(error) = visit::close_interrupted(agent) {
        answer.fail(&error.into());
        return answer;
    }
    let done = match ordered {
        Ordered::Apply { number } => applied(agent, *number, &mut answer),
        Ordered::Approve { number, who } => approved(agent, *number, who, &mut answer),
        Ordered::Rollback(rollback) => rolled_back(agent, *rollback, &mut answer),
        Ordered::GiveUp { number } => given_up(agent, *number, &mut answer),
    };
    if let Err(error) = done {
        answer.fail(&error);
    }
    answer
}

fn applied(agent: &mut Agent, number: u64, answer: &mut CommandResult) -> Result<(), AgentError> {
    let before = runner::site_now(agent.store.read())?;
    let waiting = before.waiting.map(|waiting| waiting.number);
    let waited = waiting.or(before.candidate());
    let site = runner::drive(agent)?;
    if let Some(waited) = waited.filter(|waited| *waited != number) {
        does_run(agent, &site, waited)?;
    }
    let note = runner::note_of(agent.store.read(), number)?;
    let row = generations::one(agent.store.read(), number)?;
    let replaced = row.is_none_or(|row| row.state == State::Superseded);
    let newer = site.active.filter(|active| replaced && !active.broken);
    if let Some(newer) = newer.filter(|newer| newer.number > number) {
        answer.text = format!(
            "bundle {} is active: it waited, and was applied after bundle {number}",
            newer.number
        );
        answer.value = json!({ "active": newer.number, "message": "" });
        return Ok(());
    }
    if let Some(candidate) = site.candidate().filter(|_| site.watched) {
        let note = runner::note_of(agent.store.read(), candidate)?;
        answer.text = format!("bundle {candidate} is applied: {note}");
        answer.value = json!({ "soaking": candidate, "message": note });
        return Ok(());
    }
    if site.waiting.is_some_and(|waits| waits.number == number) {
        return Err(AgentError::Failed {
            message: format!("bundle {number} waits, and is not applied yet: {note}"),
            help: let_through(agent, number)?,
        });
    }
    if !runs(&site, number) {
        return Err(AgentError::Failed {
            message: format!(
                "{note}; now {}",
                advice::what_runs(&site, runner::has_begun(agent, &site)?)
            ),
            help: advice::repair(&site).unwrap_or_else(|| {
                format!(
                    "fix that, run `outhaul-agent approve {number}` and import it again, or \
                     import a newer bundle"
                )
            }),
        });
    }
    let more = if note.is_empty() { "" } else { ": " };
    answer.text = format!("bundle {number} is applied and active{more}{note}");
    answer.value = json!({ "active": number, "message": note });
    if let Some(waits) = site.candidate().filter(|waits| *waits != number) {
        let why = runner::note_of(agent.store.read(), waits)?;
        answer.text = format!("{}; bundle {waits} waits: {why}", answer.text);
        answer.value["waiting"] = json!({ "number": waits, "message": why });
    }
    Ok(())
}

/// That a bundle which waited did not fail when it was its turn: the bundle before runs again then, which is not what waited.
fn does_run(agent: &Agent, site: &Site, waited: u64) -> Result<(), AgentError> {
    let row = generations::one(agent.store.read(), waited)?;
    let state = site.state_of(waited).or(row.map(|row| row.state));
    if !matches!(state, Some(State::Failed | State::Reverted)) {
        return Ok(());
    }
    let note = runner::note_of(agent.store.read(), waited)?;
    let why = match note.as_str() {
        "" => state.map_or("", State::shown),
        note => note,
    };
    Err(AgentError::Failed {
        message: format!(
            "bundle {waited} waited, was applied, and does not run: {why}; now {}",
            advice::what_runs(site, runner::has_begun(agent, site)?)
        ),
        help: advice::repair(site).unwrap_or_else(|| {
            format!(
                "fix that, run `outhaul-agent approve {waited}` and import it again, or import a newer bundle"
            )
        }),
    })
}

fn approved(
    agent: &mut Agent,
    number: u64,
    who: &str,
    answer: &mut CommandResult,
) -> Result<(), AgentError> {
    let site = runner::drive(agent)?;
    let row = generations::one(agent.store.read(), number)?;
    let state = site.state_of(number).or(row.map(|row| row.state));
    let word = state.map_or("not active", State::as_str);
    let note = runner::note_of(agent.store.read(), number)?;
    let still = match state {
        Some(State::Gated | State::Soaking) if !note.is_empty() => format!(": {note}"),
        // What went with it, and what that left behind.
        Some(State::Active) if !note.is_empty() => format!("; {note}"),
        _ => String::new(),
    };
    answer.text = format!("bundle {number} is approved by {who}: {word}{still}");
    answer.value = json!({ "number": number, "who": who, "state": word });
    if site.hold && state == Some(State::Gated) {
        let released = "help: `outhaul-agent hold --release` ends the hold; then the service applies it, or `outhaul-agent apply`";
        answer.messages.push(released.to_owned());
    }
    if state == Some(State::Gated) && !held::lacking(agent)?.is_empty() {
        answer
            .messages
            .push(format!("help: {}", let_through(agent, number)?));
    }
    if matches!(state, Some(State::Failed | State::Reverted)) {
        let why = if note.is_empty() { word } else { &note };
        answer.fail(&AgentError::Failed {
            message: format!(
                "bundle {number} does not run: {why}; now {}",
                advice::what_runs(&site, runner::has_begun(agent, &site)?)
            ),
            help: advice::repair(&site)
                .unwrap_or_else(|| "`outhaul-agent status` shows each assignment".into()),
        });
    }
    Ok(())
}

fn rolled_back(
    agent: &mut Agent,
    ordered: Rollback,
    answer: &mut CommandResult,
) -> Result<(), AgentError> {
    let site = runner::drive(agent)?;
    if !runs(&site, ordered.to) {
        let note = runner::note_of(agent.store.read(), ordered.from)?;
        return Err(AgentError::Failed {
            message: format!(
                "{note}; now {}",
                advice::what_runs(&site, runner::has_begun(agent, &site)?)
            ),
            help: advice::repair(&site).unwrap_or_else(|| {
                "no other action needed; `rollback` may be tried again when that is fixed".into()
            }),
        });
    }
    answer.text = format!("bundle {} is active again", ordered.to);
    answer.value = json!({ "active": ordered.to });
    Ok(())
}

fn given_up(agent: &mut Agent, number: u64, answer: &mut CommandResult) -> Result<(), AgentError> {
    let site = runner::drive(agent)?;
    answer.text = format!(
        "bundle {number} is given up; {}; `outhaul-agent status` lists what of it is on this host, and `outhaul-agent \
         approve {number}` lets it be imported again",
        advice::what_runs(&site, runner::has_begun(agent, &site)?)
    );
    answer.value = json!({ "active": site.active.map(|active| active.number), "given_up": number });
    Ok(())
}

/// What to type so that a bundle that waits is applied.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn let_through(agent: &Agent, number: u64) -> Result<String, AgentError> {
    // No approval brings what a held assignment keeps.
    if let Some(lacking) = held::lacking(agent)?.first() {
        return Ok(format!(
            "{}; then `outhaul-agent apply` applies bundle {number} where nothing else holds it back, or the service does where it runs",
            lacking.help()
        ));
    }
    let first = match runner::site_now(agent.store.read())?.hold {
        true => "`outhaul-agent hold --release` ends the hold; then ",
        false => "",
    };
    Ok(format!(
        "{first}`outhaul-agent approve {number}` lets it through"
    ))
}

fn runs(site: &Site, number: u64) -> bool {
    site.active
        .is_some_and(|active| active.number == number && !active.broken)
}
