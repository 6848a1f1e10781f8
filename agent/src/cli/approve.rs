//! `approve`: a person says yes to a bundle that waits or failed before.

use outhaul_bundle::report::Event as Told;

use super::Context;
use crate::error::AgentError;
use crate::machine::Event;
use crate::state::{StateError, generations, outbox};

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
    let Some(row) = generations::one(agent.store.read(), number)? else {
        return Err(AgentError::Nothing {
            message: format!("this site knows no bundle {number}"),
            help: "`outhaul-agent status` lists those that it knows".into(),
        });
    };
    let who = args.who.clone().unwrap_or_else(super::who);
    agent
        .commit(|db, author| {
            generations::approve(db, &row.index, &who)?;
            let event = Told::Decision {
                what: "approve".into(),
                who: who.clone(),
                number: Some(number),
            };
            outbox::queue(db, author, event).map(|_| ())
        })
        .map_err(|error: StateError| AgentError::from(error))?;
    let mut state = row.state;
    if row.state.unfinished() && !busy {
        state = agent.drive(number, Event::Resumed.into())?;
    }
    let next = match (busy, row.state.unfinished()) {
        (true, true) => "the running agent goes on with it",
        (_, false) => "import it again to try it",
        (false, true) => state.word(),
    };
    context.print(
        &format!("bundle {number} is approved by {who}: {next}"),
        &serde_json::json!({ "number": number, "who": who, "state": state.word() }),
    );
    Ok(u8::from(
        !busy
            && matches!(
                state,
                crate::machine::State::Failed | crate::machine::State::Reverted
            )
            && row.state.unfinished(),
    ))
}
