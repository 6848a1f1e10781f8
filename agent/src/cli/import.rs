//! `import`: takes a bundle in from a file or a stick, and applies it.

use std::path::PathBuf;

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::intake::Outcome;
use crate::intake::media::Findings;
use crate::machine::State;

/// Verifies a bundle (or the newest acceptable one in a folder) and applies it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent import /media/stick"
)]
pub struct Args {
    /// A bundle, or a folder that holds bundles.
    path: PathBuf,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let mut agent = Agent::exclusive(&context.state)?;
    for (number, state) in agent.resume()? {
        eprintln!(
            "bundle {number} had been cut off; it is {} now",
            state.word()
        );
    }
    agent.tidy_up()?;
    let mut findings = agent.import(&args.path)?;
    for line in &findings.passed_over {
        eprintln!("passed over {line}");
    }
    if findings.acknowledged > 0 {
        eprintln!("the hub acknowledged {} reports", findings.acknowledged);
    }
    let taken = findings.taken.take();
    let Some(outcome) = findings.outcome.take() else {
        return nothing(args, findings);
    };
    for refused in &findings.refused {
        super::tell(refused);
    }
    let (number, state, note) = match outcome {
        Outcome::AlreadyActive { number } => (
            number,
            State::Active,
            "already active; nothing was done".to_owned(),
        ),
        Outcome::Rests {
            number,
            state,
            note,
        } => (number, state, note),
    };
    let more = if note.is_empty() { "" } else { ": " };
    context.print(
        &format!("bundle {number} is {}{more}{note}", state.word()),
        &serde_json::json!({
            "number": number, "state": state.word(), "message": note, "file": taken,
        }),
    );
    if matches!(state, State::Active | State::Gated) {
        return Ok(0);
    }
    eprintln!(
        "help: `outhaul-agent status` shows each assignment; what ran before runs again if it could"
    );
    Ok(1)
}

/// Nothing was taken: the first refusal is the answer, or there was nothing at all.
fn nothing(args: &Args, findings: Findings) -> Result<u8, AgentError> {
    let mut refused = findings.refused;
    if !refused.is_empty() {
        let first = refused.remove(0);
        refused.iter().for_each(super::tell);
        return Err(first);
    }
    // A stick that only brought acknowledgements did its work.
    if findings.acknowledged > 0 && findings.passed_over.is_empty() {
        return Ok(0);
    }
    Err(AgentError::Nothing {
        message: format!("no bundle for this site in `{}`", args.path.display()),
        help:
            "bundles are files named `*.outhaul`, up to three folders deep; what was passed over \
               is listed above"
                .into(),
    })
}
