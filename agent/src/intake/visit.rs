//! What came of each stick, in one line: for the journal, and for `status`.
//!
//! What comes in: a stick or folder that is to be read. What goes out: the same as of an import, and a
//! line in the memory that says what was taken, what was refused and why, and that the stick may go. While
//! it is read, the line says so. Refusals are kept beside it: the reports of them leave with the outbox.

use std::path::Path;

use outhaul_kit::media::Media;
use outhaul_kit::text;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::ImportOutcome;
use super::media::Findings;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::intake::media;
use crate::report::{self, Exported};
use crate::runner;
use crate::state::{self, StateError, generations, key};
use crate::state_folder::StateFolder;
use outhaul_reconcilers::shortened;

/// How many sticks are remembered.
const KEPT: usize = 8;
/// How many of the files that were left alone are named in the line.
const MAX_NAMED: usize = 3;

/// A stick or folder that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// Where it was.
    pub place: String,
    /// When, milliseconds since 1970 by the site's clock.
    pub at_ms: i64,
    /// Whether it is still being read or written: it must not be removed.
    pub busy: bool,
    /// What came of it, in one line.
    pub text: String,
    /// Whether it was one file, not a stick or folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_file: bool,
    /// The bundle that was copied from it, when the work on that could not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<u64>,
    /// The bundle that was copied from it and was to go on later, and the state that it was left in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<(u64, String)>,
}

impl Visit {
    /// Whoever was reading it is gone: says so, of one that was still being read; `unfinished` is a bundle
    /// that was already copied whole, and on which work had begun.
    fn cut_off(&mut self, unfinished: Option<u64>) {
        if self.busy {
            self.busy = false;
            self.blocked = unfinished;
            self.text = match unfinished {
                None => "reading it was cut off; nothing of it is half done; import it again; it is safe to \
                         remove now"
                    .to_owned(),
                Some(number) => format!(
                    "bundle {number} was copied from it, and the work on that is unfinished; it is safe to remove \
                     now"
                ),
            };
        }
    }
}

/// What came of sticks, as it is now: what says that it is being read is, or was cut off.
///
/// # Errors
/// [`StateError`]
pub fn visits(db: &Connection, state_folder: &StateFolder) -> Result<Vec<Visit>, StateError> {
    let mut all: Vec<Visit> = state::meta(db, key::MEDIA)?.unwrap_or_default();
    if !state_folder.is_locked() {
        let unfinished = runner::site_now(db)?.worked_on();
        for visit in &mut all {
            visit.cut_off(unfinished);
        }
    }
    let unfinished = runner::site_now(db)?.worked_on();
    for visit in &mut all {
        let blocked = visit.blocked.filter(|number| unfinished != Some(*number));
        let left = visit.left.as_ref();
        let Some(number) = blocked.or(left.map(|(number, _)| *number)) else {
            continue;
        };
        let row = generations::one(db, number)?;
        let state = row.as_ref().map_or("gone", |row| row.state.shown());
        let mut now = format!("bundle {number} was copied from it, and is {state} now");
        if let (None, Some(row)) = (blocked, row) {
            let note = shortened(&row.note).replace('\n', " ");
            // Only what changed since is told anew: it went on, or it waits for something else.
            if left.is_some_and(|(_, word)| word == state) && visit.text.contains(&note) {
                continue;
            }
            if row.state.unfinished() && !note.is_empty() {
                now = format!("{now}: {note}");
            }
        }
        visit.text = format!("{now}; it is safe to remove now");
    }
    Ok(all)
}

/// Reads a watched place, writes reports where it has a folder for them, and logs one line.
///
/// # Errors
/// As [`media::import`] and [`report::export`]; it was logged already.
pub fn visit(agent: &mut Agent, place: &Path) -> Result<(), AgentError> {
    note_visit(agent, place, None, None);
    let read = media::import(agent, place);
    let stop = matches!(read, Err(AgentError::State(_) | AgentError::Stopped));
    let exported = if agent.config.export_to_media && !stop {
        export_where_wanted(agent, place)
    } else {
        Ok(None)
    };
    let mut parts = match &read {
        Ok(findings) => parts(findings),
        Err(error) => vec![error.to_string()],
    };
    let mut clean = read
        .as_ref()
        .is_ok_and(|findings| findings.refused.is_empty());
    match &exported {
        Ok(None) => {}
        Ok(Some(exported)) => parts.push(format!("{} reports written", exported.reports)),
        Err(error) => {
            clean = false;
            parts.push(format!(
                "reports were not written: {error}; put that right, then pull it out and put it in again, or run \
                 `outhaul-agent export`"
            ));
        }
    }
    let line = note_visit(agent, place, Some(&closing(&parts)), Some(&read));
    if clean {
        tracing::info!("{line}");
    } else {
        tracing::warn!("{line}");
    }
    read.and(exported).map(|_| ())
}

/// [`media::import`], remembered for `status`.
///
/// # Errors
/// As [`media::import`].
pub fn import_noted(agent: &mut Agent, place: &Path) -> Result<Findings, AgentError> {
    let named = std::fs::metadata(place);
    // What is not there, and what is neither a file nor a folder, was never a stick.
    if !named.is_ok_and(|found| found.is_dir() || found.is_file()) {
        return media::import(agent, place);
    }
    note_visit(agent, place, None, None);
    let read = media::import(agent, place);
    let parts = match &read {
        Ok(findings) => parts(findings),
        Err(error) => vec![error.to_string()],
    };
    note_visit(agent, place, Some(&closing(&parts)), Some(&read));
    read
}

/// Remembers that whoever was reading a stick is gone, before the work on what was copied from it goes on.
///
/// # Errors
/// [`StateError`]
pub(crate) fn close_interrupted(agent: &mut Agent) -> Result<(), StateError> {
    let all: Vec<Visit> = state::meta(agent.store.read(), key::MEDIA)?.unwrap_or_default();
    if !all.iter().any(|visit| visit.busy) {
        return Ok(());
    }
    agent.commit(|db, _| {
        let mut all = all;
        let unfinished = runner::site_now(db)?.worked_on();
        for visit in &mut all {
            visit.cut_off(unfinished);
        }
        state::set_meta(db, key::MEDIA, Some(&all))
    })
}

fn export_where_wanted(agent: &mut Agent, place: &Path) -> Result<Option<Exported>, AgentError> {
    // A watched file has no room for reports.
    let Ok(media) = Media::open(place) else {
        return Ok(None);
    };
    if media.has_folder("reports")? {
        report::export(agent, place).map(Some)
    } else {
        Ok(None)
    }
}

/// Remembers what came of `place`, or that it is being read. What cannot be remembered is logged: the stick matters more.
fn note_visit(
    agent: &mut Agent,
    place: &Path,
    told: Option<&str>,
    read: Option<&Result<Findings, AgentError>>,
) -> String {
    let busy = told.is_none();
    let told = told.unwrap_or("it is being read: do not remove it");
    let blocked = match read {
        Some(Err(AgentError::Blocked { number, .. })) => Some(*number),
        _ => None,
    };
    let outcome = read.and_then(|read| read.as_ref().ok()?.outcome.as_ref());
    let left = match outcome {
        Some(ImportOutcome::Rests { number, state, .. }) if state.unfinished() => {
            Some((*number, state.word().to_owned()))
        }
        _ => None,
    };
    let is_file = place.is_file();
    let whole = std::path::absolute(place);
    let place = text::path(whole.as_deref().unwrap_or(place));
    let told = text::printable(told).into_owned();
    let line = format!("`{place}`: {told}");
    let noted = agent.commit(|db, author| {
        let mut all: Vec<Visit> = state::meta(db, key::MEDIA)?.unwrap_or_default();
        all.retain(|known| known.place != place);
        // One at a time: what another start had begun was cut off.
        let unfinished = runner::site_now(db)?.worked_on();
        for visit in &mut all {
            visit.cut_off(unfinished);
        }
        all.push(Visit {
            place,
            at_ms: author.reading.wall_ms(),
            busy,
            text: told,
            is_file,
            blocked,
            left,
        });
        all.drain(..all.len().saturating_sub(KEPT));
        state::set_meta(db, key::MEDIA, Some(&all))
    });
    if let Err(error) = noted {
        let error: StateError = error;
        tracing::warn!("`status` cannot show what came of a stick: {error}");
    }
    line
}

/// What the person who waits beside the machine wants to read last.
fn closing(parts: &[String]) -> String {
    let parts: Vec<_> = parts.iter().map(|part| part.replace('\n', " ")).collect();
    format!("{}; it is safe to remove now", parts.join("; "))
}

/// What became of a bundle that is active: what was remembered of it is not nothing.
pub(crate) fn already(remembered: &[String]) -> String {
    if remembered.is_empty() {
        return "already active; nothing was applied".to_owned();
    }
    format!(
        "already active; nothing was applied, and its newer metadata is remembered: {}",
        remembered.join(", ")
    )
}

/// What was taken, refused and left alone.
fn parts(findings: &Findings) -> Vec<String> {
    let mut parts = Vec::from_iter(findings.moved.clone());
    parts.extend(findings.outcome.as_ref().map(|outcome| match outcome {
        ImportOutcome::AlreadyActive { number, remembered } => {
            format!("bundle {number} is {}", already(remembered))
        }
        ImportOutcome::Ordered { number, note } => {
            format!("bundle {number} brought an order: {note}")
        }
        ImportOutcome::Rests {
            number,
            state,
            note,
        } if note.is_empty() => format!("bundle {number} is {}", state.shown()),
        ImportOutcome::Rests {
            number,
            state,
            note,
        } => format!("bundle {number} is {}: {}", state.shown(), shortened(note)),
    }));
    let slips = findings.slips.iter();
    parts.extend(slips.map(|news| format!("slip {}", news.sentence())));
    parts.extend(findings.acknowledgements());
    for (lines, what) in [
        (
            findings.refused.iter().map(ToString::to_string).collect(),
            "refused",
        ),
        (findings.skipped.clone(), "skipped"),
    ] {
        let lines: Vec<String> = lines;
        let more = lines.len().saturating_sub(MAX_NAMED);
        parts.extend(
            lines
                .iter()
                .take(MAX_NAMED)
                .map(|line| format!("{what}: {}", shortened(line))),
        );
        if more > 0 {
            parts.push(format!("{more} more {what}"));
        }
    }
    if parts.is_empty() {
        parts.push("nothing on it is for this site".to_owned());
    }
    parts
}
