//! `rollback`: back to the generation before, by a person's decision.

use super::Context;
use crate::error::AgentError;
use crate::intake;

/// Goes back to the generation before the active one. It stays there until a newer bundle comes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent rollback --who ann"
)]
pub struct Args {
    /// Who says so, as it is reported.
    #[arg(long)]
    who: Option<String>,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let (mut agent, busy) = super::exclusive_or_shared(context)?;
    let who = args.who.clone().unwrap_or_else(super::who);
    if busy {
        agent.order_rollback(&who)?;
        context.print(
            "the running agent goes back now; `outhaul-agent status` shows it",
            &serde_json::json!({ "ordered": true }),
        );
        return Ok(0);
    }
    agent.resume()?;
    agent.tidy_up()?;
    agent.order_rollback(&who)?;
    agent.roll_back()?;
    let active = intake::active(agent.store.read())?;
    let number = active.unwrap_or(0);
    context.print(
        &format!("bundle {number} is active again"),
        &serde_json::json!({ "active": active }),
    );
    Ok(0)
}
