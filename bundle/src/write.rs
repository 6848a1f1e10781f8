//! Writes a bundle: metadata, index and blobs into one deterministic tar.
//!
//! What comes in: the signed metadata, the index with the very bytes that were signed, and a source
//! that opens each blob. What goes out: the same bytes for the same input on any machine, in memory
//! that does not grow with the blobs. Each blob is hashed while it is copied: a bundle that its own
//! index does not describe is never finished. It chooses no file names and syncs nothing: its caller
//! does, and must throw away what was written when this fails.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use crate::digest::{Digest, Hasher};
use crate::index::{Blob, Index, IndexBytes, IndexError};
use crate::limits::Limits;
use crate::member::{BLOCK, Member, MetadataName, printable};
use crate::volume::Volume;

mod parity;

pub use parity::write_parity;

/// Bytes copied at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// Where a writer finds the blobs that an index lists.
pub trait BlobSource {
    /// Opens `blob` as it is carried. It must yield `blob.size` bytes with the digest `blob.digest`.
    ///
    /// # Errors
    /// Whatever keeps the blob from being opened; it ends the writing.
    fn open(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>>;

    /// Opens the patch that makes `blob`, which a copy carries in its place.
    ///
    /// # Errors
    /// Whatever keeps the patch from being opened; it ends the writing.
    fn open_patch(&mut self, _: &Blob) -> io::Result<Box<dyn Read + '_>> {
        Err(io::Error::from(io::ErrorKind::NotFound))
    }
}

/// Writes one part of a bundle, or a copy that leaves blobs out, to `out` and returns it, flushed: all that
/// [`write_bundle`] writes, with the blobs of `volume` only.
///
/// # Errors
/// As [`write_bundle`].
pub fn write_part<W: Write>(
    out: W,
    metadata: &[(String, Vec<u8>)],
    index_bytes: &IndexBytes,
    index: &Index,
    volume: &Volume,
    blobs: &mut dyn BlobSource,
) -> Result<W, WriteError> {
    write_members(out, metadata, index_bytes, index, Some(volume), blobs)
}

/// Writes one bundle to `out` and returns it, flushed.
///
/// `metadata` holds file names (`1.root.json`, `timestamp.json` …) with their bytes, in any order.
/// `index_bytes` must be what [`Index::to_bytes`] gives for `index`: what was signed is what travels, compressed where the metadata
/// lists that form of it.
///
/// # Errors
/// [`WriteError`]; `out` then holds an unfinished bundle that must be thrown away.
pub fn write_bundle<W: Write>(
    out: W,
    metadata: &[(String, Vec<u8>)],
    index_bytes: &[u8],
    index: &Index,
    blobs: &mut dyn BlobSource,
) -> Result<W, WriteError> {
    let index_bytes = IndexBytes::listed_in(index_bytes, metadata);
    write_members(out, metadata, &index_bytes, index, None, blobs)
}

fn write_members<W: Write>(
    out: W,
    metadata: &[(String, Vec<u8>)],
    index_bytes: &IndexBytes,
    index: &Index,
    volume: Option<&Volume>,
    blobs: &mut dyn BlobSource,
) -> Result<W, WriteError> {
    let mut tar = begin(out, metadata, index_bytes, index)?;
    let members = match volume {
        None => index.blobs.iter().map(|blob| (blob, None)).collect(),
        Some(volume) => {
            tar.small(&Member::Volume, &volume.to_bytes())?;
            volume.members(index)
        }
    };
    let mut buffer = vec![0; BUFFER_BYTES];
    for (blob, patch) in members {
        let opened = match patch {
            None => blobs.open(blob),
            Some(_) => blobs.open_patch(blob),
        };
        let reader = opened.map_err(|error| WriteError::Source {
            blob: blob.digest,
            error,
        })?;
        tar.blob(blob, patch, reader, &mut buffer)?;
    }
    tar.finish()
}

/// What every file of a bundle begins with.
fn begin<W: Write>(
    out: W,
    metadata: &[(String, Vec<u8>)],
    index_bytes: &IndexBytes,
    index: &Index,
) -> Result<Tar<W>, WriteError> {
    let limits = Limits::default();
    index.check(&limits)?;
    let canonical = &index_bytes.canonical;
    if index.to_bytes() != *canonical {
        return Err(WriteError::IndexBytes);
    }
    if canonical.len() as u64 > limits.max_index_bytes {
        let (bytes, max) = (canonical.len() as u64, limits.max_index_bytes);
        return Err(WriteError::TooLarge {
            member: Member::Index.to_string(),
            bytes,
            max,
        });
    }
    let mut tar = Tar { out };
    for (name, bytes) in &in_order(metadata, &limits)? {
        tar.small(&Member::Metadata(name.clone()), bytes)?;
    }
    match &index_bytes.compressed {
        Some(compressed) => tar.small(&Member::CompressedIndex, compressed)?,
        None => tar.small(&Member::Index, canonical)?,
    }
    Ok(tar)
}

/// The metadata in the order of the tar, without doubles.
fn in_order<'a>(
    metadata: &'a [(String, Vec<u8>)],
    limits: &Limits,
) -> Result<BTreeMap<MetadataName, &'a [u8]>, WriteError> {
    let mut sorted = BTreeMap::new();
    let mut total = 0u64;
    for (text, bytes) in metadata {
        let name = MetadataName::parse(text).ok_or_else(|| WriteError::MetadataName {
            name: printable(text.as_bytes()),
        })?;
        let size = bytes.len() as u64;
        total = total.saturating_add(size);
        for (bytes, max) in [
            (size, limits.max_metadata_bytes),
            (total, limits.max_metadata_total_bytes),
        ] {
            if bytes > max {
                let member = Member::Metadata(name).to_string();
                return Err(WriteError::TooLarge { member, bytes, max });
            }
        }
        if sorted.insert(name, bytes.as_slice()).is_some() {
            return Err(WriteError::MetadataName {
                name: format!("{text} (twice)"),
            });
        }
    }
    if sorted.len() > limits.max_metadata_files {
        let (bytes, max) = (sorted.len() as u64, limits.max_metadata_files as u64);
        return Err(WriteError::TooLarge {
            member: "metadata/".into(),
            bytes,
            max,
        });
    }
    Ok(sorted)
}

struct Tar<W> {
    out: W,
}

impl<W: Write> Tar<W> {
    fn put(&mut self, member: &Member, bytes: &[u8]) -> Result<(), WriteError> {
        self.out.write_all(bytes).map_err(|error| WriteError::Out {
            member: member.to_string(),
            error,
        })
    }

    fn small(&mut self, member: &Member, bytes: &[u8]) -> Result<(), WriteError> {
        self.put(member, &member.header(bytes.len() as u64))?;
        self.put(member, bytes)?;
        self.fill(member, bytes.len() as u64)
    }

    /// A blob, or a patch of so many bytes that makes it.
    fn blob(
        &mut self,
        blob: &Blob,
        patch: Option<u64>,
        mut reader: impl Read,
        buffer: &mut [u8],
    ) -> Result<(), WriteError> {
        let (member, size) = match patch {
            None => (Member::Blob(blob.digest), blob.size),
            Some(bytes) => (Member::Patch(blob.digest), bytes),
        };
        self.put(&member, &member.header(size))?;
        let mut hasher = Hasher::new();
        let mut copied = 0u64;
        loop {
            let count = match reader.read(buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(WriteError::Source {
                        blob: blob.digest,
                        error,
                    });
                }
            };
            copied = copied.saturating_add(count as u64);
            if copied > size {
                break;
            }
            hasher.update(&buffer[..count]);
            self.put(&member, &buffer[..count])?;
        }
        let (found, _) = hasher.finish();
        let is_right = patch.is_some() || found == blob.digest;
        if copied != size || !is_right {
            return Err(WriteError::Blob {
                blob: blob.digest,
                size,
                found,
                copied,
            });
        }
        self.fill(&member, size)
    }

    /// Zeros up to the next whole block.
    fn fill(&mut self, member: &Member, size: u64) -> Result<(), WriteError> {
        let zeros = [0; BLOCK];
        let count = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        self.put(member, &zeros[..usize::try_from(count).unwrap_or(0)])
    }

    fn finish(mut self) -> Result<W, WriteError> {
        let end = |error| WriteError::Out {
            member: "the end".into(),
            error,
        };
        self.out.write_all(&[0; 2 * BLOCK]).map_err(end)?;
        self.out.flush().map_err(end)?;
        Ok(self.out)
    }
}

/// Why a bundle could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The index contradicts itself: every reader would refuse it.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The bytes of the index are not those of the index.
    #[error("the bytes to be written as `index.json` are not the canonical bytes of this index")]
    IndexBytes,
    /// A metadata file of a name that bundles do not have, or twice.
    #[error(
        "`{name}` is not the name of a metadata file (`timestamp.json`, `<version>.<role>.json`)"
    )]
    MetadataName {
        /// The name.
        name: String,
    },
    /// Larger, or more files, than any reader takes.
    #[error("`{member}` is {bytes}, readers accept at most {max}")]
    TooLarge {
        /// The member.
        member: String,
        /// Its bytes (or files).
        bytes: u64,
        /// The most that readers take.
        max: u64,
    },
    /// A blob could not be opened or read.
    #[error("cannot read blob {blob}: {error}")]
    Source {
        /// The blob.
        blob: Digest,
        /// Why.
        error: io::Error,
    },
    /// A blob is not what the index lists, for example because its cache is damaged.
    #[error("blob {blob} should have {size} bytes, but {copied} with digest {found} were read")]
    Blob {
        /// Its digest by the index.
        blob: Digest,
        /// Its size by the index, in bytes.
        size: u64,
        /// The digest of what was read.
        found: Digest,
        /// Bytes read (up to the first one too many).
        copied: u64,
    },
    /// The bundle could not be written.
    #[error("cannot write `{member}` of the bundle: {error}")]
    Out {
        /// The member that was being written.
        member: String,
        /// Why.
        error: io::Error,
    },
}

#[cfg(test)]
mod tests;
