//! `apply`: applies the active bundle again now, or goes on with work that could not.

use super::Context;
use crate::advice;
use crate::error::AgentError;

/// Applies the active bundle again: puts back files that were changed or deleted by hand, and goes on with
/// work that could not. Reported home. Nothing new is installed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent apply --who ann")]
pub struct Args {
    /// Who says so, as it is reported.
    #[arg(long)]
    who: Option<String>,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let (mut agent, busy) = super::exclusive_or_shared(context)?;
    let who = args.who.clone().unwrap_or_else(super::who);
    let number = agent.order_repair(&who)?;
    if busy {
        context.print(
            "the running agent applies it now; `outhaul-agent status` shows it",
            &serde_json::json!({ "ordered": true, "number": number }),
        );
        return Ok(0);
    }
    let site = agent.drive()?;
    let note = agent.note(number)?;
    let active = site.active.filter(|active| !active.broken);
    let Some(active) = active.filter(|active| active.number == number) else {
        return Err(AgentError::Failed {
            message: format!("{note}; now {}", advice::what_runs(&site)),
            help: advice::repair(&site).unwrap_or_else(|| {
                format!(
                    "put that right, run `outhaul-agent approve {number}` and import it again, or \
                     import a newer bundle"
                )
            }),
        });
    };
    context.print(
        &format!("bundle {number} is applied and active: {note}"),
        &serde_json::json!({ "active": active.number, "message": note }),
    );
    Ok(0)
}
