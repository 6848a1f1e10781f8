//! `rollback`: back to the bundle before, by a person's decision.

use super::Context;
use crate::advice;
use crate::error::AgentError;

/// Goes back to the bundle before the active one. It stays there until a newer bundle comes; one that
/// waits already then needs an approval.
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
    let ordered = agent.order_rollback(&who)?;
    if busy {
        context.print(
            "the running agent goes back now; `outhaul-agent status` shows it",
            &serde_json::json!({ "ordered": true }),
        );
        return Ok(0);
    }
    let site = agent.drive()?;
    if site
        .active
        .is_some_and(|active| active.number == ordered.to && !active.broken)
    {
        context.print(
            &format!("bundle {} is active again", ordered.to),
            &serde_json::json!({ "active": ordered.to }),
        );
        return Ok(0);
    }
    let note = agent.note(ordered.from)?;
    Err(AgentError::Failed {
        message: format!("{note}; now {}", advice::what_runs(&site)),
        help: advice::repair(&site).unwrap_or_else(|| {
            "nothing else is to be done; `rollback` may be tried again when that is put right"
                .into()
        }),
    })
}
