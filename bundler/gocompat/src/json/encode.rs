//! `json.Marshal` and `json.MarshalIndent`.
//!
//! In: a value. Out: JSON, or nothing where Go returns an error: maps with untyped keys,
//! infinities, NaN, complex numbers. sprig drops that error and prints nothing.

use crate::format::{Style, format_float};
use crate::gotime::Time;
use crate::runtime::{Budget, FIELDS, Key, MapType, RuntimeResult, Value};

struct Writer<'a> {
    out: Vec<u8>,
    pretty: bool,
    budget: &'a Budget,
}

/// JSON text; `None` when Go reports an error.
pub(crate) fn marshal(
    value: &Value,
    pretty: bool,
    budget: &Budget,
) -> RuntimeResult<Option<Vec<u8>>> {
    let mut writer = Writer {
        out: Vec::new(),
        pretty,
        budget,
    };
    let done = writer.value(value, 0)?;
    Ok(done.then_some(writer.out))
}

impl Writer<'_> {
    /// Whether the value can be written at all.
    fn value(&mut self, value: &Value, depth: usize) -> RuntimeResult<bool> {
        self.budget.visit(depth)?;
        let before = self.out.len();
        let done = self.any(value, depth)?;
        self.budget.bytes(self.out.len().saturating_sub(before))?;
        Ok(done)
    }

    fn any(&mut self, value: &Value, depth: usize) -> RuntimeResult<bool> {
        match value {
            Value::Invalid | Value::Nil => self.out.extend_from_slice(b"null"),
            Value::Bool(true) => self.out.extend_from_slice(b"true"),
            Value::Bool(false) => self.out.extend_from_slice(b"false"),
            Value::Int(number, _) => self.out.extend_from_slice(number.to_string().as_bytes()),
            Value::Uint(number, _) => self.out.extend_from_slice(number.to_string().as_bytes()),
            Value::Float(number) if number.is_finite() => {
                self.out.extend_from_slice(float(*number).as_bytes());
            }
            Value::Float(_) | Value::Complex(..) => return Ok(false),
            Value::Str(text) => self.string(text),
            Value::Time(time) => match json_time(time) {
                Some(text) => self.string(text.as_bytes()),
                None => return Ok(false),
            },
            Value::Version(version) => self.string(version.to_string().as_bytes()),
            Value::BareVersion(_) => self.out.extend_from_slice(b"{}"),
            Value::List(list) if list.nil => self.out.extend_from_slice(b"null"),
            Value::List(list) => return self.list(&list.to_vec(), depth),
            Value::Map(map) if map.kind == MapType::AnyAny => return Ok(false),
            Value::Map(map) if map.nil => self.out.extend_from_slice(b"null"),
            Value::Map(map) => return self.object(&map.to_vec(), depth),
            Value::Data(data) => {
                let entries: Vec<_> = FIELDS
                    .iter()
                    .map(|name| Key::str(name))
                    .zip(data.fields.clone())
                    .collect();
                return self.object(&entries, depth);
            }
        }
        Ok(true)
    }

    fn line(&mut self, depth: usize) {
        if self.pretty {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + 2 * depth, b' ');
        }
    }

    fn list(&mut self, items: &[Value], depth: usize) -> RuntimeResult<bool> {
        self.out.push(b'[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.line(depth + 1);
            if !self.value(item, depth + 1)? {
                return Ok(false);
            }
        }
        if !items.is_empty() {
            self.line(depth);
        }
        self.out.push(b']');
        Ok(true)
    }

    fn object(&mut self, entries: &[(Key, Value)], depth: usize) -> RuntimeResult<bool> {
        self.out.push(b'{');
        for (at, (key, item)) in entries.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.line(depth + 1);
            match key {
                Key::Str(text) => self.string(text),
                _ => return Ok(false),
            }
            self.out
                .extend_from_slice(if self.pretty { b": " } else { b":" });
            if !self.value(item, depth + 1)? {
                return Ok(false);
            }
        }
        if !entries.is_empty() {
            self.line(depth);
        }
        self.out.push(b'}');
        Ok(true)
    }

    fn string(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(&quoted(bytes));
    }
}

/// A text in quotes.
pub(crate) fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => {
                    out.push(b'\\');
                    out.push(c as u8);
                }
                '\x08' => out.extend_from_slice(b"\\b"),
                '\x0c' => out.extend_from_slice(b"\\f"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    let code = u32::from(c);
                    out.extend_from_slice(format!("\\u{code:04x}").as_bytes());
                }
                other => {
                    out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.push(b'"');
    out
}

/// Floats as ECMAScript writes them, with a two-digit exponent shortened.
pub(crate) fn float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format_float(number, Style::Exponent, None);
        return text.replace("e-0", "e-");
    }
    format_float(number, Style::Plain, None)
}

/// `time.Time.MarshalJSON`: RFC 3339, which ends with the year 9999.
fn json_time(time: &Time) -> Option<String> {
    (0..10_000)
        .contains(&time.civil().year)
        .then(|| time.to_rfc3339())
}
