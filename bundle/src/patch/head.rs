//! The head of a patch: which blobs it builds on, and the pieces in order.
//!
//! What comes in: bytes. What goes out: sources and pieces within the limits, each looked at when its turn comes: memory
//! does not grow with how many there are. Numbers are written in seven bits a byte, the shortest way only.

use super::{MAX_PIECE_BYTES, MAX_PREFIX_BYTES, MAX_REGIONS, MAX_SOURCES, PatchError};
use crate::blob::Content;
use crate::digest::Digest;

/// A blob that a patch builds on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// Its digest, as an index lists it.
    pub blob: Digest,
    /// As what it is read.
    pub view: View,
}

/// As what a blob is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
    /// Its contents, end to end.
    Contents,
    /// What they hold as a gzip file: so many bytes.
    Inflated(u64),
    /// What they hold as zstd frames: so many bytes.
    Unpacked(u64),
}

impl View {
    /// Bytes that are inflated for it.
    pub fn inflated(self) -> u64 {
        match self {
            Self::Contents => 0,
            Self::Inflated(bytes) | Self::Unpacked(bytes) => bytes,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Self::Contents => 0,
            Self::Inflated(_) => 1,
            Self::Unpacked(_) => 2,
        }
    }
}

/// Some bytes of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its place in the list of sources; their number: what was kept aside last.
    pub source: usize,
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub length: u64,
}

/// Where the bytes of a piece come from, and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    /// Its regions, as they are.
    Copy,
    /// A frame of so many bytes, with its regions as a prefix.
    Frame(u64),
    /// The same, but kept aside: later pieces copy out of it what they need.
    Aside(u64),
    /// A frame of corrections: what all others make is the text of a gzip file.
    Corrections(u64),
}

/// One piece of what is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// How it is made.
    pub kind: PieceKind,
    /// Bytes that it makes.
    pub size: u64,
    /// What it refers to, or copies.
    pub regions: Vec<Region>,
}

impl Piece {
    /// Bytes of its frame.
    pub(super) fn frame(&self) -> u64 {
        match self.kind {
            PieceKind::Copy => 0,
            PieceKind::Frame(bytes) | PieceKind::Aside(bytes) | PieceKind::Corrections(bytes) => {
                bytes
            }
        }
    }
}

/// Reads a head: the sources, and the bytes of the pieces.
pub(super) fn head(bytes: &[u8]) -> Result<(Vec<Source>, &[u8]), PatchError> {
    let mut rest = bytes;
    let count = number(&mut rest)?;
    if count > MAX_SOURCES as u64 {
        return Err(PatchError::malformed("it builds on too many blobs"));
    }
    let mut sources = Vec::new();
    for _ in 0..count {
        let Some((source, after)) = rest.split_first_chunk::<33>() else {
            return Err(cut());
        };
        rest = after;
        let view = match source[0] {
            0 => View::Contents,
            1 => View::Inflated(number(&mut rest)?),
            2 => View::Unpacked(number(&mut rest)?),
            _ => return Err(PatchError::malformed("a source is of an unknown kind")),
        };
        let mut digest = [0; 32];
        digest.copy_from_slice(&source[1..]);
        let source = Source {
            blob: Digest::from_bytes(digest),
            view,
        };
        if sources.last().is_some_and(|last| *last >= source) {
            return Err(PatchError::malformed("its sources are not in order"));
        }
        sources.push(source);
    }
    Ok((sources, rest))
}

/// Reads what the text of a layer is, which comes before the head of a twin's patch.
pub(super) fn text<'a>(bytes: &mut &'a [u8]) -> Result<Content, PatchError> {
    let (digest, rest): (&[u8; 32], &'a [u8]) = bytes.split_first_chunk().ok_or_else(cut)?;
    *bytes = rest;
    Ok(Content {
        digest: Digest::from_bytes(*digest),
        size: number(bytes)?,
    })
}

/// Writes it.
pub(super) fn write_text(text: &Content, out: &mut Vec<u8>) {
    out.extend_from_slice(text.digest.as_bytes());
    put(text.size, out);
}

/// The pieces, one after the other.
pub(super) struct Pieces<'a> {
    rest: &'a [u8],
    sources: usize,
}

impl<'a> Pieces<'a> {
    pub(super) fn of(bytes: &'a [u8], sources: usize) -> Self {
        Self {
            rest: bytes,
            sources,
        }
    }

    fn piece(&mut self) -> Result<Piece, PatchError> {
        let kind = number(&mut self.rest)?;
        let size = number(&mut self.rest)?;
        let kind = match kind {
            0 => PieceKind::Copy,
            1 => PieceKind::Frame(number(&mut self.rest)?),
            2 => PieceKind::Aside(number(&mut self.rest)?),
            3 => PieceKind::Corrections(number(&mut self.rest)?),
            _ => return Err(PatchError::malformed("a piece is of an unknown kind")),
        };
        let count = number(&mut self.rest)?;
        if size == 0 || count > MAX_REGIONS {
            return Err(beyond());
        }
        let mut regions = Vec::new();
        let mut length = 0u64;
        for _ in 0..count {
            let source = usize::try_from(number(&mut self.rest)?).unwrap_or(usize::MAX);
            let region = Region {
                source,
                offset: number(&mut self.rest)?,
                length: number(&mut self.rest)?,
            };
            // A frame does not refer to what was kept aside.
            let last = self.sources + usize::from(kind == PieceKind::Copy);
            if source >= last || region.length == 0 {
                return Err(PatchError::malformed("a piece refers to nothing"));
            }
            length = length.saturating_add(region.length);
            regions.push(region);
        }
        let within = match kind {
            PieceKind::Copy => length == size,
            PieceKind::Corrections(_) if count > 0 => false,
            // What does not compress grows by less.
            PieceKind::Frame(frame) | PieceKind::Aside(frame) | PieceKind::Corrections(frame) => {
                size <= MAX_PIECE_BYTES
                    && length <= MAX_PREFIX_BYTES
                    && (1..=size + size / 64 + 1024).contains(&frame)
            }
        };
        let piece = Piece {
            kind,
            size,
            regions,
        };
        within.then_some(piece).ok_or_else(beyond)
    }
}

fn beyond() -> PatchError {
    PatchError::malformed("a piece is not within the limits")
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece, PatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let piece = self.piece();
        if piece.is_err() {
            self.rest = &[];
        }
        Some(piece)
    }
}

/// Writes a head without its pieces.
pub(super) fn write_head(sources: &[Source], out: &mut Vec<u8>) {
    put(sources.len() as u64, out);
    for source in sources {
        out.push(source.view.byte());
        out.extend_from_slice(source.blob.as_bytes());
        if source.view != View::Contents {
            put(source.view.inflated(), out);
        }
    }
}

/// Writes a piece.
pub(super) fn write_piece(piece: &Piece, out: &mut Vec<u8>) {
    let kind = match piece.kind {
        PieceKind::Copy => 0,
        PieceKind::Frame(_) => 1,
        PieceKind::Aside(_) => 2,
        PieceKind::Corrections(_) => 3,
    };
    put(kind, out);
    put(piece.size, out);
    if piece.kind != PieceKind::Copy {
        put(piece.frame(), out);
    }
    put(piece.regions.len() as u64, out);
    for region in &piece.regions {
        put(region.source as u64, out);
        put(region.offset, out);
        put(region.length, out);
    }
}

fn put(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

fn number(rest: &mut &[u8]) -> Result<u64, PatchError> {
    let mut number = 0u64;
    for at in 0..9 {
        let Some((byte, after)) = rest.split_first() else {
            return Err(cut());
        };
        *rest = after;
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return match *byte == 0 && at > 0 {
                false => Ok(number),
                true => Err(PatchError::malformed("a number is written the long way")),
            };
        }
    }
    Err(PatchError::malformed("a number is too large"))
}

fn cut() -> PatchError {
    PatchError::malformed("its head ends too early")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for wanted in [0, 1, 127, 128, 300, u64::MAX >> 1] {
            let mut bytes = Vec::new();
            put(wanted, &mut bytes);
            let mut rest = bytes.as_slice();
            assert_eq!(number(&mut rest).unwrap(), wanted);
            assert!(rest.is_empty());
        }
        for bad in [&[0x80, 0x00][..], &[0x80], &[], &[0xff; 10]] {
            assert!(number(&mut { bad }).is_err(), "{bad:?}");
        }
    }
}
