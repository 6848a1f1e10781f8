//! `status`: how this site stands.

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;

/// Shows what runs, what waits, and what the hub has not heard yet. Works while `run` works.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent status --output json"
)]
pub struct Args {}

pub(super) fn run(context: &Context, _args: &Args) -> Result<u8, AgentError> {
    let status = Agent::open(&context.state)?.status()?;
    context.print(&status.text(), &status);
    Ok(0)
}
