//! One commit taken back, on a branch of its own.
//!
//! What comes in: a commit that was blamed, and the repository. What goes out: a new commit on top of the branch's newest one, in which the
//! files that the commit changed for the site are as before it; lines that came later stay. A file that later commits changed in the
//! same places is a conflict: nothing is written then. The branch itself is never moved.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::index::Snapshot;
use outhaul_diff::Difference;
use outhaul_git::import::Change;
use outhaul_git::program::{Credential, ProgramError};
use outhaul_git::source::{
    self, Cache, GitReference, OpenedSource, SourceError, SourceMap, TreeLimits,
};
use outhaul_git::store::{BranchStore, StoreError};
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_load::LoadRequest;
use outhaul_load::pipeline::{self, Platform};
use outhaul_load::sides::side;
use outhaul_plane::compose::Mode;
use outhaul_plane::render::RenderCache;
use serde::Serialize;

use crate::cause::CommitCause;
use crate::merge::merged;

/// What to take back, and where to.
#[derive(Debug)]
pub struct UndoRequest<'a> {
    /// The commit.
    pub commit: &'a CommitCause,
    /// The branch to write, which must not exist.
    pub branch: &'a str,
    /// Why, for the commit's message.
    pub message: &'a str,
    /// The local folders of repositories.
    pub sources: &'a SourceMap,
    /// Where other repositories are fetched to.
    pub cache: &'a Cache,
    /// What a server is given.
    pub credential: Option<Credential>,
}

/// The undo, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Undo {
    /// The repository's URL as the control plane has it.
    pub repo: String,
    /// Where the branch was written: that URL, or the folder that stands for it here.
    pub place: String,
    /// The branch that it is for.
    pub onto: String,
    /// The newest commit of it, on top of which the undo is.
    pub tip: String,
    /// The branch that was written.
    pub branch: String,
    /// Its commit.
    pub commit: String,
    /// The files that it changes.
    pub paths: Vec<String>,
    /// Files of the blamed commit that it leaves alone, because they change nothing for the site.
    pub left: Vec<String>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// There is such a branch.
    #[error(
        "`{repo}` has a branch `{branch}` already\nhelp: look at it, or name another with `--undo-branch`"
    )]
    BranchExists {
        /// The repository.
        repo: String,
        /// The branch.
        branch: String,
    },
    /// Later commits changed the same lines.
    #[error("later commits changed the same lines of {}\nhelp: take the commit back by hand: `git revert {commit}`", paths.join(", "))]
    Conflict {
        /// The commit.
        commit: String,
        /// The files.
        paths: Vec<String>,
    },
    /// Nothing is left of it.
    #[error("nothing of commit {commit} is on branch `{branch}` any more")]
    Gone {
        /// The commit.
        commit: String,
        /// The branch.
        branch: String,
    },
    /// The control plane does not name the branch.
    #[error(
        "the control plane names no branch by which commit {commit} came\nhelp: take it back by hand: `git revert {commit}`"
    )]
    NoBranch {
        /// The commit.
        commit: String,
    },
    /// It changes what is not a file: half of it would not be taken back.
    #[error("commit {commit} changes links or submodules: {}\nhelp: take it back by hand: `git revert {commit}`", paths.join(", "))]
    NotFiles {
        /// The commit.
        commit: String,
        /// What it changes that is not a file.
        paths: Vec<String>,
    },
    /// A repository cannot be read.
    #[error("cannot read the commit to take back")]
    Source(#[from] SourceError),
    /// A repository cannot be written.
    #[error("cannot write the undo")]
    Store(#[from] StoreError),
    /// A push was refused.
    #[error("cannot write branch `{branch}`")]
    Push {
        /// The branch.
        branch: String,
        /// Why.
        source: ProgramError,
    },
}

impl Classified for UndoError {
    fn class(&self) -> FailureClass {
        match self {
            Self::BranchExists { .. }
            | Self::Conflict { .. }
            | Self::Gone { .. }
            | Self::NotFiles { .. } => FailureClass::Refused,
            Self::NoBranch { .. } | Self::Store(StoreError::BadBranch { .. }) => {
                FailureClass::Usage
            }
            Self::Source(_) | Self::Store(_) | Self::Push { .. } => FailureClass::Environment,
        }
    }
}

/// Takes a commit back on a branch of its own.
///
/// # Errors
/// [`UndoError`]; nothing is changed then.
pub fn undo(request: &UndoRequest<'_>) -> Result<Undo, UndoError> {
    let blamed = request.commit;
    let onto = blamed.branch.clone().ok_or_else(|| UndoError::NoBranch {
        commit: blamed.id.clone(),
    })?;
    let at = |commit: &str| -> Result<OpenedSource, SourceError> {
        let reference = GitReference::Commit {
            id: commit.to_owned(),
            near: Some(onto.clone()),
        };
        source::open(&blamed.repo, &reference, request.sources, request.cache)
    };
    let reference = GitReference::Branch(onto.clone());
    let folder = request.sources.resolve(&blamed.repo, &reference);
    let place = folder.map_or_else(
        || blamed.repo.clone(),
        |dir| dir.to_string_lossy().into_owned(),
    );
    let store = BranchStore::open(&place, request.cache, request.credential.clone())?;
    store.check_branch(request.branch)?;
    if store.fetch(request.branch)?.is_some() {
        return Err(UndoError::BranchExists {
            repo: place,
            branch: request.branch.to_owned(),
        });
    }
    let tip = store.fetch(&onto)?.ok_or_else(|| UndoError::NoBranch {
        commit: blamed.id.clone(),
    })?;
    let (paths, left) = of_site(blamed);
    let (before, after, now) = (
        contents(&at(&blamed.before)?, &paths)?,
        contents(&at(&blamed.id)?, &paths)?,
        contents(&store.at(&tip)?, &paths)?,
    );
    only_files(&blamed.id, &paths, [&before, &after])?;
    let mut edits: BTreeMap<String, Option<Content>> = BTreeMap::new();
    let mut conflicts = Vec::new();
    for path in &paths {
        let [old, new, present] = [&before, &after, &now].map(|files| files.get(path));
        if present == old {
            continue;
        }
        if present == new {
            edits.insert(path.clone(), old.cloned());
            continue;
        }
        match (old, new, present) {
            (Some(old), Some(new), Some(present)) => {
                match merged(&new.bytes, &present.bytes, &old.bytes) {
                    Some(bytes) if bytes != present.bytes => {
                        let executable = present.executable;
                        edits.insert(path.clone(), Some(Content { bytes, executable }));
                    }
                    Some(_) => {}
                    None => conflicts.push(format!("`{path}`")),
                }
            }
            _ => conflicts.push(format!("`{path}`")),
        }
    }
    if !conflicts.is_empty() {
        return Err(UndoError::Conflict {
            commit: blamed.id.clone(),
            paths: conflicts,
        });
    }
    if edits.is_empty() {
        return Err(UndoError::Gone {
            commit: blamed.id.clone(),
            branch: onto,
        });
    }
    let changes = edits.iter().map(|(path, new)| {
        let change = new
            .as_ref()
            .map_or(Change::Remove, |content| Change::Write {
                bytes: &content.bytes,
                executable: content.executable,
            });
        (path.as_str(), change)
    });
    let commit = store.commit_changes(Some(&tip), changes, request.message)?;
    store
        .push(request.branch, None, &commit)
        .map_err(|source| UndoError::Push {
            branch: request.branch.to_owned(),
            source,
        })?;
    Ok(Undo {
        repo: blamed.repo.clone(),
        place,
        onto,
        tip,
        branch: request.branch.to_owned(),
        commit,
        paths: edits.into_keys().collect(),
        left: left.into_iter().collect(),
    })
}

/// Refuses what changes links or submodules: their contents are none.
fn only_files<'p>(
    commit: &str,
    paths: impl IntoIterator<Item = &'p String>,
    sides: [&BTreeMap<String, Content>; 2],
) -> Result<(), UndoError> {
    let is_file = |path: &&String| sides.iter().any(|side| side.contains_key(*path));
    let others = paths.into_iter().filter(|path| !is_file(path));
    let paths: Vec<String> = others.map(|path| format!("`{path}`")).collect();
    match paths.is_empty() {
        true => Ok(()),
        false => Err(UndoError::NotFiles {
            commit: commit.to_owned(),
            paths,
        }),
    }
}

/// What an undo changes when it is merged, for every assignment and site, all else being as it is in `now`.
///
/// # Errors
/// Why that cannot be said: the commits cannot be rendered from here.
pub fn changes(
    load: &LoadRequest,
    mode: Mode,
    now: &Snapshot,
    (blamed, undo): (&CommitCause, &Undo),
) -> Result<Difference, String> {
    let at = |id: &str| {
        let mut snapshot = now.clone();
        let Snapshot {
            environment,
            base,
            workloads,
            ..
        } = &mut snapshot;
        for one in [environment, base].into_iter().chain(workloads) {
            if one.repo == blamed.repo && blamed.names.contains(&one.name) {
                id.clone_into(&mut one.commit);
            }
        }
        let platform = pipeline::run(load, mode, Some(&snapshot), RenderCache::None);
        platform.map_err(|findings| {
            let first = findings.iter().next();
            first.map_or_else(String::new, |finding| finding.message.clone())
        })
    };
    let (before, after) = (at(&undo.tip)?, at(&undo.commit)?);
    Ok(outhaul_diff::compare(
        side(&undo.onto, &before),
        side(&undo.branch, &after),
    ))
}

/// Whether a commit is of what is promoted: merging its undo alone changes no environment.
pub fn is_of_base(snapshot: &Snapshot, blamed: &CommitCause) -> bool {
    let base = &snapshot.base;
    base.repo == blamed.repo && blamed.names.contains(&base.name)
}

/// The assignments whose own files an undo changes, as `<cluster type>/<target>`: they travel as the team has them, so that no rendered file
/// shows it.
pub fn teams_files(now: &Platform, blamed: &CommitCause, undo: &Undo) -> Vec<String> {
    let mut found = Vec::new();
    for (cluster_type, group) in &now.rendering.cluster_types {
        for (target, rendered) in &group.assignments {
            let field = |name: &str| rendered.manifests.get(name).map_or("", String::as_str);
            let is_here = source::normal_url(field("repo")) == source::normal_url(&blamed.repo)
                && field("branch") == undo.onto;
            let path = field("path").trim_matches(['.', '/']);
            let is_below = |changed: &String| {
                path.is_empty() || changed.starts_with(&format!("{path}/")) || changed == path
            };
            if is_here && undo.paths.iter().any(is_below) {
                found.push(format!("{cluster_type}/{target}"));
            }
        }
    }
    found
}

/// The files of a commit that are to be taken back, and those that are left alone. Values, templates, policies and the team's own files say
/// where they are written; where one of the assignments comes or goes, or nothing says it, it is everything that a control plane reads.
fn of_site(blamed: &CommitCause) -> (BTreeSet<String>, BTreeSet<String>) {
    let all: BTreeSet<String> = blamed.paths.iter().cloned().collect();
    let mut places: Vec<&str> = Vec::new();
    for value in &blamed.values {
        let sides = [&value.before, &value.after].into_iter().flatten();
        places.extend(sides.map(|side| side.at.as_str()));
    }
    for template in &blamed.templates {
        let sides = [&template.before, &template.after].into_iter().flatten();
        places.extend(sides.map(|side| side.at.as_str()));
    }
    places.extend(blamed.policies.iter().filter_map(|one| one.at.as_deref()));
    let is_named = |path: &&String| {
        let in_repository = format!(":{path}:");
        blamed.files.contains(*path) || places.iter().any(|at| at.contains(&in_repository))
    };
    let is_read = |path: &&String| {
        blamed.files.contains(*path) || path.ends_with(".yaml") || path.ends_with(".yml")
    };
    let named: BTreeSet<String> = all.iter().filter(is_named).cloned().collect();
    let is_whole = named.is_empty() || !blamed.removed.is_empty() || !blamed.policies.is_empty();
    let mut taken = match is_whole {
        true => all.iter().filter(is_read).cloned().collect(),
        false => named,
    };
    if taken.is_empty() {
        taken.clone_from(&all);
    }
    let left = all.difference(&taken).cloned().collect();
    (taken, left)
}

/// A file as git has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    bytes: Vec<u8>,
    executable: bool,
}

fn contents(
    opened: &OpenedSource,
    paths: &BTreeSet<String>,
) -> Result<BTreeMap<String, Content>, SourceError> {
    let tree = opened.tree("", &|path| paths.contains(path), &TreeLimits::YAML)?;
    let files = tree.files.into_iter().map(|file| {
        let content = Content {
            bytes: file.bytes,
            executable: file.executable,
        };
        (file.path, content)
    });
    Ok(files.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_commits_do_not_allow_is_a_refusal_and_what_may_pass_is_not() {
        let commit = || "abc".to_owned();
        let paths = || vec!["`a.yaml`".to_owned()];
        let branch = || "undo-abc".to_owned();
        let bad = StoreError::BadBranch { branch: branch() };
        let unreachable = StoreError::Folder {
            url: "https://git.factory.example/x".to_owned(),
            problem: "no space".to_owned(),
        };
        for (error, class) in [
            (
                UndoError::BranchExists {
                    repo: commit(),
                    branch: branch(),
                },
                FailureClass::Refused,
            ),
            (
                UndoError::Conflict {
                    commit: commit(),
                    paths: paths(),
                },
                FailureClass::Refused,
            ),
            (
                UndoError::Gone {
                    commit: commit(),
                    branch: branch(),
                },
                FailureClass::Refused,
            ),
            (
                UndoError::NotFiles {
                    commit: commit(),
                    paths: paths(),
                },
                FailureClass::Refused,
            ),
            (
                UndoError::NoBranch { commit: commit() },
                FailureClass::Usage,
            ),
            (UndoError::Store(bad), FailureClass::Usage),
            (UndoError::Store(unreachable), FailureClass::Environment),
        ] {
            assert_eq!(error.class(), class, "{error}");
        }
    }
}
