//! Go's `strconv.FormatFloat` for 64-bit floats.
//!
//! In: a float, a style and a precision. Out: its text. Without a precision the text is the
//! shortest that reads back as the same float.

/// Layout of the digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `%e`.
    Exponent,
    /// `%f`.
    Plain,
    /// `%g`.
    General,
}

/// `strconv.FormatFloat(number, 'g', -1, 64)`.
pub(crate) fn shortest(number: f64) -> String {
    format_float(number, Style::General, None)
}

/// `strconv.FormatFloat`; infinities are `+Inf` and `-Inf`.
pub(crate) fn format_float(number: f64, style: Style, precision: Option<usize>) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    match style {
        Style::Plain => match precision {
            Some(precision) => format!("{number:.precision$}"),
            None => format!("{number}"),
        },
        Style::Exponent => match precision {
            Some(precision) => go_exponent(&format!("{number:.precision$e}")),
            None => go_exponent(&format!("{number:e}")),
        },
        Style::General => general(number, precision),
    }
}

fn general(number: f64, precision: Option<usize>) -> String {
    let scientific = match precision {
        None => format!("{number:e}"),
        Some(precision) => format!("{number:.*e}", precision.max(1) - 1),
    };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let negative = mantissa.starts_with('-');
    let mut digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    // `%g` drops the zeros that a precision would pad with.
    let kept = digits.trim_end_matches('0').len().max(1);
    digits.truncate(kept);
    let threshold = match precision {
        None => 6,
        Some(precision) => {
            let wanted = i32::try_from(precision.max(1)).unwrap_or(i32::MAX);
            let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
            if wanted > count && count > exponent {
                count
            } else {
                wanted
            }
        }
    };
    let mut out = String::new();
    if negative {
        out.push('-');
    }
    if exponent < -4 || exponent >= threshold {
        out.push_str(&digits[..1]);
        if digits.len() > 1 {
            out.push('.');
            out.push_str(&digits[1..]);
        }
        push_exponent(&mut out, exponent);
    } else {
        push_plain(&mut out, &digits, exponent);
    }
    out
}

fn push_plain(out: &mut String, digits: &str, exponent: i32) {
    let Ok(point) = usize::try_from(exponent + 1) else {
        out.push_str("0.");
        let zeros = usize::try_from(-(exponent + 1)).unwrap_or(0);
        out.extend(std::iter::repeat_n('0', zeros));
        out.push_str(digits);
        return;
    };
    if point == 0 {
        out.push_str("0.");
        out.push_str(digits);
    } else if digits.len() <= point {
        out.push_str(digits);
        out.extend(std::iter::repeat_n('0', point - digits.len()));
    } else {
        out.push_str(&digits[..point]);
        out.push('.');
        out.push_str(&digits[point..]);
    }
}

fn push_exponent(out: &mut String, exponent: i32) {
    let sign = if exponent < 0 { '-' } else { '+' };
    out.push('e');
    out.push(sign);
    out.push_str(&format!("{:02}", exponent.unsigned_abs()));
}

/// Rust writes `1e5`, Go `1e+05`.
fn go_exponent(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let mut out = mantissa.to_owned();
    push_exponent(&mut out, exponent.parse().unwrap_or(0));
    out
}

/// `%b`: a decimal mantissa and a power of two.
pub(super) fn binary(number: f64) -> String {
    if !number.is_finite() {
        return format_float(number, Style::General, None);
    }
    let (negative, mantissa, exponent) = parts(number);
    let sign = if negative { "-" } else { "" };
    format!("{sign}{mantissa}p{exponent:+}")
}

/// Sign, mantissa and power of two: `mantissa * 2^exponent`.
fn parts(number: f64) -> (bool, u64, i64) {
    let bits = number.to_bits();
    let mantissa = bits & ((1 << 52) - 1);
    let exponent = (bits >> 52 & 0x7ff).cast_signed();
    if exponent == 0 {
        (number.is_sign_negative(), mantissa, -1074)
    } else {
        (
            number.is_sign_negative(),
            mantissa | 1 << 52,
            exponent - 1075,
        )
    }
}

/// `%x`: a hexadecimal mantissa with one digit before the point, and a power of two.
pub(super) fn hexadecimal(number: f64, precision: Option<usize>) -> String {
    if !number.is_finite() {
        return format_float(number, Style::General, None);
    }
    let (negative, mut mantissa, mut exponent) = parts(number);
    let sign = if negative { "-" } else { "" };
    if mantissa == 0 {
        exponent = 0;
    } else {
        let shift = mantissa.leading_zeros() - 11;
        mantissa <<= shift;
        exponent += 52 - i64::from(shift);
    }
    // 52 bits behind the point: 13 digits. Rounding is to the nearest, halves to even.
    let mut digits = 13;
    if let Some(wanted) = precision.filter(|wanted| *wanted < 13) {
        let drop = 4 * (13 - wanted);
        let half = 1_u64 << (drop - 1);
        let rest = mantissa & ((1 << drop) - 1);
        mantissa >>= drop;
        if rest > half || rest == half && mantissa & 1 == 1 {
            mantissa += 1;
        }
        digits = wanted;
        if mantissa >> (4 * digits) > 1 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let lead = mantissa >> (4 * digits);
    let tail = mantissa & ((1_u64 << (4 * digits)) - 1);
    let mut text = if digits == 0 {
        String::new()
    } else {
        format!("{tail:0digits$x}")
    };
    match precision {
        None => text.truncate(text.trim_end_matches('0').len()),
        Some(wanted) => text.extend(std::iter::repeat_n('0', wanted.saturating_sub(digits))),
    }
    let point = if text.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{sign}0x{lead}{point}{text}p{exponent_sign}{:02}",
        exponent.unsigned_abs()
    )
}
