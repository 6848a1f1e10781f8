//! Go's `strconv`: numbers from text, with Go's prefixes, underscores and failures.
//!
//! In: text. Out: integers and floats, or which way Go refuses them.

/// Why text is not a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NumError<T> {
    Syntax,
    /// Out of range; Go also returns the nearest value.
    Range(T),
}

/// `strconv.ParseUint` of text without a sign; base 0 reads prefixes and underscores.
pub(crate) fn parse_uint(text: &str, base: u32) -> Result<u64, NumError<u64>> {
    let whole = text;
    let prefixes = base == 0;
    let (text, base) = if prefixes {
        split_base(text)
    } else {
        (text, base)
    };
    if text.is_empty() {
        return Err(NumError::Syntax);
    }
    let mut value: u64 = 0;
    let mut overflow = false;
    for byte in text.bytes() {
        if byte == b'_' && prefixes {
            continue;
        }
        let digit = char::from(byte).to_digit(36).filter(|digit| *digit < base);
        let digit = digit.ok_or(NumError::Syntax)?;
        match value
            .checked_mul(u64::from(base))
            .and_then(|v| v.checked_add(u64::from(digit)))
        {
            Some(next) => value = next,
            None => overflow = true,
        }
    }
    if whole.contains('_') && !underscores_fit(whole) {
        return Err(NumError::Syntax);
    }
    if overflow {
        Err(NumError::Range(u64::MAX))
    } else {
        Ok(value)
    }
}

fn split_base(text: &str) -> (&str, u32) {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'0') {
        return (text, 10);
    }
    match bytes.get(1).map(u8::to_ascii_lowercase) {
        Some(b'x') if bytes.len() > 2 => (&text[2..], 16),
        Some(b'b') if bytes.len() > 2 => (&text[2..], 2),
        Some(b'o') if bytes.len() > 2 => (&text[2..], 8),
        Some(_) => (&text[1..], 8),
        None => (text, 10),
    }
}

/// `strconv.ParseInt`.
pub(crate) fn parse_int(text: &str, base: u32) -> Result<i64, NumError<i64>> {
    let (negative, digits) = match text.as_bytes().first() {
        None => return Err(NumError::Syntax),
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let limit = if negative { i64::MIN } else { i64::MAX };
    match parse_uint(digits, base) {
        Err(NumError::Syntax) => Err(NumError::Syntax),
        Err(NumError::Range(_)) => Err(NumError::Range(limit)),
        Ok(value) if negative && value <= i64::MIN.unsigned_abs() => {
            Ok(0_i64.wrapping_sub_unsigned(value))
        }
        Ok(value) => i64::try_from(value)
            .ok()
            .filter(|_| !negative)
            .ok_or(NumError::Range(limit)),
    }
}

/// Whether underscores only separate digits (a base prefix counts as one).
fn underscores_fit(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let bytes = text.as_bytes();
    let mut last = b'^';
    let mut at = 0;
    let mut hex = false;
    if bytes.len() >= 2
        && bytes[0] == b'0'
        && matches!(bytes[1].to_ascii_lowercase(), b'b' | b'o' | b'x')
    {
        hex = bytes[1].eq_ignore_ascii_case(&b'x');
        last = b'0';
        at = 2;
    }
    for byte in &bytes[at..] {
        let digit = byte.is_ascii_digit() || (hex && byte.is_ascii_hexdigit());
        if digit {
            last = b'0';
        } else if *byte == b'_' {
            if last != b'0' {
                return false;
            }
            last = b'_';
        } else {
            if last == b'_' {
                return false;
            }
            last = b'!';
        }
    }
    last != b'_'
}

/// `strconv.ParseFloat(text, 64)`.
pub(crate) fn parse_float(text: &str) -> Result<f64, NumError<f64>> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    match digits.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Ok(sign * f64::INFINITY),
        "nan" if digits.len() == text.len() => return Ok(f64::NAN),
        _ => {}
    }
    if digits.contains('_') && !underscores_fit(digits) {
        return Err(NumError::Syntax);
    }
    let plain: String = digits.chars().filter(|c| *c != '_').collect();
    let lower = plain.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        return hex_float(hex).map(|value| sign * value);
    }
    if !decimal_shape(plain.as_bytes()) {
        return Err(NumError::Syntax);
    }
    let value: f64 = plain.parse().map_err(|_| NumError::Syntax)?;
    if value.is_infinite() {
        Err(NumError::Range(sign * value))
    } else {
        Ok(sign * value)
    }
}

/// Digits, an optional point, at least one digit, an optional exponent with digits.
fn decimal_shape(bytes: &[u8]) -> bool {
    let mut at = 0;
    let mut digits = 0;
    let run = |at: &mut usize| {
        let start = *at;
        while bytes.get(*at).is_some_and(u8::is_ascii_digit) {
            *at += 1;
        }
        *at - start
    };
    digits += run(&mut at);
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        digits += run(&mut at);
    }
    if digits == 0 {
        return false;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        if run(&mut at) == 0 {
            return false;
        }
    }
    at == bytes.len()
}

/// `1.8p3`: hexadecimal digits and a mandatory binary exponent.
#[expect(
    clippy::cast_precision_loss,
    reason = "52 bits are kept, the rest is below rounding"
)]
fn hex_float(text: &str) -> Result<f64, NumError<f64>> {
    let (mantissa, exponent) = text.split_once('p').ok_or(NumError::Syntax)?;
    let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NumError::Syntax);
    }
    let mut power: i64 = exponent.parse().unwrap_or(if exponent.starts_with('-') {
        -9999
    } else {
        9999
    });
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && part.is_empty() {
        return Err(NumError::Syntax);
    }
    let mut value: u64 = 0;
    for (digit, fractional) in whole
        .chars()
        .map(|c| (c, false))
        .chain(part.chars().map(|c| (c, true)))
    {
        let digit = digit.to_digit(16).ok_or(NumError::Syntax)?;
        if value < 1 << 56 {
            value = value << 4 | u64::from(digit);
            power -= if fractional { 4 } else { 0 };
        } else {
            value |= u64::from(digit != 0);
            power += if fractional { 0 } else { 4 };
        }
    }
    let power = i32::try_from(power.clamp(-3000, 3000)).unwrap_or(0);
    let half = power / 2;
    let result = value as f64 * 2_f64.powi(half) * 2_f64.powi(power - half);
    if result.is_infinite() {
        Err(NumError::Range(result))
    } else {
        Ok(result)
    }
}
