//! An import as a call: a path or a slip's text in, the answer that the command prints out.
//!
//! What comes in: an agent with the lock, and what to import. What goes out: an [`Answer`], also when the
//! import was refused or failed. It decides nothing: the intake does, and this says what came of it.

use std::path::Path;

use super::Answer;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::intake::Outcome;
use crate::intake::media::Findings;
use crate::intake::slip::News;
use crate::machine::State;

/// Imports a slip's text.
pub fn slip(agent: &mut Agent, text: &str) -> Answer {
    let mut answer = Answer::default();
    match agent.import_text(text) {
        Ok(news) => slips(&[news], &mut answer),
        Err(error) => answer.fail(&error),
    }
    answer
}

/// Imports what lies at `path`.
pub fn path(agent: &mut Agent, path: &Path) -> Answer {
    let mut answer = Answer::default();
    match agent.import_noted(path) {
        Ok(findings) => found(path, findings, &mut answer),
        Err(error) => answer.fail(&error),
    }
    answer
}

fn found(path: &Path, mut findings: Findings, answer: &mut Answer) {
    let skipped = findings.passed_over.iter();
    answer
        .messages
        .extend(skipped.map(|line| format!("skipped {line}")));
    if findings.acknowledged > 0 {
        let line = format!("the hub acknowledged {} reports", findings.acknowledged);
        answer.messages.push(line);
    }
    let taken = findings.taken.take();
    let Some(outcome) = findings.outcome.take() else {
        return nothing(path, &findings, answer);
    };
    let news = findings.slips.iter();
    let news = news.map(|news| format!("slip {}", news.sentence()));
    answer.messages.extend(news);
    let refused = findings.refused.iter().flat_map(AgentError::lines);
    answer.messages.extend(refused);
    let (number, state, note) = match outcome {
        Outcome::AlreadyActive { number } => (number, State::Active, "already active".to_owned()),
        Outcome::Ordered { number, note } => {
            answer.text = format!("bundle {number} brought an order: {note}");
            answer.value = serde_json::json!({ "number": number, "ordered": note, "file": taken });
            return;
        }
        Outcome::Rests {
            number,
            state,
            note,
        } => (number, state, note),
    };
    let more = if note.is_empty() { "" } else { ": " };
    answer.text = format!("bundle {number} is {}{more}{note}", state.word());
    answer.value = serde_json::json!({
        "number": number, "state": state.word(), "message": note, "file": taken,
        "slips": findings.slips.iter().map(slip_json).collect::<Vec<_>>(),
    });
    if !matches!(state, State::Active | State::Gated) {
        answer.exit = 1;
        answer.messages.push(
            "help: `outhaul-agent status` shows each assignment; what ran before runs again if it could"
                .into(),
        );
    }
}

fn slips(slips: &[News], answer: &mut Answer) {
    let lines = slips.iter().map(|news| format!("slip {}", news.sentence()));
    answer.text = lines.collect::<Vec<_>>().join("\n");
    let slips: Vec<_> = slips.iter().map(slip_json).collect();
    answer.value = serde_json::json!({ "slips": slips });
}

fn slip_json(news: &News) -> serde_json::Value {
    serde_json::json!({
        "slip": news.name, "fresh": news.fresh, "recovered": news.recovered, "time_restarts": news.time_restarts,
        "number": news.number, "signed_at": news.signed_at.to_string(),
        "expires": news.expires.to_string(), "expired": news.expired,
    })
}

/// No bundle was taken: the refusals are the answer, or what slips brought, or there was nothing.
fn nothing(path: &Path, findings: &Findings, answer: &mut Answer) {
    if !findings.slips.is_empty() {
        slips(&findings.slips, answer);
    }
    for refused in &findings.refused {
        answer.fail(refused);
    }
    // A stick that only brought acknowledgements did its work.
    let acknowledged = findings.acknowledged > 0 && findings.passed_over.is_empty();
    if !findings.refused.is_empty() || !findings.slips.is_empty() || acknowledged {
        return;
    }
    answer.fail(&AgentError::Nothing {
        message: format!("no bundle for this site in `{}`", path.display()),
        help:
            "bundles are files named `*.outhaul`, slips `*.slip`, up to three folders deep; what was skipped \
               is listed above"
                .into(),
    });
}
