//! Where files come from: a folder, or a repository at one commit.
//!
//! What comes in: a repository's URL as the control plane has it, a branch, tag or commit, and a
//! [`SourceMap`] that says which URLs stand for folders or mirrors here. What goes out: an [`Opened`]
//! source pinned to one commit, from which trees of files are read, bounded. A repository is never
//! checked out, a working copy is never touched, and the network is used only for what no mapping
//! covers. Reading the same commit twice gives the same bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod cache;
mod folder;
pub mod git;
mod history;
pub mod ignore;
mod working_copy;

pub use cache::Cache;

/// What of a repository is wanted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
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

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("its default branch"),
            Self::Branch(name) => write!(f, "branch `{name}`"),
            Self::Tag(name) => write!(f, "tag `{name}`"),
            Self::Commit { id, .. } => write!(f, "commit `{id}`"),
        }
    }
}

/// Why a source cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A `--source` that is not `URL=DIR`.
    #[error("`{text}` is not `URL=DIR`")]
    BadMapping {
        /// What was given.
        text: String,
    },
    /// The folder is not there.
    #[error("`{}` is not a folder", path.display())]
    NotAFolder {
        /// Its path.
        path: PathBuf,
    },
    /// A file or folder cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A URL that git would take for an option or a program to run.
    #[error("`{url}` is not the URL of a repository")]
    BadUrl {
        /// The URL.
        url: String,
    },
    /// The server, or what stands for it, cannot be reached.
    #[error("cannot reach repository `{url}`: {message}")]
    Unreachable {
        /// The URL.
        url: String,
        /// What git said.
        message: String,
    },
    /// The repository is there, but not the branch, tag or commit.
    #[error("repository `{url}` has no {reference}")]
    NoSuchReference {
        /// The URL.
        url: String,
        /// What was asked for.
        reference: Reference,
    },
    /// The repository has no such folder.
    #[error("`{url}` at {commit} has no folder `{path}`")]
    NoSuchPath {
        /// The URL or folder.
        url: String,
        /// The commit.
        commit: String,
        /// The path.
        path: String,
    },
    /// A path that would leave the repository.
    #[error("path `{path}` leaves its repository")]
    EscapingPath {
        /// The path.
        path: String,
    },
    /// More than [`TreeLimits`] allow.
    #[error("{what} is larger than the limit of {limit} {unit}")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The limit.
        limit: u64,
        /// Its unit.
        unit: &'static str,
    },
    /// The `git` program is missing or broken.
    #[error("git: {message}")]
    Git {
        /// What went wrong.
        message: String,
    },
}

impl SourceError {
    /// Whether a change of the input helps (exit code 2), rather than of disk or network (3).
    pub fn is_input(&self) -> bool {
        !matches!(
            self,
            Self::Unreadable { .. } | Self::Unreachable { .. } | Self::Git { .. }
        )
    }

    /// What to do next.
    pub fn help(&self) -> String {
        match self {
            Self::BadMapping { .. } => "write for example `--source https://example.org/app=../app`; \
                `--source URL#BRANCH=DIR` maps one branch only".into(),
            Self::NotAFolder { .. } => "check the path, or give another folder".into(),
            Self::Unreadable { .. } => "check that it exists and that you may read it".into(),
            Self::BadUrl { .. } => "use an https://, ssh:// or git@host:path URL, or a folder".into(),
            Self::Unreachable { url, .. } => format!(
                "check the network and your credentials, or map a local copy: `--source {url}=DIR`"
            ),
            Self::NoSuchReference { .. } => {
                "check the spelling; a shallow mirror may lack older commits (`git fetch --unshallow`)".into()
            }
            Self::NoSuchPath { .. } => "check `path` in the object that names the repository".into(),
            Self::EscapingPath { .. } => "use a path below the repository's root, without `..`".into(),
            Self::TooLarge { .. } => "leave large files out by `.sourceignore`".into(),
            Self::Git { .. } => "install git 2.30 or newer, or look at the message above".into(),
        }
    }
}

/// Which URLs stand for local folders, working copies or mirrors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceMap {
    entries: BTreeMap<(String, Option<String>), PathBuf>,
    pins: BTreeMap<(String, String), String>,
    working_copies: bool,
}

impl SourceMap {
    /// A map from `URL=DIR` texts; `URL#BRANCH=DIR` maps one branch.
    ///
    /// # Errors
    /// [`SourceError::BadMapping`] and [`SourceError::NotAFolder`].
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Self, SourceError> {
        let mut map = Self::default();
        for text in texts {
            let text = text.as_ref();
            // URLs may hold `=` in a query, folders hardly ever do.
            let Some((url, dir)) = text
                .rsplit_once('=')
                .filter(|(u, d)| !u.is_empty() && !d.is_empty())
            else {
                return Err(SourceError::BadMapping { text: text.into() });
            };
            let dir = PathBuf::from(dir);
            if !dir.is_dir() {
                return Err(SourceError::NotAFolder { path: dir });
            }
            let (url, branch) = match url.rsplit_once('#') {
                Some((url, branch)) => (url, Some(branch.to_owned())),
                None => (url, None),
            };
            map.entries.insert((normal_url(url), branch), dir);
        }
        Ok(map)
    }

    /// Maps `url` (every branch) to `dir`, unless it is mapped already.
    pub fn insert_default(&mut self, url: &str, dir: &Path) {
        self.entries
            .entry((normal_url(url), None))
            .or_insert_with(|| dir.to_owned());
    }

    /// Reads the files of a working copy, edits and all, in place of the commit that it has checked out.
    pub fn read_working_copies(&mut self) {
        self.working_copies = true;
    }

    /// Reads what a snapshot calls `name` of the repository `url` at `commit`, whatever its branch
    /// has become since. The content of a plain folder cannot be brought back and is not pinned.
    pub fn pin(&mut self, name: &str, url: &str, commit: &str) {
        if !commit.is_empty() && commit.bytes().all(|b| b.is_ascii_hexdigit()) {
            let key = (name.to_owned(), normal_url(url));
            self.pins.insert(key, commit.to_owned());
        }
    }

    /// `reference`, or the commit that `name` is pinned to.
    pub fn pinned(&self, name: &str, url: &str, reference: Reference) -> Reference {
        let Some(id) = self.pins.get(&(name.to_owned(), normal_url(url))) else {
            return reference;
        };
        let near = match reference {
            Reference::Branch(branch) => Some(branch),
            Reference::Commit { near, .. } => near,
            Reference::Head | Reference::Tag(_) => None,
        };
        let id = id.clone();
        Reference::Commit { id, near }
    }

    /// The folder that stands for `url` at `reference`.
    pub fn resolve(&self, url: &str, reference: &Reference) -> Option<&Path> {
        let url = normal_url(url);
        let branch = match reference {
            Reference::Branch(name) | Reference::Tag(name) => Some(name.clone()),
            Reference::Commit { near, .. } => near.clone(),
            Reference::Head => None,
        };
        let exact = self.entries.get(&(url.clone(), branch));
        exact
            .or_else(|| self.entries.get(&(url, None)))
            .map(PathBuf::as_path)
    }
}

/// One spelling for the URLs that mean the same repository.
pub fn normal_url(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let url = url
        .strip_suffix(".git")
        .unwrap_or(url)
        .trim_end_matches('/');
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!("{}://{}{path}", scheme.to_lowercase(), host.to_lowercase())
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
    /// For payloads: what sites need besides. 2 GiB a file and in all.
    pub const PAYLOAD: Self = Self {
        max_file_bytes: 2 << 30,
        max_total_bytes: 2 << 30,
        max_files: 200_000,
    };
}

/// One regular file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// Relative to the folder that was asked for, with `/` between parts.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
}

/// The regular files below one folder of a source, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// The files.
    pub files: Vec<TreeFile>,
    /// Paths of symbolic links and submodules, wanted or not: they are never followed.
    pub skipped: Vec<String>,
}

/// A source at one commit.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The URL as the control plane has it.
    pub url: String,
    /// The commit (40 or 64 hexadecimal digits), or for a plain folder `sha256:…` of its content.
    pub commit: String,
    at: Place,
    /// Whether it was fetched into the cache, rather than lying on this machine.
    fetched: bool,
}

#[derive(Debug, Clone)]
enum Place {
    /// With what was read of it when it was opened.
    Folder(PathBuf, Option<Arc<folder::Listing>>),
    Git(git::Repository),
}

/// Opens `url` at `reference`. A `url` that is a folder here needs no mapping.
///
/// # Errors
/// [`SourceError`] when it cannot be reached or has no such reference.
pub fn open(
    url: &str,
    reference: &Reference,
    map: &SourceMap,
    cache: &Cache,
) -> Result<Opened, SourceError> {
    if let Some(dir) = map.resolve(url, reference) {
        return working_copy::open_here(dir, url, reference, map);
    }
    let local = url.strip_prefix("file://").unwrap_or(url);
    if Path::new(local).is_dir() {
        return working_copy::open_here(Path::new(local), url, reference, map);
    }
    let (repository, commit) = git::fetch(url, reference, &cache.repository(url))?;
    Ok(Opened {
        url: url.into(),
        commit,
        at: Place::Git(repository),
        fetched: true,
    })
}

/// Opens a local folder: a mirror or working copy at `reference`, or plain files as they are.
///
/// # Errors
/// [`SourceError`] when it cannot be read or has no such reference.
pub fn open_folder(dir: &Path, url: &str, reference: &Reference) -> Result<Opened, SourceError> {
    if git::is_repository(dir) {
        let repository = git::Repository::at(dir);
        let commit = repository.resolve(url, reference)?;
        return Ok(Opened {
            url: url.into(),
            commit,
            at: Place::Git(repository),
            fetched: false,
        });
    }
    plain(
        dir,
        url,
        match reference {
            // A plain folder stands for the commit that it is said to be.
            Reference::Commit { id, .. } => Some(id),
            _ => None,
        },
    )
}

/// Opens `dir` as the plain files that lie in it, even when it is a working copy.
///
/// # Errors
/// [`SourceError`] when it is no folder or cannot be read.
pub fn open_plain(dir: &Path, url: &str, commit: Option<&str>) -> Result<Opened, SourceError> {
    if !dir.is_dir() {
        return Err(SourceError::NotAFolder {
            path: dir.to_owned(),
        });
    }
    plain(dir, url, commit)
}

fn plain(dir: &Path, url: &str, commit: Option<&str>) -> Result<Opened, SourceError> {
    let (commit, listing) = match commit {
        Some(commit) => (commit.to_owned(), None),
        None => {
            let (digest, listing) = folder::open(dir)?;
            (digest.to_string(), Some(Arc::new(listing)))
        }
    };
    Ok(Opened {
        url: url.into(),
        commit,
        at: Place::Folder(dir.to_owned(), listing),
        fetched: false,
    })
}

impl Opened {
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
        let path = normal_path(path)?;
        let found = match &self.at {
            Place::Folder(dir, listing) => {
                folder::tree(dir, listing.as_deref(), &path, wanted, limits)?
            }
            Place::Git(repository) => repository.tree(&self.commit, &path, wanted, limits)?,
        };
        found.ok_or_else(|| SourceError::NoSuchPath {
            url: self.url.clone(),
            commit: self.commit.clone(),
            path,
        })
    }

    /// The local repository that holds its commits; `None` for a plain folder.
    pub fn repository_folder(&self) -> Option<&Path> {
        match &self.at {
            Place::Folder(..) => None,
            Place::Git(repository) => Some(repository.folder()),
        }
    }

    /// The URL that it was fetched from; `None` when it lies on this machine.
    pub fn remote(&self) -> Option<&str> {
        self.fetched.then_some(self.url.as_str())
    }

    /// What file `path` of this source is, by whichever way it was opened: of equal identity is equal
    /// content.
    pub fn identity(&self, path: &str) -> String {
        match &self.at {
            Place::Folder(dir, _) => {
                let dir = dir.canonicalize().unwrap_or_else(|_| dir.clone());
                dir.join(path).to_string_lossy().into_owned()
            }
            Place::Git(_) => format!("{}:{path}", self.commit),
        }
    }

    /// What people know file `path` of this source by.
    pub fn file_name(&self, path: &str) -> String {
        match &self.at {
            Place::Folder(dir, _) => {
                // `./x` and `x` are the same file to a person.
                let dir = dir.strip_prefix(".").unwrap_or(dir);
                dir.join(path).to_string_lossy().into_owned()
            }
            Place::Git(_) => {
                let commit = self.commit.get(..8).unwrap_or(&self.commit);
                format!("{}@{commit}:{path}", self.url)
            }
        }
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
