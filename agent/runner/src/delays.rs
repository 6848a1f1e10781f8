//! "Not now": who on this site asks for what waits to be applied later, looked up when it is to be applied.
//!
//! What comes in: the files, programs and URLs that `[delay]` in `agent.toml` names. What goes out: what stands of them, kept
//! in the memory, and a report of each that begins, passes or ends. What it means for a bundle is decided by
//! `machine::approval`. What cannot be asked delays as well, until its deadline; a URL at which nobody listens does not.

use jiff::SignedDuration;
use outhaul_bundle::report::ReportEvent;
use outhaul_reconcilers::shortened;
use outhaul_site::state::delays::{self, Delay, DelayChange, Delays, FoundDelay};
use serde::Deserialize;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::machine::approval::Delayed;
use crate::state::{self, StateError, key, outbox};
use outhaul_asking::Answered;
use outhaul_asking::settings::AtDeadline;

/// What a file or an answer may say as JSON.
#[derive(Debug, Deserialize)]
struct DelayRequest {
    reason: String,
    #[serde(default)]
    until: Option<String>,
}

/// Asks everything that may delay what waits, and keeps what was found.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn look(agent: &mut Agent) -> Result<(), AgentError> {
    let known: Delays = stored(agent)?;
    let asked = asked(agent);
    if known.is_empty() && asked.is_empty() {
        return Ok(());
    }
    let reading = agent.clock_reading()?;
    let longest = SignedDuration::from_hours(agent.config.delay.longest_h);
    let (now, changes) = delays::look(&known, &asked, &reading, longest);
    if changes.is_empty() && !delays::is_worth_storing(&known, &now) {
        return Ok(());
    }
    let reported: Vec<ReportEvent> = changes
        .into_iter()
        .map(|change| event(&change, &known, &now, agent.config.delay.at_deadline))
        .collect();
    agent
        .commit(|db, author| {
            state::set_meta(db, key::DELAYS, Some(&now).filter(|now| !now.is_empty()))?;
            for event in reported {
                outbox::queue(db, author, event)?;
            }
            Ok(())
        })
        .map_err(|error: StateError| error.into())
}

/// What stands, as it was last found.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn stored(agent: &Agent) -> Result<Delays, AgentError> {
    Ok(state::meta(agent.store.read(), key::DELAYS)?.unwrap_or_default())
}

/// What stands now, by what was found at the last look and the clocks of this moment.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn present(agent: &Agent) -> Result<Delays, AgentError> {
    Ok(delays::at_present(stored(agent)?, &agent.clock_reading()?))
}

/// Nothing waits any more: what delays the next bundle begins again.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn forget(agent: &mut Agent) -> Result<(), AgentError> {
    if stored(agent)?.is_empty() {
        return Ok(());
    }
    agent
        .commit(|db, _| state::set_meta::<Delays>(db, key::DELAYS, None))
        .map_err(|error: StateError| error.into())
}

/// What they come to.
pub(super) fn sum(agent: &Agent, delays: &Delays) -> Delayed {
    delays::sum(delays, agent.config.delay.at_deadline == AtDeadline::Go)
}

/// One sentence each, of those that still keep what waits from being applied.
pub(super) fn sentences(delays: &Delays, sum: Delayed) -> Vec<String> {
    let stands = |delay: &&Delay| sum == Delayed::Asks || !delay.passed;
    delays
        .iter()
        .filter(|(_, delay)| stands(delay))
        .map(|(who, delay)| delay.sentence(who))
        .collect()
}

fn asked(agent: &Agent) -> Vec<FoundDelay> {
    let config = &agent.config.delay;
    let mut all = Vec::new();
    if let Some(folder) = &config.folder {
        match agent.facilities.files(folder) {
            Ok(files) => all.extend(files.into_iter().map(|(who, text)| parsed(who, &text))),
            Err(error) => all.push(parsed("delay.folder".to_owned(), &error.to_string())),
        }
    }
    for one in &config.ask {
        agent.heartbeat.beat();
        let answered =
            agent
                .facilities
                .ask(one, &agent.config, &agent.state_folder, &agent.heartbeat);
        match answered {
            Answered::Yes => {}
            Answered::No(text) => all.push(parsed(one.name.clone(), &text)),
            Answered::Absent(problem) => {
                tracing::info!(
                    name = one.name,
                    "there is no program to ask for a delay: {problem}"
                );
            }
            Answered::Silent(problem)
            | Answered::Unasked(outhaul_asking::Lacks { problem, .. }) => {
                all.push(parsed(
                    one.name.clone(),
                    &format!("it cannot be asked: {problem}"),
                ));
            }
        }
    }
    all
}

/// A reason, and perhaps until when: as JSON, or the first line.
fn parsed(who: String, text: &str) -> FoundDelay {
    let who = outhaul_kit::text::printable(&shortened(&who)).into_owned();
    let (why, until) = match serde_json::from_str::<DelayRequest>(text) {
        Ok(request) => (request.reason, request.until),
        Err(_) => (text.lines().next().unwrap_or_default().to_owned(), None),
    };
    let why = outhaul_kit::text::printable(&shortened(&why)).into_owned();
    FoundDelay {
        who,
        why: match why.is_empty() {
            true => "no reason given".to_owned(),
            false => why,
        },
        until: until.map(|until| shortened(&until)),
    }
}

fn event(by: &DelayChange, before: &Delays, now: &Delays, then: AtDeadline) -> ReportEvent {
    use DelayChange::{Asks, Gone, Passed};
    let (what, who, of) = match by {
        Asks(who) => ("delay", who, now.get(who)),
        Passed(who) => ("delay-over", who, now.get(who)),
        Gone(who) => ("delay-over", who, before.get(who)),
    };
    let reason = match (by, of) {
        (_, None) => String::new(),
        (Asks(_), Some(delay)) => format!("{}; until {}", delay.why, delay.at()),
        (Gone(_), Some(delay)) => {
            format!("it no longer asks for later: {}", delay.why)
        }
        (Passed(_), Some(delay)) => {
            let then = match then {
                AtDeadline::Go => "what waits is applied",
                AtDeadline::Ask => "a person is asked",
            };
            format!(
                "{}; the deadline {} has passed: {then}",
                delay.why,
                delay.at()
            )
        }
    };
    ReportEvent::Decision {
        what: what.to_owned(),
        who: format!("`{who}` on this site"),
        number: None,
        assignment: None,
        reason: Some(shortened(&reason)).filter(|reason| !reason.is_empty()),
    }
}
