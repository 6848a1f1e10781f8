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

use super::Outcome;
use super::media::Findings;
use crate::agent::Agent;
use crate::apply::shortened;
use crate::error::AgentError;
use crate::home::Home;
use crate::report::Exported;
use crate::state::{self, StateError, key};

/// How many sticks and how many refusals are remembered.
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
}

impl Visit {
    /// Whoever was reading it is gone: says so, of one that was still being read.
    fn cut_off(&mut self) {
        if self.busy {
            self.busy = false;
            "reading it was cut off; nothing of it is half done; it is safe to remove now"
                .clone_into(&mut self.text);
        }
    }
}

/// What came of sticks, as it is now: what says that it is being read is, or was cut off.
///
/// # Errors
/// [`StateError`]
pub fn visits(db: &Connection, home: &Home) -> Result<Vec<Visit>, StateError> {
    let mut all: Vec<Visit> = state::meta(db, key::MEDIA)?.unwrap_or_default();
    if !home.is_locked() {
        all.iter_mut().for_each(Visit::cut_off);
    }
    Ok(all)
}

/// A bundle or slip that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// When, milliseconds since 1970 by the site's clock.
    pub at_ms: i64,
    /// The rule.
    pub rule: String,
    /// What was refused and why.
    pub text: String,
}

/// Remembers a refusal, in the transaction of its report. The same one again only moves up.
pub(super) fn remember_refusal(
    db: &Connection,
    at_ms: i64,
    error: &AgentError,
) -> Result<(), StateError> {
    let AgentError::Refused { rule, .. } = error else {
        return Ok(());
    };
    let refused = Refused {
        at_ms,
        rule: rule.clone(),
        text: shortened(&error.to_string()),
    };
    let mut all: Vec<Refused> = state::meta(db, key::REFUSALS)?.unwrap_or_default();
    all.retain(|known| known.text != refused.text);
    all.push(refused);
    all.drain(..all.len().saturating_sub(KEPT));
    state::set_meta(db, key::REFUSALS, Some(&all))
}

impl Agent {
    /// Reads a watched place, writes reports where it has a folder for them, and logs one line.
    ///
    /// # Errors
    /// As [`Agent::import`] and [`Agent::export`]; it was logged already.
    pub fn visit(&mut self, place: &Path) -> Result<(), AgentError> {
        self.note_visit(place, true, "it is being read: do not remove it");
        let read = self.import(place);
        let stop = matches!(read, Err(AgentError::State(_) | AgentError::Stopped));
        let exported = if self.config.export_to_media && !stop {
            self.export_where_wanted(place)
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
                parts.push(format!("reports were not written: {error}"));
            }
        }
        let line = self.note_visit(place, false, &closing(&parts));
        if clean {
            tracing::info!("{line}");
        } else {
            tracing::warn!("{line}");
        }
        read.and(exported).map(|_| ())
    }

    /// [`Agent::import`], remembered for `status`.
    ///
    /// # Errors
    /// As [`Agent::import`].
    pub fn import_noted(&mut self, place: &Path) -> Result<Findings, AgentError> {
        self.note_visit(place, true, "it is being read: do not remove it");
        let read = self.import(place);
        let parts = match &read {
            Ok(findings) => parts(findings),
            Err(error) => vec![error.to_string()],
        };
        self.note_visit(place, false, &closing(&parts));
        read
    }

    fn export_where_wanted(&mut self, place: &Path) -> Result<Option<Exported>, AgentError> {
        // A watched file has no room for reports.
        let Ok(media) = Media::open(place) else {
            return Ok(None);
        };
        if media.has_folder("reports")? {
            self.export(place).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Remembers what came of `place`. What cannot be remembered is logged: the stick matters more.
    fn note_visit(&mut self, place: &Path, busy: bool, told: &str) -> String {
        let place = text::path(place);
        let told = text::printable(told).into_owned();
        let line = format!("`{place}`: {told}");
        let noted = self.commit(|db, author| {
            let mut all: Vec<Visit> = state::meta(db, key::MEDIA)?.unwrap_or_default();
            all.retain(|known| known.place != place);
            // One at a time: what another start had begun was cut off.
            all.iter_mut().for_each(Visit::cut_off);
            all.push(Visit {
                place,
                at_ms: author.moment.wall_ms(),
                busy,
                text: told,
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
    let mut parts = Vec::new();
    parts.extend(findings.outcome.as_ref().map(|outcome| match outcome {
        Outcome::AlreadyActive { number, remembered } => {
            format!("bundle {number} is {}", already(remembered))
        }
        Outcome::Ordered { number, note } => format!("bundle {number} brought an order: {note}"),
        Outcome::Rests {
            number,
            state,
            note,
        } if note.is_empty() => format!("bundle {number} is {}", state.word()),
        Outcome::Rests {
            number,
            state,
            note,
        } => format!("bundle {number} is {}: {}", state.word(), shortened(note)),
    }));
    let slips = findings.slips.iter();
    parts.extend(slips.map(|news| format!("slip {}", news.sentence())));
    parts.extend(findings.acknowledgements());
    for (lines, what) in [
        (
            findings.refused.iter().map(ToString::to_string).collect(),
            "refused",
        ),
        (findings.passed_over.clone(), "skipped"),
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
