//! `approve`: a person says yes to a bundle that waits or failed before.

use super::Context;
use crate::error::AgentError;
use crate::machine::State;
use crate::state::generations;

/// Says yes to a bundle that waits, or lets one that failed be tried again. Reported home.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent approve 7 --who ann"
)]
pub struct Args {
    /// The bundle's number.
    number: u64,
    /// Who says yes, as it is reported.
    #[arg(long)]
    who: Option<String>,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    // With the lock the work is done here; without it the running agent does it.
    let (mut agent, busy) = super::exclusive_or_shared(context)?;
    let number = args.number;
    let who = args.who.clone().unwrap_or_else(super::who);
    let mut site = agent.approve(number, &who)?;
    let waits = site.waiting.is_some_and(|waiting| waiting.number == number)
        || site.worked_on() == Some(number);
    let mut state = site.state_of(number);
    if waits && !busy {
        site = agent.drive()?;
        state = match site.state_of(number) {
            None => generations::one(agent.store.read(), number)?.map(|row| row.state),
            live => live,
        };
    }
    let word = state.map_or("not active", State::word);
    let next = match (busy, waits) {
        (true, true) => "the running agent goes on with it",
        (false, true) => word,
        (_, false) if state == Some(State::Active) => "it is active already",
        (_, false) => "import it again to try it",
    };
    context.print(
        &format!("bundle {number} is approved by {who}: {next}"),
        &serde_json::json!({ "number": number, "who": who, "state": word }),
    );
    let failed = matches!(state, Some(State::Failed | State::Reverted));
    Ok(u8::from(!busy && waits && failed))
}
