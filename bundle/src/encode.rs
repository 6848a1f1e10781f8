//! Turns contents into blobs: which contents travel together, and how each blob is compressed.
//!
//! What comes in: the contents of a bundle with their sizes and a path each. What goes out: a plan (a
//! pure function of that set, whatever its order), then for each part of the plan the carried bytes
//! and a [`Blob`] that describes them. The same contents give the same bytes on any machine: level,
//! workers and grouping are part of the format. Memory does not grow with the size of a content.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use crate::digest::{Digest, Hasher, HashingWriter};
use crate::index::{Blob, Content, Encoding};

mod sniff;

/// zstd's level. 9: near the best ratio before the cost per byte multiplies.
pub const LEVEL: i32 = 9;
/// Most threads of zstd for one blob: each takes some 30 MiB. How many there are does not show in the bytes, as long as there is one.
pub const MAX_WORKERS: u32 = 4;
/// Up to this size, in bytes, one thread of zstd does all of a blob.
pub const MAX_JOB_BYTES: u64 = 16 * 1024 * 1024;
/// Contents up to this size, in bytes, travel in packs.
pub const MAX_SMALL_BYTES: u64 = 64 * 1024;
/// A pack is closed before its content exceeds this, in bytes.
pub const MAX_PACK_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes copied at once. Part of the format, too: zstd sees the same pieces everywhere.
const BUFFER_BYTES: usize = 64 * 1024;

/// A content that is to travel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentToEncode {
    /// Digest of the content.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// A path that it has: its ending shows whether it is compressed already, and contents with
    /// neighbouring paths travel together.
    pub path: String,
}

/// One blob to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobPlan {
    /// How it is going to be stored. For [`Encoding::Zstd`] the content's first bytes have the last
    /// word: what turns out to be compressed already becomes [`Encoding::Identity`].
    pub encoding: Encoding,
    /// What goes into it, in order.
    pub contents: Vec<Content>,
}

/// Where an encoder finds contents.
pub trait ContentSource {
    /// Opens `content`. It must yield `content.size` bytes with the digest `content.digest`.
    ///
    /// # Errors
    /// Whatever keeps the content from being opened.
    fn open(&mut self, content: &Content) -> io::Result<Box<dyn Read + '_>>;
}

/// Groups contents into blobs: packs of small ones first, then one blob each, both by path.
/// A content that is given more than once travels once.
pub fn plan_blobs(contents: &[ContentToEncode]) -> Vec<BlobPlan> {
    let mut distinct: BTreeMap<(Digest, u64), (&str, bool)> = BTreeMap::new();
    for candidate in contents {
        let path = candidate.path.as_str();
        let stored = sniff::compressed_by_name(path);
        distinct
            .entry((candidate.digest, candidate.size))
            .and_modify(|known| *known = (known.0.min(path), known.1 || stored))
            .or_insert((path, stored));
    }
    let mut by_path: Vec<(&str, Content, bool)> = distinct
        .into_iter()
        .map(|((digest, size), (path, stored))| (path, Content { digest, size }, stored))
        .collect();
    by_path.sort_unstable();
    let mut packs: Vec<BlobPlan> = Vec::new();
    let mut single = Vec::new();
    let mut packed_bytes = 0;
    for (_, content, stored) in by_path {
        if content.size > MAX_SMALL_BYTES {
            let encoding = if stored {
                Encoding::Identity
            } else {
                Encoding::Zstd
            };
            single.push(BlobPlan {
                encoding,
                contents: vec![content],
            });
            continue;
        }
        match packs.last_mut() {
            Some(pack) if packed_bytes + content.size <= MAX_PACK_BYTES => {
                pack.contents.push(content);
                packed_bytes += content.size;
            }
            _ => {
                packs.push(BlobPlan {
                    encoding: Encoding::Pack,
                    contents: vec![content],
                });
                packed_bytes = content.size;
            }
        }
    }
    packs.append(&mut single);
    packs
}

/// Whether a content that begins so is compressed already: stored as it is.
pub fn is_compressed(first: &[u8]) -> bool {
    sniff::compressed_by_content(first)
}

/// Threads for one blob of a plan on this machine: as many as it has processors, at most [`MAX_WORKERS`].
pub fn workers() -> u32 {
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(here).unwrap_or(1).min(MAX_WORKERS)
}

/// Writes one blob as carried to `out`, flushes it, and describes it.
///
/// # Errors
/// [`EncodeError`]; what `out` got must then be thrown away.
pub fn encode_blob<W: Write>(
    plan: &BlobPlan,
    contents: &mut dyn ContentSource,
    out: W,
) -> Result<(Blob, W), EncodeError> {
    encode_blob_with(plan, contents, out, workers())
}

/// The same with so many threads, 1 to [`MAX_WORKERS`]: the bytes are the same.
///
/// # Errors
/// As [`encode_blob`].
pub fn encode_blob_with<W: Write>(
    plan: &BlobPlan,
    contents: &mut dyn ContentSource,
    out: W,
    workers: u32,
) -> Result<(Blob, W), EncodeError> {
    let failed = |error| EncodeError::Out { error };
    let mut out = HashingWriter::new(out);
    let mut encoding = plan.encoding;
    let mut buffer = vec![0; BUFFER_BYTES];
    if let (Encoding::Identity | Encoding::Zstd, [content]) = (encoding, plan.contents.as_slice()) {
        let mut reader = Checked::open(contents, content)?;
        let first = reader.read(&mut buffer)?;
        if encoding == Encoding::Zstd && sniff::compressed_by_content(&buffer[..first]) {
            encoding = Encoding::Identity;
        }
        if encoding == Encoding::Identity {
            reader.copy(first, &mut buffer, &mut out)?;
        } else {
            let mut zstd = encoder(&mut out, content.size, workers).map_err(failed)?;
            reader.copy(first, &mut buffer, &mut zstd)?;
            zstd.finish().map_err(failed)?;
        }
    } else {
        encoding = Encoding::Pack;
        let size = plan.contents.iter().map(|content| content.size).sum();
        let mut zstd = encoder(&mut out, size, workers).map_err(failed)?;
        for content in &plan.contents {
            let mut reader = Checked::open(contents, content)?;
            let first = reader.read(&mut buffer)?;
            reader.copy(first, &mut buffer, &mut zstd)?;
        }
        zstd.finish().map_err(failed)?;
    }
    out.flush().map_err(failed)?;
    let (out, digest, size) = out.finish();
    Ok((
        Blob {
            digest,
            size,
            encoding,
            contents: plan.contents.clone(),
            sealed: None,
        },
        out,
    ))
}

fn encoder<W: Write>(out: W, size: u64, workers: u32) -> io::Result<zstd::Encoder<'static, W>> {
    let mut encoder = zstd::Encoder::new(out, LEVEL)?;
    encoder.multithread(workers.clamp(1, MAX_WORKERS))?;
    encoder.include_checksum(false)?;
    encoder.include_contentsize(true)?;
    encoder.set_pledged_src_size(Some(size))?;
    Ok(encoder)
}

/// A content that must be what the plan lists.
struct Checked<'a> {
    reader: Box<dyn Read + 'a>,
    content: Content,
    hasher: Hasher,
    read: u64,
}

impl<'a> Checked<'a> {
    fn open(contents: &'a mut dyn ContentSource, content: &Content) -> Result<Self, EncodeError> {
        let reader = contents
            .open(content)
            .map_err(|error| EncodeError::Source {
                content: content.digest,
                error,
            })?;
        Ok(Self {
            reader,
            content: *content,
            hasher: Hasher::new(),
            read: 0,
        })
    }

    /// Fills `buffer` as far as there is content: short reads of a source must not show in the blob.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(EncodeError::Source {
                        content: self.content.digest,
                        error,
                    });
                }
            }
        }
        self.hasher.update(&buffer[..filled]);
        self.read += filled as u64;
        Ok(filled)
    }

    /// Copies `buffer[..first]` and all the rest, then checks what was copied.
    fn copy(
        mut self,
        first: usize,
        buffer: &mut [u8],
        out: &mut impl Write,
    ) -> Result<(), EncodeError> {
        let mut filled = first;
        while filled > 0 && self.read <= self.content.size {
            out.write_all(&buffer[..filled])
                .map_err(|error| EncodeError::Out { error })?;
            filled = self.read(buffer)?;
        }
        let (found, _) = self.hasher.finish();
        if found == self.content.digest && self.read == self.content.size {
            return Ok(());
        }
        let Content {
            digest: content,
            size,
        } = self.content;
        Err(EncodeError::Changed {
            content,
            size,
            found,
            read: self.read,
        })
    }
}

/// Why a blob could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A content could not be opened or read.
    #[error("cannot read content {content}: {error}")]
    Source {
        /// The content.
        content: Digest,
        /// The error of the system.
        error: io::Error,
    },
    /// A content is not what was planned: it changed in the meantime, or its cache is damaged.
    #[error("content {content} should have {size} bytes, but {read} with digest {found} were read")]
    Changed {
        /// Its digest by the plan.
        content: Digest,
        /// Its size by the plan, in bytes.
        size: u64,
        /// The digest of what was read.
        found: Digest,
        /// Bytes read (up to the first piece too many).
        read: u64,
    },
    /// The blob could not be written or compressed.
    #[error("cannot write a blob: {error}")]
    Out {
        /// The error of the system or of zstd.
        error: io::Error,
    },
}

#[cfg(test)]
mod tests;
