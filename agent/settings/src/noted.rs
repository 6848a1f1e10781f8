//! Which settings `agent.toml` had when it was worked with last, noted in the database beside it in case the file is lost.
//!
//! What comes in: the state folder of an agent or of an apply helper, and its database. What goes out: the names of the settings that are lost with the
//! file, where it had some and is gone, bounded and without values, which may be secret. A file without settings says that the defaults are meant. It
//! checks no setting and decides nothing.

use std::path::Path;

use outhaul_kit::{durable, text};
use outhaul_site::state::{self, StateError, Store, key};
use outhaul_site::state_folder::StateFolder;
use rusqlite::Connection;

use crate::config::MAX_CONFIG_BYTES;

/// Most names; a file with more is known by the first of them.
const MAX_NOTED: usize = 64;

/// How many settings are named.
const MAX_NAMED: usize = 5;

/// Notes which settings the file has, before anything is done by them. One that is gone stays as it was noted. That it cannot be noted is logged.
pub fn note(state_folder: &StateFolder, store: &mut Store) {
    if let Err(error) = try_to_note(state_folder, store) {
        tracing::warn!("which settings agent.toml has is not noted in case it is lost: {error}");
    }
}

fn try_to_note(state_folder: &StateFolder, store: &mut Store) -> Result<(), StateError> {
    let Some(now) = settings_in(&state_folder.config()) else {
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
    match is_there(state_folder) {
        true => Ok(None),
        false => state::meta(db, key::SETTINGS),
    }
}

/// Whether the file is there. Where a link leads to nothing, it is not.
pub fn is_there(state_folder: &StateFolder) -> bool {
    !matches!(state_folder.config().try_exists(), Ok(false))
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

/// What to do about it; `target` is what a running service still has as its `folder.target`.
pub fn help(state_folder: &StateFolder, target: Option<&Path>) -> String {
    let target = target.map_or_else(String::new, |target| {
        format!(
            " (`target` under `[folder]`: set it to `{}` again)",
            text::path(target)
        )
    });
    format!(
        "put the file back{target}, or write it again; where the default settings are meant from now on, make a file without settings \
         (`test -e {path} || install -m 644 /dev/null {path}`)",
        path = text::quoted(state_folder.config())
    )
}

/// The settings in the file, such as `folder.target`, sorted; `None` where there is no file, or it cannot be read.
fn settings_in(path: &Path) -> Option<Vec<String>> {
    let bytes = durable::read_if_present(path, MAX_CONFIG_BYTES).ok()??;
    let table: toml::Table = toml::from_str(&String::from_utf8_lossy(&bytes)).ok()?;
    let mut names = Vec::new();
    for (name, value) in &table {
        match value.as_table() {
            Some(inner) => names.extend(inner.keys().map(|key| format!("{name}.{key}"))),
            None => names.push(name.clone()),
        }
    }
    names.sort();
    names.truncate(MAX_NOTED);
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_named_without_their_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.toml");
        let named = |text: &str| {
            durable::write(&path, text.as_bytes(), 0o600).unwrap();
            settings_in(&path)
        };
        assert_eq!(settings_in(&path), None);
        assert_eq!(named("# nothing\n[folder]\n"), Some(Vec::new()));
        let text = "drift_s = 60\n[folder]\ntarget = \"/srv\"\n";
        let names = ["drift_s", "folder.target"].map(str::to_owned);
        assert_eq!(named(text), Some(names.to_vec()));
        assert_eq!(named("drift_s ="), None);
    }
}
