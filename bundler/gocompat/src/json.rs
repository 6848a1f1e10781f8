//! JSON as Go's `encoding/json` writes it, and as the golden vectors give it.
//!
//! In: values, or JSON text. Out: JSON text with Go's escapes (`<`, `>`, `&`, U+2028), or
//! values in which `1` is an `int` and `1.0` a `float64`.

use crate::error::JsonError;
use crate::gonum::{NumError, parse_float, parse_int, parse_uint};
use crate::value::{GoMap, GoValue, MapKind};

pub(crate) mod encode;

pub(crate) use encode::marshal;

/// Depth of nested lists and objects, in YAML, too.
pub(crate) const MAX_DEPTH: usize = 150;

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

/// Decodes one document; nothing but white space may follow.
pub(crate) fn decode(text: &str) -> Result<GoValue, JsonError> {
    let mut reader = Reader {
        text: text.as_bytes(),
        at: 0,
    };
    let value = reader.value(0)?;
    reader.space();
    if reader.at < reader.text.len() {
        return reader.fail("something follows the value");
    }
    Ok(value)
}

impl Reader<'_> {
    fn fail<T>(&self, message: &str) -> Result<T, JsonError> {
        let before = &self.text[..self.at.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before
            .iter()
            .rev()
            .take_while(|byte| **byte != b'\n')
            .count()
            + 1;
        Err(JsonError {
            message: message.to_owned(),
            line,
            column,
        })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<GoValue, JsonError> {
        if depth > MAX_DEPTH {
            return self.fail("nested too deep");
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(GoValue::from(self.string()?)),
            Some(b't') => self.word("true", GoValue::Bool(true)),
            Some(b'f') => self.word("false", GoValue::Bool(false)),
            Some(b'n') => self.word("null", GoValue::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.fail("a value is missing"),
        }
    }

    fn word(&mut self, word: &str, value: GoValue) -> Result<GoValue, JsonError> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return self.fail("unknown word");
        }
        self.at += word.len();
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> Result<GoValue, JsonError> {
        let mut map = GoMap::new(MapKind::Str);
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(GoValue::Map(map));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.fail("an object key is missing");
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return self.fail("a colon is missing");
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            map.insert(key, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return self.fail("a comma or closing brace is missing"),
            }
        }
        self.at += 1;
        Ok(GoValue::Map(map))
    }

    fn list(&mut self, depth: usize) -> Result<GoValue, JsonError> {
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(GoValue::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.fail("a comma or closing bracket is missing"),
            }
        }
        self.at += 1;
        Ok(GoValue::List(items))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<GoValue, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || zero && whole > 1 {
            return self.fail("not a number");
        }
        let mut is_float = false;
        if self.peek() == Some(b'.') {
            is_float = true;
            self.at += 1;
            if self.digits() == 0 {
                return self.fail("digits are missing after the point");
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_float = true;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.fail("digits are missing in the exponent");
            }
        }
        let text = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        if !is_float {
            if let Ok(number) = parse_int(&text, 10) {
                return Ok(GoValue::Int(number));
            }
            if let Ok(number) = parse_uint(&text, 10) {
                return Ok(GoValue::Uint(number));
            }
        }
        match parse_float(&text) {
            Ok(number) => Ok(GoValue::Float(number)),
            Err(NumError::Range(_) | NumError::Syntax) => self.fail("the number is out of range"),
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let Some(byte) = self.peek() else {
                return self.fail("the string does not end");
            };
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => self.escape(&mut out)?,
                0..0x20 => return self.fail("control character in a string"),
                other => out.push(other),
            }
        }
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        let Some(byte) = self.peek() else {
            return self.fail("the string does not end");
        };
        self.at += 1;
        let c = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex()?;
                self.surrogates(high)
            }
            _ => return self.fail("unknown escape"),
        };
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn hex(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or(&[]);
        let text = std::str::from_utf8(digits).unwrap_or("");
        if text.len() != 4 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return self.fail("four hexadecimal digits are missing");
        }
        self.at += 4;
        Ok(u32::from_str_radix(text, 16).unwrap_or(0xfffd))
    }

    /// A lone surrogate is U+FFFD, as in Go.
    fn surrogates(&mut self, high: u32) -> char {
        let replacement = char::REPLACEMENT_CHARACTER;
        if !(0xd800..0xe000).contains(&high) {
            return char::from_u32(high).unwrap_or(replacement);
        }
        let start = self.at;
        if high < 0xdc00 && self.text[self.at..].starts_with(b"\\u") {
            self.at += 2;
            if let Ok(low) = self.hex()
                && (0xdc00..0xe000).contains(&low)
            {
                let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return char::from_u32(code).unwrap_or(replacement);
            }
        }
        self.at = start;
        replacement
    }
}
