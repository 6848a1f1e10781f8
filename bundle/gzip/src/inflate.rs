//! A gzip file, read step by step.
//!
//! What comes in: its bytes. What goes out: headers, blocks, and each literal and match as it was written, into whoever
//! takes them. It keeps no text and expands no match.

use std::io::{self, Read};

use crate::bits::Decoder;
use crate::error::SplitError;
use crate::token::{DISTANCES, END_OF_BLOCK, LENGTHS, MAX_DISTANCES, MAX_LITERALS, fixed};

/// Largest header of a member, in bytes.
pub(crate) const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Most bytes after the last member.
pub(crate) const MAX_TAIL_BYTES: usize = 64 * 1024;
/// The order in which lengths of the codes of lengths are written (RFC 1951, 3.2.7).
pub(crate) const ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// Takes what is read.
pub(crate) trait Reads {
    /// A member begins, with these bytes.
    fn member(&mut self, header: &[u8]) -> Result<(), SplitError>;
    /// So many bytes of the text follow as they are.
    fn stored(&mut self, bytes: &[u8]) -> Result<(), SplitError>;
    /// A literal, which is this byte.
    fn literal(&mut self, byte: u8) -> Result<(), SplitError>;
    /// A match.
    fn matched(&mut self, length: u32, distance: u32) -> Result<(), SplitError>;
    /// A block ended.
    fn block(&mut self, block: Block<'_>) -> Result<(), SplitError>;
    /// The member ended: what it states of its text.
    fn ended(&mut self, crc: u32, size: u32) -> Result<(), SplitError>;
    /// These bytes follow the last member.
    fn tail(&mut self, bytes: &[u8]) -> Result<(), SplitError>;
}

/// A block, without its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) is_final: bool,
    pub(crate) kind: BlockKind<'a>,
}

/// Its kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BlockKind<'a> {
    /// So many bytes, as they are.
    Stored(u32),
    /// Tokens in fixed codes.
    Fixed(u64),
    /// Tokens in codes that this header defines.
    Dynamic(u64, &'a [u8]),
}

/// Reads bits.
#[derive(Debug)]
struct Bits<R> {
    input: R,
    buffer: Vec<u8>,
    at: usize,
    pending: u64,
    count: u8,
}

impl<R: Read> Bits<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            at: 0,
            pending: 0,
            count: 0,
        }
    }

    /// The next byte beyond the pending bits; `None` at the end.
    fn byte(&mut self) -> io::Result<Option<u8>> {
        if self.at == self.buffer.len() {
            self.buffer.resize(64 * 1024, 0);
            let count = loop {
                match self.input.read(&mut self.buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            self.buffer.truncate(count);
            self.at = 0;
        }
        let byte = self.buffer.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        Ok(byte)
    }

    /// Bits to look at: as many as there are, 48 at least where the file goes on.
    fn peek(&mut self) -> io::Result<u64> {
        while self.count <= 48 {
            let Some(byte) = self.byte()? else { break };
            self.pending |= u64::from(byte) << self.count;
            self.count += 8;
        }
        Ok(self.pending)
    }

    /// Those were `count` bits.
    fn consume(&mut self, count: u8) -> Result<(), SplitError> {
        let left = self.count.checked_sub(count);
        self.count = left.ok_or(SplitError::Unusual("it ends within a block"))?;
        self.pending >>= count;
        Ok(())
    }

    fn take(&mut self, count: u8) -> Result<u32, SplitError> {
        let bits = self.peek()?;
        self.consume(count)?;
        #[expect(clippy::cast_possible_truncation, reason = "of 32 bits at most")]
        let value = (bits & ((1 << count) - 1)) as u32;
        Ok(value)
    }

    fn symbol(&mut self, decoder: &Decoder) -> Result<usize, SplitError> {
        let found = decoder.find(self.peek()?);
        let (symbol, bits) = found.ok_or(SplitError::Unusual("a code has no symbol"))?;
        self.consume(bits)?;
        Ok(symbol.into())
    }

    /// Up to the end of a byte; those bits are zeros.
    fn align(&mut self) -> Result<(), SplitError> {
        match self.take(self.count % 8)? {
            0 => Ok(()),
            _ => Err(SplitError::Unusual(
                "bits before a byte's end are not zeros",
            )),
        }
    }

    /// A whole byte, at the end of one; `None` at the file's end.
    fn whole(&mut self) -> Result<Option<u8>, SplitError> {
        if self.count == 0 {
            return Ok(self.byte()?);
        }
        let byte = self.take(8)?;
        Ok(u8::try_from(byte).ok())
    }
}

/// Reads a whole file.
pub(crate) fn read(input: impl Read, to: &mut impl Reads) -> Result<(), SplitError> {
    let mut bits = Bits::new(input);
    let mut is_first = true;
    loop {
        let mut header = Vec::new();
        if !header_of(&mut bits, &mut header)? {
            if is_first {
                return Err(SplitError::Unusual("it does not begin as gzip does"));
            }
            return tail(&mut bits, header, to);
        }
        is_first = false;
        to.member(&header)?;
        while !block(&mut bits, to)? {}
        bits.align()?;
        let crc = number(&mut bits)?;
        to.ended(crc, number(&mut bits)?)?;
    }
}

/// A number of four whole bytes.
fn number<R: Read>(bits: &mut Bits<R>) -> Result<u32, SplitError> {
    let mut bytes = [0; 4];
    for slot in &mut bytes {
        let byte = bits.whole()?;
        *slot = byte.ok_or(SplitError::Unusual("it ends before its checksum"))?;
    }
    Ok(u32::from_le_bytes(bytes))
}

/// The header of a member; `false` where there is none: what was read is in `header`.
fn header_of<R: Read>(bits: &mut Bits<R>, header: &mut Vec<u8>) -> Result<bool, SplitError> {
    let cut = SplitError::Unusual("it ends within a header");
    for expected in [
        Some(0x1f),
        Some(0x8b),
        Some(8),
        None,
        None,
        None,
        None,
        None,
        None,
        None,
    ] {
        let Some(byte) = bits.whole()? else {
            return match header.len() {
                0..3 => Ok(false),
                _ => Err(cut),
            };
        };
        header.push(byte);
        if expected.is_some_and(|expected| expected != byte) {
            return Ok(false);
        }
    }
    let flags = header.get(3).copied().unwrap_or_default();
    let mut next = |header: &mut Vec<u8>| -> Result<u8, SplitError> {
        let byte = bits.whole()?;
        let byte = byte.ok_or(SplitError::Unusual("it ends within a header"))?;
        header.push(byte);
        match header.len() > MAX_HEADER_BYTES {
            true => Err(SplitError::Unusual("a header is too large")),
            false => Ok(byte),
        }
    };
    if flags & 4 != 0 {
        let (low, high) = (next(header)?, next(header)?);
        for _ in 0..u16::from_le_bytes([low, high]) {
            next(header)?;
        }
    }
    for text in [8, 16] {
        if flags & text != 0 {
            while next(header)? != 0 {}
        }
    }
    if flags & 2 != 0 {
        next(header)?;
        next(header)?;
    }
    Ok(true)
}

fn tail<R: Read>(
    bits: &mut Bits<R>,
    mut found: Vec<u8>,
    to: &mut impl Reads,
) -> Result<(), SplitError> {
    while let Some(byte) = bits.whole()? {
        if found.len() == MAX_TAIL_BYTES {
            return Err(SplitError::Unusual("much follows that is not gzip"));
        }
        found.push(byte);
    }
    to.tail(&found)
}

/// One block; whether it is the last of its member.
fn block<R: Read>(bits: &mut Bits<R>, to: &mut impl Reads) -> Result<bool, SplitError> {
    let is_final = bits.take(1)? == 1;
    let mut header = Vec::new();
    let kind = match bits.take(2)? {
        0 => BlockKind::Stored(stored(bits, to)?),
        1 => {
            let (literals, distances) = fixed();
            BlockKind::Fixed(tokens(bits, (&literals, &distances), to)?)
        }
        2 => {
            let (literals, distances) = lengths_of(bits, &mut header)?;
            BlockKind::Dynamic(tokens(bits, (&literals, &distances), to)?, &header)
        }
        _ => return Err(SplitError::Unusual("a block is of no kind that there is")),
    };
    to.block(Block { is_final, kind })?;
    Ok(is_final)
}

fn stored<R: Read>(bits: &mut Bits<R>, to: &mut impl Reads) -> Result<u32, SplitError> {
    bits.align()?;
    let (size, inverted) = (bits.take(16)?, bits.take(16)?);
    if size ^ 0xffff != inverted {
        return Err(SplitError::Unusual("a stored block contradicts itself"));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    for _ in 0..size {
        let byte = bits.whole()?;
        bytes.push(byte.ok_or(SplitError::Unusual("it ends within a block"))?);
    }
    to.stored(&bytes)?;
    Ok(size)
}

/// The lengths of a dynamic block's codes; `header` gets what was written, a value a byte.
fn lengths_of<R: Read>(
    bits: &mut Bits<R>,
    header: &mut Vec<u8>,
) -> Result<(Vec<u8>, Vec<u8>), SplitError> {
    let mut value = |bits: &mut Bits<R>, count: u8| -> Result<usize, SplitError> {
        let value = bits.take(count)?;
        header.push(u8::try_from(value).unwrap_or_default());
        Ok(value as usize)
    };
    let literals = value(bits, 5)? + 257;
    let distances = value(bits, 5)? + 1;
    let given = value(bits, 4)? + 4;
    if literals > MAX_LITERALS || distances > MAX_DISTANCES {
        return Err(SplitError::Unusual("a block has too many codes"));
    }
    let mut of_lengths = [0; 19];
    for place in ORDER.iter().take(given) {
        let length = value(bits, 3)?;
        if let Some(slot) = of_lengths.get_mut(*place) {
            *slot = u8::try_from(length).unwrap_or_default();
        }
    }
    let decoder = Decoder::new(&of_lengths).ok_or_else(unfit)?;
    let mut lengths: Vec<u8> = Vec::new();
    while lengths.len() < literals + distances {
        let symbol = bits.symbol(&decoder)?;
        header.push(u8::try_from(symbol).unwrap_or_default());
        let extra = match symbol {
            16 => 2,
            17 => 3,
            18 => 7,
            _ => 0,
        };
        let repeat = bits.take(extra)?;
        if extra > 0 {
            header.push(u8::try_from(repeat).unwrap_or_default());
        }
        repeated(&mut lengths, symbol, repeat as usize).ok_or_else(unfit)?;
    }
    split_lengths(lengths, literals, distances).ok_or_else(unfit)
}

/// Adds what a symbol of lengths stands for.
pub(crate) fn repeated(lengths: &mut Vec<u8>, symbol: usize, repeat: usize) -> Option<()> {
    let (length, count) = match symbol {
        0..=15 => (u8::try_from(symbol).ok()?, 1),
        16 => (*lengths.last()?, 3 + repeat),
        17 => (0, 3 + repeat),
        _ => (0, 11 + repeat),
    };
    lengths.resize(lengths.len() + count, length);
    Some(())
}

/// The lengths of literals and of distances, out of one list of exactly so many.
pub(crate) fn split_lengths(
    mut lengths: Vec<u8>,
    literals: usize,
    distances: usize,
) -> Option<(Vec<u8>, Vec<u8>)> {
    if lengths.len() != literals + distances {
        return None;
    }
    let of_distances = lengths.split_off(literals);
    Some((lengths, of_distances))
}

/// The tokens of a block; how many they are.
fn tokens<R: Read>(
    bits: &mut Bits<R>,
    (literals, distances): (&[u8], &[u8]),
    to: &mut impl Reads,
) -> Result<u64, SplitError> {
    let literals = Decoder::new(literals).ok_or_else(unfit)?;
    let distances = Decoder::new(distances).ok_or_else(unfit)?;
    let mut count = 0;
    loop {
        let symbol = bits.symbol(&literals)?;
        if symbol == END_OF_BLOCK {
            return Ok(count);
        }
        count += 1;
        if let Ok(byte) = u8::try_from(symbol) {
            to.literal(byte)?;
            continue;
        }
        let found = LENGTHS.get(symbol - END_OF_BLOCK - 1);
        let (first, extra) = found.copied().ok_or_else(unfit)?;
        let length = u32::from(first) + bits.take(extra)?;
        // Length 258 has a symbol of its own, and one more by extra bits that no writer uses.
        if length == 258 && extra > 0 {
            return Err(SplitError::Unusual("a length is written the long way"));
        }
        let symbol = bits.symbol(&distances)?;
        let (first, extra) = DISTANCES.get(symbol).copied().ok_or_else(unfit)?;
        let distance = u32::from(first) + bits.take(extra)?;
        to.matched(length, distance)?;
    }
}

fn unfit() -> SplitError {
    SplitError::Unusual("a block's codes do not fit together")
}
