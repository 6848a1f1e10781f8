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
            if wanted > count && count > exponent { count } else { wanted }
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
