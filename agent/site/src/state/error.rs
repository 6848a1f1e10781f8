//! Why the state of a site cannot be used.
//!
//! What comes in: what SQLite, the disk or another agent said. What goes out: a sentence and an exit code; `help.rs` has the way out. It looks
//! at nothing but which folders are there and what `site.json` has, and changes nothing.

use std::path::{Path, PathBuf};

use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::text;
use outhaul_signer::KeyError;

use super::folder_identity::FolderIdentity;
use super::former::Former;
use crate::durable::{self, FileError};
use crate::state_folder::LockError;

/// Why the memory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file beside the database.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another agent.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// SQLite failed.
    #[error("the database failed to {doing}: {source}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: rusqlite::Error,
    },
    /// The database file is not a database any more.
    #[error(
        "the database `{}` is damaged ({problem}); what runs on this site was not touched",
        text::path(path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        problem: String,
    },
    /// Written by a newer agent.
    #[error("the database is of version {found}; this agent knows versions up to {known}")]
    Newer {
        /// Its version.
        found: i64,
        /// The newest known.
        known: i64,
    },
    /// The file system of the state folder is full.
    #[error(
        "no space is left on the file system of `{}`: the database failed to {doing}",
        text::path(folder)
    )]
    NoSpace {
        /// The state folder.
        folder: PathBuf,
        /// What was being done.
        doing: &'static str,
    },
    /// A stored value that this agent did not write.
    #[error("the stored {what} cannot be read: {problem}")]
    Value {
        /// Which value.
        what: String,
        /// What is wrong.
        problem: String,
    },
    /// The file system of the state folder is mounted read-only.
    #[error(
        "the file system of `{}` is read-only: the database failed to {doing}; nothing was changed, and what runs on this site goes on",
        folder.display()
    )]
    ReadOnly {
        /// The state folder.
        folder: PathBuf,
        /// What was being done.
        doing: &'static str,
    },
    /// Something else lies in the place of the database.
    #[error(
        "in the place of the database `{}` is {found}: it was not opened, and what runs on this site was not touched",
        path.display()
    )]
    Instead {
        /// The place.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The site has no identity yet.
    #[error(
        "there is no site in `{}`: {}",
        outhaul_kit::text::path(folder),
        what_lacks(folder)
    )]
    NotEnrolled {
        /// The state folder.
        folder: PathBuf,
    },
    /// The database of a machine that was a site is not there.
    #[error(
        "the database `{}` {how}, though `{beside}` beside it shows that this machine was a site{}; what runs on it \
         was not touched", path.display(), which_site(path)
    )]
    Gone {
        /// The file.
        path: PathBuf,
        /// That it is gone, or empty.
        how: &'static str,
        /// What shows it.
        beside: String,
    },
    /// The database that was opened is not at its path any more.
    #[error(
        "the database `{}` {how}, while this process worked with the one that was there before: it ends now, and what is on this \
         host stays as it is; {}",
        text::path(path),
        of_former(former)
    )]
    Exchanged {
        /// The file.
        path: PathBuf,
        /// That it is gone, or another one.
        how: &'static str,
        /// What became of the one that was opened.
        former: Former,
    },
    /// The file of the database became shorter while it was open.
    #[error(
        "the database `{}` was cut short, from {before} to {now} bytes, while this process worked with it: it ends now, and what is on this host \
         stays as it is; {}",
        text::path(path),
        of_shortened(former)
    )]
    Shortened {
        /// The file.
        path: PathBuf,
        /// How long it was.
        before: u64,
        /// How long it is.
        now: u64,
        /// What could be saved of what it held.
        former: Former,
    },
    /// The database is of another site than the folder.
    #[error(
        "the database `{}` is of {found}, and this is the state folder of {own}, as `{shown}` in it shows: it was not used, and what runs on \
         this site was not touched",
        text::path(path)
    )]
    OtherSite {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose the folder is.
        own: String,
        /// What shows it.
        shown: String,
    },
    /// Another file in the folder is of another site than the database and the key.
    #[error(
        "`{}` is of {found}, and the database `agent.db` and the key `site.key` beside it are of {own}: the state folder was not used, and what runs on \
         this site was not touched",
        text::path(path)
    )]
    OtherPiece {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose the database and the key are.
        own: String,
    },
    /// The database is a copy from before the one that reported last.
    #[error(
        "the database `{}` is an older copy than the one that this site worked with last ({problem}): with it, numbers of reports would be given \
         twice, and the hub would count none of the two; what runs on this site was not touched{waiting}",
        text::path(path)
    )]
    OlderCopy {
        /// The file.
        path: PathBuf,
        /// What shows it.
        problem: String,
        /// The one that was saved beside it and is not older, where there is one.
        newer: Option<PathBuf>,
        /// What becomes of the reports that wait in it, as the end of a sentence; empty where there are none.
        waiting: String,
    },
    /// The lock that this process holds is not at its path any more.
    #[error(
        "the lock `{}` {how}, while this process worked under it: other programs do not see any more that the state folder is in use, so that \
         this one ends now, between two steps; the next start goes on from there, and until then what is on this host stays as it is",
        text::path(path)
    )]
    LockLost {
        /// The file.
        path: PathBuf,
        /// That it is gone, or another one.
        how: &'static str,
    },
    /// The record of the highest versions was tampered with or lost.
    #[error("{problem}; no bundle is accepted until that is fixed, what runs continues")]
    Floors {
        /// What contradicts what.
        problem: String,
    },
    /// A report could not be signed.
    #[error("the site's key cannot be used: {problem}")]
    Key {
        /// What is wrong.
        problem: String,
    },
}

impl StateError {
    /// Why the open database has to stay open: it was removed, and not all that is in it is saved. It is gone with this process.
    pub fn unsaved(&self) -> Option<&str> {
        match self {
            Self::Exchanged {
                former:
                    Former::ReportsSaved { problem, .. }
                    | Former::NotSaved(problem)
                    | Former::Lost(problem),
                ..
            } => Some(problem),
            _ => None,
        }
    }
}

impl Classified for StateError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NotEnrolled { .. } => FailureClass::Usage,
            Self::Floors { .. } => FailureClass::Trust,
            Self::Value { .. } => FailureClass::Internal,
            _ => FailureClass::Environment,
        }
    }
}

/// What became of the database that a process worked with.
fn of_former(former: &Former) -> String {
    match former {
        Former::Elsewhere => "reports that had not reached the hub are in that one only".to_owned(),
        Former::Rescued(saved) => format!(
            "that one was removed, and all that it held is saved in `{}`, with the reports that had not reached the hub",
            text::path(saved)
        ),
        Former::ReportsSaved { folder, problem } => format!(
            "that one was removed: the reports in it that had not reached the hub are saved in `{}`, and the rest could not be saved ({problem})",
            text::path(folder)
        ),
        Former::NotSaved(problem) => format!(
            "that one was removed and could not be saved ({problem}); every report in it had reached the hub"
        ),
        Former::Lost(problem) => format!(
            "that one was removed and could not be saved ({problem}): of the reports in it that had not reached the hub, those that are not in \
             `rescued/reports` are lost"
        ),
    }
}

/// What could be saved of a database that was cut short.
fn of_shortened(former: &Former) -> String {
    match former {
        Former::Elsewhere => "what it held is lost from there on".to_owned(),
        Former::Rescued(saved) => format!(
            "all that it held was still to be read in this process, and is saved in `{}`, with the reports that had not reached the hub",
            text::path(saved)
        ),
        Former::ReportsSaved { folder, problem } => format!(
            "the reports in it that had not reached the hub were still to be read, and are saved in `{}`; the rest could not be saved ({problem})",
            text::path(folder)
        ),
        Former::NotSaved(problem) => {
            format!("it could not be saved ({problem}); every report in it had reached the hub")
        }
        Former::Lost(problem) => format!(
            "it could not be saved ({problem}): of the reports in it that had not reached the hub, those that are not in `rescued/reports` are lost"
        ),
    }
}

/// Which site it was, where `site.json` beside the database shows it.
fn which_site(database: &Path) -> String {
    let known = FolderIdentity::beside(database);
    known.map_or_else(String::new, |known| format!(" ({})", known.sentence()))
}

/// What lacks where there is no site: a folder, or what makes it a site's.
fn what_lacks(folder: &Path) -> String {
    match durable::first_missing(folder) {
        Some(missing) => format!("`{}` does not exist", text::path(&missing)),
        None => "it holds no identity".to_owned(),
    }
}

impl From<KeyError> for StateError {
    /// A key file that cannot be read or written is the disk's matter; one that is gone or damaged the
    /// key's.
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::File(error) if !error.is_missing() => Self::File(error),
            other => Self::Key {
                problem: text::chain(&other),
            },
        }
    }
}
