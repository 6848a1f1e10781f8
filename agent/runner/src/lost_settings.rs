//! An `agent.toml` that is gone: by the default settings a bundle would be applied to another place, or without the approval that this site asks for.
//!
//! What comes in: which settings the file had when the agent worked with it last, and whether it is there. What goes out: an error before anything is
//! applied or compared, and one thing to look after. A file without settings says that the defaults are meant.

use std::path::Path;

use outhaul_reconcilers::ApplyError;
use outhaul_settings::noted::{self, is_there, lost, sentence};
use outhaul_site::attention::{Attention, AttentionKind};

use rusqlite::Connection;

use crate::config;
use crate::error::AgentError;
use crate::state::{self, StateError, key};
use crate::state_folder::StateFolder;

/// What comes of lost settings for bundles.
pub(crate) const NOT_APPLIED: &str = "no bundle is applied";

/// What comes of them for what a person decides.
pub(crate) const UNDECIDED: &str = "no bundle is applied, and no decision is recorded";

/// Whether the running service had a file with settings when it started; `None` where none runs.
fn service_has_settings(state_folder: &StateFolder) -> Option<bool> {
    let read = state_folder.service_settings()?;
    Some(read != config::mark_of_none())
}

/// Refuses to work by the default settings in place of lost ones.
///
/// # Errors
/// [`AgentError::Apply`]
pub(crate) fn refuse(state_folder: &StateFolder, db: &Connection) -> Result<(), AgentError> {
    refused(state_folder, db, "this program", NOT_APPLIED)
}

/// Refuses what the process that works on this site would not carry out, because it has the default settings in place of lost ones. A service that read the
/// file before it was lost goes on with what it read.
///
/// # Errors
/// [`AgentError::Apply`]
pub(crate) fn refuse_beside(
    state_folder: &StateFolder,
    db: &Connection,
    has_settings: bool,
    so: &str,
) -> Result<(), AgentError> {
    match service_has_settings(state_folder) {
        Some(true) => Ok(()),
        Some(false) => refused(state_folder, db, "the service", so),
        None if has_settings => Ok(()),
        None => refused(state_folder, db, "this program", so),
    }
}

fn refused(
    state_folder: &StateFolder,
    db: &Connection,
    started: &str,
    so: &str,
) -> Result<(), AgentError> {
    let Some(names) = state::meta::<Vec<String>>(db, key::SETTINGS)? else {
        return Ok(());
    };
    let error = match is_there(state_folder) {
        true => ApplyError::Settings {
            problem: format!(
                "agent.toml was gone when {started} started, and is there again: it is not followed yet; {so}"
            ),
            help: "`systemctl restart outhaul-agent` has the service follow it".to_owned(),
        },
        false => ApplyError::Settings {
            problem: format!(
                "{}: by the default settings, bundles would be applied in another way; {so}",
                sentence(state_folder, &names)
            ),
            help: help(state_folder, None),
        },
    };
    Err(error.into())
}

/// Notes, in the transaction in which `error` keeps the work from going on, whether that is because the settings are lost.
pub(crate) fn note_block(
    state_folder: &StateFolder,
    db: &Connection,
    error: &AgentError,
) -> Result<(), StateError> {
    let is_of_settings = matches!(error, AgentError::Apply(ApplyError::Settings { .. }));
    let is_gone = is_of_settings && !is_there(state_folder);
    state::set_meta(
        db,
        key::BLOCKED_BY_SETTINGS,
        Some(&is_gone).filter(|is| **is),
    )
}

/// Whether the work was kept from going on because the settings were lost, and they are there again.
///
/// # Errors
/// [`StateError`]
pub fn is_over(state_folder: &StateFolder, db: &Connection) -> Result<bool, StateError> {
    let noted: Option<bool> = state::meta(db, key::BLOCKED_BY_SETTINGS)?;
    Ok(noted == Some(true) && is_there(state_folder))
}

/// The same for `status`; `target` is the one that a running service still writes to, as its settings named it.
///
/// # Errors
/// [`StateError`] of the store.
pub fn attention(
    state_folder: &StateFolder,
    db: &Connection,
    target: Option<&Path>,
) -> Result<Option<Attention>, StateError> {
    let Some(names) = lost(state_folder, db)? else {
        return Ok(None);
    };
    let now = match service_has_settings(state_folder) {
        Some(true) => {
            "the service goes on with what it read when it started, and applies nothing after its next start"
        }
        Some(false) | None => "no bundle is applied, and what runs is not compared",
    };
    Ok(Some(Attention::of_site(
        AttentionKind::Settings,
        format!("{}: {now}", sentence(state_folder, &names)),
        help(state_folder, target),
    )))
}

/// What a person is to do about unfinished work while the settings are lost.
pub fn to_do(number: u64) -> String {
    format!(
        "the work on bundle {number} is unfinished, and goes on when agent.toml is there again: run `outhaul-agent apply` then, or leave it to the service \
         where it runs"
    )
}

fn help(state_folder: &StateFolder, target: Option<&Path>) -> String {
    format!(
        "{}; then start the service again, where it runs (`systemctl restart outhaul-agent`)",
        noted::help(state_folder, target)
    )
}
