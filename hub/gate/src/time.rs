//! Moments and spans of time: milliseconds since 1970 for the program, words for people.
//!
//! What comes in: milliseconds, or what someone typed. What goes out: RFC 3339 and phrases such as `3
//! days`. It reads no clock: the time is an argument.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
/// One hour in milliseconds.
pub const HOUR_MS: i64 = 60 * MINUTE;
/// One day in milliseconds.
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// `2026-11-21T03:40:00Z`; whole seconds.
pub fn rfc3339(at_ms: i64) -> String {
    match Timestamp::from_second(at_ms.div_euclid(SECOND)) {
        Ok(at) => at.to_string(),
        Err(_) => format!("{at_ms} ms"),
    }
}

/// A span in its largest fitting unit, rounded down: `40 s`, `5 min`, `30 h`, `4 days`.
pub fn span(length_ms: i64) -> String {
    match length_ms.max(0) {
        ms if ms < MINUTE => format!("{} s", ms / SECOND),
        ms if ms < 2 * HOUR_MS => format!("{} min", ms / MINUTE),
        ms if ms < 2 * DAY_MS => format!("{} h", ms / HOUR_MS),
        ms => format!("{} days", ms / DAY_MS),
    }
}

/// `just now`, `5 min ago`, `in 3 days`.
pub fn ago(at_ms: i64, now_ms: i64) -> String {
    match now_ms.saturating_sub(at_ms) {
        past if (0..10 * SECOND).contains(&past) => "just now".to_owned(),
        past if past >= 0 => format!("{} ago", span(past)),
        past => format!("in {}", span(-past)),
    }
}

/// A moment that someone typed: RFC 3339, a date (its end in UTC), or a span from now such as `36h`
/// or `14d`.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse(text: &str, now_ms: i64) -> Result<i64, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at.as_millisecond());
    }
    if let Ok(date) = text.parse::<Date>() {
        let end = date
            .tomorrow()
            .and_then(|next| next.to_zoned(TimeZone::UTC));
        return end
            .map(|at| at.timestamp().as_millisecond())
            .map_err(|_| format!("`{text}` is out of range"));
    }
    let unit = match text.chars().last() {
        Some('h') => Some(HOUR_MS),
        Some('d') => Some(DAY_MS),
        _ => None,
    };
    let count = unit.and_then(|_| text.get(..text.len() - 1)?.parse::<u32>().ok());
    match (unit, count) {
        (Some(unit), Some(count)) => Ok(now_ms.saturating_add(unit * i64::from(count))),
        _ => Err(format!(
            "`{text}` is not a time (expected `2026-12-24`, `2026-12-24T18:00:00Z`, `36h` or `14d`)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_moments_are_understood_and_nonsense_is_not() {
        assert_eq!(parse("2h", 5), Ok(2 * HOUR_MS + 5));
        assert_eq!(parse("3d", 0), Ok(3 * DAY_MS));
        assert_eq!(parse("1970-01-02", 0), Ok(2 * DAY_MS));
        assert_eq!(parse("1970-01-01T01:00:00Z", 0), Ok(HOUR_MS));
        for bad in ["", "h", "d", "-1h", "2w", "soon", "ä", "12"] {
            assert!(parse(bad, 0).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_read_well() {
        assert_eq!(span(59_999), "59 s");
        assert_eq!(span(119 * MINUTE), "119 min");
        assert_eq!(span(47 * HOUR_MS), "47 h");
        assert_eq!(span(49 * HOUR_MS), "2 days");
        assert_eq!(ago(0, 5 * MINUTE), "5 min ago");
        assert_eq!(ago(3 * DAY_MS, 0), "in 3 days");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
    }
}
