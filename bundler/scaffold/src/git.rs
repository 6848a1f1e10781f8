//! A new git repository, with branches made from files in memory.
//!
//! What comes in: an empty folder, then branches with their files. What goes out: a repository whose
//! branches have one commit each, and one of them checked out. It reads no hooks, needs no identity of
//! the user's, and touches no other repository.

use std::path::Path;
use std::process::Stdio;

use outhaul_git::import::{self, Change, NewCommit};
use outhaul_git::program::Git;
use outhaul_git::source;

use super::{Files, ScaffoldError};

/// Who commits where git knows nobody.
const NOBODY: (&str, &str) = ("Outhaul", "outhaul@localhost");

/// A repository that was just made.
#[derive(Debug)]
pub(super) struct Repository {
    git: Git,
    committer: String,
}

/// Whether there is a git to make one with.
pub(super) fn is_there() -> bool {
    let mut git = source::git::plain();
    git.arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    git.status().is_ok_and(|status| status.success())
}

/// Makes an empty one.
pub(super) fn init(folder: &Path) -> Result<Repository, ScaffoldError> {
    Git::at(folder).text(&["init", "--quiet", "--initial-branch=main", "."])?;
    Ok(open(folder))
}

/// One that is there.
pub(super) fn open(folder: &Path) -> Repository {
    let git = Git::at(folder);
    let setting = |name: &str| {
        git.text(&["config", "--get", name])
            .ok()
            .filter(|text| !text.is_empty() && !text.contains(['<', '>', '\n']))
    };
    let name = setting("user.name").unwrap_or_else(|| NOBODY.0.to_owned());
    let email = setting("user.email").unwrap_or_else(|| NOBODY.1.to_owned());
    Repository {
        git,
        committer: format!("{name} <{email}> now"),
    }
}

impl Repository {
    /// A branch with one commit that has no parent; returns the commit.
    pub(super) fn branch(
        &self,
        branch: &str,
        message: &str,
        files: &Files,
    ) -> Result<String, ScaffoldError> {
        let reference = format!("refs/heads/{branch}");
        let commit = NewCommit {
            reference: Some(&reference),
            author: None,
            committer: &self.committer,
            parent: None,
            message: &format!("{message}\n"),
        };
        let changes = files.iter().map(|(path, text)| {
            let change = Change::Write {
                bytes: text.as_bytes(),
                executable: executable(path),
            };
            (path.as_str(), change)
        });
        Ok(import::commit(&self.git, &commit, changes)?)
    }

    /// The commit of a branch, if it is there.
    pub(super) fn commit_of(&self, branch: &str) -> Option<String> {
        let reference = format!("refs/heads/{branch}");
        let arguments = ["rev-parse", "--verify", "--quiet", &reference];
        self.git.text(&arguments).ok()
    }

    /// Writes a branch's files into the folder.
    pub(super) fn check_out(&self, branch: &str) -> Result<(), ScaffoldError> {
        self.git.text(&["checkout", "--quiet", "--force", branch])?;
        Ok(())
    }
}

/// Scripts are for running.
fn executable(path: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|ending| ending == "sh")
}
