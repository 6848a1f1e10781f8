//! `trial`: the full cycle by which a new agent shows that it works here. The packaged agent gives this command.

use super::Context;
use crate::error::AgentError;
use crate::update;

/// Opens the memory, compares the active bundle with this host, queues a report, and ends.
///
/// The packaged agent runs it as the program that a bundle brought, before it is used. Nothing is sent or installed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent trial")]
pub struct Args {}

pub(super) fn run(context: &Context, _args: &Args) -> Result<u8, AgentError> {
    update::trial(&context.state)?;
    let version = update::version();
    let reported = serde_json::json!({ "version": version });
    context.print(&format!("agent {version} works here"), &reported);
    Ok(0)
}
