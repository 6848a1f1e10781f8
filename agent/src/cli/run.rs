//! `run`: the daemon.

use super::Context;
use crate::agent::Agent;
use crate::calls::{self, Call, Performer};
use crate::daemon;
use crate::error::AgentError;
use crate::update;

/// Watches folders and media, polls the repository, looks for drift, sends reports; until stopped.
///
/// A second one is refused while one runs. agent.toml is read when it starts.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent run\n\nWith --once it does each of these once and ends: for a timer. While the service runs, the service does it."
)]
pub struct Args {
    /// Do everything that is due once, then end.
    #[arg(long)]
    once: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    if !args.once {
        let agent = Agent::exclusive(&context.state)?;
        agent.note_service();
        let code = daemon::run(agent)?;
        return match code {
            daemon::AGAIN => Err(update::again()),
            code => Ok(code),
        };
    }
    match calls::perform_or_wait(&context.state, &Call::Round)? {
        Performer::ThisProcess(agent) => Ok(context.print_answer(&daemon::once(*agent)?)),
        Performer::OtherProcess(answer) => Ok(context.print_answer(&answer)),
    }
}
