//! Which repositories stand here as folders, and which hosts are open to what teams write.
//!
//! What comes in: what was typed or configured by who runs outhaul, and the commits of a snapshot to
//! read again. What goes out: for a URL the folder that it is mapped to, the commit that it is pinned to,
//! or the server that it may be fetched from. Nothing of a control plane or a workload adds a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{GitReference, SourceError, git, normal_url};
use crate::address::{Address, AllowedHosts, Scheme};
use outhaul_kit::suggest::nearest;

/// Which URLs are mapped to local folders, working copies or mirrors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceMap {
    entries: BTreeMap<(String, Option<String>), PathBuf>,
    pins: BTreeMap<(String, String), String>,
    allowed: AllowedHosts,
    /// URLs that were typed: they may be on this machine.
    given: BTreeSet<String>,
    /// What `parse` mapped, for a person to see what of it is in use.
    typed: BTreeSet<(String, Option<String>)>,
    used: Used,
    pub(super) working_copies: bool,
}

/// Which mappings were asked for, by this map and by all copies of it. What was asked for makes no map another one.
#[derive(Debug, Clone, Default)]
struct Used(Arc<Mutex<Mappings>>);

/// URLs, each with its branch where one is named.
#[derive(Debug, Default)]
struct Mappings(BTreeSet<(String, Option<String>)>);

impl Used {
    fn lock(&self) -> MutexGuard<'_, Mappings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Used {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Used {}

impl SourceMap {
    /// A map from `URL=DIR` texts; `URL#BRANCH=DIR` maps one branch.
    ///
    /// # Errors
    /// [`SourceError::BadMapping`], and why a folder cannot be opened.
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
            if !dir.is_dir() && dir.to_str().is_some_and(|dir| dir.contains("://")) {
                return Err(SourceError::Swapped {
                    text: text.into(),
                    turned: format!("{}={url}", dir.display()),
                });
            }
            if !dir.is_dir() {
                return Err(super::no_folder(&dir));
            }
            let (url, branch) = match url.rsplit_once('#') {
                Some((url, branch)) => (url, Some(branch.to_owned())),
                None => (url, None),
            };
            let key = (normal_url(url), branch);
            map.typed.insert(key.clone());
            map.entries.insert(key, dir);
        }
        Ok(map)
    }

    /// Opens these hosts to what control planes and workloads name, although they are this machine or
    /// are spoken to in clear: texts of the form `HOST` or `HOST:PORT`.
    ///
    /// # Errors
    /// [`SourceError::Address`] for a text that is not a host.
    pub fn allow_hosts<S: AsRef<str>>(&mut self, hosts: &[S]) -> Result<(), SourceError> {
        self.allowed = AllowedHosts::parse(hosts)?;
        Ok(())
    }

    /// Says that `url` was typed by who runs outhaul: where a control plane names it again, it may be
    /// on this machine. That it is mapped to a folder is not said with it.
    pub fn insert_given(&mut self, url: &str) {
        self.given.insert(normal_url(url));
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
    pub fn pinned(&self, name: &str, url: &str, reference: GitReference) -> GitReference {
        let Some(id) = self.pins.get(&(name.to_owned(), normal_url(url))) else {
            return reference;
        };
        let near = match reference {
            GitReference::Branch(branch) => Some(branch),
            GitReference::Commit { near, .. } => near,
            GitReference::Head | GitReference::Tag(_) => None,
        };
        let id = id.clone();
        GitReference::Commit { id, near }
    }

    /// The URL with a folder here that `url`, which has none, was most likely to be.
    pub fn nearest(&self, url: &str) -> Option<&str> {
        let known: Vec<&str> = self.entries.keys().map(|(url, _)| url.as_str()).collect();
        nearest(&normal_url(url), &known).map(|near| {
            let same = known.iter().find(|known| **known == near);
            same.copied().unwrap_or_default()
        })
    }

    /// Every folder that a repository is mapped to.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.entries.values().map(PathBuf::as_path)
    }

    /// What was mapped by texts and asked for by nobody yet: the URL, and the branch where one was named.
    pub fn unused(&self) -> Vec<(String, Option<String>)> {
        let used = self.used.lock();
        self.typed.difference(&used.0).cloned().collect()
    }

    /// The folder that `url` is mapped to at `reference`.
    pub fn resolve(&self, url: &str, reference: &GitReference) -> Option<&Path> {
        let url = normal_url(url);
        let branch = match reference {
            GitReference::Branch(name) | GitReference::Tag(name) => Some(name.clone()),
            GitReference::Commit { near, .. } => near.clone(),
            GitReference::Head => None,
        };
        let found = [(url.clone(), branch), (url, None)]
            .into_iter()
            .find_map(|key| Some((self.entries.get(&key)?, key)));
        found.map(|(folder, key)| {
            self.used.lock().0.insert(key);
            folder.as_path()
        })
    }
}

impl SourceMap {
    /// Whether who runs outhaul opened the host of `url` (`--allow-host`).
    pub fn is_named(&self, url: &str) -> bool {
        let address = Address::parse(url);
        address.is_ok_and(|address| matches!(self.allowed.check(&address), Ok(None)))
    }

    /// The hosts that who runs outhaul opened (`--allow-host`), each with the port to which it is limited.
    pub fn allowed_hosts(&self) -> impl Iterator<Item = (&str, Option<u16>)> {
        self.allowed.hosts()
    }

    /// A server that `url` may be fetched from, when a control plane or a workload wrote it.
    ///
    /// # Errors
    /// [`SourceError::Address`] when it may not.
    pub fn permitted(&self, url: &str) -> Result<git::Remote, SourceError> {
        let address = Address::parse(url)?;
        if address.scheme() != Scheme::File && self.given.contains(&normal_url(url)) {
            return Ok(git::Remote::given(address));
        }
        let found = self.allowed.check(&address)?;
        Ok(git::Remote::checked(address, found))
    }
}
