//! Takes a gzip file apart.
//!
//! What comes in: the file, which can be read more than once: its first part shows which writer's choices are predicted.
//! What goes out: its text, and corrections. It writes no file and compares no digest; the checksum that the file states
//! of its text must hold.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use flate2::Crc;

use crate::corrections::{MAX_CORRECTION_BYTES, Writer};
use crate::error::SplitError;
use crate::inflate::{Block, Reads, read};
use crate::predict::Predictor;
use crate::style::STYLES;
use crate::token::Token;

/// Text by which a style is chosen, in bytes.
const SAMPLE_BYTES: u64 = 1 << 20;
/// Text is handed on in parts of this size, in bytes.
const PART_BYTES: usize = 16 * 1024;

/// Takes apart what `open` opens: its text goes to `text`; the corrections come back, if they are no more than `limit` bytes.
///
/// # Errors
/// [`SplitError`]; `text` has got some of it.
pub fn split<R: Read>(
    open: &mut dyn FnMut() -> io::Result<R>,
    text: &mut dyn Write,
    limit: u64,
) -> Result<Vec<u8>, SplitError> {
    let style = style(open)?;
    let limit = limit.min(MAX_CORRECTION_BYTES);
    let mut splitter = Splitter::new(style, text, limit, u64::MAX)?;
    read(open()?, &mut splitter)?;
    let tail = std::mem::take(&mut splitter.tail);
    Ok(splitter.writer.finish(&tail))
}

/// The style that leaves the fewest corrections at the start.
fn style<R: Read>(open: &mut dyn FnMut() -> io::Result<R>) -> Result<u8, SplitError> {
    let mut best = (u64::MAX, 0);
    for (style, _) in (0u8..).zip(STYLES) {
        let mut nowhere = io::sink();
        let limit = MAX_CORRECTION_BYTES.min(best.0);
        let mut splitter = Splitter::new(style, &mut nowhere, limit, SAMPLE_BYTES)?;
        match read(open()?, &mut splitter) {
            Ok(()) | Err(SplitError::Corrections) => {}
            Err(_) if splitter.all >= SAMPLE_BYTES => {}
            Err(error) => return Err(error),
        }
        let bytes = splitter.writer.bytes();
        if bytes < best.0 {
            best = (bytes, style);
        }
        // Headers of blocks are a few for each thousand bytes: hardly anything is left beside them.
        if bytes * 500 < splitter.all {
            break;
        }
    }
    Ok(best.1)
}

struct Splitter<'a> {
    predictor: Predictor,
    writer: Writer,
    limit: u64,
    /// Steps that wait for the text after them.
    waiting: VecDeque<Step>,
    text: &'a mut dyn Write,
    /// Bytes of the text that were not handed on yet.
    kept: usize,
    crc: Crc,
    /// Bytes of the member's text, and of all.
    member: u64,
    all: u64,
    /// It ends here, for a sample.
    until: u64,
    tail: Vec<u8>,
}

enum Step {
    Token(Token),
    Stored(usize),
}

impl<'a> Splitter<'a> {
    fn new(style: u8, text: &'a mut dyn Write, limit: u64, until: u64) -> Result<Self, SplitError> {
        let unknown = SplitError::Unusual("no style has this number");
        Ok(Self {
            predictor: Predictor::new(style).ok_or(unknown)?,
            writer: Writer::new(style),
            limit,
            waiting: VecDeque::new(),
            text,
            kept: 0,
            crc: Crc::new(),
            member: 0,
            all: 0,
            until,
            tail: Vec::new(),
        })
    }

    fn added(&mut self, step: Step, bytes: usize) -> Result<(), SplitError> {
        self.waiting.push_back(step);
        self.kept += bytes;
        self.member += bytes as u64;
        self.all += bytes as u64;
        if self.kept >= PART_BYTES {
            self.hand_on()?;
        }
        self.compare();
        if self.writer.bytes() > self.limit || self.all >= self.until {
            return Err(SplitError::Corrections);
        }
        Ok(())
    }

    fn hand_on(&mut self) -> io::Result<()> {
        let bytes = self.predictor.last(self.kept);
        self.crc.update(bytes);
        self.text.write_all(bytes)?;
        self.kept = 0;
        Ok(())
    }

    /// Compares steps with predictions, as far as the text is known.
    fn compare(&mut self) {
        while let Some(step) = self.waiting.front() {
            match step {
                Step::Stored(bytes) => self.predictor.advance(*bytes),
                Step::Token(_) if !self.predictor.is_ready() => return,
                Step::Token(done) => {
                    let predicted = self.predictor.next();
                    self.writer.step(*done, predicted);
                    self.predictor.advance(done.covers() as usize);
                }
            }
            self.waiting.pop_front();
        }
    }
}

impl Reads for Splitter<'_> {
    fn member(&mut self, header: &[u8]) -> Result<(), SplitError> {
        self.writer.member(header);
        Ok(())
    }

    fn stored(&mut self, bytes: &[u8]) -> Result<(), SplitError> {
        for part in bytes.chunks(PART_BYTES) {
            self.predictor.extend(part);
            self.added(Step::Stored(part.len()), part.len())?;
        }
        Ok(())
    }

    fn literal(&mut self, byte: u8) -> Result<(), SplitError> {
        self.predictor.extend(&[byte]);
        self.added(Step::Token(Token::Literal), 1)
    }

    fn matched(&mut self, length: u32, distance: u32) -> Result<(), SplitError> {
        if u64::from(distance) > self.member || !self.predictor.repeat(length, distance) {
            let why = "a match reaches before the text";
            return Err(SplitError::Unusual(why));
        }
        let token = Token::Match { length, distance };
        self.added(Step::Token(token), length as usize)
    }

    fn block(&mut self, block: Block<'_>) -> Result<(), SplitError> {
        self.writer.block(block);
        Ok(())
    }

    fn ended(&mut self, crc: u32, size: u32) -> Result<(), SplitError> {
        self.hand_on()?;
        self.predictor.end();
        self.compare();
        // The size is stated modulo 2^32 (RFC 1952, 2.3.1).
        let found = (self.crc.sum(), self.crc.amount());
        if found != (crc, size) {
            return Err(SplitError::Unusual("its checksum does not hold"));
        }
        self.writer.ended(self.member);
        self.predictor.restart();
        self.crc.reset();
        self.member = 0;
        match self.writer.bytes() > self.limit {
            true => Err(SplitError::Corrections),
            false => Ok(()),
        }
    }

    fn tail(&mut self, bytes: &[u8]) -> Result<(), SplitError> {
        self.tail = bytes.to_vec();
        Ok(())
    }
}
