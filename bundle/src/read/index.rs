//! Reads the index, as it is or in its compressed form.
//!
//! What comes in: a reader behind the metadata, and what verified metadata lists of the index. What goes out: the index and its bytes. A
//! compressed form is compared with the metadata of the same bundle before it is decompressed; the metadata's signatures are its caller's.

use std::io::Read;

use super::{BundleReader, ReadError, at_most, expect};
use crate::index::{Content, Index, compressed};
use crate::member::{Block, Member};

impl<R: Read> BundleReader<R> {
    pub(super) fn index(&mut self, expected: &Content) -> Result<(Index, Vec<u8>), ReadError> {
        at_most(
            &Member::Index.to_string(),
            expected.size,
            self.limits.max_index_bytes,
        )?;
        let block = self.ahead.take().unwrap_or(Block::Zeros);
        let bytes = match block {
            Block::Member(Member::CompressedIndex, _) => self.compressed_index(block, expected)?,
            _ => self.listed(block, &Member::Index, expected)?,
        };
        let index = Index::from_bytes(&bytes, &self.limits)?;
        Ok((index, bytes))
    }

    /// The bytes of a compressed index, decompressed when they are those that metadata lists.
    fn compressed_index(&mut self, block: Block, index: &Content) -> Result<Vec<u8>, ReadError> {
        let refuse = |problem: String| ReadError::CompressedIndex { problem };
        let listed = self.forms.of(&index.digest).ok_or_else(|| {
            refuse("no metadata file of this bundle lists it, or they differ about it".to_owned())
        })?;
        // It is compressed to save bytes.
        at_most(
            &Member::CompressedIndex.to_string(),
            listed.size,
            index.size,
        )?;
        let compressed = self.listed(block, &Member::CompressedIndex, &listed)?;
        let bytes = compressed::open(&compressed, &listed, index).map_err(refuse)?;
        self.index_compressed = Some(compressed);
        Ok(bytes)
    }

    /// The bytes of a small member, of the size and digest that metadata lists.
    fn listed(
        &mut self,
        block: Block,
        member: &Member,
        content: &Content,
    ) -> Result<Vec<u8>, ReadError> {
        expect(block, member, content.size)?;
        let member = member.to_string();
        let (bytes, found) = self.small(&member, content.size)?;
        if found != content.digest {
            return Err(ReadError::Digest {
                member,
                expected: content.digest,
                found,
            });
        }
        Ok(bytes)
    }
}
