//! Why something cannot be collected, as an error and as a finding.
//!
//! What comes in: the error of whoever read a repository or asked a registry. What goes out: the sentence for the
//! person, with the assignment that it concerns, and what to do.

use std::sync::Arc;

use outhaul_bundle::name::NameError;
use outhaul_control::diagnostic::{Diagnostic, Location};
use outhaul_git::source::SourceError;
use outhaul_needs::Unread;

use crate::assemble::SpoolError;

/// Why an image cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ImageError {
    /// What is wrong.
    pub message: String,
    /// Whether it is the network, the registry or this machine, and not the image.
    pub is_environment: bool,
    /// What to do, where it is not the usual.
    pub help: Option<String>,
}

/// Why a payload cannot be collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// A folder is not what it was when the assignment was last good.
    #[error("`{assignment}`: the folder of its manifests is not what it was")]
    Gone {
        /// The assignment.
        assignment: String,
    },
    /// There is no file where the manifests should be.
    #[error(
        "`{assignment}`: there is no file in `{folder}` of `{url}`, so its sites would get an empty folder\n\
         help: correct `path` and `branch`; without `repo` the assignment has no payload"
    )]
    Empty {
        /// The assignment.
        assignment: String,
        /// The folder in the repository.
        folder: String,
        /// The repository.
        url: String,
    },
    /// The storage is of a kind that cannot be carried yet.
    #[error(
        "`{assignment}`: its manifests are in `{storage}` storage, which bundles do not support yet\n\
         help: use `storage: git`, or leave `repo` out when there is no payload"
    )]
    Storage {
        /// The assignment.
        assignment: String,
        /// What the deployment target says.
        storage: String,
    },
    /// The repository cannot be read.
    #[error("`{assignment}`: its manifests cannot be collected")]
    Source {
        /// The assignment.
        assignment: String,
        /// Why.
        source: Arc<SourceError>,
    },
    /// The same, of an assignment that is still to be named.
    #[error(transparent)]
    Unread(#[from] SourceError),
    /// The temporary folder failed.
    #[error("cannot keep payloads in the temporary folder")]
    Spool(#[from] SpoolError),
    /// A path that cannot travel.
    #[error(
        "`{assignment}`: a file of its manifests cannot travel\nhelp: rename it in its repository"
    )]
    Path {
        /// The assignment.
        assignment: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// A rendered file and a file of the payload would be the same file on site.
    #[error(
        "`{assignment}`: its template renders `{path}`, and its manifests have it too\nhelp: rename one of \
         them; on site one would silently replace the other"
    )]
    Collision {
        /// The assignment.
        assignment: String,
        /// The file, as it would be on site.
        path: String,
    },
    /// Two files that are one where case is ignored, or a file in the place of a folder.
    #[error(
        "`{assignment}`: its manifests have `{first}` and `{second}`, which differ by case alone or are both \
         file and folder\nhelp: rename one of them; sticks and some sites ignore case"
    )]
    Alike {
        /// The assignment.
        assignment: String,
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A file that a list brings, and another file in its place.
    #[error("`{assignment}`: {what}, and {other}\nhelp: move or rename one of them")]
    ListedPlace {
        /// The assignment.
        assignment: String,
        /// What the list brings there.
        what: String,
        /// What else is there.
        other: String,
        /// Where it is listed.
        at: Box<Location>,
    },
    /// An image that its files name cannot be had.
    #[error("`{assignment}`: {what}: {error}")]
    Image {
        /// The assignment.
        assignment: String,
        /// The image or the chart, as it is written.
        what: String,
        /// Where it is written, where that is a file that someone wrote.
        at: Option<Box<Location>>,
        /// Whether its tag is pinned to what it was.
        pinned: bool,
        /// Why.
        error: ImageError,
    },
    /// A manifest is not read, and so what it needs is not known.
    #[error("`{assignment}`: {}", unread.message)]
    NotRead {
        /// The assignment.
        assignment: String,
        /// Which, and why.
        unread: Box<Unread>,
    },
    /// A list of files that cannot be read.
    #[error("`{assignment}`: its list of files is wrong: {}", shown(problems))]
    FileList {
        /// The assignment.
        assignment: String,
        /// Each problem with its place.
        problems: Vec<(String, Location)>,
    },
    /// A list of files of a workload whose own files do not travel.
    #[error(
        "`{assignment}`: it lists files in `outhaul-files.toml`, and its repository travels as git for a reconciler that fetches it, \
         which fetches none of them\n\
         help: list them in the manifests of a workload that a folder, Ansible or the API server applies"
    )]
    Unlisted {
        /// The assignment.
        assignment: String,
    },
    /// A Debian package of a list, or the repository that is made of them.
    #[error("`{assignment}`: package `{what}`: {problem}")]
    Package {
        /// The assignment.
        assignment: String,
        /// Its path or URL.
        what: String,
        /// What is wrong.
        problem: String,
        /// Where it is listed.
        at: Box<Location>,
    },
    /// A commit that a ref of another repository is pinned to cannot be had.
    #[error(
        "`{assignment}`: `{reference}` of `{url}`, as it is pinned in `outhaul.lock`, is not available"
    )]
    Pinned {
        /// The assignment.
        assignment: String,
        /// The repository.
        url: String,
        /// The ref.
        reference: String,
        /// Why.
        source: Arc<SourceError>,
    },
    /// Another repository has files that are not in it.
    #[error(
        "`{assignment}`: `{path}` of `{url}` is {what}, whose content is not in that repository\n\
         help: put the file itself there, or leave the repository to the sites; once it is fixed, `--update` takes \
         its newest commit"
    )]
    Foreign {
        /// The assignment.
        assignment: String,
        /// The repository.
        url: String,
        /// The file's path in it.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// A repository is mapped to a plain folder that is to be fetched.
    #[error(
        "`{assignment}`: `{url}` is mapped to a plain folder, which has no commit that a site could fetch\n\
         help: map the repository to a clone: `--source {url}=DIR`"
    )]
    Commitless {
        /// The assignment.
        assignment: String,
        /// The repository.
        url: String,
    },
    /// What a rendered file asks of a repository is not a single commit.
    #[error(
        "`{assignment}`: `{revision}` of `{url}` is not a branch, tag or commit, and a bundle contains one commit\n\
         help: name a branch, a tag or a commit"
    )]
    Revision {
        /// The assignment.
        assignment: String,
        /// The repository.
        url: String,
        /// What is asked for.
        revision: String,
    },
    /// Links and submodules.
    #[error(
        "`{assignment}`: `{path}` is a symbolic link or submodule, which cannot travel\n\
         help: put the file itself there"
    )]
    Link {
        /// The assignment.
        assignment: String,
        /// Its path in the repository.
        path: String,
    },
    /// A file that the repository has as a pointer of Git LFS.
    #[error(
        "`{assignment}`: `{path}` is a pointer of Git LFS, and its content is not in the repository\n\
         help: put the file itself there: `git lfs untrack` the pattern, `git add --renormalize` the file, and \
         commit both"
    )]
    Pointer {
        /// The assignment.
        assignment: String,
        /// Its path in the repository.
        path: String,
    },
}

impl CollectError {
    /// Where what it is about is written; `None` where nothing but the deployment target says so.
    pub fn place(&self) -> Option<&Location> {
        match self {
            Self::Image { at, .. } => at.as_deref(),
            Self::FileList { problems, .. } => problems.first().map(|(_, at)| at),
            Self::Package { at, .. } | Self::ListedPlace { at, .. } => Some(at),
            Self::NotRead { unread, .. } => Some(&unread.at),
            _ => None,
        }
    }
}

fn shown(problems: &[(String, Location)]) -> String {
    let line = |(problem, at): &(String, Location)| format!("{}: {problem}", at.file_line());
    problems.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// A payload's error as a finding, still without a place.
pub fn finding(error: &CollectError) -> Diagnostic {
    if let CollectError::NotRead { unread, .. } = error {
        return unread.finding(Diagnostic::error);
    }
    if let CollectError::FileList {
        assignment,
        problems,
    } = error
    {
        return list_finding(assignment, problems);
    }
    let mut lines = Vec::new();
    let mut help = None;
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = next {
        for line in cause.to_string().lines() {
            match line.trim().strip_prefix("help: ") {
                Some(text) => help = Some(text.to_owned()),
                None if lines.iter().any(|said| said == line) => {}
                None => lines.push(line.to_owned()),
            }
        }
        next = cause.source();
    }
    let message = lines.join(": ");
    let (finding, help) = match error {
        CollectError::Pinned { source, .. } => {
            let help = format!("`--update` takes what it is now; else: {}", source.help());
            let finding = match source.is_input() {
                true => Diagnostic::error("not-collected", message),
                false => Diagnostic::environment("not-collected", message),
            };
            (finding, Some(help))
        }
        CollectError::Source { source, .. } if source.is_input() => (
            Diagnostic::error("not-collected", message),
            Some(source.help()),
        ),
        CollectError::Source { source, .. } => (
            Diagnostic::environment("not-collected", message),
            Some(source.help()),
        ),
        CollectError::Image { error, pinned, .. } => {
            let update = match pinned {
                true => "`--update` takes what its tag is now; else ",
                false => "",
            };
            let help = error.help.clone().unwrap_or_else(|| {
                "see that the name is right, that the registry has it, and that it accepts your credentials \
                 (`docker login`, `REGISTRY_AUTH_FILE`); `images: reference` in a delivery policy \
                 leaves images to the sites"
                    .to_owned()
            });
            let help = format!("{update}{help}");
            let finding = match error.is_environment {
                true => Diagnostic::environment("not-collected", message),
                false => Diagnostic::error("not-collected", message),
            };
            (finding, Some(help))
        }
        _ => (Diagnostic::error("not-collected", message), help),
    };
    match help {
        Some(help) => finding.help(help),
        None => finding,
    }
}

/// A wrong list of files: its first problem, with each other at its own place.
fn list_finding(assignment: &str, problems: &[(String, Location)]) -> Diagnostic {
    let mut problems = problems.iter();
    let first = problems.next().map_or("", |(problem, _)| problem.as_str());
    let message = format!("`{assignment}`: its list of files is wrong: {first}");
    problems.fold(
        Diagnostic::error("not-collected", message),
        |finding, (problem, at)| finding.related(at, problem),
    )
}
