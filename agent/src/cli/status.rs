//! `status`: how this site stands.

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::state_folder::StateFolder;
use crate::status;
use crate::status::blind::Blind;

/// Shows what runs, what waits, and what the hub has not heard yet. Works while `run` works.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent status --output json"
)]
pub struct Args {}

pub(super) fn run(context: &Context, _args: &Args) -> Result<u8, AgentError> {
    // A database may open and be damaged further on.
    match Agent::open(&context.state).and_then(|agent| status::of_site(&agent)) {
        Ok(status) => {
            context.print(&status.text(), &status);
            Ok(0)
        }
        // What can be said is said; the error and its way out follow.
        Err(error) => {
            if let Some(blind) = Blind::look(&StateFolder::new(&context.state), &error) {
                context.print(&blind.text(), &blind);
            }
            Err(error)
        }
    }
}
