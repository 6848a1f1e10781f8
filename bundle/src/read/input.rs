//! The foreign bytes under a reader: counted, taken in pieces of at most 64 KiB, never beyond a size.
//!
//! What comes in: any reader. What goes out: whole blocks, exact sizes, or an error that states what was
//! being read and at which byte. It never asks for memory in proportion to a size that is only claimed.

use std::io::{self, Read};

use super::error::ReadError;
use crate::member::BLOCK;

/// Bytes held at once.
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) struct Input<R> {
    reader: R,
    /// Bytes handed out.
    offset: u64,
    buffer: Box<[u8]>,
    /// The part of `buffer` that was read and not yet handed out.
    start: usize,
    end: usize,
}

impl<R> std::fmt::Debug for Input<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self {
            reader,
            offset: 0,
            buffer,
            start: 0,
            end: 0,
        }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Hands out `size` bytes, piece by piece.
    pub(super) fn take(
        &mut self,
        member: &str,
        size: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let mut left = size;
        while left > 0 {
            if !self.refill(member)? {
                let (member, offset) = (member.to_owned(), self.offset);
                return Err(ReadError::Truncated {
                    member,
                    offset,
                    missing: left,
                });
            }
            let ready = self.end - self.start;
            let count = usize::try_from(left).map_or(ready, |left| left.min(ready));
            each(&self.buffer[self.start..self.start + count])?;
            self.start += count;
            self.offset += count as u64;
            left -= count as u64;
        }
        Ok(())
    }

    /// One block.
    pub(super) fn block(&mut self, member: &str) -> Result<[u8; BLOCK], ReadError> {
        let mut block = [0; BLOCK];
        let mut at = 0;
        self.take(member, BLOCK as u64, |bytes| {
            block[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
            Ok(())
        })?;
        Ok(block)
    }

    /// The zeros that fill a member of `size` bytes up to a whole block.
    pub(super) fn fill(&mut self, member: &str, size: u64) -> Result<(), ReadError> {
        let count = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        let mut clean = true;
        self.take(member, count, |bytes| {
            clean &= bytes.iter().all(|b| *b == 0);
            Ok(())
        })?;
        if clean {
            Ok(())
        } else {
            Err(ReadError::Padding {
                member: member.to_owned(),
            })
        }
    }

    /// Sees that nothing follows.
    pub(super) fn expect_end(&mut self) -> Result<(), ReadError> {
        if self.refill("the end of the bundle")? {
            return Err(ReadError::Extended {
                offset: self.offset,
            });
        }
        Ok(())
    }

    /// Whether there is at least one byte more.
    fn refill(&mut self, member: &str) -> Result<bool, ReadError> {
        while self.start == self.end {
            match self.reader.read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => (self.start, self.end) = (0, count.min(self.buffer.len())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let (member, offset) = (member.to_owned(), self.offset);
                    return Err(ReadError::Io {
                        member,
                        offset,
                        error,
                    });
                }
            }
        }
        Ok(true)
    }
}
