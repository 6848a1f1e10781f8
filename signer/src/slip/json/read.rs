//! The reading of a slip's files: bytes of unknown origin in, files or an error out.
//!
//! What comes in: what [`super::Writer`] spelled, or anything else. What goes out: files, never more than a
//! given number of bytes, or the first thing that is wrong. It does not ask whether the spelling is the
//! one that the writer would choose: [`crate::slip::Slip`] compares.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::super::words::{SHAPE_BYTES, SHAPES, WORDS};
use super::super::{SlipError, malformed};
use super::{
    AGAIN, AS_IT_IS, FALSE, HEX, HEX_32, HEX_64, KEYS, LIST, MAP, MAX_DEPTH, MAX_NUMBERED_BYTES,
    MIN_HEX_BYTES, NEGATIVE, NULL, NUMBER, SHAPE, SIGNED, SIGNED_LINE, SMALL_LIST, SMALL_MAP,
    SMALL_NUMBER, TEXT, TIME, TRUE, VALUE, VALUE_LINE, key_object,
};

/// Reads what [`Writer`] spelled, or anything else, within bounds.
#[derive(Debug)]
pub(in crate::slip) struct Reader<'a> {
    rest: &'a [u8],
    numbered: Vec<Vec<u8>>,
    numbers: BTreeSet<Vec<u8>>,
    /// Bytes that may still be put out.
    left: usize,
}

impl<'a> Reader<'a> {
    pub(in crate::slip) fn new(bytes: &'a [u8], max_bytes: usize) -> Self {
        let numbers = BTreeSet::new();
        Self {
            rest: bytes,
            numbered: Vec::new(),
            numbers,
            left: max_bytes,
        }
    }

    pub(in crate::slip) fn end(&self) -> Result<(), SlipError> {
        match self.rest {
            [] => Ok(()),
            _ => Err(malformed("something follows its last file")),
        }
    }

    pub(in crate::slip) fn byte(&mut self) -> Result<u8, SlipError> {
        Ok(self.take(1)?[0])
    }

    pub(in crate::slip) fn count(&mut self) -> Result<u64, SlipError> {
        let mut count = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let digit = u64::from(byte & 0x7f);
            if digit << shift >> shift != digit {
                break;
            }
            count |= digit << shift;
            if byte & 0x80 == 0 {
                return Ok(count);
            }
        }
        Err(malformed("a count that is too large"))
    }

    /// One file.
    pub(in crate::slip) fn file(&mut self) -> Result<Vec<u8>, SlipError> {
        let mut out = Vec::new();
        let form = self.byte()?;
        match form {
            AS_IT_IS => {
                let len = self.len()?;
                let bytes = self.take(len)?;
                self.put(&mut out, bytes)?;
            }
            VALUE | VALUE_LINE => self.value(&mut out, 0)?,
            SIGNED | SIGNED_LINE => {
                let mut signed = Vec::new();
                self.value(&mut signed, 1)?;
                self.put(&mut out, b"{\"signatures\":")?;
                self.value(&mut out, 1)?;
                self.put(&mut out, b",\"signed\":")?;
                // Counted when it was read.
                out.extend(signed);
                self.put(&mut out, b"}")?;
            }
            other => return Err(malformed(format!("no file begins with {other:#04x}"))),
        }
        if matches!(form, VALUE_LINE | SIGNED_LINE) {
            self.put(&mut out, b"\n")?;
        }
        self.number(&Sha256::digest(&out));
        Ok(out)
    }

    /// One text.
    pub(in crate::slip) fn text(&mut self) -> Result<String, SlipError> {
        let tag = self.byte()?;
        self.text_of(tag)
    }

    fn text_of(&mut self, tag: u8) -> Result<String, SlipError> {
        match tag {
            0..=0x7f => {
                let word = WORDS.get(usize::from(tag));
                word.map(|word| (*word).to_owned())
                    .ok_or_else(|| malformed("an unknown word"))
            }
            TEXT => {
                let len = self.len()?;
                let text = std::str::from_utf8(self.take(len)?);
                let text = text.map_err(|_| malformed("a text that is not UTF-8"))?;
                if text.bytes().any(|byte| byte < 0x20) {
                    return Err(malformed("a control character in a text"));
                }
                Ok(text.to_owned())
            }
            HEX => {
                let len = self.len()?;
                self.digits(len)
            }
            HEX_32 => self.digits(32),
            HEX_64 => self.digits(64),
            AGAIN => {
                let number = self.count()?;
                Ok(hex::encode(self.numbered(number)?))
            }
            TIME => {
                let seconds = i64::try_from(self.count()?).ok();
                let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
                time.map(|time| time.to_string())
                    .ok_or_else(|| malformed("a time beyond all dates"))
            }
            SHAPE..SMALL_LIST => {
                let shape = SHAPES.get(usize::from(tag - SHAPE));
                let (before, after) = shape.ok_or_else(|| malformed("an unknown shape"))?;
                let digits = match self.count()? {
                    0 => self.digits(SHAPE_BYTES)?,
                    number => hex::encode(self.numbered(number - 1)?),
                };
                Ok(format!("{before}{digits}{after}"))
            }
            other => Err(malformed(format!("{other:#04x} where a text is expected"))),
        }
    }

    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<(), SlipError> {
        if depth > MAX_DEPTH {
            return Err(malformed("values too deep in one another"));
        }
        let tag = self.byte()?;
        match tag {
            NULL => self.put(out, b"null"),
            FALSE => self.put(out, b"false"),
            TRUE => self.put(out, b"true"),
            NUMBER => {
                let number = self.count()?.to_string();
                self.put(out, number.as_bytes())
            }
            NEGATIVE => {
                let number = (!self.count()?).cast_signed().to_string();
                self.put(out, number.as_bytes())
            }
            SMALL_NUMBER.. => self.put(out, (tag - SMALL_NUMBER).to_string().as_bytes()),
            KEYS => self.keys(out),
            LIST | SMALL_LIST..SMALL_MAP => {
                let len = self.head(tag, LIST, SMALL_LIST)?;
                self.put(out, b"[")?;
                for at in 0..len {
                    self.put(out, if at == 0 { b"" } else { b"," })?;
                    self.value(out, depth + 1)?;
                }
                self.put(out, b"]")
            }
            MAP | SMALL_MAP..SMALL_NUMBER => {
                let len = self.head(tag, MAP, SMALL_MAP)?;
                self.put(out, b"{")?;
                for at in 0..len {
                    self.put(out, if at == 0 { b"" } else { b"," })?;
                    let key = self.text()?;
                    self.put_text(out, &key)?;
                    self.put(out, b":")?;
                    self.value(out, depth + 1)?;
                }
                self.put(out, b"}")
            }
            _ => {
                let text = self.text_of(tag)?;
                self.put_text(out, &text)
            }
        }
    }

    fn keys(&mut self, out: &mut Vec<u8>) -> Result<(), SlipError> {
        for at in 0..self.count()? {
            let key = key_object(&hex::encode(self.take(32)?));
            let id = Sha256::digest(key.as_bytes());
            self.number(&id);
            let start = if at == 0 { "{" } else { "," };
            let entry = format!("{start}\"{}\":{key}", hex::encode(id));
            self.put(out, entry.as_bytes())?;
        }
        self.put(out, b"}")
    }

    fn head(&mut self, tag: u8, large: u8, small: u8) -> Result<u64, SlipError> {
        if tag == large {
            self.count()
        } else {
            Ok(u64::from(tag - small))
        }
    }

    fn len(&mut self) -> Result<usize, SlipError> {
        usize::try_from(self.count()?).map_err(|_| malformed("a length that is too large"))
    }

    fn digits(&mut self, len: usize) -> Result<String, SlipError> {
        let raw = self.take(len)?;
        self.number(raw);
        Ok(hex::encode(raw))
    }

    fn numbered(&self, number: u64) -> Result<&[u8], SlipError> {
        let found = usize::try_from(number)
            .ok()
            .and_then(|number| self.numbered.get(number));
        found
            .map(Vec::as_slice)
            .ok_or_else(|| malformed("digits that did not come before"))
    }

    fn number(&mut self, raw: &[u8]) {
        let numbered = (MIN_HEX_BYTES..=MAX_NUMBERED_BYTES).contains(&raw.len());
        if numbered && self.numbers.insert(raw.to_vec()) {
            self.numbered.push(raw.to_vec());
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], SlipError> {
        let split = self.rest.split_at_checked(len);
        let (taken, rest) = split.ok_or_else(|| malformed("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn put(&mut self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), SlipError> {
        self.left = self
            .left
            .checked_sub(bytes.len())
            .ok_or_else(|| malformed("its files are larger than a slip's may be"))?;
        out.extend(bytes);
        Ok(())
    }

    fn put_text(&mut self, out: &mut Vec<u8>, text: &str) -> Result<(), SlipError> {
        let mut quoted = Vec::with_capacity(text.len() + 2);
        quoted.push(b'"');
        for byte in text.bytes() {
            if matches!(byte, b'"' | b'\\') {
                quoted.push(b'\\');
            }
            quoted.push(byte);
        }
        quoted.push(b'"');
        self.put(out, &quoted)
    }
}
