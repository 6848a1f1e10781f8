//! What lies in a state folder: whether each entry is what it has to be, and whether it shows that a site was here.
//!
//! What comes in: the folder. What goes out: the first entry that is something else, as an error that names it, or nothing. It opens and
//! follows none of them, and changes nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use outhaul_kit::durable::{
    LINK, OWN_ENTRY, OWN_FILE, OWN_USERS, OWN_WORKING_FILE, OWN_WORKING_FOLDER, Unexpected, kind_of,
};

use super::{AtWork, DATABASE_FILES, LOCK, REPORTS, RESCUED, RESTORING, StateFolder};
use crate::durable::{self, FileError, at};

/// The folders in which the agent itself makes, removes and reads files. The target of the folder reconciler is its owner's to choose.
pub const FOLDERS: [&str; 8] = [
    "blobs",
    "blobs/sha256",
    "blobs/partial",
    "generations",
    "roots",
    "identities",
    RESCUED,
    "rescued/reports",
];
/// Its folders for reconcilers and for what is served: whose files are in them is not checked.
const FOLDERS_OF_PROGRAMS: [&str; 4] = ["kept", "ansible", "hook", "serve"];
/// Its own files beside the database that are read, and replaced as a whole. `agent.toml` is the owner's, and may be a link.
pub const REPLACED_FILES: [&str; 6] = [
    "floors.json",
    "holds.json",
    "site.json",
    "site.key",
    "site.key.next",
    "site.age.next",
];

/// What else may lie there before a site is made: settings, the agent's own program, and what a file system has in its root.
const OF_OWNER: [&str; 5] = ["agent.toml", "agent", LOCK, RESTORING, "lost+found"];
/// Largest `agent.toml` that is looked at for names, in bytes.
const MAX_SETTINGS_BYTES: u64 = 1024 * 1024;

/// Whether the agent makes such a file again when it lacks. An old one of what SQLite writes beside the database would be put into it.
fn is_working_file(name: &str) -> bool {
    name == LOCK || name.starts_with("agent.db-")
}

impl StateFolder {
    /// Refuses a folder in which something else lies where the agent's own files and folders are: a link leads elsewhere, and a FIFO
    /// keeps whoever opens it waiting. Only `agent.toml` may be a link.
    ///
    /// # Errors
    /// [`FileError`] names the first such entry.
    pub fn check(&self) -> Result<(), FileError> {
        for name in FOLDERS.iter().chain(&FOLDERS_OF_PROGRAMS) {
            let path = self.root.join(name);
            if let Some(found) = other(&path, fs::FileType::is_dir) {
                // Where a link leads, reports may be that were saved.
                let expected = match name.starts_with(RESCUED) && found != LINK {
                    true => OWN_WORKING_FOLDER,
                    false => OWN_ENTRY,
                };
                return Err(unexpected(&path, found, expected));
            }
        }
        for name in [LOCK].iter().chain(&REPLACED_FILES).chain(&DATABASE_FILES) {
            let path = self.root.join(name);
            if let Some(found) = other(&path, fs::FileType::is_file) {
                // Written again from the database, where there is one.
                let is_copy = ["holds.json", "site.json"].contains(name)
                    && self.instead_of_database().is_none()
                    && self.database().exists();
                let expected = match is_working_file(name) || is_copy {
                    true => OWN_WORKING_FILE,
                    false => OWN_FILE,
                };
                return Err(unexpected(&path, found, expected));
            }
        }
        for path in durable::list(&self.root)? {
            // What cannot be read is said by whoever needs it.
            let Ok(found) = fs::metadata(&path) else {
                continue;
            };
            let kind = found.file_type();
            if kind.is_fifo() || kind.is_block_device() || kind.is_char_device() {
                // Nothing has to be in the place of what is not the agent's.
                let expected = match path == self.config() {
                    true => OWN_FILE,
                    false => OWN_WORKING_FILE,
                };
                return Err(unexpected(&path, kind_of(kind), expected));
            }
        }
        Ok(())
    }

    /// What lies in the place of the database, where it is something else than a file.
    pub fn instead_of_database(&self) -> Option<&'static str> {
        other(&self.database(), fs::FileType::is_file)
    }

    /// Whether a restore was interrupted before the database was in its place: nothing of it counts, and the same command starts it over.
    pub fn restore_is_begun(&self) -> bool {
        self.has_restore() && !self.restore_is_at_work()
    }

    /// Whether a restore is at work that has not put the database in its place yet.
    pub(crate) fn restore_is_at_work(&self) -> bool {
        self.has_restore() && matches!(self.at_work(), AtWork::Command(_))
    }

    /// Whether a restore was interrupted when everything was in its place: the database comes last, and what is beside is removed after it.
    pub fn restore_is_at_its_end(&self) -> bool {
        let beside = self.root.join(RESTORING);
        beside.is_dir() && !beside.join("agent.db").exists() && self.database().is_file()
    }

    fn has_restore(&self) -> bool {
        self.root.join(RESTORING).is_dir() && !self.database().exists()
    }

    /// Refuses a folder in which someone else has put something before it is a site's: settings that name programs, an agent, a lock that
    /// they hold open. Closing the folder would make that ours.
    ///
    /// # Errors
    /// [`FileError`] names the first such entry.
    pub fn check_unused(&self) -> Result<(), FileError> {
        let own = rustix::process::geteuid().as_raw();
        for path in durable::list(&self.root)? {
            let found = fs::symlink_metadata(&path).map_err(at("look at", &path))?;
            if found.uid() != 0 && found.uid() != own {
                return Err(unexpected(&path, "what another user put there", OWN_USERS));
            }
        }
        Ok(())
    }

    /// The names of what lies in a folder in which no site was or is being made, and is not an agent's: a home folder, a stick, a repository.
    /// What a value in `agent.toml` names is its owner's to put there, as is `kit`, the file that the site is enrolled with.
    ///
    /// # Errors
    /// [`FileError`] of a folder that cannot be listed.
    pub fn foreign(&self, kit: Option<&Path>) -> Result<Vec<String>, FileError> {
        let made = [self.database(), self.identity(), self.key()];
        if self.shows_site().is_some() || made.iter().any(|path| path.exists()) {
            return Ok(Vec::new());
        }
        let settings = durable::read(&self.config(), MAX_SETTINGS_BYTES).unwrap_or_default();
        let settings = names_in(&String::from_utf8_lossy(&settings));
        // Someone may name it by a link, or from another folder.
        let kit = kit.and_then(|kit| fs::canonicalize(kit).ok());
        let is_kit = |path: &Path| {
            let found = || fs::canonicalize(path).ok();
            kit.is_some() && path.is_file() && found() == kit
        };
        let own = |name: &str| {
            let own = FOLDERS.iter().chain(&FOLDERS_OF_PROGRAMS);
            let own = own.chain(&REPLACED_FILES).chain(&DATABASE_FILES);
            own.chain(&OF_OWNER).any(|known| *known == name) || settings.contains(name)
        };
        let all = durable::list(&self.root)?;
        let all = all.iter().filter(|path| !is_kit(path));
        let names = all.filter_map(|path| path.file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        Ok(names.filter(|name| !own(name)).collect())
    }

    /// The name of an entry that shows that a site was here: only what was accepted, applied or saved leaves these; an enrolment that was
    /// cut off does not.
    pub fn shows_site(&self) -> Option<String> {
        let is_there = |path: &Path| match *path == self.generations() {
            true => durable::list(path).is_ok_and(|names| !names.is_empty()),
            false => path.exists(),
        };
        let left = [self.floors(), self.default_target(), self.generations()];
        let beside = left.iter().find(|path| is_there(path));
        let name = |path: &Path| {
            Some(
                path.strip_prefix(&self.root)
                    .ok()?
                    .to_string_lossy()
                    .into_owned(),
            )
        };
        beside
            .and_then(|path| name(path))
            .or_else(|| name(&self.rescued()?))
    }

    /// A database, holds, floors or reports of a site that were saved here, where there are any.
    fn rescued(&self) -> Option<PathBuf> {
        let rescued = self.root.join(RESCUED);
        let of = |folder: &Path, end: &str| {
            let mut all = durable::list(folder).unwrap_or_default().into_iter();
            all.find(|path| path.extension().is_some_and(|found| found == end))
        };
        let copy = Self::new(&rescued);
        let copies = [copy.holds(), copy.floors()];
        of(&rescued, "db")
            .or_else(|| copies.into_iter().find(|path| path.exists()))
            .or_else(|| of(&rescued.join(REPORTS), "reports"))
    }
}

/// The names in the paths that settings have as values; none where they cannot be read.
fn names_in(settings: &str) -> BTreeSet<String> {
    fn add(value: &toml::Value, names: &mut BTreeSet<String>) {
        match value {
            toml::Value::String(text) => {
                let parts = Path::new(text).iter();
                names.extend(parts.map(|part| part.to_string_lossy().into_owned()));
            }
            toml::Value::Array(all) => all.iter().for_each(|one| add(one, names)),
            toml::Value::Table(all) => all.values().for_each(|one| add(one, names)),
            _ => {}
        }
    }
    let mut names = BTreeSet::new();
    if let Ok(settings) = settings.parse::<toml::Table>() {
        settings.values().for_each(|value| add(value, &mut names));
    }
    names
}

/// What is at `path`, where it is not of the kind that it has to be. What is not there is nothing else.
fn other(path: &Path, is_right: impl Fn(&fs::FileType) -> bool) -> Option<&'static str> {
    let kind = fs::symlink_metadata(path).ok()?.file_type();
    (!is_right(&kind)).then(|| kind_of(kind))
}

fn unexpected(path: &Path, found: &'static str, expected: &'static str) -> FileError {
    let what = Unexpected { found, expected };
    at("open", path)(io::Error::new(io::ErrorKind::InvalidInput, what))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_in_the_place_of_any_own_file_or_folder_is_refused_and_not_followed() {
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("file"), "theirs").unwrap();
        let files = [LOCK]
            .into_iter()
            .chain(REPLACED_FILES)
            .chain(DATABASE_FILES)
            .map(|name| (name, "file"));
        let folders = FOLDERS.into_iter().chain(FOLDERS_OF_PROGRAMS);
        let folders = folders.map(|name| (name, "."));
        for (name, to) in files.chain(folders) {
            let folder = tempfile::tempdir().unwrap();
            let state = StateFolder::new(folder.path());
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            state.check().unwrap();
            symlink(elsewhere.path().join(to), &path).unwrap();
            let refused = state.check().unwrap_err().help();
            let is_made = ["lock", "agent.db-wal", "agent.db-shm", "agent.db-journal"];
            let nothing = refused.contains("put nothing in its place");
            assert_eq!(nothing, is_made.contains(&name), "{name}: {refused}");
            let refused = state.lock().unwrap_err().to_string();
            let said = format!("`{}`: it is a symbolic link", path.display());
            assert!(refused.contains(&said), "{refused}");
        }
        assert_eq!(fs::read(elsewhere.path().join("file")).unwrap(), b"theirs");
    }

    #[test]
    fn foreign_is_what_neither_a_value_of_the_settings_nor_the_command_line_names() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path());
        let at = |name: &str| folder.path().join(name);
        let settings = format!(
            "# photos\nnotes = 1\n[values]\nfiles = [{:?}, \"./local/site.json\"]\n",
            at("mine.toml")
        );
        fs::write(state.config(), settings).unwrap();
        // Parts of words, comments and names of settings are no names of files.
        let others = ["photos", "notes", "mine", "a", "toml"];
        for name in ["mine.toml", "press-7.kit"].iter().chain(&others) {
            fs::write(at(name), "").unwrap();
        }
        fs::create_dir(at("local")).unwrap();
        let mut found = state.foreign(Some(&at("press-7.kit"))).unwrap();
        found.sort();
        let mut expected = others.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected);
        // Another kit than the one that is given is someone's.
        fs::write(at("press-8.kit"), "").unwrap();
        let found = state.foreign(Some(&at("press-8.kit"))).unwrap();
        assert!(found.contains(&"press-7.kit".to_owned()), "{found:?}");
        let found = state.foreign(None).unwrap();
        assert_eq!(found.len(), others.len() + 2, "{found:?}");
    }

    #[test]
    fn holds_are_written_anew_from_the_database_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path());
        fs::create_dir(state.holds()).unwrap();
        let refused = state.check().unwrap_err().help();
        assert!(refused.contains("from a backup"), "{refused}");
        fs::write(state.database(), "rows").unwrap();
        let refused = state.check().unwrap_err().help();
        assert!(refused.contains("put nothing in its place"), "{refused}");
    }

    #[test]
    fn a_restore_that_is_at_work_was_not_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path());
        fs::create_dir(folder.path().join(RESTORING)).unwrap();
        assert!(state.restore_is_begun() && !state.restore_is_at_work());
        let held = outhaul_kit::lock::take(&folder.path().join("lock")).unwrap();
        assert!(!state.restore_is_begun() && state.restore_is_at_work());
        drop(held);
        assert!(state.restore_is_begun());
    }

    #[test]
    fn settings_may_be_a_link_and_what_is_no_file_is_named_as_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path());
        symlink("/etc/outhaul.toml", state.config()).unwrap();
        state.check().unwrap();
        fs::create_dir(state.key()).unwrap();
        let refused = state.check().unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("it is a folder, not the agent's own file")
        );
        assert!(
            refused.help().contains("move it away"),
            "{}",
            refused.help()
        );
    }
}
