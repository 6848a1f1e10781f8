//! Which settings `agent.toml` has, by name: what a site is to remember of the file in case it is lost.
//!
//! What comes in: the file. What goes out: the names of its settings, bounded, without values, which may be secret. It checks none of them.

use std::path::Path;

use crate::config::MAX_CONFIG_BYTES;
use outhaul_kit::durable;

/// Most names; a file with more is known by the first of them.
const MAX_NAMES: usize = 64;

/// The settings in the file, such as `folder.target`, sorted; `None` where there is no file, or it cannot be read.
pub fn settings(path: &Path) -> Option<Vec<String>> {
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
    names.truncate(MAX_NAMES);
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
            settings(&path)
        };
        assert_eq!(settings(&path), None);
        assert_eq!(named("# nothing\n[folder]\n"), Some(Vec::new()));
        let text = "drift_s = 60\n[folder]\ntarget = \"/srv\"\n";
        let names = ["drift_s", "folder.target"].map(str::to_owned);
        assert_eq!(named(text), Some(names.to_vec()));
        assert_eq!(named("drift_s ="), None);
    }
}
