//! An import as a call: a path or a slip's text in, the answer that the command prints out.
//!
//! What comes in: an agent with the lock, and what to import. What goes out: an [`CommandResult`], also when the
//! import was refused or failed. It decides nothing: the intake does, and this says what came of it.

use std::collections::BTreeMap;
use std::path::Path;

use outhaul_kit::failure::Classified as _;
use outhaul_kit::text::{self, json_path};

use super::CommandResult;
use crate::acks::Renumbered;
use crate::advice;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::intake::media::{self, Findings};
use crate::intake::slip::{self, SlipEffect};
use crate::intake::visit::{self, already};
use crate::intake::{self, ImportOutcome};
use crate::machine::State;
use crate::runner;

/// What is said of a bundle that this command itself made active by going on with it.
const WENT_ON: &str =
    "active: its import, which was interrupted, went on; nothing else was applied";

/// Imports a slip's text, after what this command went on with.
pub fn slip(agent: &mut Agent, text: &str, went_on: Option<(u64, State)>) -> CommandResult {
    let mut answer = CommandResult::default();
    match slip::import_text(agent, text) {
        Ok(effect) => slips(&[effect], &mut answer),
        Err(error) => fail(&mut answer, &error, went_on.is_some()),
    }
    note_went_on(&mut answer, went_on);
    answer
}

/// Imports what lies at `path`. With bundle `went_on` this command has gone on before, which an interruption or a hold had left: that it
/// is active then, or failed, is its doing.
pub fn path(agent: &mut Agent, path: &Path, went_on: Option<(u64, State)>) -> CommandResult {
    let mut answer = CommandResult::default();
    let number = went_on.map(|(number, _)| number);
    let read = match (visit::import_noted(agent, path), went_on) {
        (read, Some((number, State::Failed | State::Reverted))) => with_failed(agent, read, number),
        (read, _) => read,
    };
    match read {
        Ok(mut findings) => {
            let failed = std::mem::take(&mut findings.failed);
            found((&*agent, path), findings, &failed, number, &mut answer);
            not_all_readable(&failed, &mut answer);
        }
        Err(error) => fail(&mut answer, &error.while_reading(path), went_on.is_some()),
    }
    note_went_on(&mut answer, went_on);
    answer
}

/// An error of a command that perhaps did something else as well.
fn fail(answer: &mut CommandResult, error: &AgentError, beside_others: bool) {
    answer.messages.extend(match beside_others {
        true => error.lines_beside_others(),
        false => error.lines(),
    });
    if answer.exit == 0 {
        answer.exit = error.class().code();
    }
}

/// What this command went on with before it read anything, for scripts: it is neither what was brought nor what was refused.
fn note_went_on(answer: &mut CommandResult, went_on: Option<(u64, State)>) {
    if let Some((number, state)) = went_on {
        answer.value["went_on"] = serde_json::json!({ "number": number, "state": state.as_str() });
    }
}

/// What was read, where the refusal of a bundle that failed just now is what became of that bundle.
fn with_failed(
    agent: &Agent,
    read: Result<Findings, AgentError>,
    number: u64,
) -> Result<Findings, AgentError> {
    let mut findings = match read {
        Ok(findings) => findings,
        Err(error) if error.is_of_failed(number) => Findings {
            refused: vec![error],
            ..Findings::default()
        },
        Err(error) => return Err(error),
    };
    let before = findings.refused.len();
    findings.refused.retain(|error| !error.is_of_failed(number));
    if findings.refused.len() < before && findings.outcome.is_none() {
        findings.outcome = Some(intake::outcome_at_rest(agent.store.read(), number)?);
    }
    Ok(findings)
}

/// What importing what lies at `path` would do; `agent` rehearses.
pub fn plan(agent: &mut Agent, path: &Path) -> CommandResult {
    let mut answer = CommandResult::default();
    match media::import(agent, path) {
        Ok(findings) => would(path, findings, agent, &mut answer),
        Err(error) => answer.fail(&error),
    }
    answer
}

/// What importing a slip's text would do; `agent` rehearses.
pub fn plan_text(agent: &mut Agent, text: &str) -> CommandResult {
    let mut answer = CommandResult::default();
    match slip::import_text(agent, text) {
        Ok(effect) => {
            answer.text = effect.plan();
            answer.value = serde_json::json!({ "slips": [slip_json(&effect)] });
        }
        Err(error) => answer.fail(&error),
    }
    answer
}

fn would(path: &Path, mut findings: Findings, agent: &mut Agent, answer: &mut CommandResult) {
    report_others(&findings, answer);
    let slips: Vec<String> = findings.slips.iter().map(SlipEffect::plan).collect();
    let rehearsal = agent.rehearsal.take().unwrap_or_default();
    let (plan, missing_blobs) = (rehearsal.plan, rehearsal.missing_blobs);
    let Some(outcome) = findings.outcome.take() else {
        nothing(path, &findings, &findings.failed, false, answer);
        answer.text = slips.join("\n");
        return;
    };
    let refused = findings.refused.iter().flat_map(AgentError::lines);
    answer.messages.extend(refused);
    let (text, mut value) = match (plan, outcome) {
        (Some(plan), _) => {
            // As an import of it ends.
            if !plan.changes.in_the_way.is_empty() {
                answer.exit = 1;
            }
            (plan.text(), serde_json::json!(plan))
        }
        (None, ImportOutcome::AlreadyActive { number, remembered }) => {
            let text = match remembered.as_slice() {
                [] if missing_blobs > 0 => format!(
                    "bundle {number} is active already; nothing would be applied, and {missing_blobs} of its stored blobs, which are missing here, \
                     would be copied"
                ),
                [] => format!("bundle {number} is active already; nothing would be done"),
                changes => format!(
                    "bundle {number} is active already; nothing would be applied, and its newer metadata \
                     would be remembered: {}",
                    changes.join(", ")
                ),
            };
            (
                text,
                serde_json::json!({ "number": number, "active": number, "remembered": remembered }),
            )
        }
        (None, ImportOutcome::Incomplete { bundle, .. }) => {
            (bundle.sentence(), serde_json::json!(bundle))
        }
        (None, ImportOutcome::Ordered { number, note }) => (
            format!("bundle {number} brings an order: {note}"),
            serde_json::json!({ "number": number, "message": note }),
        ),
        (
            None,
            ImportOutcome::Rests {
                number,
                state,
                note,
            },
        ) => {
            let more = if note.is_empty() { "" } else { ": " };
            let shown = state.shown();
            (
                format!("bundle {number} is here already and would go on ({shown}{more}{note})"),
                serde_json::json!({ "number": number, "state": state.as_str(), "message": note }),
            )
        }
    };
    let lines: Vec<String> = slips.into_iter().chain([text]).collect();
    answer.text = lines.join("\n");
    value["file"] = serde_json::json!(findings.taken.as_deref().map(json_path));
    value["slips"] = slips_json(&findings.slips).into();
    let number = value["number"].as_u64();
    answer.value = value;
    // As an import of it ends.
    if let Some(number) = number {
        left_newer(&findings, number, answer, "would not be imported");
    }
}

/// What came of what else lies there.
fn report_others(findings: &Findings, answer: &mut CommandResult) {
    answer.messages.extend(findings.notes.iter().cloned());
    answer.messages.extend(findings.deeper.iter().cloned());
    answer.messages.extend(skipped(findings));
}

fn skipped(findings: &Findings) -> impl Iterator<Item = String> {
    let lines = findings.skipped.iter();
    lines.map(|line| format!("skipped {line}"))
}

/// How many reasons stand in one error.
const MAX_REASONS: usize = 3;

/// Why nothing was taken, for the error itself: `--quiet` prints nothing else. What stands there is not printed before it, too.
fn why_skipped(findings: &Findings, answer: &mut CommandResult) -> String {
    let mut all: Vec<String> = skipped(findings).collect();
    let more = all.len().saturating_sub(MAX_REASONS);
    if more > 0 {
        all.truncate(MAX_REASONS);
        all.push(format!(
            "{more} more skipped, which are listed above unless `--quiet` was given"
        ));
    } else {
        answer.messages.retain(|line| !all.contains(line));
    }
    all.join("; ")
}

fn found(
    (agent, path): (&Agent, &Path),
    mut findings: Findings,
    failed: &[AgentError],
    went_on: Option<u64>,
    answer: &mut CommandResult,
) {
    let beside_others = went_on.is_some() || findings.changed_something();
    report_others(&findings, answer);
    answer.messages.extend(findings.acknowledgements());
    answer.messages.extend(findings.moved.take());
    let rebuilt = std::mem::take(&mut findings.rebuilt);
    let taken = findings.taken.take().as_deref().map(json_path);
    let Some(outcome) = findings.outcome.take() else {
        answer.messages.extend(again_from_parity(&rebuilt, false));
        return nothing(path, &findings, failed, beside_others, answer);
    };
    let slips: Vec<String> = findings.slips.iter().map(SlipEffect::sentence).collect();
    let lines = match beside_others {
        true => AgentError::lines_beside_others,
        false => AgentError::lines,
    };
    answer.messages.extend(
        grouped(&findings.refused)
            .into_iter()
            .flat_map(|(refused, more)| lines(refused).into_iter().chain(more)),
    );
    // After the refusals, which say that a part has to be copied again.
    let is_refused = !findings.refused.is_empty();
    let again = again_from_parity(&rebuilt, is_refused);
    answer.messages.extend(again);
    if !matches!(outcome, ImportOutcome::AlreadyActive { .. }) {
        answer.messages.extend(slips.iter().cloned());
    }
    let (number, state, note) = match outcome {
        ImportOutcome::AlreadyActive { number, remembered } => {
            let words = match went_on == Some(number) && remembered.is_empty() {
                true => WENT_ON.to_owned(),
                false => already(&remembered),
            };
            let text = format!("bundle {number} is {words}");
            // What slips brought is what is new then.
            let all: Vec<String> = slips.into_iter().chain([text]).collect();
            answer.text = all.join("\n");
            answer.value = serde_json::json!({
                "number": number, "state": State::Active.as_str(), "message": words,
                "remembered": remembered, "file": taken, "slips": slips_json(&findings.slips),
            });
            return left_newer(&findings, number, answer, "was not imported");
        }
        ImportOutcome::Incomplete {
            part,
            brought,
            bundle,
        } => {
            answer.text = brought.sentence(part, &bundle);
            answer.value = serde_json::json!({
                "number": bundle.number, "state": "incomplete", "parts": bundle.parts,
                "missing": bundle.missing, "message": answer.text, "file": taken,
                "slips": slips_json(&findings.slips),
            });
            answer.messages.push(
                "help: import the parts that are missing, in any order; `outhaul-agent status` names them".into(),
            );
            // A script that waits for the bundle to be applied goes on only when it was.
            answer.exit = 1;
            return;
        }
        ImportOutcome::Ordered { number, note } => {
            answer.text = format!("bundle {number} brought an order: {note}");
            answer.value = serde_json::json!({ "number": number, "ordered": note, "file": taken });
            return;
        }
        ImportOutcome::Rests {
            number,
            state,
            note,
        } => (number, state, note),
    };
    let more = if note.is_empty() { "" } else { ": " };
    answer.text = format!("bundle {number} is {}{more}{note}", state.shown());
    answer.value = serde_json::json!({
        "number": number, "state": state.as_str(), "message": note, "file": taken,
        "slips": slips_json(&findings.slips),
    });
    if !rebuilt.is_empty() {
        answer.value["rebuilt"] = rebuilt.into();
    }
    left_newer(&findings, number, answer, "was not imported");
    if !matches!(state, State::Active | State::Gated | State::Soaking) {
        answer.exit = 1;
        answer.messages.push(help_after_failure(agent));
    }
}

/// What to do after a bundle that does not run: to repair the one before, where going back to it failed, too.
fn help_after_failure(agent: &Agent) -> String {
    let site = runner::site_now(agent.store.read()).ok();
    let repair = site.as_ref().and_then(advice::repair);
    let status = "`outhaul-agent status` shows each assignment; what was active before is active again if it could";
    format!("help: {}", repair.as_deref().unwrap_or(status))
}

/// Which parts were made again from parity, if any were; with `is_refused` also that a refused copy of one is not needed any more.
fn again_from_parity(rebuilt: &[usize], is_refused: bool) -> Option<String> {
    let text = (!rebuilt.is_empty()).then(|| outhaul_site::offer::made_again(rebuilt))?;
    Some(match is_refused {
        true => format!(
            "{text}; this bundle is whole without the copy of that part which was refused above, and needs no other"
        ),
        false => text,
    })
}

/// Whoever waits for the newest bundle of a stick does not have it yet, or nobody knows: it ends the same way whether bundle `number` of that
/// stick is taken now or was before.
fn left_newer(findings: &Findings, number: u64, answer: &mut CommandResult, so: &str) {
    if let Some(newer) = findings.newer {
        answer.exit = 1;
        answer.value["newer"] = newer.into();
        answer.messages.push(format!(
            "help: bundle {newer} is newer than bundle {number} and {so}: `outhaul-agent status` shows what to do about it"
        ));
    } else if findings.without_number {
        answer.exit = 1;
        answer.messages.push(format!(
            "help: what was refused does not show its number: it may be newer than bundle {number}"
        ));
    }
}

fn slips(slips: &[SlipEffect], answer: &mut CommandResult) {
    let lines: Vec<_> = slips.iter().map(SlipEffect::sentence).collect();
    answer.text = lines.join("\n");
    answer.value = serde_json::json!({ "slips": slips_json(slips) });
}

fn slips_json(slips: &[SlipEffect]) -> Vec<serde_json::Value> {
    slips.iter().map(slip_json).collect()
}

fn slip_json(effect: &SlipEffect) -> serde_json::Value {
    serde_json::json!({
        "slip": effect.name, "fresh": effect.fresh, "recovered": effect.recovered, "time_restarts": effect.time_restarts,
        "number": effect.number, "signed_at": effect.signed_at.to_string(),
        "expires": effect.expires.to_string(), "expired": effect.expired,
    })
}

/// No bundle was taken: the refusals are the answer, or what slips brought, or there was nothing.
fn nothing(
    path: &Path,
    findings: &Findings,
    failed: &[AgentError],
    beside_others: bool,
    answer: &mut CommandResult,
) {
    if !findings.slips.is_empty() {
        slips(&findings.slips, answer);
    }
    for (refused, more) in grouped(&findings.refused) {
        fail(answer, refused, beside_others);
        answer.messages.extend(more);
    }
    // A stick that only brought acknowledgements did its work, whatever else lies on it.
    let acknowledged = findings.acknowledged.as_ref();
    let did = acknowledged.filter(|done| done.is_new() || findings.skipped.is_empty());
    if let Some(done) = did {
        let renumbered = done.renumbered.as_ref().map(Renumbered::sentence);
        if findings.slips.is_empty() {
            answer.value =
                serde_json::json!({ "acknowledged": done.left(), "renumbered": renumbered });
        }
        return;
    }
    if !findings.refused.is_empty() || !findings.slips.is_empty() {
        return;
    }
    if let Some(unread) = failed.iter().find(|error| is_unread(error)) {
        return fail(answer, unread, beside_others);
    }
    let (place, typed) = (text::path(path), text::quoted(path));
    let (message, help) = match (findings.skipped.is_empty(), findings.others) {
        (false, _) => (
            format!("no bundle for this site in `{place}`: {}", why_skipped(findings, answer)),
            "what is older than this site needs no import, and what is for another stream belongs to another machine"
                .to_owned(),
        ),
        (true, 0) => (
            match findings.deeper.is_some() {
                true => format!("no file in `{place}`, as far as it was searched: three folders deep"),
                false => format!("`{place}` is empty"),
            },
            format!(
                "see that the right stick is plugged in and mounted there (`findmnt {typed}`), and that the bundle \
                 was written to it"
            ),
        ),
        (true, others) => (
            format!(
                "no bundle found in `{place}`: {others} other {}",
                if others == 1 { "file" } else { "files" }
            ),
            "bundles are files named `*.outhaul`, parity parts `*.parity`, slips `*.slip`, up to three folders deep; a kit is taken by \
             `outhaul-agent enrol`, a backup by `outhaul-agent restore`"
                .to_owned(),
        ),
    };
    answer.fail(&AgentError::Nothing { message, help });
}

/// How many that one rule refused are reported one by one.
const MAX_OF_RULE: usize = 10;

/// The refusals that are reported one by one, and after the last of a rule that refused more than these, which others it refused.
fn grouped(refused: &[AgentError]) -> Vec<(&AgentError, Option<String>)> {
    let mut by_rule: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut shown: Vec<(&AgentError, Option<String>)> = Vec::new();
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for error in refused {
        let AgentError::Refused {
            source_name, rule, ..
        } = error
        else {
            shown.push((error, None));
            continue;
        };
        let of_rule = by_rule.entry(rule).or_default();
        of_rule.push(source_name);
        if of_rule.len() <= MAX_OF_RULE {
            last.insert(rule, shown.len());
            shown.push((error, None));
        }
    }
    for (rule, names) in by_rule {
        let others = names.get(MAX_OF_RULE..).unwrap_or_default();
        let Some(at) = last.get(rule).filter(|_| !others.is_empty()) else {
            continue;
        };
        let named: Vec<_> = others.iter().map(|name| format!("`{name}`")).collect();
        if let Some((_, more)) = shown.get_mut(*at) {
            *more = Some(format!(
                "error: the same rule, `{rule}`, refused {} more: {}; `outhaul-agent plan FILE` shows what is wrong with one",
                others.len(),
                named.join(", ")
            ));
        }
    }
    shown
}

/// Whoever waits for the newest bundle of a stick does not know that it came, where one beside could not be read.
fn not_all_readable(failed: &[AgentError], answer: &mut CommandResult) {
    let mut unread = failed.iter().filter(|error| is_unread(error));
    let Some(first) = unread.next().filter(|_| answer.exit == 0) else {
        return;
    };
    answer.exit = 1;
    answer.messages.extend(first.lines_beside_others());
    let more = unread.count();
    if more > 0 {
        answer.messages.push(format!(
            "warning: {more} more could not be read, which are listed above unless `--quiet` was given"
        ));
    }
}

/// Whether nobody knows what it is that could not be read.
fn is_unread(error: &AgentError) -> bool {
    matches!(
        error,
        AgentError::NotReadable(_) | AgentError::File(_) | AgentError::Unreadable { .. }
    )
}
