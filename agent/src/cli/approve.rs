//! `approve`: a person says yes to a bundle that waits or failed before.

use super::Context;
use crate::agent::Agent;
use crate::calls::people::{self, Ordered};
use crate::error::AgentError;
use crate::machine::State;
use crate::runner::decisions::assignments::{self, Decided};
use crate::runner::{self, decisions};
use crate::state::generations;
use outhaul_kit::text::one_full_line;

/// Approves a bundle that waits, or lets one that failed be tried again. Reported to the centre.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "While the service runs, the service does it, and this command waits for the result.\n\n\
                  Example:\n  outhaul-agent --state /var/lib/outhaul-agent approve 7 --who ann"
)]
pub struct Args {
    /// The bundle's number; `status` names it, and so does this command without one.
    #[arg(value_name = "NUMBER")]
    number: Option<String>,
    /// Lets only this assignment of the bundle through; the others are held at what they have until all of it is
    /// approved.
    #[arg(long, value_name = "NAME")]
    assignment: Option<String>,
    /// Who approves, as it is reported.
    #[arg(long, visible_alias = "as", value_parser = one_full_line)]
    who: Option<String>,
    /// Why, as it is reported.
    #[arg(long, visible_alias = "reason", value_parser = one_full_line)]
    why: Option<String>,
}

/// The number that was typed; what cannot be one is refused with the command that can.
fn number(agent: &Agent, typed: Option<&str>) -> Result<u64, AgentError> {
    let waits = waiting(agent)?;
    let message = match typed.map(str::parse) {
        Some(Ok(number)) if generations::one(agent.store.read(), number)?.is_some() => {
            return Ok(number);
        }
        Some(Ok(number)) => {
            return Err(AgentError::Nothing {
                message: format!("this site knows no bundle {number}; {}", waits.0),
                help: waits.1,
            });
        }
        Some(Err(_)) => "what is approved is a bundle's number, such as `7`",
        None => "`approve` needs the number of a bundle",
    };
    Err(AgentError::Usage {
        message: format!("{message}; {}; nothing was changed", waits.0),
        help: waits.1,
    })
}

/// Which bundle waits, and what to type.
fn waiting(agent: &Agent) -> Result<(String, String), AgentError> {
    let mut waits = generations::all(agent.store.read())?;
    waits.retain(|bundle| matches!(bundle.state, State::Gated | State::Staged));
    let newest = waits.iter().map(|bundle| bundle.number).max();
    Ok(match newest {
        Some(number) => (
            format!("bundle {number} waits"),
            people::let_through(agent, number)?,
        ),
        None => (
            "no bundle waits".to_owned(),
            "`outhaul-agent status` lists the bundles that this site knows".to_owned(),
        ),
    })
}

/// What is said of a bundle that runs: there is nothing to approve. Whoever names it while another one waits means that one.
fn active_already(agent: &Agent, number: u64) -> Result<Option<String>, AgentError> {
    let site = runner::site_now(agent.store.read())?;
    let Some(active) = site.active.filter(|active| active.number == number) else {
        return Ok(None);
    };
    if site.worked_on() == Some(number) || active.broken {
        return Ok(None);
    }
    match site.waiting {
        None => Ok(Some(format!(
            "bundle {number} is active already, and needs no approval; nothing was changed"
        ))),
        Some(waiting) => Err(AgentError::Nothing {
            message: format!(
                "bundle {number} is active already, and needs no approval; bundle {} waits; nothing was changed",
                waiting.number
            ),
            help: people::let_through(agent, waiting.number)?,
        }),
    }
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let (mut agent, busy) = super::exclusive_or_shared(context)?;
    agent.check_decision()?;
    let number = number(&agent, args.number.as_deref())?;
    let who = args.who.clone().unwrap_or_else(super::who);
    let why = args.why.as_deref().unwrap_or_default();
    let rest = match &args.assignment {
        Some(name) => {
            let decided = Decided {
                name,
                who: &who,
                why,
            };
            assignments::approve_alone(&mut agent, decided, number)?;
            super::say(&format!(
                "`{name}` alone is let through: the others of bundle {number} are held at what they have until `outhaul-agent approve {number}`"
            ));
            false
        }
        None => assignments::approve_rest(&mut agent, number, &who)?,
    };
    if !rest
        && args.assignment.is_none()
        && let Some(said) = active_already(&agent, number)?
    {
        context.print(
            &said,
            &serde_json::json!({ "number": number, "state": State::Active.as_str() }),
        );
        return Ok(0);
    }
    let site = match &args.assignment {
        Some(_) => decisions::let_through(&mut agent, number)?,
        None => decisions::approve(&mut agent, number, &who, why)?,
    };
    if rest {
        let ordered = Ordered::Apply { number };
        let answer = people::outcome(&context.state, (!busy).then_some(agent), ordered)?;
        return Ok(context.print_answer(&answer));
    }
    let waits = site.waiting.is_some_and(|waiting| waiting.number == number)
        || site.worked_on() == Some(number);
    if waits {
        let ordered = Ordered::Approve { number, who };
        let answer = people::outcome(&context.state, (!busy).then_some(agent), ordered)?;
        return Ok(context.print_answer(&answer));
    }
    let state = site.state_of(number);
    let word = state.map_or("not active", State::as_str);
    let next = match state {
        Some(State::Active) => "it is active already",
        _ => "import it again to try it",
    };
    context.print(
        &format!("bundle {number} is approved by {who}: {next}"),
        &serde_json::json!({ "number": number, "who": who, "state": word }),
    );
    Ok(0)
}
