//! Reads a bundle as a stream: nothing is sought, nothing is trusted, and nothing but a verified index is decompressed.
//!
//! What comes in: foreign bytes of any length. What goes out, in three steps that a caller takes in
//! order: the metadata files, for whoever knows the keys; the index, once someone has verified its
//! digest; each blob, handed to a [`BlobSink`] while it is hashed. A sink is asked to keep a blob only
//! when its digest was right. Memory stays the same however large the bundle is (the index aside).
//! Member names are compared with those that the index demands, and never reach a file system.

mod error;
mod index;
mod input;
mod parity;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

pub use error::ReadError;
use input::Input;

use crate::digest::{Digest, Hasher};
use crate::index::compressed::CompressedForms;
use crate::index::{Blob, Content, Index};
use crate::limits::Limits;
use crate::member::{BLOCK, Block, Member};
use crate::patch;
use crate::volume::{MAX_COPY_BYTES, Parity, Volume};

/// Where verified blobs go.
pub trait BlobSink {
    /// Asked before each blob. `Some`: its bytes are wanted and go into this writer as they stream in,
    /// unverified until [`BlobSink::commit`]. `None`: it is there already; its bytes are still checked.
    ///
    /// # Errors
    /// Whatever keeps the blob from being stored; it ends the reading.
    fn begin(&mut self, blob: &Blob) -> io::Result<Option<Box<dyn Write + '_>>>;

    /// The blob that was begun is whole and its digest is right; its writer was flushed and dropped.
    ///
    /// # Errors
    /// Whatever keeps the blob from being kept; it ends the reading.
    fn commit(&mut self, blob: &Blob) -> io::Result<()>;

    /// The blob that was begun, or its patch, must be thrown away; its writer was dropped.
    fn discard(&mut self, blob: &Blob);

    /// Asked before a patch of `bytes` bytes that makes `blob`; as [`BlobSink::begin`]. Who never asked for a
    /// copy's [`Volume`] meets none.
    ///
    /// # Errors
    /// Whatever keeps the patch from being taken; it ends the reading.
    fn begin_patch(&mut self, _: &Blob, _bytes: u64) -> io::Result<Option<Box<dyn Write + '_>>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// The patch that was begun is as it was written. Nobody signed it: what it makes must be compared with the
    /// index.
    ///
    /// # Errors
    /// Whatever keeps the blob from being made and kept; it ends the reading.
    fn commit_patch(&mut self, _: &Blob) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// What a reader has read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Start,
    Metadata,
    Index,
    End,
    /// After an error nothing more is read.
    Failed,
}

/// A bundle that is being read.
#[derive(Debug)]
pub struct BundleReader<R> {
    input: Input<R>,
    limits: Limits,
    stage: Stage,
    /// A header that was read to see where what comes before it ends.
    ahead: Option<Block>,
    /// What its metadata lists of compressed indexes.
    forms: CompressedForms,
    /// The index as it travels, where that is compressed.
    index_compressed: Option<Vec<u8>>,
    /// Which part it is, once someone asked; a whole bundle is none.
    volume: OnceCell<Option<Volume>>,
    /// Which parity part it is, once someone asked.
    parity: OnceCell<Option<Parity>>,
}

impl<R: Read> BundleReader<R> {
    /// A reader at the start of a bundle. It buffers 64 KiB by itself.
    pub fn new(reader: R, limits: Limits) -> Self {
        Self {
            input: Input::new(reader),
            limits,
            stage: Stage::Start,
            ahead: None,
            forms: CompressedForms::default(),
            index_compressed: None,
            volume: OnceCell::new(),
            parity: OnceCell::new(),
        }
    }

    /// Reads all metadata files: name (without `metadata/`) to bytes. They are not verified.
    ///
    /// # Errors
    /// [`ReadError`] for anything that is not the start of a bundle, or exceeds the limits.
    pub fn read_metadata(&mut self) -> Result<BTreeMap<String, Vec<u8>>, ReadError> {
        self.step(Stage::Start, Stage::Metadata, Self::metadata)
    }

    /// Reads `index.json`, which must have the size and digest that the metadata lists; of a large index `index.json.zst`, whose size and
    /// digest this bundle's metadata lists, too. Returns it with its exact bytes, decompressed. For files of one's own, or where nothing is trusted.
    ///
    /// # Errors
    /// [`ReadError`] when the next member is not an index, another one, or one that contradicts itself.
    pub fn read_index(&mut self, expected: &Content) -> Result<(Index, Vec<u8>), ReadError> {
        self.step(Stage::Metadata, Stage::Index, |reader| {
            reader.index(expected)
        })
    }

    /// As [`BundleReader::read_index`], where the metadata was verified: `compressed` is what it lists of the index's compressed form, whatever
    /// the metadata files of this bundle list. A verifier that knows a timestamp does not look at the files behind it again.
    ///
    /// # Errors
    /// As [`BundleReader::read_index`].
    pub fn read_verified_index(
        &mut self,
        expected: &Content,
        compressed: Option<Content>,
    ) -> Result<(Index, Vec<u8>), ReadError> {
        self.forms = CompressedForms::verified(expected.digest, compressed);
        self.read_index(expected)
    }

    /// Reads which part of the bundle it is, or what it leaves out; `None` for a whole one. Asked after the index; without it only
    /// a whole bundle is read.
    ///
    /// # Errors
    /// [`ReadError`] for a part that contradicts the index.
    pub fn read_volume(&mut self, index: &Index) -> Result<Option<Volume>, ReadError> {
        if self.volume.get().is_none() {
            let found = self.step(Stage::Index, Stage::Index, |reader| reader.volume(index))?;
            let _ = self.volume.set(found);
        }
        Ok(self.volume.get().cloned().flatten())
    }

    /// Reads every blob of the index, in its order, into `sink`, and sees that nothing follows. Of a part that
    /// someone asked for with [`BundleReader::read_volume`] it reads the part's.
    ///
    /// # Errors
    /// [`ReadError`]; blobs that were committed before are right and may be kept.
    pub fn read_blobs(&mut self, index: &Index, sink: &mut dyn BlobSink) -> Result<(), ReadError> {
        let is_asked = self.volume.get().is_some();
        let volume = match self.stage {
            Stage::Index => self.read_volume(index)?,
            _ => None,
        };
        self.step(Stage::Index, Stage::End, |reader| {
            let members = match &volume {
                None => {
                    reader.refuse_parity(index)?;
                    index.blobs.iter().map(|blob| (blob, None)).collect()
                }
                Some(volume) if is_asked => volume.members(index),
                Some(volume) if volume.is_since() => {
                    let bases = volume.named_bases();
                    return Err(ReadError::LeavesOut { bases });
                }
                Some(volume) => {
                    let (part, parts) = (volume.part(), volume.parts());
                    return Err(ReadError::Part { part, parts });
                }
            };
            for (blob, patch) in members {
                match patch {
                    None => reader.blob(blob, sink)?,
                    Some(bytes) => reader.patch(blob, bytes, sink)?,
                }
            }
            reader.end()
        })
    }

    /// The index as it travels, where that is compressed and was read.
    pub fn index_compressed(&mut self) -> Option<Vec<u8>> {
        self.index_compressed.take()
    }

    /// How many bytes the bundle, or this part of it, has as its index and what it says of itself have it; `None` for a parity part. Asked after
    /// the index. Nothing of what follows is read: a file that has fewer was not copied to its end.
    ///
    /// # Errors
    /// [`ReadError`] as of [`BundleReader::read_volume`].
    pub fn bytes_in_all(&mut self, index: &Index) -> Result<Option<u64>, ReadError> {
        let volume = self.read_volume(index)?;
        if self.read_parity(index)?.is_some() {
            return Ok(None);
        }
        let block = BLOCK as u64;
        let members = match &volume {
            None => index.blobs.iter().map(|blob| (blob, None)).collect(),
            Some(volume) => volume.members(index),
        };
        let bytes = members.into_iter().map(|(blob, patch)| {
            let content = patch.unwrap_or(blob.size).div_ceil(block);
            content.saturating_add(1).saturating_mul(block)
        });
        let ahead = self.ahead.as_ref().map_or(0, |_| block);
        let before = self.offset().saturating_sub(ahead);
        // Two blocks of zeros end it.
        Ok(Some(bytes.fold(before + 2 * block, u64::saturating_add)))
    }

    /// Bytes of the bundle read so far: for progress.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    fn step<T>(
        &mut self,
        from: Stage,
        to: Stage,
        read: impl FnOnce(&mut Self) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        if self.stage != from {
            return Err(ReadError::OutOfTurn);
        }
        self.stage = Stage::Failed;
        let value = read(self)?;
        self.stage = to;
        Ok(value)
    }

    fn metadata(&mut self) -> Result<BTreeMap<String, Vec<u8>>, ReadError> {
        let mut files = BTreeMap::new();
        let mut last = None;
        let mut total = 0u64;
        loop {
            let (name, size) = match self.header("metadata or `index.json`")? {
                Block::Member(Member::Metadata(name), size) => (name, size),
                other => {
                    self.ahead = Some(other);
                    return Ok(files);
                }
            };
            let member = Member::Metadata(name.clone()).to_string();
            if last.as_ref() == Some(&name) {
                return Err(ReadError::Duplicate { member });
            }
            if last.as_ref().is_some_and(|last| *last > name) {
                let expected = "roots, timestamp, snapshot, targets, stream, in this order".into();
                return Err(ReadError::Order {
                    expected,
                    found: member,
                });
            }
            if files.len() >= self.limits.max_metadata_files {
                let max = self.limits.max_metadata_files;
                return Err(ReadError::TooMany { member, max });
            }
            total = total.saturating_add(size);
            at_most(&member, size, self.limits.max_metadata_bytes)?;
            at_most(&member, total, self.limits.max_metadata_total_bytes)?;
            let (bytes, _) = self.small(&member, size)?;
            if name.is_of_a_stream() {
                self.forms.add(&bytes);
            }
            files.insert(name.to_string(), bytes);
            last = Some(name);
        }
    }

    fn volume(&mut self, index: &Index) -> Result<Option<Volume>, ReadError> {
        let size = match self.header("a blob or the end")? {
            Block::Member(Member::Volume, size) => size,
            other => {
                self.ahead = Some(other);
                return Ok(None);
            }
        };
        let member = Member::Volume.to_string();
        at_most(&member, size, MAX_COPY_BYTES)?;
        let (bytes, _) = self.small(&member, size)?;
        let volume = Volume::from_bytes(&bytes, index.blobs.len());
        let volume = volume.map_err(|problem| ReadError::Volume { problem })?;
        // Nobody signed how large patches are, and space is asked for by that.
        for (blob, patch) in volume.members(index) {
            if let Some(bytes) = patch {
                at_most(&Member::Patch(blob.digest).to_string(), bytes, blob.size)?;
            }
        }
        Ok(Some(volume))
    }

    fn blob(&mut self, blob: &Blob, sink: &mut dyn BlobSink) -> Result<(), ReadError> {
        let member = Member::Blob(blob.digest);
        let name = member.to_string();
        at_most(&name, blob.size, self.limits.max_blob_bytes)?;
        let block = self.header(&name)?;
        expect(block, &member, blob.size)?;
        let store = |error| ReadError::Store {
            blob: blob.digest,
            error,
        };
        let mut writer = sink.begin(blob).map_err(store)?;
        let wanted = writer.is_some();
        let copy = || {
            let mut hasher = Hasher::new();
            self.input.take(&name, blob.size, |bytes| {
                hasher.update(bytes);
                match writer.as_mut() {
                    Some(writer) => writer.write_all(bytes).map_err(store),
                    None => Ok(()),
                }
            })?;
            let (found, _) = hasher.finish();
            if found != blob.digest {
                return Err(ReadError::Digest {
                    member: name,
                    expected: blob.digest,
                    found,
                });
            }
            self.input.fill(&name, blob.size)?;
            writer.as_mut().map_or(Ok(()), Write::flush).map_err(store)
        };
        let copied = copy();
        drop(writer);
        match copied {
            Ok(()) if wanted => sink.commit(blob).map_err(store),
            Ok(()) => Ok(()),
            Err(error) => {
                if wanted {
                    sink.discard(blob);
                }
                Err(error)
            }
        }
    }

    /// A patch: it is never larger than what it makes, and has the digest that it states of itself, so that a damaged
    /// one is not parsed.
    fn patch(&mut self, blob: &Blob, bytes: u64, sink: &mut dyn BlobSink) -> Result<(), ReadError> {
        let member = Member::Patch(blob.digest);
        let name = member.to_string();
        at_most(&name, bytes, blob.size)?;
        let block = self.header(&name)?;
        expect(block, &member, bytes)?;
        let store = |error| ReadError::Store {
            blob: blob.digest,
            error,
        };
        let mut writer = sink.begin_patch(blob, bytes).map_err(store)?;
        let wanted = writer.is_some();
        let copy = || {
            let mut check = patch::SelfCheck::default();
            self.input.take(&name, bytes, |bytes| {
                check.update(bytes);
                match writer.as_mut() {
                    Some(writer) => writer.write_all(bytes).map_err(store),
                    None => Ok(()),
                }
            })?;
            if let Some((expected, found)) = check.differing() {
                return Err(ReadError::Digest {
                    member: name,
                    expected,
                    found,
                });
            }
            self.input.fill(&name, bytes)?;
            writer.as_mut().map_or(Ok(()), Write::flush).map_err(store)
        };
        let copied = copy();
        drop(writer);
        match copied {
            Ok(()) if wanted => sink.commit_patch(blob).map_err(store),
            Ok(()) => Ok(()),
            Err(error) => {
                if wanted {
                    sink.discard(blob);
                }
                Err(error)
            }
        }
    }

    /// Two blocks of zeros, then nothing.
    fn end(&mut self) -> Result<(), ReadError> {
        for _ in 0..2 {
            let at = "the end of the bundle";
            if let Block::Member(member, _) = self.header(at)? {
                let expected = "the end: `index.json` lists no more blobs".to_owned();
                return Err(ReadError::Order {
                    expected,
                    found: member.to_string(),
                });
            }
        }
        self.input.expect_end()
    }

    /// The next block.
    fn header(&mut self, expected: &str) -> Result<Block, ReadError> {
        if let Some(block) = self.ahead.take() {
            return Ok(block);
        }
        let offset = self.input.offset();
        let block = self.input.block(expected)?;
        crate::member::parse(&block).map_err(|problem| ReadError::Header { offset, problem })
    }

    /// The content of a member that is held in memory, with its digest.
    fn small(&mut self, member: &str, size: u64) -> Result<(Vec<u8>, Digest), ReadError> {
        // Grows as bytes arrive: a size that is only claimed costs nothing.
        let mut bytes = Vec::new();
        self.input.take(member, size, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        self.input.fill(member, size)?;
        let digest = Digest::of(&bytes);
        Ok((bytes, digest))
    }
}

/// Sees that `block` announces `member` with `size` bytes.
fn expect(block: Block, member: &Member, size: u64) -> Result<(), ReadError> {
    match block {
        Block::Zeros => Err(ReadError::Missing {
            member: member.to_string(),
        }),
        Block::Member(found, found_size) if found == *member => {
            if found_size == size {
                return Ok(());
            }
            let member = member.to_string();
            Err(ReadError::Size {
                member,
                expected: size,
                found: found_size,
            })
        }
        Block::Member(found, _) => {
            let expected = format!("`{member}`");
            Err(ReadError::Order {
                expected,
                found: found.to_string(),
            })
        }
    }
}

fn at_most(member: &str, bytes: u64, max: u64) -> Result<(), ReadError> {
    if bytes <= max {
        return Ok(());
    }
    Err(ReadError::TooLarge {
        member: member.to_owned(),
        bytes,
        max,
    })
}

#[cfg(test)]
mod tests;
