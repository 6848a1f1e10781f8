//! Why a patch did not make its blob: each variant a situation, with whose fault it is.

use std::io;

use outhaul_gzip::JoinError;

use crate::digest::Digest;

/// Why a patch was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// Its bytes cannot be read.
    #[error("the patch cannot be read: {0}")]
    Read(#[source] io::Error),
    /// What is made cannot be written.
    #[error("what the patch makes cannot be stored: {0}")]
    Store(#[source] io::Error),
    /// It has not the form of a patch, or contradicts itself.
    #[error("the patch is not usable: {problem}")]
    Malformed {
        /// What is wrong.
        problem: &'static str,
    },
    /// It states that it makes more or less than the signed index says.
    #[error("the patch makes {bytes} bytes, and the signed index states {expected}")]
    Size {
        /// By the index.
        expected: u64,
        /// By the patch.
        bytes: u64,
    },
    /// Its corrections make no gzip file of its text.
    #[error("the patch does not make the gzip file that it is for: {0}")]
    Gzip(#[from] JoinError),
    /// A piece is damaged, was made with another base, or yields more than it states; it was stopped there.
    #[error("a piece of the patch is damaged or yields more than it states; it was stopped there")]
    Piece,
    /// A blob that it builds on is not there, is damaged, or is another one than when the patch was made.
    #[error("it builds on blob {blob}, {problem}")]
    Base {
        /// The blob.
        blob: Digest,
        /// What is wrong with it.
        problem: String,
    },
    /// It makes the archive of a layer, which is not taken here.
    #[error("it makes the uncompressed archive of an image layer (a twin), and {why}")]
    Twin {
        /// Why not, and what helps.
        why: String,
    },
    /// It makes other bytes than the signed index states.
    #[error("the patch makes {found}, and the signed index states {expected}")]
    Digest {
        /// By the index.
        expected: Digest,
        /// What was made.
        found: Digest,
    },
}

impl PatchError {
    pub(crate) fn malformed(problem: &'static str) -> Self {
        Self::Malformed { problem }
    }

    /// The rule that refused it, as a short word for reports.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Read(_) => "io",
            Self::Store(_) => "store",
            Self::Base { .. } => "patch-base",
            Self::Twin { .. } => "twin",
            Self::Piece
            | Self::Malformed { .. }
            | Self::Size { .. }
            | Self::Digest { .. }
            | Self::Gzip(_) => "patch",
        }
    }

    /// Whether a disk failed rather than the patch: worth another try.
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Store(_))
    }
}
