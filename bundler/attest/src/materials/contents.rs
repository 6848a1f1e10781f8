//! What all layers of one platform install together.
//!
//! What comes in: the facts of each layer, lowest first. What goes out: the packages, the distribution, and what was
//! there and not read. A later layer replaces files of the earlier ones and removes them, as the image specification of
//! OCI says ("Whiteouts").

use std::collections::{BTreeMap, BTreeSet};

use super::layer::{LayerFacts, WatchedFile, is_below};
use super::package::Package;
use super::release::Release;

/// What one platform of an image holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The distribution, where the image names one.
    pub release: Option<Release>,
    /// The packages, each once.
    pub packages: BTreeSet<Package>,
    /// What was there and not read: its path, and why.
    pub unread: BTreeMap<String, String>,
    /// Package managers whose databases are there and are not read.
    pub others: BTreeSet<String>,
    /// Whether there is a database that was read.
    pub has_database: bool,
}

impl Contents {
    /// Of layers, the lowest first.
    pub fn of<'a>(layers: impl IntoIterator<Item = &'a LayerFacts>) -> Self {
        let mut files: BTreeMap<&str, &WatchedFile> = BTreeMap::new();
        for layer in layers {
            for gone in &layer.removed {
                files.retain(|path, _| *path != gone && !is_below(path, gone));
            }
            for emptied in &layer.emptied {
                files.retain(|path, _| !is_below(path, emptied));
            }
            let added = layer.files.iter();
            files.extend(added.map(|(path, file)| (path.as_str(), file)));
        }
        let mut contents = Self::default();
        // `etc/os-release` comes first, and counts where both are files.
        for (path, file) in files {
            match file {
                WatchedFile::Packages {
                    packages,
                    unreadable,
                } => {
                    contents.has_database = true;
                    contents.packages.extend(packages.iter().cloned());
                    if *unreadable > 0 {
                        let why = format!("{unreadable} entries have no proper name or version");
                        contents.unread.insert(path.to_owned(), why);
                    }
                }
                WatchedFile::Release(release) => {
                    contents.release.get_or_insert_with(|| release.clone());
                }
                WatchedFile::Other(manager) => {
                    contents.others.insert(manager.clone());
                }
                WatchedFile::Unread(why) => {
                    contents.unread.insert(path.to_owned(), why.clone());
                }
            }
        }
        contents
    }
}
