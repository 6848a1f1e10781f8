//! A new git repository, with branches made from files in memory.
//!
//! What comes in: an empty folder, then branches with their files. What goes out: a repository whose
//! branches have one commit each, and one of them checked out. It reads no hooks, needs no identity of
//! the user's, and touches no other repository.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Files, ScaffoldError};
use crate::deliver::program::Git;

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
    let mut git = Command::new("git");
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
        let mut stream = Vec::new();
        // Writing to memory cannot fail.
        let mut line = |text: &[u8]| stream.extend_from_slice(text);
        line(format!("commit refs/heads/{branch}\ncommitter {}\n", self.committer).as_bytes());
        line(format!("data {}\n{message}\n", message.len() + 1).as_bytes());
        for (path, text) in files {
            let mode = if executable(path) { "100755" } else { "100644" };
            line(format!("M {mode} inline {path}\ndata {}\n{text}\n", text.len()).as_bytes());
        }
        let arguments = ["fast-import", "--quiet", "--date-format=now"];
        self.git.run(&arguments, &stream)?;
        let reference = format!("refs/heads/{branch}");
        Ok(self.git.text(&["rev-parse", &reference])?)
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
