//! Which settings `agent.toml` had when it was worked with last, noted in the database beside it in case the file is lost.
//!
//! What comes in: the state folder of an agent or of an apply helper, and its database. What goes out: the names of the settings that are lost with the
//! file, where it had some and is gone. A file without settings says that the defaults are meant. It decides nothing.

use outhaul_kit::text;
use outhaul_site::aside;
use outhaul_site::state::{self, StateError, Store, key};
use outhaul_site::state_folder::StateFolder;
use rusqlite::Connection;

use crate::named;

/// How many settings are named.
const MAX_NAMED: usize = 5;

/// Notes which settings the file has, before anything is done by them. One that is gone stays as it was noted.
///
/// # Errors
/// [`StateError`]
pub fn note(state_folder: &StateFolder, store: &mut Store) -> Result<(), StateError> {
    let Some(now) = named::settings(&state_folder.config()) else {
        return Ok(());
    };
    let known: Vec<String> = state::meta(store.read(), key::SETTINGS)?.unwrap_or_default();
    match known == now {
        true => Ok(()),
        false => store.commit(|db| {
            state::set_meta(db, key::SETTINGS, Some(&now).filter(|now| !now.is_empty()))
        }),
    }
}

/// The settings that are lost with the file, where it had some and is gone.
///
/// # Errors
/// [`StateError`]
pub fn lost(
    state_folder: &StateFolder,
    db: &Connection,
) -> Result<Option<Vec<String>>, StateError> {
    match aside::is_taken(&state_folder.config()) {
        true => Ok(None),
        false => state::meta(db, key::SETTINGS),
    }
}

/// That they are lost, in words.
pub fn sentence(state_folder: &StateFolder, names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "`{}` is gone, and this site has worked with one that sets {}",
        text::path(&state_folder.config()),
        text::named(&names, MAX_NAMED)
    )
}
