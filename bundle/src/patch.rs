//! Patches: one blob of a bundle made on site out of blobs that the site has, in the place of the blob itself.
//!
//! What comes in: the bytes of a patch, which nobody signs, and whoever reads the blobs that it builds on. What goes
//! out: the contents of the blob that it is for, end to end, into a writer. A patch says how to make bytes and decides
//! nothing: how many may come out, and that they are right, is what the signed index states of the blob's contents
//! ([`Patch::apply`] compares each). Pieces are bounded, and made one after the other: memory does not
//! grow with the blob. It names blobs by digest, and no path. Of a gzip file a patch makes the text, and corrections make the
//! file of it: what is compared with the index is the file. The patch of a *twin* makes the uncompressed archive of a layer in the place of
//! the layer: what its digest must be, the config of the image states, and comparing it is for whoever takes a twin ([`Patch::twin`]).

use std::io::{self, Read, Write};

use outhaul_gzip::MAX_CORRECTION_BYTES;
use zstd::zstd_safe::DCtx;

use crate::blob::{Blob, Content, Encoding};
use crate::digest::{Digest, Hasher};

mod contents;
mod error;
mod head;
mod make;

use contents::{Contents, PatchResult};
pub use error::PatchError;
use head::{PieceKind, Pieces, head};
pub use head::{Region, Source, View};
pub use make::Maker;

/// A patch's first bytes.
pub(crate) const MAGIC: [u8; 16] = *b"outhaul patch 1\n";
/// The first bytes of a patch that makes the uncompressed archive of a layer.
pub(crate) const TWIN_MAGIC: [u8; 16] = *b"outhaul patch 2\n";
/// Bytes before its head: [`MAGIC`], the digest of all that follows the digest, two sizes of the head.
pub(crate) const START: usize = MAGIC.len() + 32 + 8;
/// Most blobs that one patch builds on.
pub const MAX_SOURCES: usize = 256;
/// Largest piece that is decompressed at once, in bytes.
pub const MAX_PIECE_BYTES: u64 = 16 << 20;
/// Most bytes that one piece refers to.
pub const MAX_PREFIX_BYTES: u64 = 64 << 20;
/// Most regions of one piece.
pub const MAX_REGIONS: u64 = 100_000;
/// Largest head in bytes: some 500,000 pieces.
pub const MAX_HEAD_BYTES: u64 = 4 << 20;
/// Most bytes that all pieces together refer to and keep aside, for each byte that is made.
const MAX_WORK: u64 = 8;
/// Most bytes that are inflated of all sources together, for each byte of text that is made, beside [`MAX_PREFIX_BYTES`].
pub const MAX_INFLATED: u64 = 32;
/// Most bytes of text for each byte of a gzip file, beside [`MAX_PREFIX_BYTES`].
pub const MAX_TEXT: u64 = 64;
/// Bytes copied at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// Bytes of a patch that [`makes_twin`] reads.
pub const KIND_BYTES: usize = MAGIC.len();

/// Whether a patch with these first bytes makes the uncompressed archive of a layer, in place of the layer: a twin.
pub fn makes_twin(start: &[u8]) -> bool {
    start.starts_with(&TWIN_MAGIC)
}

/// Compares a patch with the digest that it states of all that follows it, while it streams past.
#[derive(Debug, Default)]
pub(crate) struct SelfCheck {
    start: Vec<u8>,
    hasher: Hasher,
}

impl SelfCheck {
    const START: usize = MAGIC.len() + 32;

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let missing = Self::START - self.start.len();
        let (start, rest) = bytes.split_at(missing.min(bytes.len()));
        self.start.extend_from_slice(start);
        self.hasher.update(rest);
    }

    /// The digest that it states and the one that it has, when they differ.
    pub(crate) fn differing(self) -> Option<(Digest, Digest)> {
        let (found, _) = self.hasher.finish();
        let stated = self.start.get(MAGIC.len()..Self::START);
        let stated = stated.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let stated = Digest::from_bytes(stated.unwrap_or_default());
        (stated != found).then_some((stated, found))
    }
}

/// Reads what a patch builds on.
pub trait PatchSources {
    /// Fills `buffer` with the bytes of `source` from `offset` on.
    ///
    /// # Errors
    /// [`PatchError::Base`] when the blob is not there or has fewer bytes.
    fn read(&mut self, source: &Source, offset: u64, buffer: &mut [u8]) -> Result<(), PatchError>;
}

/// A patch of which the head was read.
#[derive(Debug)]
pub struct Patch {
    sources: Vec<Source>,
    /// Of a twin: what it makes.
    text: Option<Content>,
    pieces: Vec<u8>,
    /// Bytes of all frames.
    frames: u64,
}

impl Patch {
    /// Reads the head of a patch of `size` bytes.
    ///
    /// # Errors
    /// [`PatchError`]
    pub fn read(input: &mut impl Read, size: u64) -> Result<Self, PatchError> {
        let mut start = [0; START];
        fill(input, &mut start)?;
        let number = |at: usize| {
            let four = start.get(at..at + 4).and_then(|four| four.try_into().ok());
            u64::from(u32::from_le_bytes(four.unwrap_or_default()))
        };
        let (carried, plain) = (number(START - 8), number(START - 4));
        let left = size.checked_sub(START as u64 + carried);
        let is_twin = start.starts_with(&TWIN_MAGIC);
        let is_known = is_twin || start.starts_with(&MAGIC);
        let Some(frames) = left.filter(|_| is_known && plain <= MAX_HEAD_BYTES) else {
            return Err(PatchError::malformed("it is not a patch of this format"));
        };
        let bytes = take(input, carried)?;
        let bytes = decompress(&bytes, &[], plain)?;
        let mut bytes = bytes.as_slice();
        let text = is_twin.then(|| head::text(&mut bytes)).transpose()?;
        let (sources, pieces) = head(bytes)?;
        Ok(Self {
            sources,
            text,
            pieces: pieces.to_vec(),
            frames,
        })
    }

    /// The blobs that it builds on.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Of a patch that makes the uncompressed archive of `layer` in the place of it: that archive, as a blob for [`Patch::apply`]. Its digest
    /// is what the patch states, and must be compared with what the image's config states.
    ///
    /// # Errors
    /// [`PatchError::Malformed`] when `layer` cannot have it.
    pub fn twin(&self, layer: &Blob) -> Result<Option<Blob>, PatchError> {
        let Some(text) = self.text else {
            return Ok(None);
        };
        let is_layer = layer.encoding == Encoding::Identity && layer.sealed.is_none();
        if !is_layer || !within(text.size, MAX_TEXT, layer.size) {
            return Err(PatchError::malformed(
                "it makes what the layer that it is for cannot hold",
            ));
        }
        Ok(Some(Blob {
            digest: text.digest,
            size: text.size,
            encoding: Encoding::Identity,
            contents: vec![text],
            sealed: None,
        }))
    }

    /// Makes the contents of `blob`, end to end, from `input`, which is where [`Patch::read`] left it, and `sources`.
    /// What `out` got must be thrown away when this fails.
    ///
    /// # Errors
    /// [`PatchError`]: of the patch, of what it builds on, or of `out`.
    pub fn apply(
        &self,
        blob: &Blob,
        input: &mut impl Read,
        sources: &mut dyn PatchSources,
        out: &mut dyn Write,
    ) -> Result<(), PatchError> {
        if blob.sealed.is_some() {
            return Err(PatchError::malformed("it is for a blob that is sealed"));
        }
        if self.text.is_some_and(|text| blob.contents != [text]) {
            let problem = "it makes the uncompressed archive of a layer, and not the layer";
            return Err(PatchError::malformed(problem));
        }
        self.check(blob.plain_bytes())?;
        let corrections = self.corrections(input)?;
        let mut out = PatchResult::new(Contents::new(blob, out), corrections)?;
        let mut aside = Vec::new();
        for piece in Pieces::of(&self.pieces, self.sources.len()) {
            let piece = piece?;
            if let PieceKind::Corrections(_) = piece.kind {
                continue;
            }
            if piece.kind == PieceKind::Copy {
                for region in &piece.regions {
                    match self.sources.get(region.source) {
                        Some(source) => copy(source, region, sources, &mut out)?,
                        None => out.write(part(&aside, region)?)?,
                    }
                }
                continue;
            }
            let mut prefix = Vec::new();
            for region in &piece.regions {
                let at = prefix.len();
                let length = usize::try_from(region.length).unwrap_or(usize::MAX);
                let source = self.sources.get(region.source);
                let source = source.ok_or_else(|| PatchError::malformed("it names no source"))?;
                prefix.resize(at + length, 0);
                let buffer = prefix.get_mut(at..).unwrap_or_default();
                sources.read(source, region.offset, buffer)?;
            }
            let frame = take(input, piece.frame())?;
            let made = decompress(&frame, &prefix, piece.size)?;
            match piece.kind {
                PieceKind::Aside(_) => aside = made,
                _ => out.write(&made)?,
            }
        }
        out.finish()
    }
}

impl Patch {
    /// The corrections of a gzip file, of which the frames come first.
    fn corrections(&self, input: &mut impl Read) -> Result<Vec<u8>, PatchError> {
        let mut corrections = Vec::new();
        for piece in Pieces::of(&self.pieces, self.sources.len()) {
            let piece = piece?;
            let PieceKind::Corrections(frame) = piece.kind else {
                break;
            };
            let frame = take(input, frame)?;
            corrections.append(&mut decompress(&frame, &[], piece.size)?);
        }
        Ok(corrections)
    }

    /// Adds up all that is stated, before anything is done by it.
    fn check(&self, expected: u64) -> Result<(), PatchError> {
        let (mut bytes, mut frames, mut work) = (0u64, 0u64, 0u64);
        let (mut corrections, mut has_begun) = (0u64, false);
        for piece in Pieces::of(&self.pieces, self.sources.len()) {
            let piece = piece?;
            match piece.kind {
                PieceKind::Aside(_) => work = work.saturating_add(piece.size),
                PieceKind::Corrections(_) if has_begun => {
                    let problem = "its corrections do not come first";
                    return Err(PatchError::malformed(problem));
                }
                PieceKind::Corrections(_) => corrections = corrections.saturating_add(piece.size),
                _ => bytes = bytes.saturating_add(piece.size),
            }
            if piece.kind != PieceKind::Copy {
                let regions = piece.regions.iter().map(|region| region.length);
                work = regions.fold(work, u64::saturating_add);
            }
            frames = frames.saturating_add(piece.frame());
            has_begun |= !matches!(piece.kind, PieceKind::Corrections(_));
        }
        let is_too_much = corrections > MAX_CORRECTION_BYTES;
        if is_too_much || corrections > 0 && self.text.is_some() {
            return Err(PatchError::malformed("it has too many corrections"));
        }
        let fits = match corrections {
            0 => bytes == expected,
            // How large the text of a gzip file is, no index states.
            _ => within(bytes, MAX_TEXT, expected),
        };
        if !fits {
            return Err(PatchError::Size { expected, bytes });
        }
        let inflated = self.sources.iter().map(|source| source.view.inflated());
        let inflated = inflated.fold(0, u64::saturating_add);
        if !within(work, MAX_WORK, bytes) || !within(inflated, MAX_INFLATED, bytes) {
            return Err(PatchError::malformed(
                "it takes more work than what it makes is worth",
            ));
        }
        if frames != self.frames {
            return Err(PatchError::malformed("its pieces are not all of it"));
        }
        Ok(())
    }
}

fn within(found: u64, times: u64, of: u64) -> bool {
    found <= of.saturating_mul(times).saturating_add(MAX_PREFIX_BYTES)
}

impl Blob {
    /// Bytes of its contents, end to end.
    pub fn plain_bytes(&self) -> u64 {
        let sizes = self.contents.iter().map(|content| content.size);
        sizes.fold(0, u64::saturating_add)
    }
}

fn copy(
    source: &Source,
    region: &Region,
    sources: &mut dyn PatchSources,
    out: &mut PatchResult<'_>,
) -> Result<(), PatchError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut offset, mut left) = (region.offset, region.length);
    while left > 0 {
        let count = usize::try_from(left).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        sources.read(source, offset, buffer)?;
        out.write(buffer)?;
        offset = offset.saturating_add(count as u64);
        left -= count as u64;
    }
    Ok(())
}

/// The bytes of a region of what was kept aside.
fn part<'a>(aside: &'a [u8], region: &Region) -> Result<&'a [u8], PatchError> {
    let from = usize::try_from(region.offset).unwrap_or(usize::MAX);
    let length = usize::try_from(region.length).unwrap_or(usize::MAX);
    let bytes = aside.get(from..from.saturating_add(length));
    bytes.ok_or_else(|| PatchError::malformed("a piece copies what was not made"))
}

/// One frame that yields exactly `size` bytes: a buffer of that size is all that it gets.
fn decompress(frame: &[u8], prefix: &[u8], size: u64) -> Result<Vec<u8>, PatchError> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut bytes = vec![0; size];
    let mut decoder = DCtx::try_create().ok_or_else(|| PatchError::malformed("no memory"))?;
    let done = decoder
        .ref_prefix(prefix)
        .and_then(|_| decoder.decompress(bytes.as_mut_slice(), frame));
    match done {
        Ok(count) if count == size => Ok(bytes),
        Ok(_) => Err(PatchError::malformed("a piece is shorter than it states")),
        Err(_) => Err(PatchError::Piece),
    }
}

/// `count` bytes, in memory that grows as they come.
fn take(input: &mut impl Read, count: u64) -> Result<Vec<u8>, PatchError> {
    let mut bytes = Vec::new();
    input
        .take(count)
        .read_to_end(&mut bytes)
        .map_err(PatchError::Read)?;
    match bytes.len() as u64 == count {
        true => Ok(bytes),
        false => Err(PatchError::malformed("it ends too early")),
    }
}

fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<(), PatchError> {
    input
        .read_exact(buffer)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => PatchError::malformed("it ends too early"),
            _ => PatchError::Read(error),
        })
}

#[cfg(test)]
mod tests;
