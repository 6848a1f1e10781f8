//! Makes a gzip file of its text and corrections.
//!
//! What comes in: corrections, then the text, part by part. What goes out: the file, part by part. Corrections are foreign
//! bytes: those that make no file are refused, and those that make another one are found by whoever compares its digest. Work
//! and memory are bounded by the text, as they are of the writers that are followed.

use std::io::{self, Write};

use flate2::Crc;

use crate::bits::{Packer, codes};
use crate::corrections::{Codes, MAX_CORRECTION_BYTES, Next, Planned, Reader};
use crate::error::JoinError;
use crate::predict::Predictor;
use crate::token::{END_OF_BLOCK, Token, distance_symbol, length_symbol};

/// Text that is looked at between two writes, in bytes.
const PART_BYTES: usize = 64 * 1024;

/// A gzip file that is being made.
#[derive(Debug)]
pub struct Joiner {
    corrections: Reader,
    predictor: Predictor,
    packer: Packer,
    crc: Crc,
    /// Bytes of the member's text that are still to come.
    missing: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Before a member, or the end.
    Between,
    /// Before a block.
    Block,
    /// Within one: bytes that are left.
    Stored { left: usize, is_final: bool },
    /// Within one: tokens that are left.
    Tokens {
        left: u64,
        is_final: bool,
        codes: Packed,
    },
    /// Behind the last block of a member.
    Trailer,
    /// Behind the last member.
    End,
}

/// Codes with their bits.
#[derive(Debug, Default)]
struct Packed {
    literals: Vec<(u16, u8)>,
    distances: Vec<(u16, u8)>,
}

impl Packed {
    fn of(of: &Codes) -> Result<Self, JoinError> {
        let packed = |lengths: &[u8]| {
            let codes = codes(lengths).ok_or(JoinError("a block's codes do not fit together"))?;
            Ok(codes.into_iter().zip(lengths.iter().copied()).collect())
        };
        Ok(Self {
            literals: packed(&of.literals)?,
            distances: packed(&of.distances)?,
        })
    }
}

impl Joiner {
    /// A file of these corrections.
    ///
    /// # Errors
    /// [`JoinError`] when they are none.
    pub fn new(corrections: Vec<u8>) -> Result<Self, JoinError> {
        if corrections.len() as u64 > MAX_CORRECTION_BYTES {
            return Err(JoinError("corrections are too large"));
        }
        let corrections = Reader::new(corrections)?;
        let predictor = Predictor::new(corrections.style());
        Ok(Self {
            predictor: predictor.ok_or(JoinError("corrections are of an unknown writer"))?,
            corrections,
            packer: Packer::default(),
            crc: Crc::new(),
            missing: 0,
            state: State::Between,
        })
    }

    /// The text goes on with `bytes`; of the file, what they complete goes to `out`.
    ///
    /// # Errors
    /// [`JoinError`] within the outer result, and of `out`.
    pub fn write(
        &mut self,
        mut bytes: &[u8],
        out: &mut dyn Write,
    ) -> io::Result<Result<(), JoinError>> {
        loop {
            // Members without text end before the next byte is looked at.
            if let Err(error) = self.go_on() {
                return Ok(Err(error));
            }
            out.write_all(&self.packer.bytes)?;
            self.packer.bytes.clear();
            if bytes.is_empty() {
                return Ok(Ok(()));
            }
            let count = usize::try_from(self.missing).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(count.min(bytes.len()).min(PART_BYTES));
            if now.is_empty() {
                return Ok(Err(JoinError(
                    "there is more text than the corrections are for",
                )));
            }
            self.crc.update(now);
            self.predictor.extend(now);
            self.missing -= now.len() as u64;
            if self.missing == 0 {
                self.predictor.end();
            }
            bytes = later;
        }
    }

    /// The text ends here; the rest of the file goes to `out`.
    ///
    /// # Errors
    /// As above.
    pub fn finish(&mut self, out: &mut dyn Write) -> io::Result<Result<(), JoinError>> {
        let done = self.write(&[], out)?;
        Ok(done.and(match self.state {
            State::End => Ok(()),
            _ => Err(JoinError("the text ends before the corrections do")),
        }))
    }

    /// Goes as far as the text is known.
    fn go_on(&mut self) -> Result<(), JoinError> {
        while self.step()? {}
        Ok(())
    }

    /// One step; `false` when the text is to come first.
    fn step(&mut self) -> Result<bool, JoinError> {
        match &mut self.state {
            State::End => return Ok(false),
            State::Between => match self.corrections.next()? {
                Next::Member(header, text) => {
                    self.packer.bytes.extend_from_slice(&header);
                    self.predictor.restart();
                    self.crc.reset();
                    self.missing = text;
                    if text == 0 {
                        self.predictor.end();
                    }
                    self.state = State::Block;
                }
                Next::End(tail) => {
                    self.packer.bytes.extend_from_slice(&tail);
                    self.state = State::End;
                }
            },
            State::Block => {
                let planned = self.corrections.block()?;
                self.begin(planned)?;
            }
            State::Stored { left, is_final } => {
                let is_final = *is_final;
                let rest = self.predictor.rest();
                let part = rest.get(..rest.len().min(*left)).unwrap_or_default();
                let count = part.len();
                self.packer.bytes.extend_from_slice(part);
                self.predictor.advance(count);
                *left -= count;
                if *left > 0 {
                    return self.waits(count > 0);
                }
                self.state = after(is_final);
            }
            State::Tokens {
                left: 0,
                is_final,
                codes,
            } => {
                let end = codes.literals.get(END_OF_BLOCK);
                let next = after(*is_final);
                pack(&mut self.packer, end.copied())?;
                self.state = next;
            }
            State::Tokens { left, codes, .. } => {
                if !self.predictor.is_ready() {
                    return self.waits(false);
                }
                let predicted = self.predictor.next();
                let token = self.corrections.exception()?.unwrap_or(predicted);
                let rest = self.predictor.rest();
                let literal = rest.first().copied().unwrap_or_default();
                let covers = token.covers() as usize;
                if covers > rest.len() {
                    return Err(JoinError("a match is longer than the text"));
                }
                match token {
                    Token::Literal => {
                        let code = codes.literals.get(usize::from(literal));
                        pack(&mut self.packer, code.copied())?;
                    }
                    Token::Match { length, distance } => {
                        let (symbol, extra, bits) = length_symbol(length);
                        pack(&mut self.packer, codes.literals.get(symbol).copied())?;
                        self.packer.put(extra, bits);
                        let (symbol, extra, bits) = distance_symbol(distance);
                        pack(&mut self.packer, codes.distances.get(symbol).copied())?;
                        self.packer.put(extra, bits);
                    }
                }
                self.predictor.advance(covers);
                *left -= 1;
            }
            State::Trailer => {
                if self.missing > 0 || !self.predictor.rest().is_empty() {
                    return Err(JoinError("a member's blocks end before its text"));
                }
                self.packer.align();
                for number in [self.crc.sum(), self.crc.amount()] {
                    self.packer.bytes.extend_from_slice(&number.to_le_bytes());
                }
                self.state = State::Between;
            }
        }
        Ok(true)
    }

    /// Waits for text, unless there is none.
    fn waits(&self, has_moved: bool) -> Result<bool, JoinError> {
        match has_moved || self.missing > 0 {
            true => Ok(has_moved),
            false => Err(JoinError("a block is longer than the text")),
        }
    }

    fn begin(&mut self, planned: Planned) -> Result<(), JoinError> {
        self.packer.put(planned.is_final.into(), 1);
        let Some(codes) = planned.codes else {
            self.packer.put(0, 2);
            self.packer.align();
            let size = u16::try_from(planned.count);
            let size = size.map_err(|_| JoinError("a stored block is too large"))?;
            self.packer.put(size.into(), 16);
            self.packer.put((!size).into(), 16);
            self.state = State::Stored {
                left: size.into(),
                is_final: planned.is_final,
            };
            return Ok(());
        };
        let kind = match codes.header.is_empty() {
            true => 1,
            false => 2,
        };
        self.packer.put(kind, 2);
        for (value, bits) in &codes.header {
            self.packer.put((*value).into(), *bits);
        }
        self.state = State::Tokens {
            left: planned.count,
            is_final: planned.is_final,
            codes: Packed::of(&codes)?,
        };
        Ok(())
    }
}

fn after(is_final: bool) -> State {
    match is_final {
        true => State::Trailer,
        false => State::Block,
    }
}

fn pack(packer: &mut Packer, code: Option<(u16, u8)>) -> Result<(), JoinError> {
    match code {
        Some((code, bits)) if bits > 0 => {
            packer.put(code.into(), bits);
            Ok(())
        }
        _ => Err(JoinError("a block has no code for a step")),
    }
}
