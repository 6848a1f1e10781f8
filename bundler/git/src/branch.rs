//! One commit on one branch, made without a checkout.
//!
//! What comes in: a repository (a local one, or the URL of a remote one), a branch, the files to change
//! and the commit that they were decided on. What goes out: the new commit, on the branch, all or
//! nothing: when someone else moved the branch meanwhile, nothing is changed. It touches no working
//! copy, and refuses a branch that one has checked out, whose files would then seem to be reverted.

use std::collections::BTreeMap;
use std::path::Path;

use crate::import::{self, Change, NewCommit};
use crate::program::{Git, ProgramError};

/// What to commit.
#[derive(Debug)]
pub struct Edit<'a> {
    /// The branch, without `refs/heads/`.
    pub branch: &'a str,
    /// The commit that the branch must still be at.
    pub parent: &'a str,
    /// New content by path; every other file stays.
    pub files: &'a BTreeMap<String, Vec<u8>>,
    /// The commit's message.
    pub message: &'a str,
}

/// Why there is no commit. The branch is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BranchError {
    /// The branch is checked out there.
    #[error(
        "branch `{branch}` is checked out in `{folder}`; committing behind its back would make its files \
         look reverted\nhelp: check out another branch there, or point at a bare repository"
    )]
    CheckedOut {
        /// The branch.
        branch: String,
        /// The working copy.
        folder: String,
    },
    /// Git failed.
    #[error("git {doing}: {message}")]
    Git {
        /// The git command.
        doing: String,
        /// What it said.
        message: String,
    },
    /// The branch is only there as it was fetched from elsewhere.
    #[error(
        "`{folder}` has no branch `{branch}` of its own, only a copy of another repository's; nothing was changed\n\
         help: make it with `git branch {branch} origin/{branch}` there, run the command again, and push it; or give \
         the server's URL"
    )]
    NoBranch {
        /// The branch.
        branch: String,
        /// The repository.
        folder: String,
    },
    /// Someone else was faster.
    #[error("branch `{branch}` moved meanwhile; nothing was changed\nhelp: run the command again")]
    Moved {
        /// The branch.
        branch: String,
    },
}

/// Commits to a branch of the local repository in `folder`.
///
/// # Errors
/// [`BranchError`]; the branch is then as it was.
pub fn commit_local(folder: &Path, edit: &Edit<'_>) -> Result<String, BranchError> {
    let git = Git::local(folder);
    let reference = format!("refs/heads/{}", edit.branch);
    if git
        .text(&["rev-parse", "--verify", "--quiet", &reference])
        .is_err()
    {
        return Err(BranchError::NoBranch {
            branch: edit.branch.to_owned(),
            folder: folder.display().to_string(),
        });
    }
    let at = git.text(&["for-each-ref", "--format=%(worktreepath)", &reference])?;
    if !at.is_empty() {
        return Err(BranchError::CheckedOut {
            branch: edit.branch.to_owned(),
            folder: at,
        });
    }
    let commit = commit(&git, edit)?;
    git.text(&["update-ref", &reference, &commit, edit.parent])
        .map_err(|_| BranchError::Moved {
            branch: edit.branch.to_owned(),
        })?;
    Ok(commit)
}

/// Commits in the local store `folder`, which holds `edit.parent`, and pushes to `url`.
///
/// # Errors
/// [`BranchError`]; the branch at `url` is then as it was.
pub fn commit_and_push(folder: &Path, url: &str, edit: &Edit<'_>) -> Result<String, BranchError> {
    let git = Git::at(folder);
    let commit = commit(&git, edit)?;
    let lease = format!(
        "--force-with-lease=refs/heads/{}:{}",
        edit.branch, edit.parent
    );
    let target = format!("{commit}:refs/heads/{}", edit.branch);
    match git.text(&["push", "--quiet", lease.as_str(), "--", url, &target]) {
        Ok(_) => Ok(commit),
        Err(error) if was_overtaken(&error.message) => Err(BranchError::Moved {
            branch: edit.branch.to_owned(),
        }),
        Err(error) => Err(error.into()),
    }
}

/// Whether a push failed because someone else was faster.
pub fn was_overtaken(message: &str) -> bool {
    [
        "stale info",
        "[rejected]",
        "failed to update ref",
        "cannot lock ref",
    ]
    .iter()
    .any(|sign| message.contains(sign))
}

impl From<ProgramError> for BranchError {
    fn from(error: ProgramError) -> Self {
        let ProgramError { doing, message } = error;
        Self::Git { doing, message }
    }
}

/// The commit, to which nothing points yet.
fn commit(git: &Git, edit: &Edit<'_>) -> Result<String, BranchError> {
    let (author, committer) = (
        git.text(&["var", "GIT_AUTHOR_IDENT"])?,
        git.text(&["var", "GIT_COMMITTER_IDENT"])?,
    );
    let new = NewCommit {
        reference: None,
        author: Some(&author),
        committer: &committer,
        parent: Some(edit.parent),
        message: &format!("{}\n", edit.message.trim_end()),
    };
    let changes = edit.files.iter().map(|(path, bytes)| {
        let executable = false;
        (path.as_str(), Change::Write { bytes, executable })
    });
    Ok(import::commit(git, &new, changes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> (tempfile::TempDir, Git, String) {
        let folder = tempfile::tempdir().unwrap();
        let git = Git::at(folder.path());
        git.text(&["init", "--quiet", "--initial-branch=main"])
            .unwrap();
        std::fs::write(folder.path().join("kept.yaml"), "kept: true\n").unwrap();
        git.text(&["add", "."]).unwrap();
        git.text(&["commit", "--quiet", "-m", "first"]).unwrap();
        git.text(&["branch", "stage"]).unwrap();
        let head = git.text(&["rev-parse", "stage"]).unwrap();
        (folder, git, head)
    }

    fn edit<'a>(
        branch: &'a str,
        parent: &'a str,
        files: &'a BTreeMap<String, Vec<u8>>,
    ) -> Edit<'a> {
        Edit {
            branch,
            parent,
            files,
            message: "Promote\n\nbecause the gate is open",
        }
    }

    #[test]
    fn one_file_changes_and_the_others_stay() {
        let (folder, git, head) = repository();
        let files = BTreeMap::from([("env/base-repo.yaml".to_owned(), b"new\n".to_vec())]);
        let commit = commit_local(folder.path(), &edit("stage", &head, &files)).unwrap();
        assert_eq!(git.text(&["rev-parse", "stage"]).unwrap(), commit);
        let listing = git
            .text(&["ls-tree", "-r", "--name-only", "stage"])
            .unwrap();
        assert_eq!(listing, "env/base-repo.yaml\nkept.yaml");
        assert_eq!(git.text(&["status", "--porcelain"]).unwrap(), "");
        // The commit was made without a reference of its own.
        let references = git.text(&["for-each-ref", "--format=%(refname)"]).unwrap();
        assert_eq!(references, "refs/heads/main\nrefs/heads/stage");
    }

    #[test]
    fn a_branch_that_moved_or_is_checked_out_stays_as_it_is() {
        let (folder, git, head) = repository();
        let files = BTreeMap::from([("a".to_owned(), b"1".to_vec())]);
        let moved = commit_local(folder.path(), &edit("stage", &head, &files)).unwrap();
        let files = BTreeMap::from([("a".to_owned(), b"2".to_vec())]);
        let late = commit_local(folder.path(), &edit("stage", &head, &files));
        assert!(matches!(late, Err(BranchError::Moved { .. })), "{late:?}");
        assert_eq!(git.text(&["rev-parse", "stage"]).unwrap(), moved);
        let here = commit_local(folder.path(), &edit("main", &head, &files));
        assert!(
            matches!(here, Err(BranchError::CheckedOut { .. })),
            "{here:?}"
        );
    }

    #[test]
    fn a_push_is_refused_when_the_remote_moved() {
        let (remote, git, head) = repository();
        let local = tempfile::tempdir().unwrap();
        let url = remote.path().to_string_lossy().into_owned();
        let clone = Git::at(local.path());
        clone
            .text(&["clone", "--quiet", "--bare", &url, "mirror"])
            .unwrap();
        let mirror = local.path().join("mirror");
        let files = BTreeMap::from([("a".to_owned(), b"1".to_vec())]);
        let pushed = commit_and_push(&mirror, &url, &edit("stage", &head, &files)).unwrap();
        assert_eq!(git.text(&["rev-parse", "stage"]).unwrap(), pushed);
        let files = BTreeMap::from([("a".to_owned(), b"2".to_vec())]);
        let late = commit_and_push(&mirror, &url, &edit("stage", &head, &files));
        assert!(matches!(late, Err(BranchError::Moved { .. })), "{late:?}");
    }
}
