//! Turns a verified blob back into its contents.
//!
//! What comes in: a blob as carried, of which the digest was checked before, and its entry in the index. What
//! goes out: each content, in the index's order, into a writer that the caller names; its digest and
//! size are checked again, because content is what a site uses. One zstd frame, no byte beyond what the
//! index states, a bounded window: a decompression bomb stops at its first surplus byte. A sealed blob is
//! opened by whoever has the keys ([`Unseal`]), after its verification and before its decompression.

use std::io::{self, Read, Write};

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use crate::digest::{Digest, Hasher};
use crate::index::{Blob, Content, Encoding};
use crate::limits::Limits;
use crate::seal::{NoKeys, Unseal, UnsealError};

mod in_memory;

pub use in_memory::InMemory;

/// Bytes held at once, on each side of the decoder.
const BUFFER_BYTES: usize = 64 * 1024;

/// Writes the contents of `blob`, read from `carried`, to the writers that `each` gives.
///
/// `each` is asked once per content, in order; `None` skips its bytes (they are checked all the same).
/// A writer is flushed only when the digest of its content was right, then dropped; when this fails,
/// whatever the writers got must be thrown away.
///
/// # Errors
/// [`DecodeError`]; a sealed blob is refused, see [`decode_sealed`].
#[expect(
    clippy::type_complexity,
    reason = "one place; a name for it would say less"
)]
pub fn decode(
    blob: &Blob,
    carried: impl Read,
    limits: &Limits,
    each: &mut dyn FnMut(&Content) -> io::Result<Option<Box<dyn Write>>>,
) -> Result<(), DecodeError> {
    decode_sealed(blob, carried, limits, &NoKeys, each)
}

/// As [`decode`], for sealed blobs and others alike: what is sealed is opened with `keys`.
///
/// # Errors
/// [`DecodeError`], with [`DecodeError::Sealed`] when `keys` do not open it.
#[expect(
    clippy::type_complexity,
    reason = "one place; a name for it would say less"
)]
pub fn decode_sealed(
    blob: &Blob,
    mut carried: impl Read,
    limits: &Limits,
    keys: &dyn Unseal,
    each: &mut dyn FnMut(&Content) -> io::Result<Option<Box<dyn Write>>>,
) -> Result<(), DecodeError> {
    let Some(sealed) = &blob.sealed else {
        return yield_contents(blob, carried, blob.size, limits, each);
    };
    let exactly = Box::new((&mut carried).take(blob.size));
    let opened = keys
        .unseal(blob, sealed, exactly)
        .map_err(|error| DecodeError::Sealed {
            blob: blob.digest,
            error,
        })?;
    yield_contents(blob, opened, sealed.size, limits, each).map_err(DecodeError::of_sealed)?;
    let mut end = StoredContent {
        reader: carried,
        left: 0,
        blob: blob.digest,
    };
    end.expect_end()
}

/// As [`decode`], from the contents of `blob` as they are, end to end: what a patch made.
///
/// # Errors
/// [`DecodeError`]
#[expect(
    clippy::type_complexity,
    reason = "one place; a name for it would say less"
)]
pub fn decode_plain(
    blob: &Blob,
    plain: impl Read,
    each: &mut dyn FnMut(&Content) -> io::Result<Option<Box<dyn Write>>>,
) -> Result<(), DecodeError> {
    let mut plain = StoredContent {
        reader: plain,
        left: blob.plain_bytes(),
        blob: blob.digest,
    };
    let mut out = Splitter::new(blob, each)?;
    plain.copy(&mut out)?;
    plain.expect_end()?;
    out.finish()
}

/// Decompresses and checks `size` bytes of `blob`.
fn yield_contents(
    blob: &Blob,
    reader: impl Read,
    size: u64,
    limits: &Limits,
    each: Each<'_>,
) -> Result<(), DecodeError> {
    let mut carried = StoredContent {
        reader,
        left: size,
        blob: blob.digest,
    };
    let mut out = Splitter::new(blob, each)?;
    match blob.encoding {
        Encoding::Identity => carried.copy(&mut out)?,
        Encoding::Pack | Encoding::Zstd => unzstd(blob, &mut carried, limits, &mut out)?,
    }
    carried.expect_end()?;
    out.finish()
}

/// One frame, exactly.
fn unzstd<R: Read>(
    blob: &Blob,
    carried: &mut StoredContent<R>,
    limits: &Limits,
    out: &mut Splitter<'_>,
) -> Result<(), DecodeError> {
    let zstd = |error| DecodeError::Zstd {
        blob: blob.digest,
        error,
    };
    let mut decoder = Decoder::new().map_err(zstd)?;
    decoder
        .set_parameter(DParameter::WindowLogMax(limits.max_window_log))
        .map_err(zstd)?;
    let mut from = vec![0; BUFFER_BYTES];
    let mut to = vec![0; BUFFER_BYTES];
    loop {
        let count = carried.read(&mut from)?;
        if count == 0 {
            return Err(DecodeError::Unfinished { blob: blob.digest });
        }
        let mut input = InBuffer::around(&from[..count]);
        loop {
            let mut output = OutBuffer::around(to.as_mut_slice());
            let hint = decoder.run(&mut input, &mut output).map_err(zstd)?;
            let full = output.pos() == output.capacity();
            out.push(output.as_slice())?;
            if hint == 0 {
                let surplus = input.src.len() - input.pos;
                return if surplus == 0 {
                    Ok(())
                } else {
                    Err(DecodeError::Surplus { blob: blob.digest })
                };
            }
            // A full buffer may mean that the decoder holds more.
            if !full && input.pos == input.src.len() {
                break;
            }
        }
    }
}

/// The bytes as carried: exactly as many as the index states.
struct StoredContent<R> {
    reader: R,
    left: u64,
    blob: Digest,
}

impl<R: Read> StoredContent<R> {
    /// All of it, as it is.
    fn copy(&mut self, out: &mut Splitter<'_>) -> Result<(), DecodeError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = self.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            out.push(&buffer[..count])?;
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, DecodeError> {
        let max = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = read_some(&mut self.reader, &mut buffer[..max]).map_err(|error| {
            DecodeError::Carried {
                blob: self.blob,
                error,
            }
        })?;
        self.left -= count.min(max) as u64;
        Ok(count)
    }

    fn expect_end(&mut self) -> Result<(), DecodeError> {
        if self.left > 0 {
            return Err(DecodeError::Surplus { blob: self.blob });
        }
        match read_some(&mut self.reader, &mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(DecodeError::Surplus { blob: self.blob }),
            Err(error) => Err(DecodeError::Carried {
                blob: self.blob,
                error,
            }),
        }
    }
}

fn read_some(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

type Each<'a> = &'a mut dyn FnMut(&Content) -> io::Result<Option<Box<dyn Write>>>;

/// Cuts what comes out into the contents that the index lists, and checks each.
struct Splitter<'a> {
    blob: &'a Blob,
    each: Each<'a>,
    /// The content that is being filled.
    at: usize,
    left: u64,
    hasher: Hasher,
    writer: Option<Box<dyn Write>>,
}

impl<'a> Splitter<'a> {
    fn new(blob: &'a Blob, each: Each<'a>) -> Result<Self, DecodeError> {
        let mut new = Self {
            blob,
            each,
            at: 0,
            left: 0,
            hasher: Hasher::new(),
            writer: None,
        };
        new.begin()?;
        Ok(new)
    }

    /// Starts the content at `at`; empty ones are finished at once.
    fn begin(&mut self) -> Result<(), DecodeError> {
        while let Some(content) = self.blob.contents.get(self.at) {
            let store = |error| DecodeError::Store {
                content: content.digest,
                error,
            };
            self.writer = (self.each)(content).map_err(store)?;
            self.hasher = Hasher::new();
            self.left = content.size;
            if self.left > 0 {
                break;
            }
            self.end()?;
        }
        Ok(())
    }

    /// Ends the content at `at`, which got all its bytes.
    fn end(&mut self) -> Result<(), DecodeError> {
        let content = self.blob.contents[self.at];
        let (found, _) = std::mem::take(&mut self.hasher).finish();
        if found != content.digest {
            let blob = self.blob.digest;
            return Err(DecodeError::Digest {
                blob,
                expected: content.digest,
                found,
            });
        }
        if let Some(mut writer) = self.writer.take() {
            writer.flush().map_err(|error| DecodeError::Store {
                content: content.digest,
                error,
            })?;
        }
        self.at += 1;
        Ok(())
    }

    fn push(&mut self, mut bytes: &[u8]) -> Result<(), DecodeError> {
        while !bytes.is_empty() {
            let Some(content) = self.blob.contents.get(self.at) else {
                return Err(DecodeError::TooLong {
                    blob: self.blob.digest,
                });
            };
            let count = usize::try_from(self.left).map_or(bytes.len(), |n| n.min(bytes.len()));
            let (now, later) = bytes.split_at(count);
            self.hasher.update(now);
            if let Some(writer) = &mut self.writer {
                writer.write_all(now).map_err(|error| DecodeError::Store {
                    content: content.digest,
                    error,
                })?;
            }
            self.left -= count as u64;
            bytes = later;
            if self.left == 0 {
                self.end()?;
                self.begin()?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), DecodeError> {
        match self.blob.contents.get(self.at) {
            None => Ok(()),
            Some(content) => {
                let (blob, content) = (self.blob.digest, content.digest);
                Err(DecodeError::TooShort {
                    blob,
                    content,
                    missing: self.left,
                })
            }
        }
    }
}

/// Why a blob did not yield its contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The blob's bytes could not be read.
    #[error("cannot read blob {blob}: {error}")]
    Carried {
        /// The blob.
        blob: Digest,
        /// The error of the system.
        error: io::Error,
    },
    /// It is sealed for others, or the seal does not hold.
    #[error("blob {blob} cannot be opened: {error}")]
    Sealed {
        /// The blob.
        blob: Digest,
        /// Why.
        error: UnsealError,
    },
    /// A content could not be written.
    #[error("cannot store content {content}: {error}")]
    Store {
        /// The content.
        content: Digest,
        /// The error of the system.
        error: io::Error,
    },
    /// Not a zstd frame, a damaged one, or one that needs too much memory.
    #[error("blob {blob} cannot be decompressed: {error}")]
    Zstd {
        /// The blob.
        blob: Digest,
        /// The error of zstd.
        error: io::Error,
    },
    /// The zstd frame does not end in the blob.
    #[error("blob {blob} ends before its compressed content does")]
    Unfinished {
        /// The blob.
        blob: Digest,
    },
    /// The blob has other bytes than the index states, or bytes after its frame.
    #[error("blob {blob} has more or fewer bytes than its content needs")]
    Surplus {
        /// The blob.
        blob: Digest,
    },
    /// More comes out than the index states: a decompression bomb.
    #[error("blob {blob} yields more than the index states; decompression was stopped there")]
    TooLong {
        /// The blob.
        blob: Digest,
    },
    /// Less comes out than the index states.
    #[error("blob {blob} ends {missing} bytes before the end of content {content}")]
    TooShort {
        /// The blob.
        blob: Digest,
        /// The content that is not whole.
        content: Digest,
        /// Bytes missing of it.
        missing: u64,
    },
    /// A content is not what the index states.
    #[error("blob {blob} should yield content {expected}, but yields {found}")]
    Digest {
        /// The blob.
        blob: Digest,
        /// The content's digest by the index.
        expected: Digest,
        /// The digest of what came out.
        found: Digest,
    },
}

impl DecodeError {
    /// Reading an opened blob fails where its seal does not hold: no other try would help.
    fn of_sealed(self) -> Self {
        match self {
            Self::Carried { blob, error }
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                ) =>
            {
                let problem = error.to_string();
                let error = UnsealError::Damaged { problem };
                Self::Sealed { blob, error }
            }
            other => other,
        }
    }

    /// The rule that refused the blob, as a short word for reports.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Carried { .. } => "io",
            Self::Sealed {
                error: UnsealError::NotForUs { .. },
                ..
            } => "recipient",
            Self::Sealed { .. } => "seal",
            Self::Store { .. } => "store",
            Self::Zstd { .. } | Self::Unfinished { .. } | Self::Surplus { .. } => "encoding",
            Self::TooLong { .. } => "bomb",
            Self::TooShort { .. } => "size",
            Self::Digest { .. } => "digest",
        }
    }

    /// Whether a disk failed rather than the blob: worth another try.
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::Carried { .. } | Self::Store { .. })
    }
}

#[cfg(test)]
mod tests;
