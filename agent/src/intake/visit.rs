//! What came of each stick, in one line: for the journal, and for `status`.
//!
//! What comes in: a stick or folder that is to be read. What goes out: the same as of an import, and a
//! line in the memory that says what was taken, what was refused and why, and that the stick may go. While
//! it is read, the line says so. Refusals are kept beside it: the reports of them leave with the outbox.

use std::path::Path;

use outhaul_kit::media::Media;
use outhaul_kit::mounts;
use outhaul_kit::text;
use rusqlite::Connection;

use super::media::Findings;
use super::slip::SlipEffect;
use super::{ImportOutcome, skipped_source};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::intake::media;
use crate::machine::State;
use crate::report::{self, Exported, OnMedium};
use crate::runner::{self, lost_settings};
use crate::state::{self, StateError, generations, key};
use crate::state_folder::StateFolder;
use outhaul_reconcilers::shortened;
use outhaul_site::visit::REMOVABLE;
pub use outhaul_site::visit::{Reports, Visit};

/// How many sticks are remembered.
const KEPT: usize = 8;
/// How many of the files that were left alone are named in the line.
const MAX_NAMED: usize = 3;

/// What came of sticks, as it is now: what says that it is being read is, or was cut off.
///
/// # Errors
/// [`StateError`]
pub fn visits(db: &Connection, state_folder: &StateFolder) -> Result<Vec<Visit>, StateError> {
    let mut all: Vec<Visit> = state::meta(db, key::MEDIA)?.unwrap_or_default();
    if !state_folder.is_locked() {
        close(db, &mut all)?;
    }
    let unfinished = runner::site_now(db)?.worked_on();
    let is_over = lost_settings::is_over(state_folder, db)?;
    for visit in &mut all {
        let blocked = visit.blocked.filter(|number| unfinished != Some(*number));
        let left = visit.left.as_ref();
        let Some(number) = blocked.or(left.map(|(number, _)| *number)) else {
            continue;
        };
        let row = generations::one(db, number)?;
        let state = row.as_ref().map_or("gone", |row| row.state.shown());
        let mut now = format!("bundle {number} {}, and is {state} now", visit.came());
        if let (None, Some(row)) = (blocked, row) {
            let note = match is_over {
                true => row.note.unblocked(),
                false => row.note,
            };
            let note = note.to_string();
            let note = shortened(&note).replace('\n', " ");
            // Only what changed since is reported again: it went on, or it waits for something else.
            let same = left.is_some_and(|(_, word)| word == row.state.as_str());
            if same && visit.text.contains(&note) {
                continue;
            }
            if row.state.unfinished() && !note.is_empty() {
                now = format!("{now}: {note}");
            }
        }
        visit.text = format!("{now}{REMOVABLE}");
    }
    let at_work = state_folder.is_locked();
    for visit in &mut all {
        visit.tell_of_reports(at_work);
    }
    Ok(all)
}

/// Reads a watched place, writes reports where it has a folder for them, and logs one line.
///
/// # Errors
/// As [`media::import`] and [`report::export`]; it was logged already.
pub fn visit(agent: &mut Agent, place: &Path, there: &mut OnMedium) -> Result<(), AgentError> {
    note_visit(agent, place, None, None, None);
    // Each stick that is mounted below a watched folder is a watched place by itself.
    let apart = mounts::below(&[place.to_owned()]);
    let read = media::import_without(agent, place, &apart);
    let read = read.map_err(|error| error.while_reading(place));
    let stop = matches!(read, Err(AgentError::State(_) | AgentError::Stopped));
    let exported = if agent.config.export_to_media && !stop {
        export_where_wanted(agent, place, there)
    } else {
        Ok(None)
    };
    let parts = parts_of(agent, &read);
    let refused = read.as_ref().map(|findings| findings.refused.len());
    let whole = read.as_ref().is_ok_and(|found| found.deeper.is_none());
    let clean = matches!(refused, Ok(0)) && whole && exported.is_ok();
    let reports = match &exported {
        Ok(None) => None,
        Ok(Some(_)) => Some(None),
        Err(error) => Some(Some(error)),
    };
    let reports = reports.map(|problem| {
        let mut reports = Reports::default();
        let problem = problem.map(AgentError::to_string);
        reports.ended(there.written(), there.last(), problem.as_deref());
        reports
    });
    let line = note_visit(agent, place, Some(&closing(&parts)), Some(&read), reports);
    if clean {
        tracing::info!("{line}");
    } else {
        tracing::warn!("{line}");
    }
    read.and(exported).map(|_| ())
}

/// Writes what is newer than what is `there` to a place that has stayed, and remembers it for `status`. Returns
/// `None` when there is nothing to write, or no folder for it.
///
/// # Errors
/// As [`report::export`].
pub fn write_newer(
    agent: &mut Agent,
    place: &Path,
    there: &mut OnMedium,
) -> Result<Option<Exported>, AgentError> {
    // A watched file, and a folder that is not there, have no room for reports.
    let Ok(media) = Media::open(place) else {
        return Ok(None);
    };
    if !media.has_folder("reports").unwrap_or(true) || !report::has_newer(agent, &media, there)? {
        return Ok(None);
    }
    note_reports(agent, place, |reports| reports.writing = true);
    let done = media
        .has_folder("reports")
        .map_err(AgentError::Export)
        .and_then(|_| report::export_newer(agent, place, there));
    note_reports(agent, place, |reports| {
        let problem = done.as_ref().err().map(AgentError::to_string);
        reports.ended(there.written(), there.last(), problem.as_deref());
    });
    done.map(Some)
}

/// Remembers what was written to a place. What cannot be remembered is logged: the stick matters more.
fn note_reports(agent: &mut Agent, place: &Path, change: impl FnOnce(&mut Reports)) {
    let whole = std::path::absolute(place);
    let place = text::path(whole.as_deref().unwrap_or(place));
    let noted = agent.commit(|db, author| {
        let mut all: Vec<Visit> = state::meta(db, key::MEDIA)?.unwrap_or_default();
        let at = all.iter().position(|visit| visit.place == place);
        let mut visit = match at {
            Some(at) => all.remove(at),
            None => Visit {
                place,
                at_ms: author.reading.wall_ms(),
                busy: false,
                text: format!("nothing on it is for this site{REMOVABLE}"),
                is_file: false,
                blocked: None,
                left: None,
                was_here: false,
                newest_before: None,
                cut_off: false,
                reports: None,
            },
        };
        let reports = visit.reports.get_or_insert_default();
        change(reports);
        reports.at_ms = author.reading.wall_ms();
        all.push(visit);
        all.drain(..all.len().saturating_sub(KEPT));
        state::set_meta(db, key::MEDIA, Some(&all))
    });
    if let Err(error) = noted {
        let error: StateError = error;
        tracing::warn!("`status` cannot show what was written to a stick: {error}");
    }
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
    note_visit(agent, place, None, None, None);
    let read = media::import(agent, place).map_err(|error| error.while_reading(place));
    let parts = parts_of(agent, &read);
    note_visit(agent, place, Some(&closing(&parts)), Some(&read), None);
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
        close(db, &mut all)?;
        state::set_meta(db, key::MEDIA, Some(&all))
    })
}

/// Says of all that were still being read that their reader is gone.
fn close(db: &Connection, all: &mut [Visit]) -> Result<(), StateError> {
    let (unfinished, newest) = (runner::site_now(db)?.worked_on(), newest(db)?);
    for visit in all {
        visit.cut_off(unfinished, newest);
    }
    Ok(())
}

/// The newest bundle that was copied here whole.
fn newest(db: &Connection) -> Result<Option<u64>, StateError> {
    let all = generations::all(db)?;
    let is_whole = |state| !matches!(state, State::Verified | State::Rejected);
    let whole = all.iter().filter(|one| is_whole(one.state));
    Ok(whole.map(|one| one.number).max())
}

fn export_where_wanted(
    agent: &mut Agent,
    place: &Path,
    there: &mut OnMedium,
) -> Result<Option<Exported>, AgentError> {
    // A watched file has no room for reports.
    let Ok(media) = Media::open(place) else {
        return Ok(None);
    };
    if media.has_folder("reports").map_err(AgentError::Export)? {
        report::export_newer(agent, place, there).map(Some)
    } else {
        Ok(None)
    }
}

/// Remembers what came of `place`, or that it is being read. What cannot be remembered is logged: the stick matters more.
fn note_visit(
    agent: &mut Agent,
    place: &Path,
    text: Option<&str>,
    read: Option<&Result<Findings, AgentError>>,
    reports: Option<Reports>,
) -> String {
    let busy = text.is_none();
    let shown = text.unwrap_or("it is being read: do not remove it");
    let blocked = match read {
        Some(Err(AgentError::Blocked { number, .. })) => Some(*number),
        _ => None,
    };
    let outcome = read.and_then(|read| read.as_ref().ok()?.outcome.as_ref());
    let left = match outcome {
        Some(ImportOutcome::Rests { number, state, .. }) => {
            Some((*number, state.as_str().to_owned()))
        }
        Some(ImportOutcome::AlreadyActive { number, .. }) => {
            Some((*number, State::Active.as_str().to_owned()))
        }
        _ => None,
    };
    let is_file = place.is_file();
    let whole = std::path::absolute(place);
    let place = text::path(whole.as_deref().unwrap_or(place));
    let text = text::printable(shown).into_owned();
    let mut visit = Visit {
        place: place.clone(),
        at_ms: 0,
        busy,
        text,
        is_file,
        blocked,
        left,
        was_here: read.is_some_and(|read| read.as_ref().is_ok_and(|found| !found.copied)),
        newest_before: None,
        cut_off: false,
        reports,
    };
    let line = {
        let mut shown = visit.clone();
        shown.tell_of_reports(false);
        format!("`{place}`: {}", shown.text)
    };
    let keeps_reason = agent.check_settings().is_ok();
    let noted = agent.commit(|db, author| {
        let mut all: Vec<Visit> = state::meta(db, key::MEDIA)?.unwrap_or_default();
        let before = all.iter().find(|known| known.place == place);
        let before = before.and_then(|known| known.newest_before);
        all.retain(|known| known.place != place);
        // What could not go on may have been here before this was read.
        let is_old = |number| before.is_some_and(|before| number <= before);
        visit.was_here |= visit.blocked.is_some_and(is_old);
        // One at a time: what another start had begun was cut off.
        close(db, &mut all)?;
        visit.at_ms = author.reading.wall_ms();
        if visit.busy {
            visit.newest_before = Some(newest(db)?.unwrap_or(0));
        }
        if let Some(reports) = &mut visit.reports {
            reports.at_ms = visit.at_ms;
        }
        all.push(visit);
        all.drain(..all.len().saturating_sub(KEPT));
        if let Some(read) = read.filter(|_| keeps_reason) {
            skipped_source::note_read(db, &place, read)?;
        }
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
    format!("{}{REMOVABLE}", parts.join("; "))
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

/// The same of what was read. That the settings are lost is said as long as they are, and not kept.
fn parts_of(agent: &Agent, read: &Result<Findings, AgentError>) -> Vec<String> {
    match read {
        Ok(findings) => parts(findings),
        Err(_) if agent.check_settings().is_err() => {
            vec![
                "no bundle was taken from it, because agent.toml was gone; import it again"
                    .to_owned(),
            ]
        }
        Err(error) => vec![error.to_string()],
    }
}

/// What was taken, refused and left alone.
fn parts(findings: &Findings) -> Vec<String> {
    let mut parts = Vec::from_iter(findings.moved.clone());
    parts.extend(findings.outcome.as_ref().map(|outcome| match outcome {
        ImportOutcome::AlreadyActive { number, remembered } => {
            format!("bundle {number} is {}", already(remembered))
        }
        ImportOutcome::Incomplete {
            part,
            brought,
            bundle,
        } => brought.sentence(*part, bundle),
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
    if !findings.rebuilt.is_empty() {
        parts.push(outhaul_site::offer::made_again(&findings.rebuilt));
    }
    parts.extend(findings.notes.iter().cloned());
    let slips = findings.slips.iter();
    parts.extend(slips.map(SlipEffect::sentence));
    parts.extend(findings.acknowledgements());
    let beside_others = findings.changed_something();
    let refused = findings.refused.iter().map(|error| match beside_others {
        true => error.beside_others(),
        false => error.to_string(),
    });
    for (lines, what) in [
        (refused.collect(), "refused"),
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
        let nothing = match findings.deeper {
            None => "nothing on it is for this site",
            Some(_) => "nothing of what was read is for this site",
        };
        parts.push(nothing.to_owned());
    }
    parts.extend(findings.deeper.clone());
    parts
}
