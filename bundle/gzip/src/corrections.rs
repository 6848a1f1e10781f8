//! Corrections: what of a gzip file is neither its text nor what a known writer would have done.
//!
//! What comes in: headers, blocks, and steps that differ from the prediction, or bytes. What goes out: the other one. Bytes are
//! foreign: each number is bounded where it is read. It knows no bits of a block.
//!
//! The bytes: the style's number; the size of the frame, and the frame; the rest are exceptions. The frame has each member: 1, the
//! size of its header and the header, the size of its text, its blocks; then 0 and what follows the last member. A block: 1
//! when it is the last of its member, plus 2 for fixed and 4 for dynamic codes; how many bytes (stored) or tokens it has; and
//! the header of dynamic codes, a value a byte. An exception: how many steps before it are as predicted, then 0 for a
//! literal, or a length and a distance. Numbers have seven bits a byte.

use crate::error::JoinError;
use crate::inflate::{Block, BlockKind, MAX_HEADER_BYTES, MAX_TAIL_BYTES, repeated, split_lengths};
use crate::token::{
    MAX_DISTANCE, MAX_DISTANCES, MAX_LENGTH, MAX_LITERALS, MIN_LENGTH, Token, fixed,
};

/// Most bytes of corrections that are made or read.
pub const MAX_CORRECTION_BYTES: u64 = 32 << 20;

const MEMBER: u8 = 1;
const FIXED: u8 = 2;
const DYNAMIC: u8 = 4;

/// Writes corrections.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    style: u8,
    frame: Vec<u8>,
    /// The blocks of the present member, of which the text is not counted yet.
    blocks: Vec<u8>,
    exceptions: Vec<u8>,
    as_predicted: u64,
}

impl Writer {
    pub(crate) fn new(style: u8) -> Self {
        Self {
            style,
            ..Self::default()
        }
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        (self.frame.len() + self.blocks.len() + self.exceptions.len()) as u64
    }

    pub(crate) fn member(&mut self, header: &[u8]) {
        self.frame.push(MEMBER);
        put(header.len() as u64, &mut self.frame);
        self.frame.extend_from_slice(header);
    }

    pub(crate) fn block(&mut self, block: Block<'_>) {
        let (kind, count, header) = match block.kind {
            BlockKind::Stored(bytes) => (0, u64::from(bytes), &[][..]),
            BlockKind::Fixed(tokens) => (FIXED, tokens, &[][..]),
            BlockKind::Dynamic(tokens, header) => (DYNAMIC, tokens, header),
        };
        self.blocks.push(u8::from(block.is_final) | kind);
        put(count, &mut self.blocks);
        self.blocks.extend_from_slice(header);
    }

    pub(crate) fn ended(&mut self, text_bytes: u64) {
        put(text_bytes, &mut self.frame);
        self.frame.append(&mut self.blocks);
    }

    /// What was done, and what was predicted.
    pub(crate) fn step(&mut self, done: Token, predicted: Token) {
        if done == predicted {
            self.as_predicted += 1;
            return;
        }
        put(self.as_predicted, &mut self.exceptions);
        self.as_predicted = 0;
        match done {
            Token::Literal => put(0, &mut self.exceptions),
            Token::Match { length, distance } => {
                put(length.into(), &mut self.exceptions);
                put(distance.into(), &mut self.exceptions);
            }
        }
    }

    /// All of them; `tail` follows the last member.
    pub(crate) fn finish(mut self, tail: &[u8]) -> Vec<u8> {
        self.frame.push(0);
        put(tail.len() as u64, &mut self.frame);
        self.frame.extend_from_slice(tail);
        let mut bytes = vec![self.style];
        put(self.frame.len() as u64, &mut bytes);
        bytes.append(&mut self.frame);
        bytes.append(&mut self.exceptions);
        bytes
    }
}

/// Reads corrections.
#[derive(Debug)]
pub(crate) struct Reader {
    bytes: Vec<u8>,
    style: u8,
    frame: std::ops::Range<usize>,
    exceptions: std::ops::Range<usize>,
    /// Steps as predicted before the next exception; `None` behind the last.
    until_next: Option<u64>,
}

/// What comes next in the frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A member with this header and so many bytes of text.
    Member(Vec<u8>, u64),
    /// The end, and what follows the last member.
    End(Vec<u8>),
}

/// A block that is to be written.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) is_final: bool,
    /// Bytes of a stored block, or tokens.
    pub(crate) count: u64,
    /// The codes of tokens; none: it is stored.
    pub(crate) codes: Option<Codes>,
}

/// Codes, and how they are announced.
#[derive(Debug)]
pub(crate) struct Codes {
    pub(crate) literals: Vec<u8>,
    pub(crate) distances: Vec<u8>,
    /// Values and their bits; empty: the codes are the fixed ones.
    pub(crate) header: Vec<(u8, u8)>,
}

impl Reader {
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, JoinError> {
        let whole = 0..bytes.len();
        let mut reader = Self {
            bytes,
            style: 0,
            frame: whole,
            exceptions: 0..0,
            until_next: None,
        };
        reader.style = reader.byte()?;
        let size = reader.number()?;
        let middle = usize::try_from(size).ok();
        let middle = middle.and_then(|size| reader.frame.start.checked_add(size));
        let middle = middle.filter(|middle| *middle <= reader.bytes.len());
        let middle = middle.ok_or(JoinError("corrections end too early"))?;
        reader.exceptions = middle..reader.bytes.len();
        reader.frame.end = middle;
        reader.count_on()?;
        Ok(reader)
    }

    /// The number of the style.
    pub(crate) fn style(&self) -> u8 {
        self.style
    }

    fn byte(&mut self) -> Result<u8, JoinError> {
        byte(&self.bytes, &mut self.frame)
    }

    fn number(&mut self) -> Result<u64, JoinError> {
        number(&self.bytes, &mut self.frame)
    }

    fn count_on(&mut self) -> Result<(), JoinError> {
        self.until_next = match self.exceptions.is_empty() {
            true => None,
            false => Some(number(&self.bytes, &mut self.exceptions)?),
        };
        Ok(())
    }

    /// The next step is an exception: which; `None`: it is as predicted.
    pub(crate) fn exception(&mut self) -> Result<Option<Token>, JoinError> {
        match &mut self.until_next {
            None => return Ok(None),
            Some(0) => {}
            Some(count) => {
                *count -= 1;
                return Ok(None);
            }
        }
        let mut next = || {
            let number = number(&self.bytes, &mut self.exceptions)?;
            u32::try_from(number).map_err(|_| BEYOND)
        };
        let token = match next()? {
            0 => Token::Literal,
            length => Token::Match {
                length,
                distance: next()?,
            },
        };
        if let Token::Match { length, distance } = token {
            let fits = (MIN_LENGTH..=MAX_LENGTH).contains(&length)
                && (1..=MAX_DISTANCE).contains(&distance);
            if !fits {
                return Err(BEYOND);
            }
        }
        self.count_on()?;
        Ok(Some(token))
    }

    pub(crate) fn next(&mut self) -> Result<Next, JoinError> {
        match self.byte()? {
            0 => {
                let tail = self.take(MAX_TAIL_BYTES)?;
                match self.frame.is_empty() && self.until_next.is_none() {
                    true => Ok(Next::End(tail)),
                    false => Err(JoinError("corrections go on behind their end")),
                }
            }
            MEMBER => {
                let header = self.take(MAX_HEADER_BYTES)?;
                Ok(Next::Member(header, self.number()?))
            }
            _ => Err(JoinError("corrections have a part of no known kind")),
        }
    }

    fn take(&mut self, most: usize) -> Result<Vec<u8>, JoinError> {
        let size = self.number()?;
        let size = usize::try_from(size).ok().filter(|size| *size <= most);
        let size = size.ok_or(BEYOND)?;
        let part = self.frame.start..self.frame.start.saturating_add(size);
        if part.end > self.frame.end {
            return Err(JoinError("corrections end too early"));
        }
        self.frame.start = part.end;
        Ok(self.bytes.get(part).unwrap_or_default().to_vec())
    }

    pub(crate) fn block(&mut self) -> Result<Planned, JoinError> {
        let kind = self.byte()?;
        let count = self.number()?;
        let is_final = kind & 1 == 1;
        let codes = match kind & !1 {
            0 if u16::try_from(count).is_ok() => None,
            FIXED => {
                let (literals, distances) = fixed();
                let header = Vec::new();
                Some(Codes {
                    literals,
                    distances,
                    header,
                })
            }
            DYNAMIC => Some(self.dynamic()?),
            _ => return Err(JoinError("a block is of no known kind")),
        };
        Ok(Planned {
            is_final,
            count,
            codes,
        })
    }

    fn dynamic(&mut self) -> Result<Codes, JoinError> {
        let mut header: Vec<(u8, u8)> = Vec::new();
        let mut value = |reader: &mut Self, bits: u8| -> Result<usize, JoinError> {
            let value = reader.byte()?;
            header.push((value, bits));
            match u32::from(value) < 1 << bits {
                true => Ok(value.into()),
                false => Err(BEYOND),
            }
        };
        let literals = value(self, 5)? + 257;
        let distances = value(self, 5)? + 1;
        let given = value(self, 4)? + 4;
        if literals > MAX_LITERALS || distances > MAX_DISTANCES {
            return Err(BEYOND);
        }
        let mut of_lengths = [0; 19];
        for place in crate::inflate::ORDER.iter().take(given) {
            let length = value(self, 3)?;
            if let Some(slot) = of_lengths.get_mut(*place) {
                *slot = u8::try_from(length).unwrap_or_default();
            }
        }
        let codes = crate::bits::codes(&of_lengths).ok_or(UNFIT)?;
        let mut lengths = Vec::new();
        while lengths.len() < literals + distances {
            let symbol = usize::from(self.byte()?);
            let extra = match symbol {
                0..=15 => 0,
                16 => 2,
                17 => 3,
                18 => 7,
                _ => return Err(BEYOND),
            };
            let (code, bits) = (codes.get(symbol), of_lengths.get(symbol));
            let (Some(code), Some(bits)) = (code, bits) else {
                return Err(UNFIT);
            };
            let code = u8::try_from(*code).ok().filter(|_| *bits > 0);
            header.push((code.ok_or(UNFIT)?, *bits));
            let mut repeat = 0;
            if extra > 0 {
                repeat = self.byte()?;
                header.push((repeat, extra));
                if u32::from(repeat) >= 1 << extra {
                    return Err(BEYOND);
                }
            }
            repeated(&mut lengths, symbol, repeat.into()).ok_or(UNFIT)?;
        }
        let (literals, distances) = split_lengths(lengths, literals, distances).ok_or(UNFIT)?;
        Ok(Codes {
            literals,
            distances,
            header,
        })
    }
}

const BEYOND: JoinError = JoinError("a number of the corrections is beyond its limits");
const UNFIT: JoinError = JoinError("a block's codes do not fit together");

fn byte(bytes: &[u8], within: &mut std::ops::Range<usize>) -> Result<u8, JoinError> {
    let at = within.next();
    let byte = at.and_then(|at| bytes.get(at).copied());
    byte.ok_or(JoinError("corrections end too early"))
}

fn number(bytes: &[u8], within: &mut std::ops::Range<usize>) -> Result<u64, JoinError> {
    let mut number = 0;
    for at in 0..9 {
        let byte = byte(bytes, within)?;
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(BEYOND)
}

fn put(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}
