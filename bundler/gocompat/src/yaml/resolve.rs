//! What a plain scalar means: null, boolean, number, time, or text.
//!
//! In: the text of a scalar and a tag. Out: its type and value by the rules of `yaml.v2`
//! (YAML 1.1 booleans) or `yaml.v3`. The writer asks the same question, to know which texts
//! it must quote.

use crate::gonum::{NumError, parse_float, parse_int, parse_uint};
use crate::gotime::{Time, parse as parse_time};
use std::borrow::Cow;

/// The meaning of a scalar.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Time(Time),
    Merge,
    Text,
}

impl Scalar {
    /// The short tag of the type.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Int(_) | Self::Uint(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::Time(_) => "!!timestamp",
            Self::Merge => "!!merge",
            Self::Text => "!!str",
        }
    }
}

/// Booleans of YAML 1.1 that 1.2 dropped.
pub(super) fn old_bool(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn word(text: &str) -> Option<Scalar> {
    Some(match text {
        "true" | "True" | "TRUE" => Scalar::Bool(true),
        "false" | "False" | "FALSE" => Scalar::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

/// Resolves a plain scalar. `times` says whether a date may be a time (no other tag is given).
pub(super) fn resolve(text: &str, v2: bool, times: bool) -> Scalar {
    let Some(first) = text.bytes().next() else {
        return Scalar::Null;
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => {
            let found = word(text);
            found
                .or_else(|| old_bool(text).filter(|_| v2).map(Scalar::Bool))
                .unwrap_or(Scalar::Text)
        }
        b'.' => word(text)
            .or_else(|| parse_float(text).ok().map(Scalar::Float))
            .unwrap_or(Scalar::Text),
        b'+' | b'-' | b'0'..=b'9' => word(text).unwrap_or_else(|| number(text, times)),
        b'<' if text == "<<" => Scalar::Merge,
        _ => Scalar::Text,
    }
}

fn number(text: &str, times: bool) -> Scalar {
    if times && let Some(time) = timestamp(text) {
        return Scalar::Time(time);
    }
    let plain = match text.contains('_') {
        true => Cow::Owned(text.replace('_', "")),
        false => Cow::Borrowed(text),
    };
    let unsigned = |text: &str, base| match parse_uint(text, base) {
        Ok(number) => Some(Scalar::Uint(number)),
        Err(NumError::Syntax | NumError::Range(_)) => None,
    };
    let int = |text: &str, base| parse_int(text, base).ok().map(Scalar::Int);
    if let Some(found) = int(&plain, 0).or_else(|| unsigned(&plain, 0)) {
        return found;
    }
    if yaml_float(&plain)
        && let Ok(number) = parse_float(&plain)
    {
        return Scalar::Float(number);
    }
    for (prefix, base) in [("0b", 2), ("0o", 8)] {
        let found = match (plain.strip_prefix(prefix), plain.strip_prefix('-')) {
            (Some(digits), _) => int(digits, base).or_else(|| unsigned(digits, base)),
            (None, Some(rest)) => rest
                .strip_prefix(prefix)
                .and_then(|digits| int(&format!("-{digits}"), base)),
            (None, None) => None,
        };
        if let Some(found) = found {
            return found;
        }
    }
    Scalar::Text
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn yaml_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa = match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", part)) => digits(part),
        Some((whole, part)) => digits(whole) && (part.is_empty() || digits(part)),
    };
    mantissa
        && exponent
            .is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)))
}

/// The timestamps that `yaml.v3` knows.
pub(super) fn timestamp(text: &str) -> Option<Time> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits != 4 || text.as_bytes().get(4) != Some(&b'-') {
        return None;
    }
    [
        "2006-1-2T15:4:5.999999999Z07:00",
        "2006-1-2t15:4:5.999999999Z07:00",
        "2006-1-2 15:4:5.999999999",
        "2006-1-2",
    ]
    .into_iter()
    .find_map(|layout| parse_time(layout, text, false))
}

/// Whether a text reads as a number to base 60 in YAML 1.1, and is quoted for that.
fn base60(text: &str) -> bool {
    if !text.contains(':') {
        return false;
    }
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (body, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'_')
    {
        return false;
    }
    let mut parts = body.split(':');
    let first = parts.next().unwrap_or("");
    first.starts_with(|c: char| c.is_ascii_digit())
        && first
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_')
        && parts.all(|part| match part.as_bytes() {
            [digit] => digit.is_ascii_digit(),
            [ten, digit] => (b'0'..=b'5').contains(ten) && digit.is_ascii_digit(),
            _ => false,
        })
}

/// Whether the writer may leave a text unquoted as far as its meaning goes.
pub(super) fn stays_text(text: &str) -> bool {
    let Some(first) = text.bytes().next() else {
        return false;
    };
    let plain = match first {
        b'+' | b'-' | b'.' | b'0'..=b'9' | b'~' => resolve(text, false, true) == Scalar::Text,
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' => {
            return text.len() > 5 || word(text).is_none() && old_bool(text).is_none();
        }
        _ => return true,
    };
    plain && !base60(text)
}
