//! Why a gzip file is not taken apart, and why corrections make none.
//!
//! What comes in: what was wrong. What goes out: a sentence for people. It decides nothing.

use std::io;

/// Why a gzip file is not taken apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// It cannot be read, or its text not written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// It is not gzip, is damaged, or uses what no writer uses.
    #[error("it cannot be decoded as gzip: {0}")]
    Unusual(&'static str),
    /// Its writer is of another kind than those that are predicted.
    #[error("it was compressed by a gzip implementation that is not supported")]
    Corrections,
}

/// Why corrections make no file of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JoinError(pub(crate) &'static str);
