//! Git repositories as they are served: one pack and the refs into it, under the repository's address.
//!
//! What comes in: what a catalog says of a repository, and a pack that was verified when it was stored. What
//! goes out: the answers of smart HTTP (protocol versions 0, 1 and 2) to clone and fetch. It reads no object of
//! the pack, needs no git, and offers nothing to push to.

use outhaul_kit::url::UrlParts;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Component, PathBuf};
use std::sync::Arc;

use outhaul_kit::media::Media;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::name;

pub mod answer;
pub mod pktline;
pub mod request;

/// Where a repository is found: its host and path, without scheme, user, `.git`: `github.com/org/repo`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepositoryAddress(String);

impl RepositoryAddress {
    /// The address in a URL, or in the form `git@host:path`.
    pub fn of_url(url: &str) -> Option<Self> {
        let (host, path) = match UrlParts::of(url) {
            Some(parts) => (parts.authority, parts.rest.strip_prefix('/')?),
            None => {
                let (host, path) = url.split_once(':')?;
                (host.rsplit_once('@').map_or(host, |(_, host)| host), path)
            }
        };
        Self::on(host, &Self::of_path(&format!("/{path}"))?)
    }

    /// The path of a request, `/github.com/org/repo.git`, as far as it is one.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let path = path.strip_suffix(".git").unwrap_or(path);
        let part = |part: &str| {
            let good = |c: char| !c.is_control() && c != '\\';
            !matches!(part, "" | "." | ".." | ".git") && part.chars().all(good)
        };
        let is_good = path.len() <= 1024 && path.split('/').all(part);
        is_good.then(|| Self(path.to_owned()))
    }

    /// The same path on `host`.
    pub fn on(host: &str, path: &Self) -> Option<Self> {
        let host = name::normal_registry(host)?;
        Some(Self(format!("{host}/{}", path.0)))
    }
}

impl std::fmt::Display for RepositoryAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A repository in `catalog.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitEntry {
    /// Its URL as workloads name it.
    pub url: String,
    /// Refs by name, each with the commit or tag that it is at.
    pub refs: BTreeMap<String, String>,
    /// The ref that HEAD is.
    pub head: String,
    /// Commits in the pack whose parents are not.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub shallow: BTreeSet<String>,
    /// The pack, relative to the catalog.
    pub pack: PathBuf,
    /// Digest of the pack, `sha256:…`.
    pub digest: String,
    /// Its size in bytes.
    pub size: u64,
}

/// One repository.
#[derive(Debug)]
pub struct GitRepository {
    folder: Arc<Media>,
    pack: PathBuf,
    /// Digest of the pack.
    pub digest: Digest,
    /// Its size.
    pub size: u64,
    /// Refs by name.
    pub refs: BTreeMap<String, String>,
    /// The ref that HEAD is.
    pub head: String,
    /// The commit of HEAD.
    pub tip: String,
    /// Commits whose parents are not there.
    pub shallow: BTreeSet<String>,
}

impl GitRepository {
    /// The repository that `entry` describes, with its pack below `folder`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(
        folder: &Arc<Media>,
        entry: &GitEntry,
    ) -> Result<(RepositoryAddress, Self), String> {
        let address =
            RepositoryAddress::of_url(&entry.url).ok_or("it is not the address of a repository")?;
        let normal = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !entry.pack.components().all(normal) {
            return Err("its pack is not a relative path".to_owned());
        }
        let length = match entry.refs.get(&entry.head) {
            None => return Err(format!("HEAD is `{}`, which is not a ref", entry.head)),
            Some(tip) => tip.len(),
        };
        let ids = entry.refs.values().chain(&entry.shallow);
        if let Some(id) = ids.clone().find(|id| !is_id(id) || id.len() != length) {
            return Err(format!("`{id}` is not the id of an object"));
        }
        if let Some(name) = entry.refs.keys().find(|name| !is_ref(name)) {
            return Err(format!("`{name}` is not the name of a ref"));
        }
        let digest = Digest::parse(&entry.digest).map_err(|error| error.to_string())?;
        let repository = Self {
            folder: Arc::clone(folder),
            pack: entry.pack.clone(),
            digest,
            size: entry.size,
            refs: entry.refs.clone(),
            tip: entry.refs.get(&entry.head).cloned().unwrap_or_default(),
            head: entry.head.clone(),
            shallow: entry.shallow.clone(),
        };
        let there = repository.pack().map_err(|error| error.to_string())?;
        let found = there.metadata().map_err(|error| error.to_string())?.len();
        if found != entry.size {
            return Err(format!("its pack has {found} bytes, not {}", entry.size));
        }
        Ok((address, repository))
    }

    /// Opens the pack.
    ///
    /// # Errors
    /// When it is not there or not a regular file.
    pub fn pack(&self) -> std::io::Result<File> {
        let found = self.folder.open_file(&self.pack);
        let found = found.map_err(|error| std::io::Error::other(error.to_string()))?;
        found.ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// The hash that ids are by.
    pub fn object_format(&self) -> &'static str {
        match self.tip.len() {
            64 => "sha256",
            _ => "sha1",
        }
    }

    /// Whether a client may want this object.
    pub fn has_tip(&self, id: &str) -> bool {
        self.refs.values().any(|tip| tip == id)
    }
}

/// Whether a text is the id of an object, by SHA-1 or SHA-256.
pub fn is_id(text: &str) -> bool {
    let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    matches!(text.len(), 40 | 64) && text.bytes().all(lower)
}

/// Whether a text can be the name of a ref, by the rules of `git check-ref-format`.
fn is_ref(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.to_ascii_lowercase().ends_with(".lock")
    };
    let good = |c: char| !c.is_control() && !" ~^:?*[\\".contains(c);
    name.starts_with("refs/")
        && name.len() <= 1024
        && !name.contains("..")
        && !name.contains("@{")
        && name.chars().all(good)
        && name.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_many_spellings() {
        let address = RepositoryAddress::of_url("https://github.com/org/repo").unwrap();
        assert_eq!(address.to_string(), "github.com/org/repo");
        for url in [
            "https://github.com/org/repo.git",
            "https://GitHub.com/org/repo/",
            "https://someone@github.com/org/repo",
            "ssh://git@github.com/org/repo.git",
            "git@github.com:org/repo.git",
        ] {
            assert_eq!(
                RepositoryAddress::of_url(url),
                Some(address.clone()),
                "{url}"
            );
        }
        let port = RepositoryAddress::of_url("http://gitea.corp:3000/a/b/c").unwrap();
        assert_eq!(port.to_string(), "gitea.corp:3000/a/b/c");
        for bad in [
            "https://github.com",
            "https://github.com/",
            "/srv/git/repo",
            "https://../a",
            "https://a/../b",
        ] {
            assert_eq!(RepositoryAddress::of_url(bad), None, "{bad}");
        }
    }

    #[test]
    fn refs_follow_git_s_rules() {
        assert!(is_ref("refs/heads/main") && is_ref("refs/tags/v1.0"));
        for bad in [
            "HEAD",
            "refs/heads/",
            "refs/heads/a b",
            "refs/heads/a..b",
            "refs/heads/.a",
            "refs/heads/a.lock",
            "refs/heads/a\n",
            "refs/heads/@{u}",
        ] {
            assert!(!is_ref(bad), "{bad}");
        }
    }
}
