//! Which way a promotion goes in history: on, back, or beside what is there.
//!
//! What comes in: an environment's link, and a commit of the base. What goes out: the way, and a refusal of those that take something out.
//! A server's branch is fetched into the cache for it. It moves nothing.

use outhaul_git::program::Git;
use outhaul_git::source::{self, GitReference, SourceError};

use super::{Chain, Link, PromoteError};

/// Where a commit is in history, seen from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// It contains the other one.
    On,
    /// The other one contains it.
    Back,
    /// Neither contains the other.
    Beside,
    /// Both are here, and the history between them is not.
    CutOff,
    /// History does not show it.
    Unknown,
}

/// Refuses the ways that take something out.
pub(super) fn refuse(direction: Direction, link: &Link, commit: &str) -> Result<(), PromoteError> {
    let (environment, commit) = (link.environment.name.clone(), commit.to_owned());
    let there = || link.pinned().map(str::to_owned);
    match direction {
        Direction::On | Direction::Unknown => Ok(()),
        Direction::Back => Err(PromoteError::Older {
            environment,
            there: there()?,
            commit,
        }),
        Direction::Beside => Err(PromoteError::Beside {
            environment,
            there: there()?,
            commit,
        }),
        Direction::CutOff => Err(PromoteError::CutOff {
            environment,
            there: there()?,
            commit,
        }),
    }
}

/// Whether a repository has only the newest part of its history.
fn is_cut_off(git: &Git) -> bool {
    git.text(&["rev-parse", "--is-shallow-repository"])
        .is_ok_and(|said| said.trim() == "true")
}

/// Whether a commit is another one or comes before it; of one that is not there it is not so.
fn is_ancestor(git: &Git, commit: &str, of: &str) -> bool {
    git.text(&["merge-base", "--is-ancestor", commit, of])
        .is_ok()
}

impl Chain<'_> {
    /// Where `commit` is in history, seen from the one that `link` is at.
    ///
    /// # Errors
    /// [`PromoteError`] when its repository cannot be read.
    pub(super) fn direction(&self, link: &Link, commit: &str) -> Result<Direction, PromoteError> {
        match link.base.commit.as_ref() {
            Some(there) => self.direction_from(link, &there.value, commit),
            None => Ok(Direction::Unknown),
        }
    }

    /// The same, seen from the commit `there`.
    fn direction_from(
        &self,
        link: &Link,
        there: &str,
        commit: &str,
    ) -> Result<Direction, PromoteError> {
        let git = self.history(link)?;
        let is_known = |commit: &str| is_ancestor(&git, commit, commit);
        Ok(if !is_known(commit) {
            Direction::Unknown
        } else if is_ancestor(&git, commit, there) {
            Direction::Back
        } else if is_ancestor(&git, there, commit) {
            Direction::On
        } else if !is_cut_off(&git) {
            // Of a branch that was forced to another history nobody keeps what was there.
            Direction::Beside
        } else if is_known(there) {
            Direction::CutOff
        } else {
            Direction::Unknown
        })
    }

    /// Refuses a commit that is older than the one that `link` is at, or does not contain it, as after a branch was forced to another
    /// history. What a history that was cut off does not show is not so.
    ///
    /// # Errors
    /// [`PromoteError::Older`], [`PromoteError::Beside`], [`PromoteError::CutOff`], or [`PromoteError`] when its repository cannot be read.
    pub(super) fn refuse_backwards(&self, link: &Link, commit: &str) -> Result<(), PromoteError> {
        let direction = self.direction(link, commit)?;
        refuse(direction, link, commit)
    }

    /// Refuses to put on record that a commit of the branch, `made`, moved `link` back.
    ///
    /// # Errors
    /// [`PromoteError::MovedBack`], [`PromoteError::CutOff`], or [`PromoteError`] when the repository of the base cannot be read.
    pub(super) fn refuse_moved_back(
        &self,
        link: &Link,
        (before, commit): (&str, &str),
        made: &str,
    ) -> Result<(), PromoteError> {
        match self.direction_from(link, before, commit)? {
            Direction::On | Direction::Unknown => Ok(()),
            Direction::CutOff => Err(PromoteError::CutOff {
                environment: link.environment.name.clone(),
                there: before.to_owned(),
                commit: commit.to_owned(),
            }),
            Direction::Back | Direction::Beside => Err(PromoteError::MovedBack {
                environment: link.environment.name.clone(),
                made: made.to_owned(),
                before: before.to_owned(),
                commit: commit.to_owned(),
            }),
        }
    }

    /// Whether the clone of the base's repository has only a part of its history.
    ///
    /// # Errors
    /// [`PromoteError`] when it cannot be read.
    pub(super) fn is_shallow(&self, link: &Link) -> Result<bool, PromoteError> {
        Ok(is_cut_off(&self.history(link)?))
    }

    /// The repository of the base.
    fn history(&self, link: &Link) -> Result<Git, PromoteError> {
        let at = &link.base.at;
        let reference = GitReference::Branch(at.branch.clone());
        let sources = self.base_sources(link);
        let git = match sources.resolve(&at.repo.value, &reference) {
            Some(folder) => Git::local(folder),
            None => {
                let remote = sources.permitted(&at.repo.value)?;
                let folder = self.cache.repository(&format!("{}#history", at.repo.value));
                let name = format!("+refs/heads/{0}:refs/heads/{0}", at.branch);
                let store = source::git::Repository::at(&folder);
                store.init()?;
                if let Err(message) = store.fetch_from(&remote, &[], &name)? {
                    let url = at.repo.value.clone();
                    return Err(SourceError::Unreachable { url, message }.into());
                }
                Git::local(&folder)
            }
        };
        Ok(git)
    }
}
