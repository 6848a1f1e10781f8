//! One commit from files in memory, by one `git fast-import`.
//!
//! What comes in: a repository, a branch or other reference, and the changes. What goes out: a commit
//! that the reference points to, made without a checkout however many files there are. It reads nothing
//! and pushes nothing.

use std::io::Write;

use crate::program::{Git, ProgramError};

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
    /// What points to it then.
    pub reference: &'a str,
    /// Whether it may point to something else now, which this does not follow.
    pub replaces: bool,
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
    let mut arguments = vec!["fast-import", "--quiet", "--done", date];
    if commit.replaces {
        arguments.push("--force");
    }
    git.feed(&arguments, |git| {
        let NewCommit {
            reference,
            committer,
            ..
        } = commit;
        writeln!(git, "commit {reference}")?;
        if let Some(author) = commit.author {
            writeln!(git, "author {author}")?;
        }
        writeln!(git, "committer {committer}")?;
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
        writeln!(git, "done")
    })?;
    git.text(&["rev-parse", "--verify", commit.reference])
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
