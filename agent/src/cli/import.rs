//! `import`: takes a bundle or a freshness slip in from a file or a stick, or a slip as text.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use outhaul_signer::slip::MAX_TEXT_BYTES;

use super::Context;
use crate::calls::{self, Call, CommandResult, Performer};
use crate::durable;
use crate::error::AgentError;
use crate::intake::visit;
use crate::interrupted;
use crate::machine::State;
use crate::runner::{self, tidy};

/// Verifies a bundle (or the newest acceptable one in a folder) and applies it; accepts freshness slips.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "While the service runs, the service does it, and this command waits for the result.\n\n\
                  Examples:\n  outhaul-agent --state /var/lib/outhaul-agent import /media/stick\n  \
                  outhaul-agent --state /var/lib/outhaul-agent import press.slip\n  \
                  outhaul-agent --state /var/lib/outhaul-agent import --text 'OUTHAUL:9X54...'"
)]
#[group(required = true, multiple = false)]
pub struct Args {
    /// A bundle, a freshness slip, or a folder that holds some.
    path: Option<PathBuf>,
    /// A freshness slip as scanned from its QR code or typed; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let call = match &args.path {
        Some(path) => Call::Import(std::path::absolute(path).map_err(durable::at("open", path))?),
        None => Call::Slip(text(args.text.as_deref().unwrap_or_default())?),
    };
    let answer = match calls::perform_or_wait(&context.state, &call)? {
        Performer::ThisProcess(mut agent) => {
            interrupted::stops(&agent.heartbeat);
            visit::close_interrupted(&mut agent)?;
            let (mut went_on, mut blocked) = (None, Vec::new());
            match runner::resume(&mut agent) {
                Ok(Some((number, state, waited))) => {
                    went_on = Some((number, state));
                    let now = state.shown();
                    super::say(&match (waited, state) {
                        (true, _) => format!(
                            "bundle {number} was staged and not applied yet; it is {now} now"
                        ),
                        (false, State::Rejected) => {
                            format!("bundle {number}: the interrupted import was discarded")
                        }
                        (false, _) => format!("bundle {number} was interrupted; it is {now} now"),
                    });
                }
                Ok(None) => {}
                // What came before cannot go on: a newer bundle may.
                Err(error @ AgentError::Blocked { .. }) => blocked = error.lines(),
                Err(error) => return Err(error),
            }
            tidy::tidy_up(&mut agent)?;
            let mut answer = match &call {
                Call::Slip(text) => calls::import::slip(&mut agent, text, went_on),
                _ => {
                    let path = args.path.as_deref().unwrap_or(Path::new(""));
                    calls::import::path(&mut agent, path, went_on)
                }
            };
            // It may be what kept this bundle from being applied, too.
            let mut printed = answer.messages.windows(blocked.len().max(1));
            if !printed.any(|lines| *lines == blocked[..]) {
                answer.messages.splice(..0, blocked);
            }
            answer
        }
        Performer::OtherProcess(answer) => with_own_view(&call, answer),
    };
    Ok(context.print_answer(&answer))
}

/// A service has a `/tmp` and perhaps a `/home` of its own: what only this command sees is said.
fn with_own_view(call: &Call, mut answer: CommandResult) -> CommandResult {
    if let Call::Import(path) = call
        && answer.exit == 3
        && path.exists()
    {
        answer.messages.push(format!(
            "help: if the service does not see `{}` (its /tmp and /home are its own), copy it to a folder \
             such as /var/tmp/stick or mount it below /media, or run `systemctl stop outhaul-agent` first",
            path.display()
        ));
    }
    answer
}

/// What was typed, or what stands on standard input.
pub(super) fn text(typed: &str) -> Result<String, AgentError> {
    if typed != "-" {
        return Ok(typed.to_owned());
    }
    let mut bytes = Vec::new();
    let input = Path::new("standard input");
    std::io::stdin()
        .take(MAX_TEXT_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(durable::at("read", input))?;
    // What is not text is not a slip, which the reader says better.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
