//! Why a source cannot be read.
//!
//! What comes in: what went wrong. What goes out: an error with its data, whether a change of the input
//! helps, and what to do next. It decides nothing.

use std::path::PathBuf;

use super::GitReference;
use crate::address::AddressError;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::suggest::{did_you_mean, nearest};

/// Why a source cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A `--source` that is not `URL=DIR`.
    #[error("`{text}` is not `URL=DIR`")]
    BadMapping {
        /// What was given.
        text: String,
    },
    /// A `--source` with the URL behind the `=`.
    #[error("`{text}` has the URL behind the `=`")]
    Swapped {
        /// What was given.
        text: String,
        /// The same, the right way round.
        turned: String,
    },
    /// The folder is not there.
    #[error("`{}` is not a folder", path.display())]
    NotAFolder {
        /// Its path.
        path: PathBuf,
    },
    /// There is nothing at a path that someone typed.
    #[error("there is no folder `{}`", path.display())]
    Missing {
        /// Its path.
        path: PathBuf,
        /// The folders beside it.
        beside: Vec<String>,
    },
    /// A file or folder cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A URL that is not one, or that may not be opened.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The server, or what it is mapped to, cannot be reached.
    #[error("cannot reach repository `{url}`: {message}")]
    Unreachable {
        /// The URL.
        url: String,
        /// What git said.
        message: String,
    },
    /// The repository is there, but not the branch, tag or commit.
    #[error("{}", lacks(url, reference))]
    NoSuchReference {
        /// The URL.
        url: String,
        /// What was asked for.
        reference: GitReference,
        /// The branches that there are, when one was asked for and they can be listed here.
        known: Vec<String>,
    },
    /// The repository has no such folder.
    #[error("`{url}` at {commit} has no folder `{path}`")]
    NoSuchPath {
        /// The URL or folder.
        url: String,
        /// The commit.
        commit: String,
        /// The path.
        path: String,
    },
    /// A path that leads through a link or into another repository.
    #[error(
        "`{link}` of `{url}` at {commit} is a symbolic link or a submodule, which is not followed"
    )]
    Linked {
        /// The URL or folder.
        url: String,
        /// The commit.
        commit: String,
        /// The part of the path that is one.
        link: String,
    },
    /// A path that would leave the repository.
    #[error("path `{path}` leaves its repository")]
    EscapingPath {
        /// The path.
        path: String,
    },
    /// More than [`TreeLimits`] allow.
    #[error("{what} is larger than the limit of {limit} {unit}")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The limit.
        limit: u64,
        /// Its unit.
        unit: &'static str,
    },
    /// A file or folder of a commit that is not a file or folder, or not there.
    #[error("`{what}` cannot be read from its repository: {message}")]
    Damaged {
        /// Which.
        what: String,
        /// What is wrong with it.
        message: String,
    },
    /// A commit of which the object is damaged or gone.
    #[error("{what} cannot be read: {message}")]
    DamagedCommit {
        /// What was asked for, and of which repository.
        what: String,
        /// What is wrong with it.
        message: String,
    },
    /// A file whose name is not UTF-8.
    #[error("the name of file `{path}` is not UTF-8 text")]
    NotText {
        /// Its path, with what is not text replaced.
        path: String,
    },
    /// The `git` program is missing or broken.
    #[error("git: {message}")]
    Git {
        /// What went wrong.
        message: String,
    },
}

impl Classified for SourceError {
    fn class(&self) -> FailureClass {
        match self.is_input() {
            true => FailureClass::Usage,
            false => FailureClass::Environment,
        }
    }

    fn help(&self) -> Option<String> {
        Some(self.help())
    }
}

impl SourceError {
    /// Whether a change of the input helps, rather than of disk or network.
    pub fn is_input(&self) -> bool {
        !matches!(
            self,
            Self::Unreadable { .. } | Self::Unreachable { .. } | Self::Git { .. }
        )
    }

    /// What to do next about a server of images, charts or files: `--source` is for repositories alone.
    pub fn server_help(&self) -> String {
        match self {
            Self::Address(error) => error.server_help(),
            error => error.help(),
        }
    }

    /// What to do next.
    pub fn help(&self) -> String {
        match self {
            Self::BadMapping { .. } => "write for example `--source https://example.org/app=../app`; \
                `--source URL#BRANCH=DIR` maps one branch only".into(),
            Self::Swapped { turned, .. } => format!("write `--source {turned}`"),
            Self::Missing { path, beside } => {
                match nearest(&path.display().to_string(), beside) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "check the path; one without `/` before it begins in the working folder".into(),
                }
            }
            Self::NotAFolder { .. } => "check the path, or give another folder".into(),
            Self::Unreadable { .. } => "check that it exists and that you may read it".into(),
            Self::Address(error) => error.help(),
            Self::Unreachable { url, .. } => format!(
                "check the network and your credentials, or map a local copy: `--source {url}=DIR`"
            ),
            Self::NoSuchReference {
                reference: GitReference::Branch(name),
                known,
                ..
            } if !known.is_empty() => did_you_mean(name, known),
            Self::NoSuchReference {
                reference: GitReference::Head,
                ..
            } => "commit something there, or name a branch that has commits".into(),
            Self::NoSuchReference { .. } => {
                "check the spelling; a shallow mirror may lack older commits (`git fetch --unshallow`)".into()
            }
            Self::NoSuchPath { .. } => "check `path` in the object that names the repository".into(),
            Self::Linked { .. } => "name the repository and folder that it leads to, or put the files themselves there".into(),
            Self::EscapingPath { .. } => "use a path below the repository's root, without `..`".into(),
            Self::TooLarge { .. } => "leave large files out by `.sourceignore`".into(),
            Self::Damaged { .. } | Self::DamagedCommit { .. } => "look at the repository with `git fsck --full`, and push what is damaged once more from a copy that has it".into(),
            Self::NotText { .. } => "rename it in its repository: a name must be the same on every machine".into(),
            Self::Git { message } if message.contains(DUBIOUS) => format!(
                "it belongs to another user, and git reads it only where that is agreed to: `git config --global \
                 --add safe.directory {}`, as the user that runs this",
                dubious(message)
            ),
            Self::Git { .. } => "install git 2.30 or newer, or look at the message above".into(),
        }
    }
}

/// What git calls a repository of someone else.
const DUBIOUS: &str = "dubious ownership";

/// The repository that git names in such a message, as a word of a command line.
fn dubious(message: &str) -> &str {
    let named = message.split_once("repository at ");
    named.map_or("DIR", |(_, path)| path.trim())
}

fn lacks(url: &str, reference: &GitReference) -> String {
    match reference {
        GitReference::Head => format!("repository `{url}` has no commit on its default branch"),
        reference => format!("repository `{url}` has no {reference}"),
    }
}
