//! Reads a parity part: which one it is, and its bytes, which are compared with the digest behind them.
//!
//! What comes in: a reader that has read the index. What goes out: a [`Parity`] that fits the index, and the parity into a
//! writer. The digest shows damage and proves nothing: whoever wrote the bytes wrote it, too.

use std::io::{Read, Write};

use super::{BundleReader, ReadError, Stage, at_most, expect};
use crate::digest::{Digest, Hasher};
use crate::index::Index;
use crate::member::{Block, Member};
use crate::volume::{CHECK_BYTES, MAX_PARITY_JSON_BYTES, Parity};

impl<R: Read> BundleReader<R> {
    /// Reads which parity part it is; `None` for a bundle or a part of one. Asked after [`BundleReader::read_volume`].
    ///
    /// # Errors
    /// [`ReadError`] for one that does not fit the index.
    pub fn read_parity(&mut self, index: &Index) -> Result<Option<Parity>, ReadError> {
        if self.read_volume(index)?.is_some() {
            return Ok(None);
        }
        if self.parity.get().is_none() {
            let found = self.step(Stage::Index, Stage::Index, |reader| {
                reader.parity_json(index)
            })?;
            let _ = self.parity.set(found);
        }
        Ok(self.parity.get().cloned().flatten())
    }

    /// Reads the bytes of a parity part into `out`, and sees that nothing follows. What `out` got is of no use unless this
    /// ends well.
    ///
    /// # Errors
    /// [`ReadError`]; `OutOfTurn` unless [`BundleReader::read_parity`] found one.
    pub fn read_parity_bytes(
        &mut self,
        index: &Index,
        out: &mut dyn Write,
    ) -> Result<(), ReadError> {
        let parity = self.parity.get().cloned().flatten();
        self.step(Stage::Index, Stage::End, |reader| {
            let parity = parity.ok_or(ReadError::OutOfTurn)?;
            reader.parity_bytes(index, &parity, out)?;
            reader.end()
        })
    }

    /// Refuses a parity part where a bundle is expected.
    pub(super) fn refuse_parity(&mut self, index: &Index) -> Result<(), ReadError> {
        let parity = match self.parity.get() {
            Some(parity) => parity.clone(),
            None => self.parity_json(index)?,
        };
        match parity {
            None => Ok(()),
            Some(parity) => Err(ReadError::ParityPart {
                part: parity.part(),
                of: parity.of(),
            }),
        }
    }

    fn parity_json(&mut self, index: &Index) -> Result<Option<Parity>, ReadError> {
        let size = match self.header("a blob or the end")? {
            Block::Member(Member::ParityJson, size) => size,
            other => {
                self.ahead = Some(other);
                return Ok(None);
            }
        };
        let member = Member::ParityJson.to_string();
        at_most(&member, size, MAX_PARITY_JSON_BYTES)?;
        let (bytes, _) = self.small(&member, size)?;
        Parity::from_bytes(&bytes, index)
            .map(Some)
            .map_err(|problem| ReadError::Parity { problem })
    }

    fn parity_bytes(
        &mut self,
        index: &Index,
        parity: &Parity,
        out: &mut dyn Write,
    ) -> Result<(), ReadError> {
        let member = Member::Parity;
        let name = member.to_string();
        let bytes = parity.layout(index).bytes();
        let size = bytes.saturating_add(CHECK_BYTES);
        at_most(&name, bytes, self.limits.max_parity_bytes)?;
        let block = self.header(&name)?;
        expect(block, &member, size)?;
        let mut hasher = Hasher::new();
        hasher.update(&parity.to_bytes());
        let store = |error| ReadError::StoreParity { error };
        self.input.take(&name, bytes, |chunk| {
            hasher.update(chunk);
            out.write_all(chunk).map_err(store)
        })?;
        let mut stated = Vec::new();
        self.input.take(&name, CHECK_BYTES, |chunk| {
            stated.extend_from_slice(chunk);
            Ok(())
        })?;
        self.input.fill(&name, size)?;
        let (found, _) = hasher.finish();
        if stated != found.as_bytes() {
            let stated: [u8; 32] = stated.try_into().unwrap_or_default();
            return Err(ReadError::Digest {
                member: name,
                expected: Digest::from_bytes(stated),
                found,
            });
        }
        out.flush().map_err(store)
    }
}
