//! Why a bundle was not read: each variant a situation, with what was expected and what was found.
//!
//! A message says what was found, wherever that was; what is safe on a site now is added by [`ReadError::on_site`], and elsewhere by whoever
//! read there. [`ReadError::rule`] gives the short word that a refusal is reported under; [`ReadError::is_environment`] distinguishes a
//! broken disk from a broken bundle.

use std::io;

use crate::digest::Digest;
use crate::index::IndexError;
use crate::member::HeaderError;

/// Why a bundle was not read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The medium or network failed.
    #[error(
        "cannot read the bundle at byte {offset}, in {}: {error}",
        quoted(member)
    )]
    Io {
        /// What was being read.
        member: String,
        /// Bytes read before.
        offset: u64,
        /// The error of the system.
        error: io::Error,
    },
    /// The sink failed: disk full, for example.
    #[error("cannot store blob {blob}: {error}")]
    Store {
        /// The blob.
        blob: Digest,
        /// The error of the system.
        error: io::Error,
    },
    /// Whoever takes a parity part's bytes failed: disk full, for example.
    #[error("cannot store the parity: {error}")]
    StoreParity {
        /// The error of the system.
        error: io::Error,
    },
    /// The bytes end too early: an interrupted copy, most often.
    #[error(
        "{}", truncated(member, *offset, *missing)
    )]
    Truncated {
        /// What was being read.
        member: String,
        /// The bundle's length.
        offset: u64,
        /// Bytes missing of this member.
        missing: u64,
    },
    /// Bytes after the end.
    #[error("something follows the bundle's end at byte {offset}")]
    Extended {
        /// Where the bundle ended.
        offset: u64,
    },
    /// A block that is not a header of a bundle.
    #[error("at byte {offset}: {problem}")]
    Header {
        /// Where the block lies.
        offset: u64,
        /// What is wrong with it.
        problem: HeaderError,
    },
    /// Bytes other than zero between members.
    #[error("bytes other than zero fill the block after `{member}`")]
    Padding {
        /// The member before.
        member: String,
    },
    /// The wrong member for this place.
    #[error("expected {expected}, found `{found}`")]
    Order {
        /// What belongs here.
        expected: String,
        /// What is here.
        found: String,
    },
    /// The bundle ends where a member is due.
    #[error("expected `{member}`, found the end")]
    Missing {
        /// The member.
        member: String,
    },
    /// The same metadata file twice.
    #[error("`{member}` comes twice")]
    Duplicate {
        /// The member.
        member: String,
    },
    /// A member over its limit.
    #[error("`{member}`: {bytes} bytes, the limit is {max}")]
    TooLarge {
        /// The member.
        member: String,
        /// Its size (for metadata: or that of all so far), in bytes.
        bytes: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// Too many metadata files.
    #[error("`{member}` is one metadata file too many, the limit is {max}")]
    TooMany {
        /// The first one over the limit.
        member: String,
        /// The limit.
        max: usize,
    },
    /// A member of another size than the metadata that lists it states.
    #[error("`{member}`: expected {expected} bytes, found {found}")]
    Size {
        /// The member.
        member: String,
        /// The size that was signed, in bytes.
        expected: u64,
        /// The size in the tar, in bytes.
        found: u64,
    },
    /// A member of other content than the metadata that lists it states.
    #[error("`{member}`: expected digest {expected}, found {found}")]
    Digest {
        /// The member.
        member: String,
        /// The digest that was signed.
        expected: Digest,
        /// The digest of what was read.
        found: Digest,
    },
    /// The index cannot be used, although it was verified.
    #[error("{0}")]
    Index(#[from] IndexError),
    /// A compressed index that is not the one that is signed.
    #[error("`index.json.zst`: {problem}")]
    CompressedIndex {
        /// What is wrong.
        problem: String,
    },
    /// One part of a bundle, where the whole bundle is needed.
    #[error("it is part {part} of {parts} of a bundle, and the whole bundle is needed here")]
    Part {
        /// Which.
        part: usize,
        /// Of how many.
        parts: usize,
    },
    /// A parity part, where the bundle or a part of it is needed.
    #[error(
        "it is parity part {part} of {of} of a bundle: parts of the bundle that are lost or damaged are made again of it, and it holds none itself"
    )]
    ParityPart {
        /// Which.
        part: usize,
        /// Of how many.
        of: usize,
    },
    /// A parity part that does not fit its bundle.
    #[error("`parity.json`: {problem}")]
    Parity {
        /// What is wrong.
        problem: String,
    },
    /// A copy for sites that have an earlier bundle, where the whole bundle is needed.
    #[error("it leaves out what {bases} brought, and the whole bundle is needed here")]
    LeavesOut {
        /// The earlier bundles.
        bases: String,
    },
    /// A part that does not fit its bundle.
    #[error("`volume.json`: {problem}")]
    Volume {
        /// What is wrong.
        problem: String,
    },
    /// The program called the reader's steps in another order, or again after an error.
    #[error("the bundle's reader was used out of turn (a defect of this program)")]
    OutOfTurn,
}

/// Where the bytes end, in words.
fn truncated(member: &str, offset: u64, missing: u64) -> String {
    if offset == 0 {
        return "the bundle is empty (0 bytes)".to_owned();
    }
    format!(
        "the file is incomplete: it ends at byte {offset}, in {}, and at least {missing} bytes are missing",
        quoted(member)
    )
}

/// A member's name in quotes; words for what is due there stand as they are.
fn quoted(member: &str) -> String {
    if member.contains(' ') {
        member.to_owned()
    } else {
        format!("`{member}`")
    }
}

impl ReadError {
    /// The message for a person at a site, which has what runs: what was found, and what is safe now.
    pub fn on_site(&self) -> String {
        let safe = match self {
            Self::Io { .. }
            | Self::Store { .. }
            | Self::StoreParity { .. }
            | Self::Part { .. }
            | Self::ParityPart { .. } => "what runs is untouched",
            Self::Truncated { .. } | Self::Extended { .. } => {
                "it is refused and what runs is untouched"
            }
            Self::Parity { .. } | Self::Volume { .. } => {
                "the file is refused and what runs is untouched"
            }
            Self::Digest { .. } => {
                "it was thrown away, the bundle is refused and what runs is untouched"
            }
            Self::Header { .. }
            | Self::Padding { .. }
            | Self::Order { .. }
            | Self::Missing { .. }
            | Self::Duplicate { .. }
            | Self::TooLarge { .. }
            | Self::TooMany { .. }
            | Self::Size { .. }
            | Self::CompressedIndex { .. }
            | Self::Index(_) => "the bundle is refused and what runs is untouched",
            Self::LeavesOut { .. } | Self::OutOfTurn => return self.to_string(),
        };
        format!("{self}; {safe}")
    }

    /// The rule that refused the bundle, as a short word for reports.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Io { .. } => "io",
            Self::Store { .. } | Self::StoreParity { .. } => "store",
            Self::Truncated { .. } => "truncated",
            Self::Extended { .. } => "extended",
            Self::Header { problem, .. } => problem.rule(),
            Self::Padding { .. } => "padding",
            Self::Order { .. } => "order",
            Self::Missing { .. } => "missing",
            Self::Duplicate { .. } => "duplicate",
            Self::TooLarge { .. } | Self::TooMany { .. } => "limit",
            Self::Size { .. } => "size",
            Self::Digest { .. } => "digest",
            Self::Index(_) | Self::CompressedIndex { .. } => "index",
            Self::Part { .. } => "part",
            Self::LeavesOut { .. } => "left-out",
            Self::Volume { .. } => "volume",
            Self::ParityPart { .. } | Self::Parity { .. } => "parity",
            Self::OutOfTurn => "internal",
        }
    }

    /// Whether a medium, network or disk failed rather than the bundle: worth another try.
    pub fn is_environment(&self) -> bool {
        matches!(
            self,
            Self::Io { .. } | Self::Store { .. } | Self::StoreParity { .. }
        )
    }
}
