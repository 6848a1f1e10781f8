//! Constants of templates: quoted strings, characters and numbers, as Go reads them.
//!
//! In: the text of a token. Out: its value, or Go's message.

use super::tree::Number;
use crate::gonum::{NumError, parse_float, parse_int, parse_uint};

/// `strconv.Unquote` of `"..."` or a raw string.
pub(super) fn unquote(text: &[u8]) -> Result<Vec<u8>, String> {
    let mark = *text.first().ok_or("invalid syntax")?;
    let inner = text
        .get(1..text.len().saturating_sub(1))
        .ok_or("invalid syntax")?;
    if mark == b'`' {
        return Ok(inner
            .iter()
            .copied()
            .filter(|byte| *byte != b'\r')
            .collect());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while !rest.is_empty() {
        rest = unquote_char(rest, mark, &mut out)?.1;
    }
    Ok(out)
}

/// One character or escape; returns its code.
fn unquote_char<'t>(
    text: &'t [u8],
    mark: u8,
    out: &mut Vec<u8>,
) -> Result<(u32, &'t [u8]), String> {
    let bad = || "invalid syntax".to_owned();
    let first = *text.first().ok_or_else(bad)?;
    if first == mark {
        return Err(bad());
    }
    if first != b'\\' {
        let head = &text[..text.len().min(4)];
        let c = head
            .utf8_chunks()
            .next()
            .and_then(|chunk| chunk.valid().chars().next());
        let (code, size) = c.map_or((0xfffd, 1), |c| (u32::from(c), c.len_utf8()));
        if c.is_some() {
            out.extend_from_slice(&text[..size]);
        } else {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
        return Ok((code, &text[size..]));
    }
    let escape = *text.get(1).ok_or_else(bad)?;
    let mut rest = &text[2..];
    let code = match escape {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => 10,
        b'r' => 13,
        b't' => 9,
        b'v' => 11,
        b'\\' => 92,
        b'\'' | b'"' if escape == mark => u32::from(mark),
        b'x' | b'u' | b'U' => {
            let count = match escape {
                b'x' => 2,
                b'u' => 4,
                _ => 8,
            };
            let digits = rest.get(..count).ok_or_else(bad)?;
            rest = &rest[count..];
            let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(bad());
            }
            let code = u32::from_str_radix(digits, 16).map_err(|_| bad())?;
            if escape == b'x' {
                out.push(u8::try_from(code).map_err(|_| bad())?);
                return Ok((code, rest));
            }
            char::from_u32(code).ok_or_else(bad)?;
            code
        }
        b'0'..=b'7' => {
            let digits = text.get(1..4).ok_or_else(bad)?;
            if !digits.iter().all(|byte| (b'0'..=b'7').contains(byte)) {
                return Err(bad());
            }
            rest = &text[4..];
            let code = digits
                .iter()
                .fold(0, |code, digit| code * 8 + u32::from(digit - b'0'));
            out.push(u8::try_from(code).map_err(|_| bad())?);
            return Ok((code, rest));
        }
        _ => return Err(bad()),
    };
    let mut encoded = [0; 4];
    let c = char::from_u32(code).ok_or_else(bad)?;
    out.extend_from_slice(c.encode_utf8(&mut encoded).as_bytes());
    Ok((code, rest))
}

/// A character constant.
pub(super) fn character(text: &[u8]) -> Result<Number, String> {
    let shown = String::from_utf8_lossy(text).into_owned();
    let (code, tail) = unquote_char(text.get(1..).unwrap_or(&[]), b'\'', &mut Vec::new())?;
    if tail != b"'" {
        return Err(format!("malformed character constant: {shown}"));
    }
    let int = i64::from(code);
    Ok(Number {
        text: shown,
        int: Some(int),
        float: Some(f64::from(code)),
        complex: None,
        is_char: true,
    })
}

/// A complex constant such as `1+2i`.
pub(super) fn complex(text: &str) -> Result<Number, String> {
    let body = text.strip_suffix('i').unwrap_or(text);
    let split = body
        .char_indices()
        .rev()
        .find(|(at, c)| {
            *at > 0
                && matches!(c, '+' | '-')
                && !matches!(body.as_bytes()[at - 1], b'e' | b'E' | b'p' | b'P')
        })
        .map(|(at, _)| at)
        .ok_or("syntax error scanning complex number")?;
    let re = parse_float(&body[..split]).map_err(|_| "syntax error scanning complex number")?;
    let im = parse_float(&body[split..]).map_err(|_| "syntax error scanning complex number")?;
    Ok(simplified(text, re, im))
}

/// A constant that is complex in form may still be a real number or an integer.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp
)]
fn simplified(text: &str, re: f64, im: f64) -> Number {
    let float = (im == 0.0).then_some(re);
    let int = float
        .filter(|value| (*value as i64) as f64 == *value)
        .map(|value| value as i64);
    Number {
        text: text.to_owned(),
        int,
        float,
        complex: Some((re, im)),
        is_char: false,
    }
}

/// A number: every type that it fits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp
)]
pub(super) fn number(text: &str) -> Result<Number, String> {
    if let Some(body) = text.strip_suffix('i')
        && let Ok(im) = parse_float(body)
    {
        return Ok(simplified(text, 0.0, im));
    }
    let unsigned = parse_uint(text, 0).ok();
    let mut int = parse_int(text, 0).ok();
    let mut float = int
        .map(|value| value as f64)
        .or(unsigned.map(|value| value as f64));
    if float.is_none() {
        match parse_float(text) {
            Ok(value) => {
                if !text.contains(['.', 'e', 'E', 'p', 'P']) {
                    return Err(format!("integer overflow: {text:?}"));
                }
                float = Some(value);
                if (value as i64) as f64 == value {
                    int = Some(value as i64);
                }
            }
            Err(NumError::Syntax | NumError::Range(_)) => {
                return Err(format!("illegal number syntax: {text:?}"));
            }
        }
    }
    Ok(Number {
        text: text.to_owned(),
        int,
        float,
        complex: None,
        is_char: false,
    })
}

impl Number {
    /// Whether Go takes an untyped constant of this form for a float.
    pub(super) fn is_float_literal(&self) -> bool {
        let hex = self.text.len() > 2
            && self.text.starts_with('0')
            && matches!(self.text.as_bytes()[1], b'x' | b'X')
            && !self.text.contains(['p', 'P']);
        self.float.is_some()
            && !hex
            && !self.is_char
            && self.text.contains(['.', 'e', 'E', 'p', 'P'])
    }
}
