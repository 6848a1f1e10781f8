//! `rollback`: back to the previous bundle, by a person's decision.

use super::Context;
use crate::calls::people::{self, Ordered};
use crate::error::AgentError;
use crate::runner::decisions;

/// Goes back to the previous bundle. It stays there until a newer bundle comes; one that
/// waits already then needs an approval.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "While the service runs, the service does it, and this command waits for the result.\n\n\
                  Example:\n  outhaul-agent --state /var/lib/outhaul-agent rollback --who ann"
)]
pub struct Args {
    /// Who says so, as it is reported.
    #[arg(long)]
    who: Option<String>,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let (mut agent, busy) = super::exclusive_or_shared(context)?;
    let who = args.who.clone().unwrap_or_else(super::who);
    let ordered = Ordered::Rollback(decisions::order_rollback(&mut agent, &who)?);
    let answer = people::outcome(&context.state, (!busy).then_some(agent), ordered)?;
    Ok(context.print_answer(&answer))
}
