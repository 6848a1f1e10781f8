//! Where files come from: a folder, or a repository at one commit.
//!
//! What comes in: a repository's URL as the control plane has it, a branch, tag or commit, and a
//! [`SourceMap`] that says which URLs are mapped to folders or mirrors here. What goes out: an [`OpenedSource`]
//! source pinned to one commit, from which trees of files are read, bounded. A repository is never
//! checked out, a working copy is never touched, and the network is used only for what no mapping
//! covers. A URL that a control plane or a workload wrote opens no folder and no host of this machine;
//! one that was typed on the command line may. Reading the same commit twice gives the same bytes.

use outhaul_kit::url::UrlParts;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::address::{Address, AddressError};
use crate::terminal;

mod cache;
mod error;
mod files;
mod folder;
pub mod git;
mod history;
pub mod ignore;
mod lfs;
mod map;
mod working_copy;

pub use cache::Cache;
pub use error::SourceError;
pub use files::{Names, StreamedFile, Tree, TreeFile};
pub use folder::FILES_PER_JOB;
pub use history::{ChangedFile, CommitSummary, RecordedCommit};
pub use lfs::{is_pointer, opening};
pub use map::SourceMap;

/// What of a repository is wanted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitReference {
    /// What the repository itself calls its default branch.
    Head,
    /// The newest commit of a branch.
    Branch(String),
    /// What a tag points to.
    Tag(String),
    /// A commit, by its full id. `near` is a branch that holds it, for servers that give out
    /// branches only.
    Commit {
        /// 40 or 64 hexadecimal digits.
        id: String,
        /// The branch on which to look.
        near: Option<String>,
    },
}

impl fmt::Display for GitReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("its default branch"),
            Self::Branch(name) => write!(f, "branch `{name}`"),
            Self::Tag(name) => write!(f, "tag `{name}`"),
            Self::Commit { id, .. } => write!(f, "commit `{id}`"),
        }
    }
}

/// One spelling for the URLs that mean the same repository.
pub fn normal_url(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let url = url
        .strip_suffix(".git")
        .unwrap_or(url)
        .trim_end_matches('/');
    match UrlParts::of(url) {
        Some(parts) => {
            let before = url.len() - parts.rest.len();
            let (before, rest) = url.split_at(before);
            format!("{}{rest}", before.to_lowercase())
        }
        None => url.to_owned(),
    }
}

/// Bounds for reading a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeLimits {
    /// Largest file in bytes.
    pub max_file_bytes: u64,
    /// Largest sum of all files in bytes.
    pub max_total_bytes: u64,
    /// Most files.
    pub max_files: usize,
}

impl TreeLimits {
    /// For control planes: YAML that people write. 8 MiB a file, 512 MiB in all.
    pub const YAML: Self = Self {
        max_file_bytes: 8 << 20,
        max_total_bytes: 512 << 20,
        max_files: 200_000,
    };
    /// For payloads: what sites need besides. 64 GiB a file, which is the largest content of a bundle, and in all.
    pub const PAYLOAD: Self = Self {
        max_file_bytes: 64 << 30,
        max_total_bytes: 64 << 30,
        max_files: 200_000,
    };
}

/// A source at one commit.
#[derive(Debug, Clone)]
pub struct OpenedSource {
    /// The URL as the control plane has it.
    pub url: String,
    /// The commit (40 or 64 hexadecimal digits), or for a plain folder `sha256:…` of its content.
    pub commit: String,
    at: Storage,
    /// Where it was fetched from into the cache; `None` when it lies on this machine.
    remote: Option<git::Remote>,
}

#[derive(Debug, Clone)]
enum Storage {
    /// With what was read of it when it was opened.
    Folder(PathBuf, Option<Arc<folder::Listing>>),
    Git(git::Repository),
}

/// Opens `url`, which a control plane or a workload wrote, at `reference`. It is never a folder here,
/// except through `map`, and never a host that only this machine reaches, except one that `map` allows.
///
/// # Errors
/// [`SourceError`] when it may not be opened, cannot be reached or has no such reference.
pub fn open(
    url: &str,
    reference: &GitReference,
    map: &SourceMap,
    cache: &Cache,
) -> Result<OpenedSource, SourceError> {
    if let Some(dir) = map.resolve(url, reference) {
        // Also where nobody is asked: the URL is published with everything made from it.
        if let Ok(address) = Address::parse(url) {
            address.refuse_password()?;
        }
        return working_copy::open_here(dir, url, reference, map);
    }
    fetch(&map.permitted(url)?, url, reference, cache)
}

/// Opens `url`, which was typed by who runs outhaul, at `reference`: a folder here needs no mapping.
///
/// # Errors
/// [`SourceError`] when it cannot be reached or has no such reference.
pub fn open_given(
    url: &str,
    reference: &GitReference,
    map: &SourceMap,
    cache: &Cache,
) -> Result<OpenedSource, SourceError> {
    if let Some(dir) = map.resolve(url, reference).or_else(|| local_folder(url)) {
        return working_copy::open_here(dir, url, reference, map);
    }
    let address = match Address::parse(url) {
        // What was typed may be a folder, and this one is not there.
        Err(AddressError::Local { .. }) => return Err(no_folder(Path::new(url))),
        address => address?,
    };
    fetch(&git::Remote::given(address), url, reference, cache)
}

/// Why `dir`, which was typed, is not a folder that can be opened.
pub fn no_folder(dir: &Path) -> SourceError {
    let path = dir.to_owned();
    match std::fs::metadata(dir) {
        Ok(_) => SourceError::NotAFolder { path },
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            SourceError::Missing {
                beside: beside(dir),
                path,
            }
        }
        Err(error) => SourceError::Unreadable { path, error },
    }
}

/// Folders beside `dir`, any of which may have been meant.
fn beside(dir: &Path) -> Vec<String> {
    // The first part of the path that is not there is the one that was misspelt.
    let named = dir.ancestors().filter(|one| !one.as_os_str().is_empty());
    let missing = named.take_while(|one| !one.exists());
    let missing = missing.last().unwrap_or(dir);
    let rest = dir.strip_prefix(missing).unwrap_or(Path::new(""));
    let mut names = folders_beside(missing);
    if !rest.as_os_str().is_empty() {
        names = names
            .iter()
            .map(|name| Path::new(name).join(rest))
            .filter(|path| path.is_dir())
            .map(|path| path.display().to_string())
            .collect();
    }
    names
}

fn folders_beside(dir: &Path) -> Vec<String> {
    let parent = dir.parent().unwrap_or(Path::new(""));
    let looked = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let entries = std::fs::read_dir(looked).into_iter().flatten().flatten();
    let folders = entries.take(1000).filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders
        .map(|entry| parent.join(entry.file_name()).display().to_string())
        .collect();
    names.sort();
    names
}

/// The folder that a URL typed by who runs outhaul is.
pub fn local_folder(url: &str) -> Option<&Path> {
    let path = Path::new(url.strip_prefix("file://").unwrap_or(url));
    path.is_dir().then_some(path)
}

fn fetch(
    remote: &git::Remote,
    url: &str,
    reference: &GitReference,
    cache: &Cache,
) -> Result<OpenedSource, SourceError> {
    let (repository, commit) = git::fetch(remote, reference, &cache.repository(url))?;
    Ok(OpenedSource {
        url: url.into(),
        commit,
        at: Storage::Git(repository),
        remote: Some(remote.clone()),
    })
}

/// Opens a local folder: a mirror or working copy at `reference`, or plain files as they are.
///
/// # Errors
/// [`SourceError`] when it cannot be read or has no such reference.
pub fn open_folder(
    dir: &Path,
    url: &str,
    reference: &GitReference,
) -> Result<OpenedSource, SourceError> {
    if git::is_repository(dir) {
        let repository = git::Repository::at(dir);
        let commit = repository.resolve(url, reference)?;
        return Ok(OpenedSource {
            url: url.into(),
            commit,
            at: Storage::Git(repository),
            remote: None,
        });
    }
    plain(
        dir,
        url,
        match reference {
            // A plain folder counts as the commit that it is said to be.
            GitReference::Commit { id, .. } => Some(id),
            _ => None,
        },
    )
}

/// Opens `dir` as the plain files that lie in it, even when it is a working copy.
///
/// # Errors
/// [`SourceError`] when it is not a folder or cannot be read.
pub fn open_plain(
    dir: &Path,
    url: &str,
    commit: Option<&str>,
) -> Result<OpenedSource, SourceError> {
    if !dir.is_dir() {
        return Err(no_folder(dir));
    }
    plain(dir, url, commit)
}

fn plain(dir: &Path, url: &str, commit: Option<&str>) -> Result<OpenedSource, SourceError> {
    let (commit, listing) = match commit {
        Some(commit) => (commit.to_owned(), None),
        None => {
            let (digest, listing) = folder::open(dir)?;
            (digest.to_string(), Some(Arc::new(listing)))
        }
    };
    Ok(OpenedSource {
        url: url.into(),
        commit,
        at: Storage::Folder(dir.to_owned(), listing),
        remote: None,
    })
}

impl OpenedSource {
    /// The files below `path` (`""` and `.` are the root) that `wanted` accepts, given their paths
    /// relative to it.
    ///
    /// # Errors
    /// [`SourceError`] when `path` is not there or a limit is passed.
    pub fn tree(
        &self,
        path: &str,
        wanted: &dyn Fn(&str) -> bool,
        limits: &TreeLimits,
    ) -> Result<Tree, SourceError> {
        let mut files = Vec::new();
        let skipped = self.each::<SourceError>(path, wanted, limits, &mut |file| {
            files.push(file);
            Ok(())
        })?;
        Ok(Tree { files, skipped })
    }

    /// As [`OpenedSource::tree`], one file after another, so that no more than one is in memory. Returns the
    /// paths of symbolic links and submodules.
    ///
    /// # Errors
    /// As [`OpenedSource::tree`], and what `take` says.
    pub fn each<E: From<SourceError>>(
        &self,
        path: &str,
        wanted: &dyn Fn(&str) -> bool,
        limits: &TreeLimits,
        take: &mut dyn FnMut(TreeFile) -> Result<(), E>,
    ) -> Result<Vec<String>, E> {
        self.each_streamed(path, wanted, limits, &mut |file: StreamedFile<'_>| {
            let name = file.path.clone();
            let file = file.whole().map_err(|error| SourceError::Unreadable {
                path: PathBuf::from(name),
                error,
            })?;
            take(file)
        })
    }

    /// As [`OpenedSource::each`], each file as it comes, so that not even one is in memory.
    ///
    /// # Errors
    /// As [`OpenedSource::tree`], and what `take` says.
    pub fn each_streamed<E: From<SourceError>>(
        &self,
        path: &str,
        wanted: &dyn Fn(&str) -> bool,
        limits: &TreeLimits,
        take: &mut dyn FnMut(StreamedFile<'_>) -> Result<(), E>,
    ) -> Result<Vec<String>, E> {
        let path = normal_path(path)?;
        let found = match &self.at {
            Storage::Folder(dir, listing) => {
                folder::each(dir, listing.as_deref(), &path, wanted, limits, take)?
            }
            Storage::Git(repository) => {
                repository.each(&self.commit, &path, wanted, limits, take)?
            }
        };
        found.ok_or_else(|| E::from(self.missing(path)))
    }

    /// Why there is no folder `path`.
    fn missing(&self, path: String) -> SourceError {
        let (url, commit) = (self.url.clone(), self.commit.clone());
        let ends = path.match_indices('/').map(|(end, _)| end);
        let mut parts = ends.chain([path.len()]).filter_map(|end| path.get(..end));
        let is_link = |part: &&str| match &self.at {
            Storage::Folder(dir, listing) => folder::is_link(dir, listing.as_deref(), part),
            Storage::Git(repository) => repository.is_link(&self.commit, part),
        };
        match parts.find(is_link).map(str::to_owned) {
            Some(link) => SourceError::Linked { url, commit, link },
            None => SourceError::NoSuchPath { url, commit, path },
        }
    }

    /// The paths of the files below `path`, and of what cannot travel. Every file is read, so that one that
    /// cannot be is known here.
    ///
    /// # Errors
    /// As [`OpenedSource::tree`].
    pub fn names(&self, path: &str, limits: &TreeLimits) -> Result<Names, SourceError> {
        let Storage::Git(repository) = &self.at else {
            let mut names = Names::default();
            names.skipped =
                self.each_streamed::<SourceError>(path, &|_| true, limits, &mut |file| {
                    if lfs::opening(file.content).is_ok_and(|opening| is_pointer(&opening)) {
                        names.pointers.push(file.path.clone());
                    }
                    names.files.push(file.path);
                    Ok(())
                })?;
            return Ok(names);
        };
        let path = normal_path(path)?;
        let found = repository.names(&self.commit, &path, limits)?;
        found.ok_or_else(|| self.missing(path))
    }

    /// Writes its commit, with all files and without history, to `out` as a pack; `None` for a plain folder,
    /// which has no commit.
    ///
    /// # Errors
    /// [`SourceError`] when an object is missing or damaged, a bound is passed, or `out` fails.
    pub fn pack(
        &self,
        limits: &TreeLimits,
        out: &mut dyn std::io::Write,
    ) -> Result<Option<git::Packed>, SourceError> {
        let Storage::Git(repository) = &self.at else {
            return Ok(None);
        };
        let commits = std::slice::from_ref(&self.commit);
        repository.pack(commits, limits, out).map(Some)
    }

    /// The local repository that holds its commits; `None` for a plain folder.
    pub fn repository_folder(&self) -> Option<&Path> {
        match &self.at {
            Storage::Folder(..) => None,
            Storage::Git(repository) => Some(repository.folder()),
        }
    }

    /// Where it was fetched from; `None` when it lies on this machine.
    pub fn remote(&self) -> Option<&git::Remote> {
        self.remote.as_ref()
    }

    /// What file `path` of this source is, by whichever way it was opened: of equal identity is equal
    /// content.
    pub fn identity(&self, path: &str) -> String {
        match &self.at {
            Storage::Folder(dir, _) => {
                let dir = dir.canonicalize().unwrap_or_else(|_| dir.clone());
                dir.join(path).to_string_lossy().into_owned()
            }
            Storage::Git(_) => format!("{}:{path}", self.commit),
        }
    }

    /// What people know file `path` of this source by: one line, as [`terminal::file_name`] has it.
    pub fn file_name(&self, path: &str) -> String {
        terminal::file_name(&match &self.at {
            Storage::Folder(dir, _) => {
                // `./x` and `x` are the same file to a person.
                let dir = dir.strip_prefix(".").unwrap_or(dir);
                dir.join(path).to_string_lossy().into_owned()
            }
            Storage::Git(_) => {
                let commit = self.commit.get(..8).unwrap_or(&self.commit);
                format!("{}@{commit}:{path}", self.url)
            }
        })
    }
}

/// `./a//b/` as `a/b`.
///
/// # Errors
/// [`SourceError::EscapingPath`] when it holds `..`.
pub fn normal_path(path: &str) -> Result<String, SourceError> {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    if parts.contains(&"..") || path.contains('\0') {
        return Err(SourceError::EscapingPath { path: path.into() });
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests;
