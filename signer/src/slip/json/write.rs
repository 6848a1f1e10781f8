//! The spelling of a slip's files: canonical JSON in, bytes out.
//!
//! What comes in: files of any bytes, texts and counts. What goes out: their one spelling. A file that is not
//! canonical JSON, or nested too deep, is spelled as it is: nothing is refused here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::super::words::{number_of, shape_of};
use super::{
    AGAIN, AS_IT_IS, FALSE, HEX, HEX_32, HEX_64, KEYS, LIST, MAP, MAX_DEPTH, MAX_NUMBERED_BYTES,
    MIN_HEX_BYTES, NEGATIVE, NULL, NUMBER, SHAPE, SIGNED, SMALL_LIST, SMALL_MAP, SMALL_NUMBER,
    TEXT, TIME, TRUE, VALUE, key_object,
};
use crate::canonical;

/// Spells.
#[derive(Debug)]
pub(in crate::slip) struct Writer {
    out: Vec<u8>,
    numbers: BTreeMap<Vec<u8>, u64>,
}

impl Writer {
    pub(in crate::slip) fn new(out: Vec<u8>) -> Self {
        Self {
            out,
            numbers: BTreeMap::new(),
        }
    }

    pub(in crate::slip) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub(in crate::slip) fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    pub(in crate::slip) fn count(&mut self, mut count: u64) {
        while count > 0x7f {
            self.out.push((count & 0x7f) as u8 | 0x80);
            count >>= 7;
        }
        self.out.push((count & 0x7f) as u8);
    }

    /// One file.
    pub(in crate::slip) fn file(&mut self, bytes: &[u8]) {
        let (body, line) = match bytes.strip_suffix(b"\n") {
            Some(body) => (body, 1),
            None => (bytes, 0),
        };
        let value = serde_json::from_slice::<Value>(body).ok().filter(|value| {
            depth(value) <= MAX_DEPTH
                && canonical::to_bytes(value).is_ok_and(|canonical| canonical == body)
        });
        if let Some(value) = value {
            if let Some((signatures, signed)) = signed_file(&value) {
                self.byte(SIGNED + line);
                self.value(signed);
                self.value(signatures);
            } else {
                self.byte(VALUE + line);
                self.value(&value);
            }
        } else {
            self.byte(AS_IT_IS);
            self.count(bytes.len() as u64);
            self.out.extend(bytes);
        }
        self.number(&Sha256::digest(bytes));
    }

    /// One text.
    pub(in crate::slip) fn text(&mut self, text: &str) {
        if let Some(word) = number_of(text) {
            return self.byte(word);
        }
        if let Some((shape, digits)) = shape_of(text)
            && let Some(raw) = digits_of(digits)
        {
            self.byte(SHAPE + shape);
            if let Some(number) = self.numbers.get(&raw) {
                self.count(number.saturating_add(1));
            } else {
                self.count(0);
                self.out.extend(&raw);
                self.number(&raw);
            }
            return;
        }
        if let Some(raw) = digits_of(text) {
            return self.digits(&raw);
        }
        if let Some(seconds) = seconds_of(text) {
            self.byte(TIME);
            return self.count(seconds);
        }
        self.byte(TEXT);
        self.count(text.len() as u64);
        self.out.extend(text.as_bytes());
    }

    fn digits(&mut self, raw: &[u8]) {
        if let Some(number) = self.numbers.get(raw).copied() {
            self.byte(AGAIN);
            return self.count(number);
        }
        match raw.len() {
            32 => self.byte(HEX_32),
            64 => self.byte(HEX_64),
            len => {
                self.byte(HEX);
                self.count(len as u64);
            }
        }
        self.out.extend(raw);
        self.number(raw);
    }

    fn number(&mut self, raw: &[u8]) {
        let next = self.numbers.len() as u64;
        if (MIN_HEX_BYTES..=MAX_NUMBERED_BYTES).contains(&raw.len()) {
            self.numbers.entry(raw.to_vec()).or_insert(next);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.byte(NULL),
            Value::Bool(false) => self.byte(FALSE),
            Value::Bool(true) => self.byte(TRUE),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(small @ 0..=63), _) => self.byte(SMALL_NUMBER + (small & 63) as u8),
                (Some(number), _) => {
                    self.byte(NUMBER);
                    self.count(number);
                }
                (None, signed) => {
                    // -1 - n of a negative n is its bits turned round.
                    self.byte(NEGATIVE);
                    self.count(!signed.unwrap_or(-1).cast_unsigned());
                }
            },
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.head(SMALL_LIST, LIST, items.len());
                for item in items {
                    self.value(item);
                }
            }
            Value::Object(map) => self.map(map),
        }
    }

    fn map(&mut self, map: &Map<String, Value>) {
        // Sorted here and not by the map's type: a feature of serde_json can change that.
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        let keys: Option<Vec<[u8; 32]>> = entries
            .iter()
            .map(|(id, key)| ed25519_key(id, key))
            .collect();
        if let Some(keys) = keys.filter(|keys| !keys.is_empty()) {
            self.byte(KEYS);
            self.count(keys.len() as u64);
            for (key, (id, _)) in keys.iter().zip(entries) {
                self.out.extend(key);
                self.number(&digits_of(id).unwrap_or_default());
            }
            return;
        }
        self.head(SMALL_MAP, MAP, entries.len());
        for (key, item) in entries {
            self.text(key);
            self.value(item);
        }
    }

    fn head(&mut self, small: u8, large: u8, len: usize) {
        if let Ok(len @ 0..=15) = u8::try_from(len) {
            self.byte(small + len);
        } else {
            self.byte(large);
            self.count(len as u64);
        }
    }
}

/// The two parts of a signed metadata file.
fn signed_file(value: &Value) -> Option<(&Value, &Value)> {
    let map = value.as_object().filter(|map| map.len() == 2)?;
    Some((map.get("signatures")?, map.get("signed")?))
}

/// The bytes of an Ed25519 key that stands under its own id.
fn ed25519_key(id: &str, key: &Value) -> Option<[u8; 32]> {
    let public = key.get("keyval")?.get("public")?.as_str()?;
    let raw: [u8; 32] = digits_of(public)?.try_into().ok()?;
    let object = key_object(public);
    let same = canonical::to_bytes(key).is_ok_and(|bytes| bytes == object.as_bytes());
    (same && hex::encode(Sha256::digest(object.as_bytes())) == id).then_some(raw)
}

/// The bytes of at least sixteen lower-case hexadecimal digits.
fn digits_of(text: &str) -> Option<Vec<u8>> {
    let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() < 2 * MIN_HEX_BYTES || !text.bytes().all(plain) {
        return None;
    }
    hex::decode(text).ok()
}

/// The seconds since 1970 of a time written as this program writes it.
fn seconds_of(text: &str) -> Option<u64> {
    let time: Timestamp = text.parse().ok()?;
    let seconds = u64::try_from(time.as_second()).ok()?;
    (time.subsec_nanosecond() == 0 && time.to_string() == text).then_some(seconds)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
