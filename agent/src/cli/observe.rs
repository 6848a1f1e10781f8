//! `observe`: what a cluster shows that follows the platform repository directly.

use outhaul_bundle::report::ClusterState;

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::following;

/// Reads what the cluster's own Flux or Argo CD shows of the platform repository, and queues it as a report.
///
/// For a cluster that gets no bundles. It changes nothing on the cluster. `[observe]` in agent.toml names the
/// repository; with it, `run` does the same every `drift_s` seconds and sends it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 everything is applied at one commit, 1 it is not, 3 the cluster or the commit's record \
                  cannot be asked (reported, too).\n\n\
                  Example:\n  outhaul-agent --state /var/lib/outhaul-agent observe"
)]
pub struct Args {}

pub(super) fn run(context: &Context, _args: &Args) -> Result<u8, AgentError> {
    let mut agent = Agent::open(&context.state)?;
    let seen = following::observe(&mut agent)?;
    let mut text = vec![following::sentence(&seen)];
    text.extend(following::details(&seen));
    text.extend(following::next(&seen).map(|next| format!("next: {next}")));
    context.print(&text.join("\n"), &seen);
    Ok(match seen.state {
        ClusterState::Unreachable => 3,
        _ if following::is_well(&seen) => 0,
        _ => 1,
    })
}
