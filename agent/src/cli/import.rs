//! `import`: takes a bundle or a freshness slip in from a file or a stick, or a slip as text.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use outhaul_signer::slip::MAX_TEXT_BYTES;

use super::Context;
use crate::agent::Agent;
use crate::durable;
use crate::error::AgentError;
use crate::intake::Outcome;
use crate::intake::media::Findings;
use crate::intake::slip::News;
use crate::machine::State;

/// Verifies a bundle (or the newest acceptable one in a folder) and applies it; believes freshness slips.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul-agent --state /var/lib/outhaul-agent import /media/stick\n  \
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
    let mut agent = Agent::exclusive(&context.state)?;
    for (number, state) in agent.resume()? {
        eprintln!(
            "bundle {number} had been cut off; it is {} now",
            state.word()
        );
    }
    agent.tidy_up()?;
    let Some(path) = &args.path else {
        let news = agent.import_text(&text(args.text.as_deref().unwrap_or_default())?)?;
        print_slips(context, &[news]);
        return Ok(0);
    };
    let mut findings = agent.import(path)?;
    for line in &findings.passed_over {
        eprintln!("passed over {line}");
    }
    if findings.acknowledged > 0 {
        eprintln!("the hub acknowledged {} reports", findings.acknowledged);
    }
    let taken = findings.taken.take();
    let Some(outcome) = findings.outcome.take() else {
        return nothing(context, path, findings);
    };
    for news in &findings.slips {
        eprintln!("slip {}", news.sentence());
    }
    for refused in &findings.refused {
        super::tell(refused);
    }
    let (number, state, note) = match outcome {
        Outcome::AlreadyActive { number } => (
            number,
            State::Active,
            "already active; nothing was done".to_owned(),
        ),
        Outcome::Ordered { number, note } => {
            context.print(
                &format!("bundle {number} brought an order: {note}"),
                &serde_json::json!({ "number": number, "ordered": note, "file": taken }),
            );
            return Ok(0);
        }
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
            "slips": findings.slips.iter().map(slip_json).collect::<Vec<_>>(),
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

/// What was typed, or what stands on standard input.
fn text(typed: &str) -> Result<String, AgentError> {
    if typed != "-" {
        return Ok(typed.to_owned());
    }
    let mut bytes = Vec::new();
    let input = Path::new("standard input");
    std::io::stdin()
        .take(MAX_TEXT_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(durable::at("read", input))?;
    // What is no text is no slip, which the reader says better.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn print_slips(context: &Context, slips: &[News]) {
    let lines: Vec<_> = slips
        .iter()
        .map(|news| format!("slip {}", news.sentence()))
        .collect();
    let slips: Vec<_> = slips.iter().map(slip_json).collect();
    context.print(&lines.join("\n"), &serde_json::json!({ "slips": slips }));
}

fn slip_json(news: &News) -> serde_json::Value {
    serde_json::json!({
        "slip": news.name, "fresh": news.fresh, "recovered": news.recovered,
        "number": news.number, "signed_at": news.signed_at.to_string(),
        "expires": news.expires.to_string(), "expired": news.expired,
    })
}

/// No bundle was taken: the first refusal is the answer, or what slips brought, or there was nothing.
fn nothing(context: &Context, path: &Path, findings: Findings) -> Result<u8, AgentError> {
    let mut refused = findings.refused;
    if !findings.slips.is_empty() {
        print_slips(context, &findings.slips);
    }
    if !refused.is_empty() {
        let first = refused.remove(0);
        refused.iter().for_each(super::tell);
        return Err(first);
    }
    if !findings.slips.is_empty() {
        return Ok(0);
    }
    // A stick that only brought acknowledgements did its work.
    if findings.acknowledged > 0 && findings.passed_over.is_empty() {
        return Ok(0);
    }
    Err(AgentError::Nothing {
        message: format!("no bundle for this site in `{}`", path.display()),
        help:
            "bundles are files named `*.outhaul`, slips `*.slip`, up to three folders deep; what was passed over \
               is listed above"
                .into(),
    })
}
