//! The files of a repository that a build names, read when they are needed.
//!
//! What comes in: a repository at one commit. What goes out: single files by their paths in it, each folder read once
//! and bounded. It follows no link, and reads nothing outside the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_control::diagnostic::SourceFile;
use outhaul_git::source::{OpenedSource, SourceError, TreeLimits};

use crate::unread::{is_manifest, is_text};

/// Most folders outside the path, and most files in all.
const MAX_FOLDERS: usize = 2_000;
const MAX_FILES: usize = 50_000;

type Folder = BTreeMap<String, Arc<SourceFile>>;

pub(super) struct Files<'a> {
    opened: &'a OpenedSource,
    /// `None` for a folder that is not there.
    folders: BTreeMap<String, Option<Folder>>,
    /// Those that are no text.
    binary: BTreeSet<String>,
    read: usize,
}

impl<'a> Files<'a> {
    pub(super) fn new(opened: &'a OpenedSource) -> Self {
        Self {
            opened,
            folders: BTreeMap::new(),
            binary: BTreeSet::new(),
            read: 0,
        }
    }

    /// Reads all manifests below `path`, and gives them, by their paths in the repository.
    pub(super) fn seed(
        &mut self,
        path: &str,
    ) -> Result<Vec<(String, Arc<SourceFile>)>, SourceError> {
        let tree = self.opened.tree(path, &is_manifest, &TreeLimits::YAML)?;
        let mut all = Vec::new();
        for file in tree.files {
            let below = match path {
                "" => file.path,
                path => format!("{path}/{}", file.path),
            };
            if !is_text(&file.bytes) {
                self.binary.insert(below.clone());
            }
            let file = self.source(&below, &file.bytes);
            let (folder, name) = parent(&below);
            let folder = self.folders.entry(folder.to_owned());
            let folder = folder.or_default().get_or_insert_default();
            folder.insert(name.to_owned(), Arc::clone(&file));
            all.push((below, file));
        }
        Ok(all)
    }

    fn source(&self, path: &str, bytes: &[u8]) -> Arc<SourceFile> {
        let name = self.opened.file_name(path);
        let text = String::from_utf8_lossy(bytes).into_owned();
        Arc::new(SourceFile { name, text })
    }

    /// A file that was read already.
    pub(super) fn known(&self, path: &str) -> Option<Arc<SourceFile>> {
        let (folder, name) = parent(path);
        self.folders.get(folder)?.as_ref()?.get(name).cloned()
    }

    /// Whether a manifest below the path is text.
    pub(super) fn is_text(&self, path: &str) -> bool {
        !self.binary.contains(path)
    }

    /// The file at `path`; `None` when there is no such file.
    pub(super) fn file(&mut self, path: &str) -> Result<Option<Arc<SourceFile>>, SourceError> {
        let (folder, name) = parent(path);
        if !self.folders.contains_key(folder) {
            let read = self.read(folder, &|path| !path.contains('/') && is_manifest(path))?;
            self.folders.insert(folder.to_owned(), read);
        }
        if let Some(found) = self.known(path) {
            return Ok(Some(found));
        }
        let is_there = self.folders.get(folder).is_some_and(Option::is_some);
        if !is_there || is_manifest(name) {
            return Ok(None);
        }
        // A patch may be called as it likes.
        let read = self.read(folder, &|path| path == name)?;
        let found = read.and_then(|mut files| files.remove(name));
        if let (Some(file), Some(Some(files))) = (&found, self.folders.get_mut(folder)) {
            files.insert(name.to_owned(), Arc::clone(file));
        }
        Ok(found)
    }

    fn read(
        &mut self,
        folder: &str,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Option<Folder>, SourceError> {
        if self.folders.len() >= MAX_FOLDERS || self.read >= MAX_FILES {
            return Err(SourceError::TooLarge {
                what: "what this build reaches".to_owned(),
                limit: MAX_FOLDERS as u64,
                unit: "folders",
            });
        }
        let tree = match self.opened.tree(folder, wanted, &TreeLimits::YAML) {
            Err(SourceError::NoSuchPath { .. }) => return Ok(None),
            tree => tree?,
        };
        self.read += tree.files.len();
        let mut files = Folder::new();
        for file in tree.files {
            let path = join(folder, &file.path).unwrap_or_default();
            files.insert(file.path, self.source(&path, &file.bytes));
        }
        Ok(Some(files))
    }
}

/// A path's folder and the name in it.
pub(super) fn parent(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// `entry` as it is written in a file of `folder`, from the repository's root; `None` when it is outside.
pub(super) fn join(folder: &str, entry: &str) -> Option<String> {
    if entry.starts_with('/') || entry.contains('\0') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in entry.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Whether Kustomize would take `entry`, which is not here, for a repository elsewhere.
pub(super) fn is_remote(entry: &str) -> bool {
    let host = entry.split(['/', ':']).next().unwrap_or_default();
    let names_host = host.contains('.') && !host.starts_with('.') && entry.contains('/');
    entry.contains("://")
        || entry.starts_with("git::")
        || entry.starts_with("git@")
        || entry.contains("?ref=")
        || entry.contains("?version=")
        || (names_host && !is_manifest(entry))
}
