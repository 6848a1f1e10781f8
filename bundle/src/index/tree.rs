//! Whether the files of an assignment can be written side by side, and what an overlay makes of them.
//!
//! What comes in: lists of files that signed metadata lists. What goes out: a [`Tree`] to which
//! overlays are compared one by one, or what contradicts what. The cost is that of the files listed: a
//! file is compared with the tree around it, and no tree is built again for each overlay.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{File, IndexError};
use crate::digest::Digest;

/// Files that lie side by side, by their path without regard to case: sticks and some sites ignore
/// case.
#[derive(Debug)]
pub(super) struct Tree<'a>(BTreeMap<String, &'a str>);

/// What files are checked against.
#[derive(Debug, Clone, Copy)]
pub(super) struct BundleContents<'a> {
    /// Every content of the bundle, with its size.
    pub(super) sizes: &'a BTreeMap<Digest, u64>,
    /// Whether contents may be left out, because a site has them already.
    pub(super) delta: bool,
}

fn fail<T>(problem: String) -> Result<T, IndexError> {
    Err(IndexError::Inconsistent { problem })
}

fn twice<T>(owner: &str, path: &str) -> Result<T, IndexError> {
    fail(format!("`{owner}` has `{path}` twice (case ignored)"))
}

fn both<T>(owner: &str, path: &str) -> Result<T, IndexError> {
    fail(format!("`{owner}/{path}` is both file and folder"))
}

impl<'a> Tree<'a> {
    /// The tree of `files`: no path twice, no file that is also a folder, and every content is there.
    pub(super) fn new(
        owner: &str,
        files: &'a [File],
        carried: BundleContents<'_>,
    ) -> Result<Self, IndexError> {
        let mut tree = BTreeMap::new();
        for file in files {
            let path = file.path.as_str();
            if tree.insert(path.to_lowercase(), path).is_some() {
                return twice(owner, path);
            }
            match carried.sizes.get(&file.content) {
                Some(size) if *size != file.size => {
                    return fail(format!("`{owner}/{path}` and its blob differ in size"));
                }
                None if !carried.delta => {
                    return fail(format!("no blob contains the content of `{owner}/{path}`"));
                }
                Some(_) | None => {}
            }
        }
        let tree = Self(tree);
        match tree.0.keys().find(|path| tree.has_below(path)) {
            Some(path) => both(owner, path),
            None => Ok(tree),
        }
    }

    /// Whether `files`, a tree in itself, can be laid over this one: in the place of a file of the same
    /// path, or beside the others.
    pub(super) fn takes(&self, owner: &str, files: &[File]) -> Result<(), IndexError> {
        for file in files {
            let path = file.path.as_str();
            let folded = path.to_lowercase();
            if self.0.get(&folded).is_some_and(|other| *other != path) {
                return twice(owner, path);
            }
            if self.has_below(&folded) {
                return both(owner, &folded);
            }
            let mut folders = folded.match_indices('/').map(|(at, _)| &folded[..at]);
            if let Some(folder) = folders.find(|folder| self.0.contains_key(*folder)) {
                return both(owner, folder);
            }
        }
        Ok(())
    }

    fn has_below(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        let from = (Bound::Included(folder.as_str()), Bound::Unbounded);
        let next = self.0.range::<str, _>(from).next();
        next.is_some_and(|(path, _)| path.starts_with(&folder))
    }
}
