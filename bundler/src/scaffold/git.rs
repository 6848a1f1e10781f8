//! A new git repository, with branches made from files in memory.
//!
//! What comes in: an empty folder, then branches with their files. What goes out: a repository whose
//! branches have one commit each, and one of them checked out. It reads no hooks, needs no identity of
//! the user's, and touches no other repository.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Files, ScaffoldError};

/// Who commits where git knows nobody.
const NOBODY: (&str, &str) = ("Outhaul", "outhaul@localhost");

/// A repository that was just made.
#[derive(Debug)]
pub(super) struct Repository {
    folder: PathBuf,
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
    run(
        folder,
        &["init", "--quiet", "--initial-branch=main", "."],
        b"",
    )?;
    Ok(open(folder))
}

/// One that is there.
pub(super) fn open(folder: &Path) -> Repository {
    let setting = |name: &str| {
        run(folder, &["config", "--get", name], b"")
            .ok()
            .filter(|text| !text.is_empty() && !text.contains(['<', '>', '\n']))
    };
    let name = setting("user.name").unwrap_or_else(|| NOBODY.0.to_owned());
    let email = setting("user.email").unwrap_or_else(|| NOBODY.1.to_owned());
    Repository {
        folder: folder.to_owned(),
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
        run(&self.folder, &arguments, &stream)?;
        run(
            &self.folder,
            &["rev-parse", &format!("refs/heads/{branch}")],
            b"",
        )
    }

    /// The commit of a branch, if it is there.
    pub(super) fn commit_of(&self, branch: &str) -> Option<String> {
        let reference = format!("refs/heads/{branch}");
        run(
            &self.folder,
            &["rev-parse", "--verify", "--quiet", &reference],
            b"",
        )
        .ok()
    }

    /// Writes a branch's files into the folder.
    pub(super) fn check_out(&self, branch: &str) -> Result<(), ScaffoldError> {
        run(
            &self.folder,
            &["checkout", "--quiet", "--force", branch],
            b"",
        )
        .map(drop)
    }
}

/// Scripts are for running.
fn executable(path: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|ending| ending == "sh")
}

fn run(folder: &Path, arguments: &[&str], input: &[u8]) -> Result<String, ScaffoldError> {
    let failed = |message: String| ScaffoldError::Git {
        doing: arguments.first().copied().unwrap_or_default().to_owned(),
        message,
    };
    let mut git = Command::new("git");
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
    ] {
        git.env_remove(name);
    }
    let mut child = git
        .env("LC_ALL", "C")
        .args(["-c", "core.hooksPath=/dev/null", "-C"])
        .arg(folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("cannot start the `git` program: {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A git that ends early closes its input; its own message says why.
        let _ = stdin.write_all(input);
    }
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(failed(
            message.trim().trim_start_matches("fatal: ").to_owned(),
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
