//! The platform repository: the files that Kalypso's scheduler wrote for an environment.
//!
//! What comes in: where it is, and the `GitOpsRepo` objects that say which branch is whose. What goes
//! out: its files at one commit, bounded. Kalypso writes to the root of the branch whatever the object's
//! `path` says (its defect 16), so the root is what is read. Nothing is ever written there.

use std::sync::Arc;

use serde::Serialize;

use crate::Tree;
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::kinds::{self, Object};
use outhaul_control::{ControlPlane, Diagnostics};
use outhaul_git::source::{
    self, Cache, GitReference, OpenedSource, SourceError, SourceMap, TreeLimits,
};

/// Where was looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Searched {
    /// The URL or folder, as it was given.
    pub repo: String,
    /// The branch; `None` for a plain folder.
    pub branch: Option<String>,
    /// The commit, or for a plain folder the digest of its content.
    pub commit: String,
}

/// Which branch holds what was made for this control plane: that of the `GitOpsRepo` whose URL was
/// given, or else of the first by name, which is the one that Kalypso takes (its defect 25).
pub fn branch(control_plane: &ControlPlane, url: &str) -> Option<String> {
    let repos = &control_plane.gitops_repos;
    let same = |repo: &str| source::normal_url(repo) == source::normal_url(url);
    let named = repos.values().find(|repo| same(&repo.at.repo.value));
    named
        .or_else(|| repos.values().next())
        .map(|repo| repo.at.branch.clone())
}

/// Opens it and reads every file.
///
/// # Errors
/// [`SourceError`] when it cannot be read or has no such branch.
pub fn read(
    url: &str,
    branch: Option<&str>,
    map: &SourceMap,
    cache: &Cache,
) -> Result<(Searched, Tree), SourceError> {
    let reference = branch.map_or(GitReference::Head, |name| {
        GitReference::Branch(name.to_owned())
    });
    let opened = source::open_given(url, &reference, map, cache)?;
    let tree = opened.tree("", &|path| !path.starts_with(".git/"), &TreeLimits::YAML)?;
    let files = tree
        .files
        .into_iter()
        .map(|file| (file.path, file.bytes))
        .collect();
    Ok((place(url, branch, &opened), files))
}

fn place(url: &str, branch: Option<&str>, opened: &OpenedSource) -> Searched {
    let in_git = opened.repository_folder().is_some();
    Searched {
        repo: url.to_owned(),
        branch: branch.filter(|_| in_git).map(str::to_owned),
        commit: opened.commit.clone(),
    }
}

/// The environments that a control plane declares: their names, and the URL of the repository that
/// each names as its own.
///
/// # Errors
/// [`SourceError`] when the control plane cannot be read.
pub fn environments(
    url: &str,
    branch: Option<&str>,
    map: &SourceMap,
    cache: &Cache,
) -> Result<Vec<(String, String)>, SourceError> {
    let open = |reference| source::open_given(url, &reference, map, cache);
    let opened = match open(GitReference::Branch(branch.unwrap_or("main").to_owned())) {
        // Not every repository calls it `main`.
        Err(SourceError::NoSuchReference { .. }) if branch.is_none() => open(GitReference::Head)?,
        opened => opened?,
    };
    let is_yaml = |path: &str| path.ends_with(".yaml") || path.ends_with(".yml");
    let files = match opened.tree(".environments", &is_yaml, &TreeLimits::YAML) {
        Ok(tree) => tree.files,
        Err(SourceError::NoSuchPath { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut findings = Diagnostics::new();
    let mut found = Vec::new();
    for file in files {
        let text = String::from_utf8_lossy(&file.bytes).into_owned();
        let file = Arc::new(SourceFile {
            name: file.path,
            text,
        });
        // What does not read is reported when the environment is loaded.
        for object in kinds::read_file(&file, &mut findings) {
            if let Object::Environment(one) = object {
                found.push((one.name, one.control_plane.repo.value));
            }
        }
    }
    found.sort();
    Ok(found)
}
