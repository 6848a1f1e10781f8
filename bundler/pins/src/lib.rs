//! `outhaul.lock`: what every tag and branch that nothing else pins was when it was first carried.
//!
//! What comes in: the fleet's folder and an environment. What goes out: the digest of an image's tag and the commit
//! of a repository's ref, so that nothing moves between two bundles unless someone asks for it. A workload's own
//! branch is not a part of it: the snapshot has its commit. The file is for people, too: sorted, one entry a line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_kit::durable::{self, FileError};
use serde::{Deserialize, Serialize};

/// The file, in the fleet's folder.
pub const FILE: &str = "outhaul.lock";
/// The file's format.
const FORMAT: &str = "outhaul.dev/lock/v1";
/// Largest file in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Why it cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The file system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is damaged.
    #[error(
        "`{}` cannot be read: {problem}\nhelp: restore it from a copy, or remove it: then what the streams shipped last counts",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    environments: BTreeMap<String, Entries>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entries {
    /// By the image's whole name with its tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    images: BTreeMap<String, Digest>,
    /// By URL and ref, with a space between.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    repositories: BTreeMap<String, String>,
}

/// What of one environment is pinned.
#[derive(Debug, Clone, Default)]
pub struct Lock {
    /// What was pinned, and what was shipped without being pinned any more.
    before: Entries,
    /// What was found in this run.
    found: Entries,
    /// That of it that is in a bundle.
    carried: Entries,
    /// Whether what is pinned is asked for again.
    update: bool,
}

/// A pin that is another one now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MovedPin {
    /// The image, or the repository and ref.
    pub name: String,
    /// What it was.
    pub from: String,
    /// What it is.
    pub to: String,
}

impl Lock {
    /// What is pinned for `environment`; with `update` all of it is asked for again.
    ///
    /// # Errors
    /// [`LockError`] when it is there and cannot be read.
    pub fn read(fleet: &Path, environment: &str, update: bool) -> Result<Self, LockError> {
        let mut file = read(fleet)?;
        let entries = file.environments.remove(environment).unwrap_or_default();
        Ok(Self {
            before: entries,
            update,
            ..Self::default()
        })
    }

    /// The digest that an image is pinned to.
    pub fn image(&self, name: &str) -> Option<Digest> {
        let before = Some(&self.before).filter(|_| !self.update);
        let before = before.and_then(|before| before.images.get(name));
        self.found.images.get(name).or(before).copied()
    }

    /// The commit that a ref of a repository is pinned to.
    pub fn commit(&self, url: &str, reference: &str) -> Option<&str> {
        let key = key(url, reference);
        let before = Some(&self.before).filter(|_| !self.update);
        let before = before.and_then(|before| before.repositories.get(&key));
        let known = self.found.repositories.get(&key).or(before);
        known.map(String::as_str)
    }

    /// Whether it is known what an image was.
    pub fn knows_image(&self, name: &str) -> bool {
        self.before.images.contains_key(name)
    }

    /// Whether it is known what a ref of a repository was.
    pub fn knows_commit(&self, url: &str, reference: &str) -> bool {
        let key = key(url, reference);
        self.before.repositories.contains_key(&key)
    }

    /// Says what an image was when it was shipped: its entry was lost.
    pub fn was_image(&mut self, name: &str, digest: Digest) {
        self.before.images.insert(name.to_owned(), digest);
    }

    /// Says what a ref of a repository was when it was shipped: its entry was lost.
    pub fn was_commit(&mut self, url: &str, reference: &str, commit: &str) {
        let key = key(url, reference);
        self.before.repositories.insert(key, commit.to_owned());
    }

    /// Pins an image for this run.
    pub fn pin_image(&mut self, name: &str, digest: Digest) {
        self.found.images.insert(name.to_owned(), digest);
    }

    /// Pins a ref of a repository for this run.
    pub fn pin_commit(&mut self, url: &str, reference: &str, commit: &str) {
        let key = key(url, reference);
        self.found.repositories.insert(key, commit.to_owned());
    }

    /// Says that an image is in a bundle, as it was pinned in this run.
    pub fn carries_image(&mut self, name: &str) {
        if let Some(digest) = self.found.images.get(name) {
            self.carried.images.insert(name.to_owned(), *digest);
        }
    }

    /// Says that a ref of a repository is in a bundle, as it was pinned in this run.
    pub fn carries_commit(&mut self, url: &str, reference: &str) {
        let key = key(url, reference);
        if let Some(commit) = self.found.repositories.get(&key) {
            self.carried.repositories.insert(key, commit.clone());
        }
    }

    /// What is another one than before.
    pub fn moved(&self) -> Vec<MovedPin> {
        let moved = |name: &str, from: String, to: String| {
            (from != to).then(|| MovedPin {
                name: name.to_owned(),
                from,
                to,
            })
        };
        let images = self.carried.images.iter().filter_map(|(name, to)| {
            let from = self.before.images.get(name)?;
            moved(name, from.to_string(), to.to_string())
        });
        let commits = self.carried.repositories.iter().filter_map(|(name, to)| {
            let from = self.before.repositories.get(name)?;
            moved(name, from.clone(), to.clone())
        });
        images.chain(commits).collect()
    }

    /// Writes what is in a bundle, when that bundle is on record. What is lost before is known by the bundle.
    ///
    /// # Errors
    /// [`LockError`]
    pub fn write(&self, fleet: &Path, environment: &str) -> Result<(), LockError> {
        let mut file = read(fleet)?;
        let entries = file.environments.get(environment);
        let mut new = entries.cloned().unwrap_or_default();
        new.images.extend(self.carried.images.clone());
        new.repositories.extend(self.carried.repositories.clone());
        if entries.cloned().unwrap_or_default() == new {
            return Ok(());
        }
        FORMAT.clone_into(&mut file.format);
        file.environments.insert(environment.to_owned(), new);
        let path = fleet.join(FILE);
        let mut bytes = serde_json::to_vec_pretty(&file).map_err(|error| LockError::Damaged {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        bytes.push(b'\n');
        Ok(durable::write(&path, &bytes, 0o644)?)
    }
}

fn key(url: &str, reference: &str) -> String {
    format!("{} {reference}", outhaul_git::source::normal_url(url))
}

fn read(fleet: &Path) -> Result<File, LockError> {
    let path = fleet.join(FILE);
    let Some(bytes) = durable::read_if_present(&path, MAX_BYTES)? else {
        return Ok(File::default());
    };
    let damaged = |problem: String| LockError::Damaged {
        path: path.clone(),
        problem,
    };
    let file: File = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if file.format != FORMAT {
        return Err(damaged(format!("its format is not `{FORMAT}`")));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pinned_stays_until_an_update_and_an_update_says_what_moved() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        let url = "https://git.example/r";
        let mut lock = Lock::read(folder.path(), "dev", false).unwrap();
        assert_eq!(lock.image("a/b:1"), None);
        lock.pin_image("a/b:1", one);
        lock.pin_commit(url, "refs/heads/main", "0123");
        // What does not travel is not written.
        lock.write(folder.path(), "dev").unwrap();
        assert!(!folder.path().join(FILE).exists());
        lock.carries_image("a/b:1");
        lock.carries_commit(url, "refs/heads/main");
        lock.write(folder.path(), "dev").unwrap();
        let again = Lock::read(folder.path(), "dev", false).unwrap();
        assert_eq!(again.image("a/b:1"), Some(one));
        let commit = again.commit("https://git.example/r.git", "refs/heads/main");
        assert_eq!(commit, Some("0123"));
        assert_eq!(again.moved(), []);
        // Another environment has its own.
        let stage = Lock::read(folder.path(), "stage", false).unwrap();
        assert_eq!(stage.image("a/b:1"), None);
        let mut update = Lock::read(folder.path(), "dev", true).unwrap();
        assert_eq!(update.image("a/b:1"), None);
        update.pin_image("a/b:1", two);
        update.carries_image("a/b:1");
        let moved = update.moved();
        assert_eq!(moved.len(), 1);
        assert_eq!((&*moved[0].name, &moved[0].to), ("a/b:1", &two.to_string()));
        update.write(folder.path(), "dev").unwrap();
        let again = Lock::read(folder.path(), "dev", false).unwrap();
        assert_eq!(again.image("a/b:1"), Some(two));
        assert!(again.commit(url, "refs/heads/main").is_some());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{\"format\": \"x\"").unwrap();
        let error = Lock::read(folder.path(), "dev", false).unwrap_err();
        assert!(matches!(error, LockError::Damaged { .. }), "{error}");
    }
}
