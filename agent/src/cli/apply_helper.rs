//! `apply-helper`: the half of the agent that may change this host, when the other half runs without rights.

use outhaul_kit::text::json_path;
use std::path::PathBuf;

use super::Context;
use crate::error::AgentError;
use crate::helper;

/// The half of the agent that changes this host, when `run` works as a user without rights: set it up, or
/// answer one request. `--state` is the agent's folder; the helper has its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Init(Init),
    Answer(Answer),
}

/// Sets the helper up for an enrolled site, as root, while the service is stopped: what is in the agent's
/// folder is trusted at this moment and never again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent apply-helper init --folder /var/lib/outhaul-apply"
)]
struct Init {
    /// The helper's folder.
    #[arg(long, default_value = helper::DEFAULT_FOLDER, value_name = "DIR")]
    folder: PathBuf,
    /// Sets the helper up again for a site that was moved or enrolled again; the helper's inventory stays.
    #[arg(long)]
    again: bool,
}

/// Answers the one request on standard input, a connection that `outhaul-apply.socket` accepted.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example (what outhaul-apply@.service does):\n  outhaul-agent --state /var/lib/outhaul-agent apply-helper answer --folder /var/lib/outhaul-apply"
)]
struct Answer {
    /// The helper's folder.
    #[arg(long, default_value = helper::DEFAULT_FOLDER, value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    match &args.command {
        Command::Answer(answer) => {
            helper::answer::run(&answer.folder, &context.state)?;
            Ok(0)
        }
        Command::Init(init) => {
            let ready = helper::init::run(&init.folder, &context.state, init.again)?;
            let site = &ready.site;
            let bundles: Vec<_> = ready.bundles.iter().map(u64::to_string).collect();
            let bundles = match bundles.as_slice() {
                [] => "no bundle yet".to_owned(),
                some => format!("with bundle {}", some.join(", ")),
            };
            for line in &ready.without {
                super::say(&format!("warning: {line}"));
            }
            context.print(
                &format!(
                    "the apply helper for site `{}` of {}/{} is set up in `{}`, {bundles}",
                    site.name,
                    site.stream.environment,
                    site.stream.cluster_type,
                    init.folder.display()
                ),
                &serde_json::json!({
                    "site": site.name,
                    "folder": json_path(&init.folder),
                    "bundles": ready.bundles,
                    "not_copied": ready.without,
                }),
            );
            Ok(0)
        }
    }
}
