//! What keeps a bundle from being taken in that somebody can mend on this machine: a program that lacks, a disk that is full.
//!
//! What comes in: where something was to be taken from, and what came of it. What goes out: the reason and the way out, kept until something is
//! taken in, for `status`: whoever comes later did not see the command. Of what is wrong with a bundle itself, refusals say it.

use outhaul_reconcilers::shortened;
use outhaul_site::attention::{Attention, What};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::media::Findings;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::{self, StateError, generations, key};

/// Why nothing was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NotTaken {
    /// The stick, folder, file or URL.
    source: String,
    /// What lacks on this machine.
    message: String,
    /// The way out.
    help: String,
    /// What to do after that.
    again: String,
    /// Whether it is space that lacked.
    of_space: bool,
    /// The newest bundle that was here then; 0 where there was none.
    newest: u64,
}

/// Keeps what came of reading a medium, in the transaction in which that is remembered.
pub(super) fn note_read(
    db: &Connection,
    place: &str,
    read: &Result<Findings, AgentError>,
) -> Result<(), StateError> {
    match read {
        Ok(findings) => {
            let error = findings
                .refused
                .iter()
                .find(|error| is_of_the_machine(error));
            // Also where another bundle of the same stick was taken.
            match error {
                Some(error) => keep(db, place, error, &again(place)),
                None => note(db, place, None, findings.outcome.is_some()),
            }
        }
        Err(error) => note(db, place, Some((error, &again(place))), false),
    }
}

/// Keeps what came of a repository. One that says the same at every poll is written down once.
///
/// # Errors
/// [`StateError`]
pub(crate) fn note_pulled(
    agent: &mut Agent,
    url: &str,
    error: Option<&AgentError>,
) -> Result<(), StateError> {
    let again = "`outhaul-agent run --once` takes it then, or the service where it runs";
    let db = agent.store.read();
    let known: Option<NotTaken> = state::meta(db, key::NOT_TAKEN)?;
    let error = error.filter(|error| is_of_the_machine(error));
    let now = error
        .map(|error| not_taken(db, url, error, again))
        .transpose()?;
    let is_of_it = known.as_ref().is_some_and(|known| known.source == url);
    if now == known || (now.is_none() && !is_of_it) {
        return Ok(());
    }
    agent.commit(|db, _| state::set_meta(db, key::NOT_TAKEN, now.as_ref()))
}

fn again(place: &str) -> String {
    format!("then `outhaul-agent import {place}` again")
}

/// With an error of this machine, that; otherwise, what was kept of this source goes, and all of it when something was taken.
fn note(
    db: &Connection,
    source: &str,
    error: Option<(&AgentError, &str)>,
    is_taken: bool,
) -> Result<(), StateError> {
    if let Some((error, again)) = error.filter(|(error, _)| is_of_the_machine(error)) {
        return keep(db, source, error, again);
    }
    let known: Option<NotTaken> = state::meta(db, key::NOT_TAKEN)?;
    match known {
        Some(known) if is_taken || known.source == source => {
            state::set_meta::<NotTaken>(db, key::NOT_TAKEN, None)
        }
        _ => Ok(()),
    }
}

fn keep(db: &Connection, source: &str, error: &AgentError, again: &str) -> Result<(), StateError> {
    let kept = not_taken(db, source, error, again)?;
    state::set_meta(db, key::NOT_TAKEN, Some(&kept))
}

fn not_taken(
    db: &Connection,
    source: &str,
    error: &AgentError,
    again: &str,
) -> Result<NotTaken, StateError> {
    let help = error.help();
    let help = help.trim_end_matches("; then repeat the command");
    Ok(NotTaken {
        source: source.to_owned(),
        message: shortened(&error.to_string()),
        help: shortened(help),
        again: again.to_owned(),
        of_space: matches!(error, AgentError::Space { .. }),
        newest: newest(db)?,
    })
}

/// Whether somebody in front of the machine can mend it. Work that cannot go on is shown with the bundle, and a link that is down passes.
fn is_of_the_machine(error: &AgentError) -> bool {
    matches!(
        error,
        AgentError::Apply(_)
            | AgentError::Space { .. }
            | AgentError::File(_)
            | AgentError::Generation(_)
            | AgentError::NotReadable(_)
            | AgentError::Unreadable { .. }
    ) && !matches!(
        error,
        AgentError::Apply(outhaul_reconcilers::ApplyError::Stopped)
    )
}

fn newest(db: &Connection) -> Result<u64, StateError> {
    let all = generations::all(db)?;
    Ok(all.iter().map(|row| row.number).max().unwrap_or(0))
}

/// What is kept, while no newer bundle has come. With `short_of_space`, how to make room is said already.
///
/// # Errors
/// [`StateError`]
pub(crate) fn present(
    db: &Connection,
    short_of_space: bool,
) -> Result<Option<Attention>, StateError> {
    let known: Option<NotTaken> = state::meta(db, key::NOT_TAKEN)?;
    let newest = newest(db)?;
    Ok(known.filter(|known| known.newest == newest).map(|known| {
        let message = format!(
            "no bundle could be taken from `{}`: {}",
            known.source, known.message
        );
        let help = match known.of_space && short_of_space {
            true => format!(
                "when there is room, {}",
                known.again.trim_start_matches("then ")
            ),
            false => format!("{}; {}", known.help, known.again),
        };
        Attention::of_site(What::NotTaken, message, help)
    }))
}
