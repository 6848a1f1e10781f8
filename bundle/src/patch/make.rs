//! Writes a patch: pieces that are copied, and pieces that are compressed with what they resemble as a prefix.
//!
//! What comes in: pieces in order, each with the bytes that it makes and what it refers to. What goes out: the bytes of
//! the patch. It looks for no resemblance and reads no blob: its caller does. Frames wait where the caller says, so that
//! memory does not grow with the patch.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::head::{Piece, PieceKind, write_head, write_piece, write_text};
use super::{MAGIC, MAX_HEAD_BYTES, MAX_SOURCES, Region, START, Source, TWIN_MAGIC};
use crate::blob::Content;
use crate::digest::Hasher;

/// zstd's level for pieces up to [`SMALL_BYTES`], and for larger ones: three times as fast.
const LEVELS: (i32, i32) = (19, 12);
const SMALL_BYTES: usize = 1 << 20;
/// Corrections in one frame.
const CORRECTIONS_BYTES: usize = 8 << 20;
/// From this many bytes on, long distances are matched apart.
const LONG_BYTES: usize = 8 << 20;

/// A patch that is being written; its frames wait in `F`.
#[derive(Debug)]
pub struct Maker<F> {
    sources: Vec<Source>,
    /// Of a twin: what all pieces make.
    text: Option<Content>,
    pieces: Vec<u8>,
    /// The copy that the next one may lengthen.
    pending: Option<Region>,
    frames: F,
    bytes: u64,
}

impl<F: Read + Write + Seek> Maker<F> {
    /// A patch that builds on `sources`, sorted and each once; `frames` is empty.
    pub fn new(sources: Vec<Source>, frames: F) -> Self {
        Self {
            sources,
            text: None,
            pieces: Vec::new(),
            pending: None,
            frames,
            bytes: 0,
        }
    }

    /// What all pieces make is the text of a gzip file, of which these are the corrections. Called before any piece.
    ///
    /// # Errors
    /// Whatever keeps a frame from being written.
    pub fn correct(&mut self, corrections: &[u8]) -> io::Result<()> {
        for part in corrections.chunks(CORRECTIONS_BYTES) {
            self.framed(part, &[], &[], PieceKind::Corrections)?;
        }
        Ok(())
    }

    /// What all pieces make is `text`, the uncompressed archive of a layer, in the place of the layer.
    pub fn make_twin(&mut self, text: Content) {
        self.text = Some(text);
    }

    /// Bytes of the patch so far, without its head.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next bytes are those of `region`.
    pub fn copy(&mut self, region: Region) {
        if region.length == 0 {
            return;
        }
        if let Some(pending) = &mut self.pending
            && pending.source == region.source
            && pending.offset + pending.length == region.offset
        {
            pending.length += region.length;
            return;
        }
        self.end_copy();
        self.pending = Some(region);
    }

    /// The next bytes are `bytes`, which resemble `prefix`: the bytes of `regions`.
    ///
    /// # Errors
    /// Whatever keeps the frame from being written.
    pub fn patch(&mut self, bytes: &[u8], regions: &[Region], prefix: &[u8]) -> io::Result<()> {
        self.framed(bytes, regions, prefix, PieceKind::Frame)
    }

    /// `bytes` are needed in parts by the copies that follow, from [`Maker::aside`] on, until the next are kept aside.
    ///
    /// # Errors
    /// Whatever keeps the frame from being written.
    pub fn keep_aside(
        &mut self,
        bytes: &[u8],
        regions: &[Region],
        prefix: &[u8],
    ) -> io::Result<()> {
        self.framed(bytes, regions, prefix, PieceKind::Aside)
    }

    /// The place of what is kept aside, for regions that are copied.
    pub fn aside(&self) -> usize {
        self.sources.len()
    }

    fn framed(
        &mut self,
        bytes: &[u8],
        regions: &[Region],
        prefix: &[u8],
        kind: impl FnOnce(u64) -> PieceKind,
    ) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.end_copy();
        let frame = frame(bytes, prefix)?;
        self.frames.write_all(&frame)?;
        self.bytes += frame.len() as u64;
        let piece = Piece {
            kind: kind(frame.len() as u64),
            size: bytes.len() as u64,
            regions: regions.to_vec(),
        };
        write_piece(&piece, &mut self.pieces);
        Ok(())
    }

    fn end_copy(&mut self) {
        if let Some(region) = self.pending.take() {
            let piece = Piece {
                kind: PieceKind::Copy,
                size: region.length,
                regions: vec![region],
            };
            write_piece(&piece, &mut self.pieces);
        }
    }

    /// Writes the patch to `out`; its size in bytes, or `None` when its head is larger than a reader takes.
    ///
    /// # Errors
    /// Whatever keeps it from being written.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<Option<u64>> {
        self.end_copy();
        let mut head = Vec::new();
        if let Some(text) = &self.text {
            write_text(text, &mut head);
        }
        write_head(&self.sources, &mut head);
        head.extend_from_slice(&self.pieces);
        if head.len() as u64 > MAX_HEAD_BYTES || self.sources.len() > MAX_SOURCES {
            return Ok(None);
        }
        let carried = frame(&head, &[])?;
        let mut sizes = Vec::new();
        for size in [carried.len(), head.len()] {
            let size = u32::try_from(size).map_err(io::Error::other)?;
            sizes.extend_from_slice(&size.to_le_bytes());
        }
        let mut hasher = Hasher::new();
        hasher.update(&sizes);
        hasher.update(&carried);
        self.frames.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.frames, &mut hasher)?;
        let (digest, _) = hasher.finish();
        let magic = match self.text {
            Some(_) => TWIN_MAGIC,
            None => MAGIC,
        };
        for part in [&magic[..], digest.as_bytes(), &sizes, &carried] {
            out.write_all(part)?;
        }
        self.frames.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.frames, out)?;
        Ok(Some(START as u64 + carried.len() as u64 + self.bytes))
    }
}

/// One zstd frame.
fn frame(bytes: &[u8], prefix: &[u8]) -> io::Result<Vec<u8>> {
    let total = bytes.len() + prefix.len();
    let level = match total <= 2 * SMALL_BYTES {
        true => LEVELS.0,
        false => LEVELS.1,
    };
    let mut encoder = zstd::Encoder::with_ref_prefix(Vec::new(), level, prefix)?;
    // All of the prefix is within reach.
    let window = usize::BITS - total.leading_zeros();
    encoder.window_log(window.clamp(10, 27))?;
    if total > LONG_BYTES {
        encoder.long_distance_matching(true)?;
    }
    encoder.include_checksum(false)?;
    encoder.include_dictid(false)?;
    encoder.set_pledged_src_size(Some(bytes.len() as u64))?;
    encoder.write_all(bytes)?;
    encoder.finish()
}
