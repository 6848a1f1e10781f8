//! Sealed blobs: encrypted for some sites, and who can open them.
//!
//! What comes in: a blob whose carried bytes were verified against the index. What goes out: the same
//! blob's bytes as they were before they were encrypted, from an [`Unseal`] that the caller brings.
//! This crate knows no key and no cipher: it knows only that a sealed blob must be verified first,
//! then unsealed, then decompressed, and how many bytes may come out.

use std::collections::BTreeMap;
use std::io::Read;

use serde::{Deserialize, Serialize};

use crate::index::Blob;
use crate::limits::Limits;
use crate::name::Name;

/// Most keys that one blob may be sealed for. Each costs every site that is not the last of them one
/// key agreement, and some 110 bytes per blob.
pub const MAX_RECIPIENTS: usize = 256;

/// That a blob is encrypted, for whom, and how large it is once opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// Who can open it: by the key's id (16 hexadecimal digits), the name of the site or stream that
    /// has the key. 1 to [`MAX_RECIPIENTS`].
    pub recipients: BTreeMap<Name, Name>,
    /// Size in bytes once opened, before decompression. A reader stops one byte beyond it.
    pub size: u64,
}

impl Sealed {
    /// The names of those who can open it, for people.
    pub fn readers(&self) -> String {
        let mut names: Vec<&str> = self.recipients.values().map(Name::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(5);
        names.truncate(5);
        let listed = names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ");
        match more {
            0 => listed,
            more => format!("{listed} and {more} more"),
        }
    }

    /// What is wrong with it on `blob`, when something is.
    pub(crate) fn problem(&self, blob: &Blob, limits: &Limits) -> Option<String> {
        let digest = blob.digest;
        if !(1..=MAX_RECIPIENTS).contains(&self.recipients.len()) {
            let count = self.recipients.len();
            return Some(format!(
                "blob {digest} is sealed for {count} keys, 1 to {MAX_RECIPIENTS} allowed"
            ));
        }
        if self.size >= blob.size || self.size > limits.max_blob_bytes {
            return Some(format!(
                "blob {digest} of {} bytes cannot hold {} sealed bytes",
                blob.size, self.size
            ));
        }
        None
    }
}

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
#[path = "seal/tests.rs"]
mod tests;
