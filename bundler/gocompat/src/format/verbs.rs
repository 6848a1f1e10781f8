//! `fmt.Sprintf`: the format language.
//!
//! In: a format and operands. Out: bytes. Argument indexes, `*`, and all of Go's in-text
//! complaints (`%!(NOVERB)`, `%!d(MISSING)`, `%!(EXTRA ...)`) are part of the output.

use super::{Flags, Printer};
use crate::runtime::{Budget, RuntimeResult, Value};

/// Width and precision above this are refused by Go, too.
const MAX_WIDTH: i64 = 1_000_000;

struct Operands<'a> {
    values: &'a [Value],
    next: usize,
    reordered: bool,
    good: bool,
    after_index: bool,
}

/// `fmt.Sprintf`.
pub(crate) fn sprintf(format: &[u8], values: &[Value], budget: &Budget) -> RuntimeResult<Vec<u8>> {
    let mut printer = Printer::new(budget);
    let mut operands = Operands {
        values,
        next: 0,
        reordered: false,
        good: true,
        after_index: false,
    };
    let mut any_reordered = false;
    let mut at = 0;
    while at < format.len() {
        let start = at;
        while at < format.len() && format[at] != b'%' {
            at += 1;
        }
        printer.out.extend_from_slice(&format[start..at]);
        if at >= format.len() {
            break;
        }
        at = verb(format, at + 1, &mut printer, &mut operands, budget)?;
        any_reordered |= operands.reordered;
    }
    if !any_reordered && operands.next < values.len() {
        extra(&mut printer, &values[operands.next..])?;
    }
    Ok(printer.out)
}

fn extra(printer: &mut Printer<'_>, values: &[Value]) -> RuntimeResult<()> {
    printer.flags = Flags::default();
    printer.text("%!(EXTRA ");
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            printer.text(", ");
        }
        if value.is_nil() {
            printer.text("<nil>");
        } else {
            printer.text(value.type_name());
            printer.text("=");
            printer.verb(value, 'v')?;
        }
    }
    printer.text(")");
    Ok(())
}

/// Handles one verb; `at` is behind the `%`. Returns where the text goes on.
fn verb(
    format: &[u8],
    mut at: usize,
    printer: &mut Printer<'_>,
    operands: &mut Operands<'_>,
    budget: &Budget,
) -> RuntimeResult<usize> {
    operands.good = true;
    operands.reordered = false;
    let mut flags = Flags::default();
    while let Some(byte) = format.get(at) {
        match byte {
            b'#' => flags.sharp = true,
            b'0' => flags.zero = true,
            b'+' => flags.plus = true,
            b'-' => flags.minus = true,
            b' ' => flags.space = true,
            _ => break,
        }
        at += 1;
    }
    operands.after_index = false;
    at = operands.index(format, at);
    if format.get(at) == Some(&b'*') {
        at += 1;
        match operands.star() {
            None => printer.text("%!(BADWIDTH)"),
            Some(width) => {
                if width < 0 {
                    flags.minus = true;
                    flags.zero = false;
                }
                flags.width = usize::try_from(width.unsigned_abs()).ok();
            }
        }
        operands.after_index = false;
    } else {
        let (width, end) = number(format, at);
        if end > at && operands.after_index {
            operands.good = false;
        }
        flags.width = width;
        at = end;
    }
    if format.get(at) == Some(&b'.') {
        at += 1;
        if operands.after_index {
            operands.good = false;
        }
        at = operands.index(format, at);
        if format.get(at) == Some(&b'*') {
            at += 1;
            match operands.star() {
                Some(precision) if precision >= 0 => {
                    flags.precision = usize::try_from(precision).ok();
                }
                _ => printer.text("%!(BADPREC)"),
            }
            operands.after_index = false;
        } else {
            let (precision, end) = number(format, at);
            flags.precision = Some(precision.unwrap_or(0));
            at = end;
        }
    }
    if !operands.after_index {
        at = operands.index(format, at);
    }
    if at >= format.len() {
        printer.text("%!(NOVERB)");
        return Ok(at);
    }
    let (verb, size) = first_char(&format[at..]);
    at += size;
    budget.bytes(
        flags
            .width
            .unwrap_or(0)
            .saturating_add(flags.precision.unwrap_or(0)),
    )?;
    let mut encoded = [0; 4];
    let name = verb.encode_utf8(&mut encoded);
    if verb == '%' {
        printer.text("%");
    } else if !operands.good {
        printer.text("%!");
        printer.text(name);
        printer.text("(BADINDEX)");
    } else if let Some(value) = operands.values.get(operands.next) {
        operands.next += 1;
        if verb == 'v' {
            flags.sharp_v = flags.sharp;
            flags.sharp = false;
            flags.plus_v = flags.plus;
            flags.plus = false;
        }
        printer.flags = flags;
        printer.verb(value, verb)?;
    } else {
        printer.text("%!");
        printer.text(name);
        printer.text("(MISSING)");
    }
    Ok(at)
}

fn first_char(bytes: &[u8]) -> (char, usize) {
    let head = &bytes[..bytes.len().min(4)];
    match head
        .utf8_chunks()
        .next()
        .and_then(|chunk| chunk.valid().chars().next())
    {
        Some(c) => (c, c.len_utf8()),
        None => (char::REPLACEMENT_CHARACTER, 1),
    }
}

/// Digits at `at`; none or too large gives `None`.
fn number(format: &[u8], at: usize) -> (Option<usize>, usize) {
    let mut end = at;
    let mut value: i64 = 0;
    while let Some(digit) = format.get(end).filter(|byte| byte.is_ascii_digit()) {
        value = value * 10 + i64::from(digit - b'0');
        end += 1;
        if value > MAX_WIDTH {
            return (None, format.len());
        }
    }
    if end == at {
        (None, at)
    } else {
        (usize::try_from(value).ok(), end)
    }
}

impl Operands<'_> {
    /// `[n]` at `at`.
    fn index(&mut self, format: &[u8], at: usize) -> usize {
        if format.get(at) != Some(&b'[') {
            return at;
        }
        self.reordered = true;
        let Some(length) = format[at..].iter().position(|byte| *byte == b']') else {
            self.good = false;
            return at + 1;
        };
        let inside = &format[at + 1..at + length];
        let (index, end) = number(inside, 0);
        match index {
            Some(index) if end == inside.len() && index >= 1 && index <= self.values.len() => {
                self.next = index - 1;
                self.after_index = true;
            }
            _ => self.good = false,
        }
        at + length + 1
    }

    /// The operand of `*`.
    fn star(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        let number = match value {
            Value::Int(number, _) => *number,
            Value::Uint(number, _) => i64::try_from(*number).ok()?,
            _ => return None,
        };
        (-MAX_WIDTH..=MAX_WIDTH).contains(&number).then_some(number)
    }
}
