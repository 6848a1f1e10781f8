//! Where the bytes that a patch makes go: each content of the blob against its digest, as a gzip file first where it is one.
//!
//! What comes in: bytes, part by part, and the corrections of a gzip file. What goes out: the blob's contents, end to end, into a
//! writer, and nothing beyond what the signed index states.

use std::io::{self, Write};

use outhaul_gzip::Joiner;

use super::PatchError;
use crate::blob::{Blob, Content};
use crate::digest::{Digest, Hasher};

/// What is made.
pub(super) enum PatchResult<'a> {
    /// The contents.
    Contents(Contents<'a>),
    /// The text of the gzip file that is the contents.
    Text(Box<Joiner>, Contents<'a>),
}

impl<'a> PatchResult<'a> {
    /// Into `contents`; through these corrections, unless there are none.
    pub(super) fn new(contents: Contents<'a>, corrections: Vec<u8>) -> Result<Self, PatchError> {
        Ok(match corrections.is_empty() {
            true => Self::Contents(contents),
            false => Self::Text(Box::new(Joiner::new(corrections)?), contents),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), PatchError> {
        match self {
            Self::Contents(contents) => contents.write(bytes),
            Self::Text(joiner, contents) => {
                let mut out = Compared::new(contents);
                let written = joiner.write(bytes, &mut out);
                out.done(written)
            }
        }
    }

    pub(super) fn finish(self) -> Result<(), PatchError> {
        match self {
            Self::Contents(contents) => contents.finish(),
            Self::Text(mut joiner, mut contents) => {
                let mut out = Compared::new(&mut contents);
                let finished = joiner.finish(&mut out);
                out.done(finished)?;
                contents.finish()
            }
        }
    }
}

/// Contents as a writer, which keeps why it failed.
struct Compared<'a, 'b> {
    contents: &'a mut Contents<'b>,
    why: Option<PatchError>,
}

impl<'a, 'b> Compared<'a, 'b> {
    fn new(contents: &'a mut Contents<'b>) -> Self {
        Self {
            contents,
            why: None,
        }
    }

    fn done(self, done: io::Result<Result<(), outhaul_gzip::JoinError>>) -> Result<(), PatchError> {
        match (self.why, done) {
            (Some(why), _) => Err(why),
            (None, Err(error)) => Err(PatchError::Store(error)),
            (None, Ok(joined)) => Ok(joined?),
        }
    }
}

impl Write for Compared<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.contents.write(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(why) => {
                self.why = Some(why);
                Err(io::Error::other("it is not what is made"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What comes out: each content against its digest, and nothing beyond the last.
#[expect(clippy::struct_field_names, reason = "these are the contents of it")]
pub(super) struct Contents<'a> {
    contents: std::slice::Iter<'a, Content>,
    current: Option<&'a Content>,
    left: u64,
    hasher: Hasher,
    out: &'a mut dyn Write,
}

impl<'a> Contents<'a> {
    pub(super) fn new(blob: &'a Blob, out: &'a mut dyn Write) -> Self {
        Self {
            contents: blob.contents.iter(),
            current: None,
            left: 0,
            hasher: Hasher::new(),
            out,
        }
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), PatchError> {
        while !bytes.is_empty() {
            if self.left == 0 {
                self.next()?;
            }
            let count = usize::try_from(self.left).map_or(bytes.len(), |n| n.min(bytes.len()));
            let (now, later) = bytes.split_at(count);
            self.hasher.update(now);
            self.out.write_all(now).map_err(PatchError::Store)?;
            self.left -= count as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Ends the content that is full, and begins the next one that has bytes.
    fn next(&mut self) -> Result<(), PatchError> {
        self.end()?;
        while let Some(content) = self.contents.next() {
            self.current = Some(content);
            self.left = content.size;
            if content.size > 0 {
                return Ok(());
            }
            self.end()?;
        }
        Err(PatchError::Piece)
    }

    fn end(&mut self) -> Result<(), PatchError> {
        let Some(content) = self.current.take() else {
            return Ok(());
        };
        let (found, _) = std::mem::take(&mut self.hasher).finish();
        match found == content.digest && self.left == 0 {
            true => Ok(()),
            false => Err(PatchError::Digest {
                expected: content.digest,
                found,
            }),
        }
    }

    pub(super) fn finish(mut self) -> Result<(), PatchError> {
        self.end()?;
        for content in self.contents {
            if content.digest != Digest::of(b"") {
                return Err(PatchError::Digest {
                    expected: content.digest,
                    found: Digest::of(b""),
                });
            }
        }
        self.out.flush().map_err(PatchError::Store)
    }
}
