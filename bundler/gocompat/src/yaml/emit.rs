//! The `yaml.v3` writer: block style, indent 4, keys in Go's order.
//!
//! In: a value and the budget. Out: one document with its final newline.
//! The state (column, whether only indentation was written on the line) is libyaml's, since
//! several of its quirks are visible in the output.

use super::{order, resolve, scalar};
use crate::format::shortest;
use crate::runtime::{Budget, FIELDS, Key, RuntimeResult, Value};
use scalar::Style;

mod texts;

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    Document,
    Sequence,
    Mapping,
}

/// Output and libyaml's idea of where the cursor is.
pub(super) struct Emitter<'a> {
    pub out: Vec<u8>,
    pub column: usize,
    /// The last character was white space.
    pub whitespace: bool,
    /// The line holds nothing but indentation and indicators.
    pub indention: bool,
    pub indent: Option<usize>,
    budget: &'a Budget,
}

/// Spaces per level.
pub(super) const INDENT: usize = 4;

/// `yaml.Marshal`.
pub(crate) fn marshal(value: &Value, budget: &Budget) -> RuntimeResult<Vec<u8>> {
    let mut emitter = Emitter {
        out: Vec::new(),
        column: 0,
        whitespace: true,
        indention: true,
        indent: None,
        budget,
    };
    emitter.node(value, Parent::Document, 0)?;
    emitter.write_indent();
    Ok(emitter.out)
}

impl Emitter<'_> {
    pub fn put(&mut self, byte: u8) {
        self.out.push(byte);
        self.column += 1;
    }

    pub fn put_break(&mut self) {
        self.out.push(b'\n');
        self.column = 0;
        self.indention = true;
    }

    /// Starts a line at the indent in force, unless the cursor is already there.
    pub fn write_indent(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break();
        }
        if self.column < indent {
            self.out.resize(self.out.len() + indent - self.column, b' ');
            self.column = indent;
        }
        self.whitespace = true;
    }

    pub fn indicator(&mut self, text: &[u8], needs_space: bool, is_space: bool, indents: bool) {
        if needs_space && !self.whitespace {
            self.put(b' ');
        }
        self.out.extend_from_slice(text);
        self.column += text.len();
        self.whitespace = is_space;
        self.indention = self.indention && indents;
    }

    fn deeper(&self, parent: Parent, scalar: bool) -> usize {
        match self.indent {
            None if scalar => INDENT,
            None => 0,
            Some(indent) if parent == Parent::Sequence => indent + 2,
            Some(indent) => INDENT * ((indent + INDENT) / INDENT),
        }
    }

    fn node(&mut self, value: &Value, parent: Parent, depth: usize) -> RuntimeResult<()> {
        self.budget.visit(depth)?;
        match value {
            Value::Map(map) if map.len() > 0 => {
                let entries = map.entries.borrow();
                let mut entries: Vec<(&Key, &Value)> = entries.iter().collect();
                order::sort(&mut entries);
                self.mapping(&entries, parent, depth)
            }
            Value::Map(_) | Value::Version(_) | Value::BareVersion(_) => {
                self.flow_empty(b"{", b"}");
                Ok(())
            }
            Value::Data(data) => {
                let keys = FIELDS
                    .iter()
                    .map(|name| Key::str(&name.to_ascii_lowercase()));
                let keys: Vec<Key> = keys.collect();
                let entries: Vec<_> = keys.iter().zip(&data.fields).collect();
                self.mapping(&entries, parent, depth)
            }
            Value::List(list) if list.len() > 0 => {
                self.sequence(&list.items.borrow(), parent, depth)
            }
            Value::List(_) => {
                self.flow_empty(b"[", b"]");
                Ok(())
            }
            scalar => self.value_scalar(scalar, parent, false),
        }
    }

    fn flow_empty(&mut self, open: &[u8], close: &[u8]) {
        self.indicator(open, true, true, false);
        self.indicator(close, false, false, false);
    }

    fn sequence(&mut self, items: &[Value], parent: Parent, depth: usize) -> RuntimeResult<()> {
        let kept = self.indent;
        self.indent = Some(self.deeper(parent, false));
        for item in items {
            self.write_indent();
            self.indicator(b"-", true, false, true);
            self.node(item, Parent::Sequence, depth + 1)?;
        }
        self.indent = kept;
        Ok(())
    }

    fn mapping(
        &mut self,
        entries: &[(&Key, &Value)],
        parent: Parent,
        depth: usize,
    ) -> RuntimeResult<()> {
        let kept = self.indent;
        self.indent = Some(self.deeper(parent, false));
        for (key, item) in entries {
            let item = if key.is_found() { item } else { &Value::Nil };
            self.write_indent();
            if let Key::Str(text) = key
                && text.len() <= MAX_SIMPLE_KEY
                && self.ordinary(text)?
            {
                self.indicator(b":", false, false, false);
                self.node(item, Parent::Mapping, depth + 1)?;
                continue;
            }
            let key = key.to_value();
            if is_simple_key(&key) {
                self.value_scalar(&key, Parent::Mapping, true)?;
                self.indicator(b":", false, false, false);
            } else {
                self.indicator(b"?", true, false, true);
                self.value_scalar(&key, Parent::Mapping, false)?;
                self.write_indent();
                self.indicator(b":", true, false, true);
            }
            self.node(item, Parent::Mapping, depth + 1)?;
        }
        self.indent = kept;
        Ok(())
    }

    fn value_scalar(
        &mut self,
        value: &Value,
        parent: Parent,
        simple_key: bool,
    ) -> RuntimeResult<()> {
        if let Value::Str(bytes) = value
            && self.ordinary(bytes)?
        {
            return Ok(());
        }
        let kept = self.indent;
        let before = self.out.len();
        match value {
            Value::Str(bytes) => {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    let style = if text.contains('\n') {
                        Style::Literal
                    } else if resolve::stays_text(text) {
                        Style::Plain
                    } else {
                        Style::Double
                    };
                    self.indent = Some(self.deeper(parent, true));
                    self.scalar(text, style, simple_key, false);
                } else {
                    let encoded = scalar::base64_lines(bytes);
                    let literal = encoded.contains('\n');
                    let style = if literal {
                        Style::Literal
                    } else {
                        Style::Plain
                    };
                    self.indicator(b"!!binary", true, false, false);
                    self.indent = Some(self.deeper(parent, true));
                    self.scalar(&encoded, style, simple_key, true);
                }
            }
            Value::Bool(flag) => self.bare(if *flag { "true" } else { "false" }),
            Value::Int(number, _) => self.bare(&number.to_string()),
            Value::Uint(number, _) => self.bare(&number.to_string()),
            Value::Float(number) => self.bare(&match shortest(*number).as_str() {
                "+Inf" => ".inf".to_owned(),
                "-Inf" => "-.inf".to_owned(),
                "NaN" => ".nan".to_owned(),
                other => other.to_owned(),
            }),
            Value::Complex(..) => {
                return crate::runtime::Fault::go("cannot marshal type: complex128");
            }
            Value::Time(time) => self.bare(&time.to_rfc3339()),
            _ => self.bare("null"),
        }
        self.indent = kept;
        self.budget.bytes(self.out.len().saturating_sub(before))
    }

    /// Writes a text that is plain whatever stands around it, as most keys and values are; says
    /// whether it did.
    fn ordinary(&mut self, bytes: &[u8]) -> RuntimeResult<bool> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) if scalar::is_ordinary(text) && resolve::stays_text(text) => text,
            _ => return Ok(false),
        };
        let before = self.out.len();
        self.bare(text);
        self.budget.bytes(self.out.len() - before)?;
        Ok(true)
    }

    /// A scalar that is plain ASCII and never quoted.
    fn bare(&mut self, text: &str) {
        if !self.whitespace {
            self.put(b' ');
        }
        self.out.extend_from_slice(text.as_bytes());
        self.column += text.len();
        self.whitespace = false;
        self.indention = false;
    }
}

/// Longest key in bytes that needs no `?`.
const MAX_SIMPLE_KEY: usize = 128;

/// One line of at most 128 bytes.
fn is_simple_key(key: &Value) -> bool {
    match key {
        Value::Str(text) => {
            let Ok(text) = std::str::from_utf8(text) else {
                let encoded = scalar::base64_lines(text);
                return !encoded.contains('\n')
                    && encoded.len() + "!!binary".len() <= MAX_SIMPLE_KEY;
            };
            text.len() <= MAX_SIMPLE_KEY && !scalar::is_multiline(text)
        }
        _ => true,
    }
}
