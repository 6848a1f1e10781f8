//! Why the store could not do what it was asked, and which kind of trouble that is.
//!
//! What comes in: errors of the database, of files, and what was found in them. What goes out: one error with what was tried and
//! where. Its class and the way out are in `help.rs`.

use std::io;
use std::path::PathBuf;

use outhaul_kit::durable::FileError;
use outhaul_kit::text;

use super::db::{DbError, DbErrorKind, ServerError};

/// What to do about [`StoreError::Corrupt`].
pub const CORRUPT_HELP: &str = "update this hub where a newer one wrote that, or restore a backup";

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is damaged, and only read.
    #[error(
        "the database `{}` is damaged and is only read: {problem}",
        text::path(path)
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What the database says.
        problem: String,
    },
    /// A row holds what this program never wrote.
    #[error("the store holds a value that cannot be read: {what}")]
    Corrupt {
        /// Which one.
        what: String,
    },
    /// What was written to another database does not come back as it was.
    #[error("{what} differs between the server and this file")]
    Differs {
        /// Which part.
        what: String,
    },
    /// `init` on a state that exists.
    #[error("`{}` is a hub's state already", path.display())]
    Exists {
        /// The database.
        path: PathBuf,
    },
    /// A file of the state folder failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// No database there.
    #[error(
        "there is no hub in `{}`: `{}` does not exist",
        text::path(folder),
        text::path(path)
    )]
    Missing {
        /// The state folder.
        folder: PathBuf,
        /// The database.
        path: PathBuf,
        /// Folders near it with a hub.
        near: Vec<PathBuf>,
    },
    /// A file that is to become a hub's database is none.
    #[error("the database in the backup is not one that this program wrote: {what}")]
    Unsound {
        /// What is wrong with it.
        what: String,
    },
    /// A database that is to become a hub's has rows of another one.
    #[error("the database `{address}` is not empty, and its {what} is not that of this hub")]
    NotEmpty {
        /// Its address.
        address: String,
        /// What differs.
        what: String,
    },
    /// A report on record has no signed text any more.
    #[error(
        "the signed text of report {number} of site `{site}`, numbering `{epoch}`, is missing or not whole in the database"
    )]
    NoEnvelope {
        /// The site.
        site: String,
        /// Its numbering.
        epoch: String,
        /// Its number.
        number: u64,
    },
    /// Written by a newer hub.
    #[error("the store has version {found}, this program knows versions up to {known}")]
    Newer {
        /// Its version.
        found: i64,
        /// The newest that this program knows.
        known: usize,
    },
    /// The store cannot be kept from others.
    #[error("`{}` cannot be made readable for its owner only", path.display())]
    Private {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another file is where the database was, or none: nothing that is written to it would be found again.
    #[error(
        "the database `{}` was removed or replaced while this program had it open; nothing more is written", path.display()
    )]
    Replaced {
        /// The database.
        path: PathBuf,
    },
    /// A server cannot be used.
    #[error("the database server of `{address}` cannot be used")]
    Server {
        /// Its address, or the file that holds it.
        address: String,
        /// Why.
        source: ServerError,
    },
    /// The database failed at once: a full disk, a damaged file, a folder that cannot be written.
    #[error("the store `{}` cannot {doing}", path.display())]
    Open {
        /// What was tried.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// What it says.
        source: DbError,
    },
    /// A statement failed.
    #[error("the store failed")]
    Sql {
        /// What the database says.
        source: DbError,
    },
}

impl From<DbError> for StoreError {
    fn from(source: DbError) -> Self {
        Self::Sql { source }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> Self {
        DbError::from(source).into()
    }
}

impl StoreError {
    /// Whether the file is no database any more, or a damaged one.
    pub fn is_damage(&self) -> bool {
        self.trouble() == Some(DbErrorKind::Damage)
    }

    /// Whether another program holds it.
    pub fn is_busy(&self) -> bool {
        self.trouble() == Some(DbErrorKind::Busy)
    }

    /// Whether it cannot be written: a full disk, or a file system or server that is read-only or fails.
    pub fn is_unwritable(&self) -> bool {
        self.trouble() == Some(DbErrorKind::Unwritable)
    }

    /// Whether the server cannot be reached or went away.
    pub fn is_gone(&self) -> bool {
        self.trouble() == Some(DbErrorKind::Gone)
    }

    /// What kind of trouble the database has.
    #[expect(clippy::match_same_arms, reason = "each error is a case of its own")]
    pub fn trouble(&self) -> Option<DbErrorKind> {
        match self {
            Self::Open { source, .. } | Self::Sql { source } => Some(source.trouble()),
            Self::Damaged { .. } => Some(DbErrorKind::Damage),
            Self::Server {
                source: ServerError::Failed(source),
                ..
            } => Some(source.trouble()),
            Self::Server {
                source: ServerError::Replica,
                ..
            } => Some(DbErrorKind::Unwritable),
            _ => None,
        }
    }
}
