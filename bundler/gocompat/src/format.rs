//! Go's `fmt`: `Sprint`, `Sprintln`, `Sprintf` and `%v` for every value a template can hold.
//!
//! In: values, a format, the budget. Out: bytes. A wrong verb or a missing argument is text
//! in the output (`%!d(string=a)`), never an error, as in Go; only the budget can fail.
//! Maps print sorted by key.

use crate::runtime::{Budget, FIELDS, IntKind, RuntimeResult, Text, Value};

mod float;
mod number;
mod pad;
mod quote;
mod verbs;

pub(crate) use float::{Style, format_float, shortest};
pub(crate) use quote::{is_print, quote, quote_into};
pub(crate) use verbs::sprintf;

/// Flags of one verb.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "Go's flags are independent switches"
)]
pub(crate) struct Flags {
    pub width: Option<usize>,
    pub precision: Option<usize>,
    pub minus: bool,
    pub plus: bool,
    pub sharp: bool,
    pub space: bool,
    pub zero: bool,
    /// `%+v`.
    pub plus_v: bool,
    /// `%#v`.
    pub sharp_v: bool,
}

/// Collects formatted bytes under a budget.
pub(crate) struct Printer<'a> {
    pub out: Vec<u8>,
    pub flags: Flags,
    budget: &'a Budget,
}

/// `fmt.Sprint` of one value, which is also what `{{ value }}` prints.
pub(crate) fn sprint(value: &Value, budget: &Budget) -> RuntimeResult<Vec<u8>> {
    let mut printer = Printer::new(budget);
    printer.verb(value, 'v')?;
    Ok(printer.out)
}

/// `fmt.Sprint`: a space between operands when neither side is a string.
pub(crate) fn sprint_all(values: &[Value], budget: &Budget) -> RuntimeResult<Vec<u8>> {
    let mut printer = Printer::new(budget);
    let mut after_string = false;
    for (at, value) in values.iter().enumerate() {
        let is_string = matches!(value, Value::Str(_));
        if at > 0 && !is_string && !after_string {
            printer.out.push(b' ');
        }
        printer.verb(value, 'v')?;
        after_string = is_string;
    }
    Ok(printer.out)
}

/// `fmt.Sprintln`: always a space, and a newline at the end.
pub(crate) fn sprint_line(values: &[Value], budget: &Budget) -> RuntimeResult<Vec<u8>> {
    let mut printer = Printer::new(budget);
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            printer.out.push(b' ');
        }
        printer.verb(value, 'v')?;
    }
    printer.out.push(b'\n');
    Ok(printer.out)
}

/// sprig's `strval`: strings as they are, everything else as `%v`.
pub(crate) fn string_of(value: &Value, budget: &Budget) -> RuntimeResult<Text> {
    match value {
        Value::Str(text) => Ok(text.clone()),
        other => Ok(sprint(other, budget)?.into()),
    }
}

impl<'a> Printer<'a> {
    pub fn new(budget: &'a Budget) -> Self {
        Self {
            out: Vec::new(),
            flags: Flags::default(),
            budget,
        }
    }

    pub fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Formats one operand.
    pub fn verb(&mut self, value: &Value, verb: char) -> RuntimeResult<()> {
        match verb {
            'T' => {
                self.pad_text(value.type_name().as_bytes());
                Ok(())
            }
            'v' if value.is_nil() => {
                self.pad_text(b"<nil>");
                Ok(())
            }
            _ if value.is_nil() => self.bad_verb(value, verb),
            _ => self.value(value, verb, 0),
        }
    }

    fn value(&mut self, value: &Value, verb: char, depth: usize) -> RuntimeResult<()> {
        self.budget.visit(depth)?;
        let before = self.out.len();
        if let Some(text) = self.stringer(value, verb) {
            return self.string(text.as_bytes(), verb, value);
        }
        match value {
            Value::Invalid | Value::Nil => {
                let text = if self.flags.sharp_v {
                    "interface {}(nil)"
                } else {
                    "<nil>"
                };
                self.text(text);
            }
            Value::Bool(flag) => self.bool(*flag, verb, value)?,
            Value::Int(number, _) => {
                self.integer(number.unsigned_abs(), *number < 0, verb, value, true)?;
            }
            Value::Uint(number, _) => self.integer(*number, false, verb, value, false)?,
            Value::Float(number) => self.float(*number, verb, value)?,
            Value::Complex(re, im) => self.complex(*re, *im, verb, value)?,
            Value::Str(text) => self.string(text, verb, value)?,
            Value::List(list) => self.list(value, list, verb, depth)?,
            Value::Map(map) => self.map(value, map, verb, depth)?,
            Value::Data(data) => self.fields(value, &FIELDS, &data.fields, verb, depth)?,
            Value::Time(_) | Value::Version(_) | Value::BareVersion(_) => {
                let (names, fields) = inner_fields(value);
                self.fields(value, &names, &fields, verb, depth)?;
            }
        }
        self.budget.bytes(self.out.len().saturating_sub(before))
    }

    /// The text of a value with a `String` method, where the verb wants text.
    fn stringer(&self, value: &Value, verb: char) -> Option<String> {
        if self.flags.sharp_v || !matches!(verb, 'v' | 's' | 'x' | 'X' | 'q') {
            return None;
        }
        match value {
            Value::Time(time) => Some(time.to_go_string()),
            Value::Version(version) => Some(version.to_string()),
            Value::Int(number, IntKind::Month) => Some(crate::gotime::month_name(*number)),
            Value::Int(number, IntKind::Weekday) => Some(crate::gotime::weekday_name(*number)),
            _ => None,
        }
    }

    fn list(
        &mut self,
        value: &Value,
        list: &crate::runtime::List,
        verb: char,
        depth: usize,
    ) -> RuntimeResult<()> {
        let (open, close, separator) = if self.flags.sharp_v {
            self.text(value.type_name());
            if list.nil {
                self.text("(nil)");
                return Ok(());
            }
            ("{", "}", ", ")
        } else {
            ("[", "]", " ")
        };
        self.text(open);
        for (at, item) in list.to_vec().iter().enumerate() {
            if at > 0 {
                self.text(separator);
            }
            self.nested(item, verb, depth)?;
        }
        self.text(close);
        Ok(())
    }

    fn map(
        &mut self,
        value: &Value,
        map: &crate::runtime::Map,
        verb: char,
        depth: usize,
    ) -> RuntimeResult<()> {
        let (open, close, separator) = if self.flags.sharp_v {
            self.text(value.type_name());
            if map.nil {
                self.text("(nil)");
                return Ok(());
            }
            ("{", "}", ", ")
        } else {
            ("map[", "]", " ")
        };
        self.text(open);
        for (at, (key, item)) in map.to_vec().iter().enumerate() {
            if at > 0 {
                self.text(separator);
            }
            self.nested(&key.to_value(), verb, depth)?;
            self.out.push(b':');
            self.nested(item, verb, depth)?;
        }
        self.text(close);
        Ok(())
    }

    fn fields(
        &mut self,
        value: &Value,
        names: &[&str],
        fields: &[Value],
        verb: char,
        depth: usize,
    ) -> RuntimeResult<()> {
        if matches!(value, Value::Version(_)) {
            self.text("&");
        }
        if self.flags.sharp_v {
            self.text(value.type_name().trim_start_matches('*'));
        }
        self.text("{");
        for (at, (name, field)) in names.iter().zip(fields).enumerate() {
            if at > 0 {
                self.text(if self.flags.sharp_v { ", " } else { " " });
            }
            if self.flags.plus_v || self.flags.sharp_v {
                self.text(name);
                self.text(":");
            }
            self.nested(field, verb, depth)?;
        }
        self.text("}");
        Ok(())
    }

    fn nested(&mut self, value: &Value, verb: char, depth: usize) -> RuntimeResult<()> {
        self.value(value, verb, depth + 1)
    }

    /// `%!verb(type=value)`.
    pub fn bad_verb(&mut self, value: &Value, verb: char) -> RuntimeResult<()> {
        let mut encoded = [0; 4];
        self.text("%!");
        self.text(verb.encode_utf8(&mut encoded));
        self.text("(");
        if value.is_nil() {
            self.text("<nil>");
        } else {
            self.text(value.type_name());
            self.text("=");
            self.value(value, 'v', 0)?;
        }
        self.text(")");
        Ok(())
    }
}

/// Unexported fields, as `%v` of a struct without a usable `String` shows them.
fn inner_fields(value: &Value) -> (Vec<&'static str>, Vec<Value>) {
    match value {
        Value::Version(version) | Value::BareVersion(version) => (
            vec!["major", "minor", "patch", "pre", "metadata", "original"],
            vec![
                crate::runtime::int64(version.major.cast_signed()),
                crate::runtime::int64(version.minor.cast_signed()),
                crate::runtime::int64(version.patch.cast_signed()),
                crate::runtime::text(&version.pre),
                crate::runtime::text(&version.metadata),
                crate::runtime::text(&version.original),
            ],
        ),
        _ => (Vec::new(), Vec::new()),
    }
}
