//! `apply`: applies the active bundle again now, or goes on with work that could not.

use super::Context;
use crate::calls::people::{self, Ordered};
use crate::error::AgentError;
use crate::runner::decisions::{self, Again};
use crate::runner::tidy;
use outhaul_kit::text::one_full_line;

/// Applies the active bundle again: puts back files that were changed or deleted by hand, and goes on with
/// work that could not. A bundle that waits and that nothing holds back any more is applied, too. Reported to the centre.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "While the service runs, the service does it, and this command waits for the result.\n\n\
                  Example:\n  outhaul-agent --state /var/lib/outhaul-agent apply --who ann"
)]
pub struct Args {
    /// Who decides, as it is reported.
    #[arg(long, visible_alias = "as", value_parser = one_full_line)]
    who: Option<String>,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let (mut agent, busy) = super::exclusive_or_shared(context)?;
    agent.check_decision()?;
    if !busy {
        tidy::restore_floors(&agent)?;
    }
    let who = args.who.clone().unwrap_or_else(super::who);
    let ordered = match decisions::order_repair(&mut agent, &who)? {
        Again::Bundle(number) => Ordered::Apply { number },
        Again::Rollback(rollback) => Ordered::Rollback(rollback),
    };
    let answer = people::outcome(&context.state, (!busy).then_some(agent), ordered)?;
    Ok(context.print_answer(&answer))
}
