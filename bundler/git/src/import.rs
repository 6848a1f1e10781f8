//! One commit from files in memory, by one `git fast-import`.
//!
//! What comes in: a repository, perhaps a branch, and the changes. What goes out: a commit that the branch points
//! to, or that no reference points to, made without a checkout however many files there are. It reads nothing and
//! pushes nothing.

use std::io::Write;

use crate::program::{Git, ProgramError};

/// What git is told instead of a reference for a commit that none points to. It is never written.
const UNNAMED: &str = "refs/outhaul/commit";

/// What becomes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// It goes.
    Remove,
    /// It gets this content.
    Write {
        /// The content.
        bytes: &'a [u8],
        /// Whether it may be executed.
        executable: bool,
    },
}

/// The commit to be.
#[derive(Debug, Clone, Copy)]
pub struct NewCommit<'a> {
    /// What points to it then, if anything: a full name. What points to something else now that this does not follow
    /// is refused.
    pub reference: Option<&'a str>,
    /// Who wrote it, `NAME <EMAIL> WHEN`; without one the committer did.
    pub author: Option<&'a str>,
    /// Who commits it, `NAME <EMAIL> WHEN`; `now` is a time.
    pub committer: &'a str,
    /// The commit before it.
    pub parent: Option<&'a str>,
    /// Its message.
    pub message: &'a str,
}

/// Makes `commit` of `changes`, given by path; returns its id.
///
/// # Errors
/// [`ProgramError`] when git cannot be started or says no.
pub fn commit<'c>(
    git: &Git,
    commit: &NewCommit<'_>,
    changes: impl Iterator<Item = (&'c str, Change<'c>)> + Clone,
) -> Result<String, ProgramError> {
    let date = match commit.committer.ends_with(" now") {
        true => "--date-format=now",
        false => "--date-format=raw",
    };
    let arguments = ["fast-import", "--quiet", "--done", date];
    git.feed(&arguments, |git| {
        writeln!(git, "commit {}", commit.reference.unwrap_or(UNNAMED))?;
        writeln!(git, "mark :1")?;
        if let Some(author) = commit.author {
            writeln!(git, "author {author}")?;
        }
        writeln!(git, "committer {}", commit.committer)?;
        data(git, commit.message.as_bytes())?;
        if let Some(parent) = commit.parent {
            writeln!(git, "from {parent}")?;
        }
        // What goes goes first: a file may become a folder.
        for (path, change) in changes.clone() {
            if change == Change::Remove {
                writeln!(git, "D {}", quoted(path))?;
            }
        }
        for (path, change) in changes {
            if let Change::Write { bytes, executable } = change {
                let mode = if executable { "100755" } else { "100644" };
                writeln!(git, "M {mode} inline {}", quoted(path))?;
                data(git, bytes)?;
            }
        }
        // Git answers with the commit's id.
        writeln!(git, "get-mark :1")?;
        if commit.reference.is_none() {
            // References are written at the end: this one is forgotten before.
            writeln!(git, "reset {UNNAMED}")?;
        }
        writeln!(git, "done")
    })
}

/// A path as `fast-import` takes it, whatever is in it.
fn quoted(path: &str) -> String {
    let mut text = String::from('"');
    for character in path.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

fn data(git: &mut dyn Write, bytes: &[u8]) -> std::io::Result<()> {
    writeln!(git, "data {}", bytes.len())?;
    git.write_all(bytes)?;
    git.write_all(b"\n")
}
