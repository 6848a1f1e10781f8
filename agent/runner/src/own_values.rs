//! Values that belong to this site: what is kept, what a bundle makes of it, and the statement that goes to the centre.
//!
//! What comes in: the memory, and bundles' indexes. What goes out: the values, why a bundle would wait for a person because of them, and
//! one report whenever what is used of them has changed. Who may set what is decided in `decisions::values`.

use outhaul_bundle::Index;
use outhaul_bundle::report::{ReportEvent, SiteValue};
use outhaul_values::checked;
use rusqlite::Connection;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::{self, StateError, key, outbox};

/// The index of the active bundle; `None` when none is active, or it cannot be read, which is reported elsewhere.
///
/// # Errors
/// [`StateError`]
pub fn active_index(agent: &Agent) -> Result<Option<Index>, StateError> {
    let active = crate::site_now(agent.store.read())?.active;
    Ok(active.and_then(|active| crate::index_of(agent, active.number).ok()))
}

/// Why it is not known here what runs, and with it which values are in use: what is the matter, and the way out. Its files were not restored,
/// or what applied it was lost with the database. `None` where it is known.
///
/// # Errors
/// [`StateError`]
pub fn unknown(agent: &Agent) -> Result<Option<(String, String)>, StateError> {
    let db = agent.store.read();
    let (why, what) = match crate::site_now(db)?.active {
        Some(active) if crate::index_of(agent, active.number).is_ok() => return Ok(None),
        Some(active) => (
            format!(
                "bundle {} is active according to the database, and its files are not on this machine",
                active.number
            ),
            format!("bundle {} again, or a newer bundle", active.number),
        ),
        None if state::meta::<serde_json::Value>(db, key::LOST)?.is_none() => return Ok(None),
        None => (
            "the database that knew it was lost".to_owned(),
            "the newest bundle".to_owned(),
        ),
    };
    Ok(Some((
        format!("what runs on this site, and which values it uses, is not known here: {why}"),
        format!("import {what} (`outhaul-agent import FOLDER`), then repeat the command"),
    )))
}

/// Values that are in use and that `index` does not take, each in a sentence.
///
/// # Errors
/// [`StateError`]
pub fn lost_by(agent: &Agent, index: &Index) -> Result<Vec<String>, StateError> {
    let given = agent.site_values()?;
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let active = active_index(agent)?;
    let already = active.map(|active| checked::refused_by(&active, &given));
    let already = already.unwrap_or_default();
    let refused = checked::refused_by(index, &given).into_iter();
    let lost = refused.filter(|(assignment, key, _)| {
        !already
            .iter()
            .any(|(other, known, _)| other == assignment && known == key)
    });
    Ok(lost
        .map(|(assignment, _, why)| format!("`{assignment}`: {why}"))
        .collect())
}

/// Reports what is used of the site's values, when that is not what was reported last.
///
/// # Errors
/// [`AgentError`] of the memory.
pub fn report(agent: &mut Agent) -> Result<(), AgentError> {
    let given = agent.site_values()?;
    let reported: Vec<SiteValue> = reported(agent.store.read())?;
    if given.is_empty() && reported.is_empty() {
        return Ok(());
    }
    let now = checked::statement(active_index(agent)?.as_ref(), &given);
    if now == reported {
        return Ok(());
    }
    let unused = now.iter().filter(|value| value.unused.is_some()).count();
    let message = match unused {
        0 => "what runs uses every value that this site set".to_owned(),
        unused => format!(
            "what runs does not use {unused} of {} values that this site set",
            now.len()
        ),
    };
    agent
        .commit(|db, author| {
            state::set_meta(
                db,
                key::SITE_VALUES_REPORTED,
                Some(&now).filter(|now| !now.is_empty()),
            )?;
            let event = ReportEvent::SiteValues {
                message,
                who: None,
                values: now,
            };
            outbox::queue(db, author, event).map(|_| ())
        })
        .map_err(|error: StateError| error.into())
}

/// The values as they were reported last.
fn reported(db: &Connection) -> Result<Vec<SiteValue>, StateError> {
    Ok(state::meta(db, key::SITE_VALUES_REPORTED)?.unwrap_or_default())
}
