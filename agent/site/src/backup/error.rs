//! Why a backup was not written, or not restored.
//!
//! What comes in: a situation with its data. What goes out: a sentence, the rule that refused the file as a short word, and
//! what to do next. It decides nothing.

use std::path::PathBuf;

use outhaul_bundle::Digest;
use outhaul_kit::text;

use crate::aside;
use crate::durable::FileError;
use crate::state::StateError;

/// Why a backup was not written, or not restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file or the disk.
    #[error(transparent)]
    File(#[from] FileError),
    /// The state of this site.
    #[error("{0}")]
    State(Box<StateError>),
    /// There is a file of this name.
    #[error("`{path}` exists already; nothing was written")]
    Exists {
        /// The file.
        path: String,
    },
    /// More files than a backup holds.
    #[error("{found} files, a backup holds 200,000")]
    TooMany {
        /// How many.
        found: usize,
    },
    /// Not such a file at all.
    #[error("it does not begin as a backup of a site does")]
    NotABackup,
    /// The header is not JSON of its shape.
    #[error("its header is damaged: {problem}")]
    Header {
        /// What is wrong.
        problem: String,
    },
    /// Of another version.
    #[error("it is of format `{found}`, this program reads `outhaul.dev/site-backup/v1`")]
    UnknownFormat {
        /// The format found.
        found: String,
    },
    /// Cut off, or longer than it says.
    #[error("its header states {expected} bytes, and it has {found}")]
    Length {
        /// Bytes by its header.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// Its last line is not the digest of what comes before it.
    #[error(
        "its last line is not the digest of what comes before (expected {expected}, found {found})"
    )]
    Sum {
        /// By its last line.
        expected: String,
        /// As computed.
        found: Digest,
    },
    /// Another file than the one whose digest was written down.
    #[error(
        "it is another file than the one that was asked for (expected {expected}, found {found})"
    )]
    OtherDigest {
        /// As given.
        expected: Digest,
        /// As computed.
        found: Digest,
    },
    /// A file in it is not what the header says.
    #[error("`{name}` in it is damaged (expected {expected}, found {found})")]
    Content {
        /// The file.
        name: String,
        /// By the header.
        expected: Digest,
        /// As computed.
        found: Digest,
    },
    /// A name that no state folder has.
    #[error("it holds `{name}`, which is not part of a backup")]
    ForeignName {
        /// The name.
        name: String,
    },
    /// A name that comes twice.
    #[error("it holds `{name}` twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// Something that every backup has.
    #[error("it does not hold `{name}`")]
    Missing {
        /// The name.
        name: String,
    },
    /// The database in it.
    #[error("the database in it cannot be used: {problem}")]
    Database {
        /// What is wrong.
        problem: String,
    },
    /// The keys in it.
    #[error("the keys in it cannot be used: {problem}")]
    Keys {
        /// What is wrong.
        problem: String,
    },
    /// The database or the key is of another site than the header says.
    #[error("its header speaks of {expected}, and it holds {found}")]
    OtherSite {
        /// By the header.
        expected: String,
        /// Found.
        found: String,
    },
    /// The settings in it.
    #[error("the settings in it cannot be used: {problem}")]
    Settings {
        /// What is wrong.
        problem: String,
    },
    /// There is a site in the state folder.
    #[error(
        "the state folder `{folder}` holds `{name}`: a site is restored into an empty folder only"
    )]
    Occupied {
        /// The folder.
        folder: String,
        /// What is in it.
        name: String,
    },
    /// What is saved in the state folder is another site's.
    #[error(
        "the backup is of {own}, and `{}` in the state folder is of {found}: it would be sent and used by nobody; nothing was restored",
        text::path(path)
    )]
    OtherRescued {
        /// The state folder.
        folder: PathBuf,
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose the backup is.
        own: String,
    },
}

impl BackupError {
    /// What to do where the file is not to blame, as someone at the machine types it.
    pub fn help(&self) -> String {
        match self {
            Self::Exists { .. } => {
                "name a new file: a backup whose digest was written down is not replaced".to_owned()
            }
            Self::OtherRescued { folder, path, .. } => format!(
                "move that file out of the folder (`{moves}`), onto a stick for the hub of that site where it holds reports, and repeat this command",
                moves = aside::command_beside(folder, path)
            ),
            _ => "give an empty folder (`--state`), or move what is in this one away".to_owned(),
        }
    }

    /// The rule that refused the file, as a short word; `None` where the file is not to blame.
    pub fn rule(&self) -> Option<&'static str> {
        Some(match self {
            Self::File(_)
            | Self::State(_)
            | Self::Exists { .. }
            | Self::Occupied { .. }
            | Self::OtherRescued { .. } => {
                return None;
            }
            Self::NotABackup => "not-a-backup",
            Self::Header { .. } | Self::TooMany { .. } => "backup-header",
            Self::UnknownFormat { .. } => "backup-format",
            Self::Length { .. } => "backup-length",
            Self::Sum { .. } => "backup-sum",
            Self::OtherDigest { .. } => "backup-digest",
            Self::Content { .. } => "backup-content",
            Self::ForeignName { .. } => "backup-name",
            Self::Twice { .. } => "backup-twice",
            Self::Missing { .. } => "backup-missing",
            Self::Database { .. } => "backup-database",
            Self::Keys { .. } => "backup-keys",
            Self::OtherSite { .. } => "backup-site",
            Self::Settings { .. } => "backup-settings",
        })
    }
}
