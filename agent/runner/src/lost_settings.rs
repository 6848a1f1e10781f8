//! An `agent.toml` that is gone: by the default settings a bundle would be applied to another place, or without the approval that this site asks for.
//!
//! What comes in: which settings the file had when the agent worked with it last, and whether it is there. What goes out: an error before anything is
//! applied or compared, and one thing to look after. A file without settings says that the defaults are meant.

use std::path::Path;

use outhaul_reconcilers::ApplyError;
use outhaul_settings::noted::{self, lost, sentence};
use outhaul_site::aside;
use outhaul_site::attention::{Attention, AttentionKind};

use rusqlite::Connection;

use crate::config;
use crate::error::AgentError;
use crate::state::{self, StateError, key};
use crate::state_folder::StateFolder;

/// Whether a service runs that read a file which is another one now, or gone.
pub(crate) fn is_known_to_service(state_folder: &StateFolder) -> bool {
    let read = state_folder.service_settings();
    read.is_some() && read != config::mark(&state_folder.config())
}

/// Refuses to work by the default settings in place of lost ones.
///
/// # Errors
/// [`AgentError::Apply`]
pub(crate) fn refuse(state_folder: &StateFolder, db: &Connection) -> Result<(), AgentError> {
    let Some(names) = state::meta::<Vec<String>>(db, key::SETTINGS)? else {
        return Ok(());
    };
    let error = match aside::is_taken(&state_folder.config()) {
        true => ApplyError::Settings {
            problem: "agent.toml was gone when this program started, and is there again: it is not followed yet, and no bundle is applied".to_owned(),
            help: "`systemctl restart outhaul-agent` has the service follow it".to_owned(),
        },
        false => ApplyError::Settings {
            problem: format!(
                "{}: by the default settings, bundles would be applied in another way; no bundle is applied",
                sentence(state_folder, &names)
            ),
            help: help(state_folder, None),
        },
    };
    Err(error.into())
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
    let now = match is_known_to_service(state_folder) {
        true => {
            "the service goes on with what it read when it started, and applies nothing after its next start"
        }
        false => "no bundle is applied, and what runs is not compared",
    };
    Ok(Some(Attention::of_site(
        AttentionKind::Settings,
        format!("{}: {now}", sentence(state_folder, &names)),
        help(state_folder, target),
    )))
}

fn help(state_folder: &StateFolder, target: Option<&Path>) -> String {
    format!(
        "{}; then start the service again, where it runs (`systemctl restart outhaul-agent`)",
        noted::help(state_folder, target)
    )
}
