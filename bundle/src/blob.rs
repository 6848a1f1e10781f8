//! One blob of a bundle, as the index lists it: what is carried, how the content lies in it, who can open it.
//!
//! What comes in: digests and sizes. What goes out: the entry that a reader holds the carried bytes against.
//! It reads no blob and knows no key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
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
}

/// One blob, as carried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blob {
    /// Digest of the bytes as carried: checked before anything is decompressed.
    pub digest: Digest,
    /// Size as carried, in bytes.
    pub size: u64,
    /// How the content is stored in it.
    pub encoding: Encoding,
    /// What comes out, in order: one content, or for [`Encoding::Pack`] many, end to end.
    pub contents: Vec<Content>,
    /// For whom it is encrypted; absent when it is not. Then `digest` and `size` are of the encrypted
    /// bytes, so that they are verified before anything is decrypted, and `encoding` is what comes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// One content that a blob yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Digest of the content.
    pub digest: Digest,
    /// Size in bytes. A reader stops, and refuses, one byte beyond it.
    pub size: u64,
}

/// How a blob stores its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// As it is: for content that is compressed already.
    Identity,
    /// Many small contents end to end in one zstd frame.
    Pack,
    /// One content in one zstd frame.
    Zstd,
}

impl Blob {
    /// What is wrong with the seal, when there is one and something is.
    pub(crate) fn seal_problem(&self, limits: &Limits) -> Option<String> {
        let sealed = self.sealed.as_ref()?;
        let digest = self.digest;
        let count = sealed.recipients.len();
        if !(1..=MAX_RECIPIENTS).contains(&count) {
            return Some(format!(
                "blob {digest} is sealed for {count} keys, 1 to {MAX_RECIPIENTS} allowed"
            ));
        }
        if sealed.size >= self.size || sealed.size > limits.max_blob_bytes {
            return Some(format!(
                "blob {digest} of {} bytes cannot hold {} sealed bytes",
                self.size, sealed.size
            ));
        }
        None
    }
}

/// Whether the one content of an identity blob is the blob. Of a sealed blob only the size can be compared.
pub(crate) fn stored_as_it_is(blob: &Blob) -> bool {
    blob.contents.iter().all(|content| match &blob.sealed {
        None => content.digest == blob.digest && content.size == blob.size,
        Some(sealed) => content.size == sealed.size,
    })
}
