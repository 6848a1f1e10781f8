//! Verbs of booleans, numbers and strings.
//!
//! In: one scalar and its verb. Out: padded bytes in the printer's output.
//! A verb that the type does not know becomes Go's `%!verb(type=value)`.

use super::quote::escape_char;
use super::{Printer, Style, format_float, is_print, quote_into};
use crate::runtime::{RuntimeResult, Value};

impl Printer<'_> {
    pub(super) fn bool(&mut self, flag: bool, verb: char, value: &Value) -> RuntimeResult<()> {
        if !matches!(verb, 't' | 'v') {
            return self.bad_verb(value, verb);
        }
        self.pad_text(if flag { b"true" } else { b"false" });
        Ok(())
    }

    pub(super) fn integer(
        &mut self,
        magnitude: u64,
        negative: bool,
        verb: char,
        value: &Value,
        signed: bool,
    ) -> RuntimeResult<()> {
        match verb {
            'v' if self.flags.sharp_v && !signed => {
                let kept = self.flags;
                self.flags.sharp = true;
                self.digits(magnitude, false, 16, 'v', false);
                self.flags = kept;
            }
            'v' | 'd' => self.digits(magnitude, negative, 10, verb, false),
            'b' => self.digits(magnitude, negative, 2, verb, false),
            'o' | 'O' => self.digits(magnitude, negative, 8, verb, false),
            'x' => self.digits(magnitude, negative, 16, verb, false),
            'X' => self.digits(magnitude, negative, 16, verb, true),
            'c' => {
                let mut encoded = [0; 4];
                let c = character(magnitude, negative);
                self.pad_text(c.encode_utf8(&mut encoded).as_bytes());
            }
            'q' => {
                let mut out = vec![b'\''];
                escape_char(
                    &mut out,
                    character(magnitude, negative),
                    b'\'',
                    self.flags.plus,
                );
                out.push(b'\'');
                self.pad_text(&out);
            }
            'U' => {
                let code = if negative {
                    magnitude.wrapping_neg()
                } else {
                    magnitude
                };
                let mut out = format!("U+{code:04X}");
                let c = u32::try_from(code).ok().and_then(char::from_u32);
                if let Some(c) = c.filter(|c| self.flags.sharp && is_print(*c)) {
                    out.push_str(&format!(" '{c}'"));
                }
                let kept = self.flags;
                self.flags.zero = false;
                self.pad_text(out.as_bytes());
                self.flags = kept;
            }
            _ => return self.bad_verb(value, verb),
        }
        Ok(())
    }

    fn digits(&mut self, magnitude: u64, negative: bool, base: u32, verb: char, upper: bool) {
        let mut digits = match base {
            2 => format!("{magnitude:b}"),
            8 => format!("{magnitude:o}"),
            16 if upper => format!("{magnitude:X}"),
            16 => format!("{magnitude:x}"),
            _ => magnitude.to_string(),
        };
        let signed = negative || self.flags.plus || self.flags.space;
        let mut wanted = 0;
        if let Some(precision) = self.flags.precision {
            wanted = precision;
            if precision == 0 && magnitude == 0 {
                let kept = self.flags;
                self.flags.zero = false;
                self.fill(kept.width.unwrap_or(0), b' ');
                self.flags = kept;
                return;
            }
        } else if self.flags.zero
            && !self.flags.minus
            && let Some(width) = self.flags.width
        {
            wanted = if signed {
                width.saturating_sub(1)
            } else {
                width
            };
        }
        if digits.len() < wanted {
            digits.insert_str(0, &"0".repeat(wanted - digits.len()));
        }
        let mut out = String::new();
        if negative {
            out.push('-');
        } else if self.flags.plus {
            out.push('+');
        } else if self.flags.space {
            out.push(' ');
        }
        if self.flags.sharp {
            match base {
                2 => out.push_str("0b"),
                8 if !digits.starts_with('0') => out.push('0'),
                16 => out.push_str(if upper { "0X" } else { "0x" }),
                _ => {}
            }
        }
        if verb == 'O' {
            out.push_str("0o");
        }
        out.push_str(&digits);
        let kept = self.flags;
        self.flags.zero = false;
        self.pad_text(out.as_bytes());
        self.flags = kept;
    }

    pub(super) fn float(&mut self, number: f64, verb: char, value: &Value) -> RuntimeResult<()> {
        if matches!(verb, 'b' | 'x' | 'X') {
            let mut text = if verb == 'b' {
                super::float::binary(number)
            } else {
                super::float::hexadecimal(number, self.flags.precision)
            };
            if verb == 'X' && number.is_finite() {
                text = text.to_ascii_uppercase();
            }
            self.signed_float(&text, number, verb, None);
            return Ok(());
        }
        let (style, default) = match verb {
            'v' | 'g' | 'G' => (Style::General, None),
            'e' | 'E' => (Style::Exponent, Some(6)),
            'f' | 'F' => (Style::Plain, Some(6)),
            _ => return self.bad_verb(value, verb),
        };
        let precision = self.flags.precision.or(default);
        let mut text = format_float(number, style, precision);
        if verb.is_ascii_uppercase() && number.is_finite() {
            text = text.to_ascii_uppercase();
        }
        self.signed_float(&text, number, verb, precision);
        Ok(())
    }

    /// Sign, `#`, and zero padding between the sign and the digits.
    fn signed_float(&mut self, text: &str, number: f64, verb: char, precision: Option<usize>) {
        let (sign, digits) = match text.as_bytes().first() {
            Some(b'-') => ("-", &text[1..]),
            Some(b'+') => ("+", &text[1..]),
            _ => ("+", text),
        };
        let mut digits = digits.to_owned();
        if self.flags.sharp && number.is_finite() && !matches!(verb, 'b' | 'x' | 'X') {
            digits = with_point(&digits, verb, precision);
        }
        let sign = match sign {
            "+" if self.flags.space && !self.flags.plus => " ",
            // Go shows the sign of an infinity always.
            "+" if !self.flags.plus && !number.is_infinite() => "",
            other => other,
        };
        let kept = self.flags;
        if !number.is_finite() {
            self.flags.zero = false;
        }
        if self.flags.zero && !self.flags.minus && !sign.is_empty() {
            self.text(sign);
            self.flags.width = self
                .flags
                .width
                .map(|width| width.saturating_sub(sign.len()));
            self.pad_text(digits.as_bytes());
        } else {
            self.pad_text(format!("{sign}{digits}").as_bytes());
        }
        self.flags = kept;
    }

    pub(super) fn complex(
        &mut self,
        re: f64,
        im: f64,
        verb: char,
        value: &Value,
    ) -> RuntimeResult<()> {
        if !matches!(
            verb,
            'v' | 'b' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'x' | 'X'
        ) {
            return self.bad_verb(value, verb);
        }
        let plus = self.flags.plus;
        self.text("(");
        self.float(re, verb, value)?;
        self.flags.plus = true;
        self.float(im, verb, value)?;
        self.text("i)");
        self.flags.plus = plus;
        Ok(())
    }

    pub(super) fn string(&mut self, bytes: &[u8], verb: char, value: &Value) -> RuntimeResult<()> {
        match verb {
            'v' if self.flags.sharp_v => self.quoted(bytes),
            'v' | 's' => {
                let cut = self.cut(bytes);
                self.pad_text(cut);
            }
            'x' | 'X' => self.hex(bytes, verb == 'X'),
            'q' => self.quoted(bytes),
            _ => return self.bad_verb(value, verb),
        }
        Ok(())
    }

    fn quoted(&mut self, bytes: &[u8]) {
        let bytes = self.cut(bytes);
        let mut out = Vec::new();
        if self.flags.sharp && can_backquote(bytes) {
            out.push(b'`');
            out.extend_from_slice(bytes);
            out.push(b'`');
        } else {
            quote_into(&mut out, bytes, b'"', self.flags.plus);
        }
        self.pad_text(&out);
    }

    /// The first `precision` characters.
    fn cut<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(mut left) = self.flags.precision else {
            return bytes;
        };
        let mut end = 0;
        for chunk in bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                if left == 0 {
                    return &bytes[..end];
                }
                left -= 1;
                end += c.len_utf8();
            }
            for _ in chunk.invalid() {
                if left == 0 {
                    return &bytes[..end];
                }
                left -= 1;
                end += 1;
            }
        }
        bytes
    }

    fn hex(&mut self, bytes: &[u8], upper: bool) {
        let end = self
            .flags
            .precision
            .map_or(bytes.len(), |precision| precision.min(bytes.len()));
        let mut out = String::new();
        let prefix = if upper { "0X" } else { "0x" };
        for (at, byte) in bytes[..end].iter().enumerate() {
            if self.flags.space && at > 0 {
                out.push(' ');
            }
            if self.flags.sharp && (self.flags.space || at == 0) {
                out.push_str(prefix);
            }
            out.push_str(&if upper {
                format!("{byte:02X}")
            } else {
                format!("{byte:02x}")
            });
        }
        let kept = self.flags;
        self.flags.zero = false;
        self.pad_text(out.as_bytes());
        self.flags = kept;
    }
}

fn character(magnitude: u64, negative: bool) -> char {
    if negative {
        return char::REPLACEMENT_CHARACTER;
    }
    u32::try_from(magnitude)
        .ok()
        .and_then(char::from_u32)
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Go's `strconv.CanBackquote`.
fn can_backquote(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    text.chars()
        .all(|c| c != '\u{feff}' && c != '`' && c != '\u{7f}' && (c >= ' ' || c == '\t'))
}

/// `#`: a decimal point always, and for `%g` the trailing zeros of its precision.
fn with_point(digits: &str, verb: char, precision: Option<usize>) -> String {
    let at = digits.find(['e', 'E']).unwrap_or(digits.len());
    let (mantissa, exponent) = digits.split_at(at);
    let mut out = mantissa.to_owned();
    let general = matches!(verb, 'v' | 'g' | 'G');
    let wanted = if general { precision.unwrap_or(6) } else { 0 };
    let significant = mantissa
        .trim_start_matches(['0', '.'])
        .bytes()
        .filter(u8::is_ascii_digit);
    let count = if mantissa.bytes().all(|b| b == b'0' || b == b'.') {
        mantissa.bytes().filter(u8::is_ascii_digit).count()
    } else {
        significant.count()
    };
    if !out.contains('.') {
        out.push('.');
    }
    if general && count < wanted {
        out.push_str(&"0".repeat(wanted - count));
    }
    out + exponent
}
