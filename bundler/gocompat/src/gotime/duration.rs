//! Go's `time.ParseDuration`.
//!
//! In: text such as `-1h30m`. Out: nanoseconds, or nothing when Go reports an error.

/// Nanoseconds of a duration.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let whole: u64 = if digits == 0 {
            0
        } else {
            rest[..digits].parse().ok()?
        };
        rest = &rest[digits..];
        let mut part = "";
        if let Some(tail) = rest.strip_prefix('.') {
            let length = tail.bytes().take_while(u8::is_ascii_digit).count();
            part = &tail[..length];
            rest = &tail[length..];
        }
        if digits == 0 && part.is_empty() {
            return None;
        }
        let end = rest
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(rest.len());
        let unit: u64 = match &rest[..end] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        rest = &rest[end..];
        let mut value = whole.checked_mul(unit)?;
        if !part.is_empty() {
            value = value.checked_add(part_of(part, unit))?;
        }
        total = total.checked_add(value).filter(|total| *total <= 1 << 63)?;
    }
    if negative {
        return Some(0_i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).ok()
}

/// A fraction of a unit, cut as Go cuts it: digits beyond what fits are ignored.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn part_of(digits: &str, unit: u64) -> u64 {
    let mut value: u64 = 0;
    let mut scale = 1.0_f64;
    for digit in digits.bytes() {
        if value > (1 << 63) / 10 {
            break;
        }
        value = value * 10 + u64::from(digit - b'0');
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}
