//! Sealed blobs: encrypted for some sites, and who can open them.
//!
//! What comes in: a blob of which the carried bytes were verified against the index. What goes out: the same
//! blob's bytes as they were before they were encrypted, from an [`Unseal`] that the caller brings.
//! This crate knows no key and no cipher: it knows only that a sealed blob must be verified first,
//! then unsealed, then decompressed, and how many bytes may come out.

use std::fmt;
use std::io::Read;

use crate::blob::Blob;

pub use crate::blob::{MAX_RECIPIENTS, Sealed};

/// What opens sealed blobs: whoever has the keys.
pub trait Unseal {
    /// The bytes of `blob` before it was sealed. `carried` yields the blob as carried, which was
    /// verified before; the reader returned fails with `InvalidData` or `UnexpectedEof` when the seal
    /// does not hold.
    ///
    /// # Errors
    /// [`UnsealError`] when none of the keys opens it or its head is damaged.
    fn unseal<'a>(
        &self,
        blob: &Blob,
        sealed: &Sealed,
        carried: Box<dyn Read + 'a>,
    ) -> Result<Box<dyn Read + 'a>, UnsealError>;
}

/// Why a sealed blob was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsealError {
    /// The seal does not hold.
    #[error("{problem}")]
    Damaged {
        /// What is wrong with it.
        problem: String,
    },
    /// It is for others.
    #[error("it is sealed for {readers}; {have}")]
    NotForUs {
        /// Who could open it.
        readers: String,
        /// Which keys are here.
        have: String,
    },
}

impl UnsealError {
    /// Why `sealed` was not opened, from the error of the caller's cipher: the keys that were tried (`have`) when it is
    /// for others, else what is wrong with it.
    pub fn new(sealed: &Sealed, have: Option<String>, problem: &dyn fmt::Display) -> Self {
        match have {
            Some(have) => Self::NotForUs {
                readers: sealed.readers(),
                have,
            },
            None => Self::Damaged {
                problem: problem.to_string(),
            },
        }
    }
}

/// No keys: opens nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoKeys;

impl Unseal for NoKeys {
    fn unseal<'a>(
        &self,
        _: &Blob,
        sealed: &Sealed,
        _: Box<dyn Read + 'a>,
    ) -> Result<Box<dyn Read + 'a>, UnsealError> {
        Err(UnsealError::NotForUs {
            readers: sealed.readers(),
            have: "no key is here".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
