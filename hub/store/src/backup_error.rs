//! Why a file is not a backup of a hub, or is not restored.
//!
//! What comes in: what was found in the file and around it. What goes out: the sentence for the person, what to do next, and
//! an exit code. It reads nothing.

use std::path::PathBuf;

use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::text;

/// Why a file is not a backup, or is not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// Not a backup.
    #[error("`{}` is not a backup of a hub: {problem}", text::path(file))]
    NotOne {
        /// The file.
        file: PathBuf,
        /// Why not.
        problem: String,
    },
    /// It is not what was written.
    #[error(
        "the backup `{}` is damaged or was changed: {problem}",
        text::path(file)
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// It is not the one that was meant.
    #[error("`{}` has the digest {found}, expected {expected}", text::path(file))]
    OtherDigest {
        /// The file.
        file: PathBuf,
        /// As it was given.
        expected: String,
        /// The file's.
        found: String,
    },
    /// This machine's clock is wrong.
    #[error("this machine's clock shows {now}, and the backup was made at {made_at}")]
    Clock {
        /// The clock.
        now: String,
        /// When the backup was made.
        made_at: String,
    },
    /// Another key is there.
    #[error("`{}` is another key than the one in the backup", text::path(path))]
    KeyThere {
        /// The key.
        path: PathBuf,
    },
}

impl Classified for BackupError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NotOne { .. } => FailureClass::Usage,
            Self::Damaged { .. } | Self::OtherDigest { .. } => FailureClass::Trust,
            Self::Clock { .. } => FailureClass::Environment,
            Self::KeyThere { .. } => FailureClass::Refused,
        }
    }

    fn help(&self) -> Option<String> {
        let text = match self {
            Self::NotOne { .. } => "`outhaul-hub backup --to FILE` writes one",
            Self::Damaged { .. } => "take another copy of the backup, or an older one",
            Self::OtherDigest { .. } => {
                "take the file of which the digest was noted when it was made; `sha256sum FILE` prints the same digits"
            }
            Self::Clock { .. } => "set this machine's clock, and repeat the command",
            Self::KeyThere { .. } => {
                "see which of the two is the hub's (`outhaul-hub key` on the old machine, the kits of the sites); move the \
                 wrong one away, and repeat the command"
            }
        };
        Some(text.to_owned())
    }
}
