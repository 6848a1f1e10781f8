//! Numbers as Go reads, compares and prints them.
//!
//! What comes in: the text of a config's value, or a number of a schema. What goes out: JSON numbers,
//! exact decimal arithmetic for multiples, and the text of a bound in a message.

use serde_json::{Number, Value};

/// The number that a text is to Go's `Atoi`, or else to its `ParseFloat`.
///
/// # Errors
/// When it is infinite or not a number, which JSON cannot hold.
pub(super) fn coerce(text: &str) -> Result<Option<Value>, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && let Ok(integer) = text.parse::<i64>()
    {
        return Ok(Some(integer.into()));
    }
    match parse_float(text) {
        Some(number) => of(number).map(Some),
        None => Ok(None),
    }
}

/// A float as JSON; whole ones are integers, as Go prints them.
///
/// # Errors
/// When it is infinite or not a number.
pub(super) fn of(number: f64) -> Result<Value, String> {
    let whole = number.fract() == 0.0 && number.abs() < 9e15;
    if whole {
        // Exact: below 2^53 every whole float is an integer.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked to be whole and below 2^53"
        )]
        return Ok(Value::Number((number as i64).into()));
    }
    let sign = if number > 0.0 {
        "+Inf"
    } else if number < 0.0 {
        "-Inf"
    } else {
        "NaN"
    };
    Number::from_f64(number)
        .map(Value::Number)
        .ok_or_else(|| format!("unsupported value: {sign}"))
}

/// Go's `ParseFloat`: decimal and hexadecimal, `_` between digits, infinities; out of range is none.
fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        "nan" => return (unsigned.len() == text.len()).then_some(f64::NAN),
        _ => {}
    }
    if !underscores_separate_digits(unsigned) {
        return None;
    }
    let plain = unsigned.replace('_', "");
    if let Some(hex) = plain
        .strip_prefix("0x")
        .or_else(|| plain.strip_prefix("0X"))
    {
        return hexadecimal(hex).map(|number| sign * number);
    }
    let allowed = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
    if !plain.bytes().all(allowed) || plain.starts_with(['+', '-']) {
        return None;
    }
    let number: f64 = plain.parse().ok()?;
    number.is_finite().then_some(sign * number)
}

fn underscores_separate_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let digit =
        |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_digit() || (hex && b.is_ascii_hexdigit()));
    bytes
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'_')
        .all(|(at, _)| {
            let before = at.checked_sub(1).and_then(|at| bytes.get(at));
            (digit(before) || (hex && at == 2)) && digit(bytes.get(at + 1))
        })
}

/// `1.8p4`: the exponent is obligatory.
fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut number = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        number = number * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let shift = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
    let number = number * 2f64.powi(exponent.checked_sub(shift)?);
    number.is_finite().then_some(number)
}

/// A number as mantissa and power of ten.
fn decimal(number: &Number) -> Option<(i128, i32)> {
    let text = number.to_string();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    Some((
        digits,
        exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?,
    ))
}

/// Whether `number` is a whole multiple of `unit`, in exact decimal arithmetic.
pub(super) fn is_multiple(number: &Number, unit: &Number) -> bool {
    let exact = || {
        let ((a, a_exponent), (b, b_exponent)) = (decimal(number)?, decimal(unit)?);
        let least = a_exponent.min(b_exponent);
        let scale = |digits: i128, exponent: i32| {
            digits.checked_mul(10i128.checked_pow(u32::try_from(exponent - least).ok()?)?)
        };
        scale(a, a_exponent)?
            .checked_rem(scale(b, b_exponent)?)
            .map(|rest| rest == 0)
    };
    exact().unwrap_or_else(|| (float(number) / float(unit)).fract() == 0.0)
}

/// Whether a number is whole, however it is written.
pub(super) fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || float(number).fract() == 0.0
}

/// For comparisons.
pub(super) fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

/// A bound in a message: ten significant digits, as Go prints a `big.Float`.
pub(super) fn bound(number: &Number) -> String {
    let value = float(number);
    let scientific = format!("{value:.9e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if !(-4..10).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(9 - exponent).unwrap_or(0);
    let fixed = format!("{value:.decimals$}");
    if fixed.contains('.') {
        trim(&fixed)
    } else {
        fixed
    }
}
