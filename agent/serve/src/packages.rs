//! Apt repositories: index files and packages that the centre made and signed, by their paths.
//!
//! What comes in: entries of `catalog.json`. What goes out: for each repository which file answers which path, with its
//! digest. Nothing of a package or an index is read here: `apt` verifies the signature, and every file is compared with
//! its digest before or while it is sent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outhaul_kit::media::Media;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::layout::Stored;

/// The first part of the path of every repository: `/apt/NAME/`.
pub const PREFIX: &str = "apt";
/// The file with the key that signs, which `Signed-By` takes.
pub use outhaul_kit::carried::APT_KEY as KEY;
/// Longest name of a repository or path in it, in bytes.
const MAX_TEXT: usize = 1024;

/// A repository in `catalog.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AptEntry {
    /// Its name: that of the assignment which brought it.
    pub name: String,
    /// Its files, by their paths in it.
    pub files: BTreeMap<String, FileEntry>,
}

/// A file in `catalog.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Where it lies, relative to the catalog.
    pub file: PathBuf,
    /// Its digest.
    pub digest: String,
    /// Its bytes.
    pub size: u64,
}

/// One repository.
#[derive(Debug, Clone, Default)]
pub struct Repository {
    /// Its files, by their paths in it.
    pub files: BTreeMap<String, (Digest, Stored)>,
}

/// Repositories by their names.
pub type Repositories = BTreeMap<String, Repository>;

impl Repository {
    /// The repository of an entry, whose files lie below `folder`.
    ///
    /// # Errors
    /// What is wrong with the entry.
    pub fn open(folder: &Arc<Media>, entry: &AptEntry) -> Result<Self, String> {
        if !is_name(&entry.name) {
            return Err("its name cannot be one part of a path".to_owned());
        }
        let mut files = BTreeMap::new();
        for (path, file) in &entry.files {
            if !is_path(path) {
                return Err("one of its paths cannot be asked for".to_owned());
            }
            let digest =
                Digest::parse(&file.digest).map_err(|error| format!("`{path}`: {error}"))?;
            let stored = Stored {
                layout: Arc::clone(folder),
                path: file.file.clone(),
                size: file.size,
            };
            files.insert(path.clone(), (digest, stored));
        }
        Ok(Self { files })
    }

    /// The file that answers a path.
    pub fn file(&self, path: &str) -> Option<(&Digest, &Stored)> {
        self.files
            .get(path)
            .map(|(digest, stored)| (digest, stored))
    }

    /// How many packages it has.
    pub fn packages(&self) -> usize {
        let is_package = |path: &&String| Path::new(path).extension().is_some_and(|e| e == "deb");
        self.files.keys().filter(is_package).count()
    }
}

/// Whether `text` can be a repository's name.
pub fn is_name(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=MAX_TEXT).contains(&text.len()) && text.bytes().all(good) && !text.starts_with('.')
}

/// Whether `text` can be a path in a repository.
pub fn is_path(text: &str) -> bool {
    let part = |part: &str| !matches!(part, "" | "." | "..");
    let plain = |b: u8| b.is_ascii_graphic() && b != b'\\';
    text.len() <= MAX_TEXT && text.bytes().all(plain) && text.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_leave_a_repository_is_neither_a_name_nor_a_path() {
        for good in ["hello-dev", "a.b_c"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "ä", ".a"] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(is_path("Packages") && is_path("packages/a_1+b~c_all.deb"));
        for bad in ["", "/a", "a//b", "a/../b", "./a", "a\\b", "a b", "a\n"] {
            assert!(!is_path(bad), "{bad:?}");
        }
    }
}
