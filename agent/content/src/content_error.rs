//! Why the content of a bundle cannot be unpacked, or a generation not be used.
//!
//! What comes in: the errors of the disk, of decoding and of keys. What goes out: one [`GenerationError`], with the
//! rule for reports and whether the disk is to blame. It reads nothing.

use outhaul_bundle::{Digest, decode};

use crate::durable::FileError;
use crate::secrets::SecretError;

/// Why a generation cannot be written or used.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    /// The disk.
    #[error(transparent)]
    File(#[from] FileError),
    /// A verified blob does not hold what the index says, or the disk failed meanwhile.
    #[error("cannot unpack: {0}")]
    Decode(#[from] decode::DecodeError),
    /// The keys that open what is sealed.
    #[error(transparent)]
    Secrets(#[from] SecretError),
    /// A file is not what was staged.
    #[error("`{path}` is not what the bundle brought: expected {expected}, found {found}")]
    Changed {
        /// The file, relative to the generation.
        path: String,
        /// The digest that the index names.
        expected: Digest,
        /// The digest found, or what kept it from being read.
        found: String,
    },
    /// A file is not what was staged, nor is the blob that it could be put back from.
    #[error(
        "{what}; the stored copy is damaged, too, so that only bundle {number} itself can bring it again"
    )]
    Lost {
        /// The bundle.
        number: u64,
        /// Which files.
        what: String,
    },
    /// The kept index cannot be used.
    #[error("the index of generation {number} cannot be used: {problem}")]
    Index {
        /// Its number.
        number: u64,
        /// What is wrong.
        problem: String,
    },
    /// The index asks for content that neither it nor the store has.
    #[error("no blob contains the content {content} of `{path}`")]
    Lacking {
        /// The content.
        content: Digest,
        /// One file that needs it.
        path: String,
    },
}

impl GenerationError {
    /// The rule that refused it, as a short word for reports.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Decode(error) if error.rule() == "recipient" => "recipient",
            _ => "content",
        }
    }

    /// Whether the disk is to blame, not the bundle.
    pub fn is_environment(&self) -> bool {
        match self {
            Self::File(_) | Self::Secrets(_) => true,
            Self::Decode(error) => error.is_environment(),
            _ => false,
        }
    }
}
