//! Go's layouts: the reference time `Mon Jan 2 15:04:05 MST 2006`, taken apart and printed.
//!
//! In: a layout. Out: its pieces, and an instant in that layout.
//! Everything that is not a piece of the reference time stands for itself.

use super::{DAYS, MONTHS, Time};

/// One piece of the reference time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekDay,
    WeekDay,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    /// Numeric zone: `Z` for UTC, colons, how many parts (1 hours, 2 minutes, 3 seconds).
    Zone {
        z: bool,
        colon: bool,
        parts: u8,
    },
    /// Fraction of a second: digits, whether trailing zeros go, and its separator.
    Fraction {
        digits: usize,
        trim: bool,
        separator: u8,
    },
}

fn lower_follows(rest: &[u8]) -> bool {
    rest.first().is_some_and(u8::is_ascii_lowercase)
}

/// The first piece: where it starts, what it is, how long it is.
pub(super) fn next_piece(layout: &[u8]) -> Option<(usize, Piece, usize)> {
    (0..layout.len()).find_map(|at| piece_at(layout, at))
}

fn piece_at(layout: &[u8], at: usize) -> Option<(usize, Piece, usize)> {
    let rest = &layout[at..];
    let found = |piece, length| Some((at, piece, length));
    match rest[0] {
        b'J' if rest.starts_with(b"January") => found(Piece::LongMonth, 7),
        b'J' if rest.starts_with(b"Jan") && !lower_follows(&rest[3..]) => found(Piece::Month, 3),
        b'M' if rest.starts_with(b"Monday") => found(Piece::LongWeekDay, 6),
        b'M' if rest.starts_with(b"Mon") && !lower_follows(&rest[3..]) => found(Piece::WeekDay, 3),
        b'M' if rest.starts_with(b"MST") => found(Piece::ZoneName, 3),
        b'0' => match rest.get(1) {
            Some(b'1') => found(Piece::ZeroMonth, 2),
            Some(b'2') => found(Piece::ZeroDay, 2),
            Some(b'3') => found(Piece::ZeroHour12, 2),
            Some(b'4') => found(Piece::ZeroMinute, 2),
            Some(b'5') => found(Piece::ZeroSecond, 2),
            Some(b'6') => found(Piece::Year, 2),
            _ if rest.starts_with(b"002") => found(Piece::ZeroYearDay, 3),
            _ => None,
        },
        b'1' if rest.starts_with(b"15") => found(Piece::Hour, 2),
        b'1' => found(Piece::NumMonth, 1),
        b'2' if rest.starts_with(b"2006") => found(Piece::LongYear, 4),
        b'2' => found(Piece::Day, 1),
        b'_' if rest.starts_with(b"_2006") => Some((at + 1, Piece::LongYear, 4)),
        b'_' if rest.starts_with(b"_2") => found(Piece::UnderDay, 2),
        b'_' if rest.starts_with(b"__2") => found(Piece::UnderYearDay, 3),
        b'3' => found(Piece::Hour12, 1),
        b'4' => found(Piece::Minute, 1),
        b'5' => found(Piece::Second, 1),
        b'P' if rest.starts_with(b"PM") => found(Piece::UpperPm, 2),
        b'p' if rest.starts_with(b"pm") => found(Piece::LowerPm, 2),
        first @ (b'-' | b'Z') => {
            let z = first == b'Z';
            let zone = |colon, parts| Piece::Zone { z, colon, parts };
            let tail = &rest[1..];
            if tail.starts_with(b"070000") {
                found(zone(false, 3), 7)
            } else if tail.starts_with(b"07:00:00") {
                found(zone(true, 3), 9)
            } else if tail.starts_with(b"0700") {
                found(zone(false, 2), 5)
            } else if tail.starts_with(b"07:00") {
                found(zone(true, 2), 6)
            } else if tail.starts_with(b"07") {
                found(zone(false, 1), 3)
            } else {
                None
            }
        }
        separator @ (b'.' | b',') => {
            let digit = *rest.get(1)?;
            if digit != b'0' && digit != b'9' {
                return None;
            }
            let digits = rest[1..].iter().take_while(|byte| **byte == digit).count();
            if rest.get(1 + digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            found(
                Piece::Fraction {
                    digits,
                    trim: digit == b'9',
                    separator,
                },
                1 + digits,
            )
        }
        _ => None,
    }
}

impl Time {
    /// `time.Time.Format`.
    pub(crate) fn format(&self, layout: &[u8]) -> String {
        let mut out = Vec::new();
        let mut rest = layout;
        while let Some((start, piece, length)) = next_piece(rest) {
            out.extend_from_slice(&rest[..start]);
            out.extend_from_slice(self.piece(piece).as_bytes());
            rest = &rest[start + length..];
        }
        out.extend_from_slice(rest);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn piece(&self, piece: Piece) -> String {
        let civil = self.civil();
        let month = MONTHS[(civil.month as usize + 11) % 12];
        let day = DAYS[civil.weekday as usize % 7];
        let hour12 = if civil.hour.is_multiple_of(12) {
            12
        } else {
            civil.hour % 12
        };
        match piece {
            Piece::LongMonth => month.to_owned(),
            Piece::Month => month[..3].to_owned(),
            Piece::NumMonth => civil.month.to_string(),
            Piece::ZeroMonth => format!("{:02}", civil.month),
            Piece::LongWeekDay => day.to_owned(),
            Piece::WeekDay => day[..3].to_owned(),
            Piece::Day => civil.day.to_string(),
            Piece::UnderDay => format!("{:2}", civil.day),
            Piece::ZeroDay => format!("{:02}", civil.day),
            Piece::UnderYearDay => format!("{:3}", civil.year_day),
            Piece::ZeroYearDay => format!("{:03}", civil.year_day),
            Piece::Hour => format!("{:02}", civil.hour),
            Piece::Hour12 => hour12.to_string(),
            Piece::ZeroHour12 => format!("{hour12:02}"),
            Piece::Minute => civil.minute.to_string(),
            Piece::ZeroMinute => format!("{:02}", civil.minute),
            Piece::Second => civil.second.to_string(),
            Piece::ZeroSecond => format!("{:02}", civil.second),
            Piece::LongYear if civil.year < 0 => format!("-{:04}", -civil.year),
            Piece::LongYear => format!("{:04}", civil.year),
            Piece::Year => format!("{:02}", civil.year.rem_euclid(100)),
            Piece::UpperPm => if civil.hour >= 12 { "PM" } else { "AM" }.to_owned(),
            Piece::LowerPm => if civil.hour >= 12 { "pm" } else { "am" }.to_owned(),
            Piece::ZoneName if self.zone.is_empty() => {
                let minutes = self.offset / 60;
                let sign = if minutes < 0 { '-' } else { '+' };
                let minutes = minutes.abs();
                format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
            }
            Piece::ZoneName => self.zone.clone(),
            Piece::Zone { z: true, .. } if self.offset == 0 => "Z".to_owned(),
            Piece::Zone { colon, parts, .. } => numeric_zone(self.offset, colon, parts),
            Piece::Fraction {
                digits,
                trim,
                separator,
            } => fraction(self.nanos, digits, trim, char::from(separator)),
        }
    }
}

fn numeric_zone(offset: i32, colon: bool, parts: u8) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let seconds = offset.abs();
    let separator = if colon { ":" } else { "" };
    let mut out = format!("{sign}{:02}", seconds / 3600);
    if parts >= 2 {
        out.push_str(&format!("{separator}{:02}", seconds / 60 % 60));
    }
    if parts >= 3 {
        out.push_str(&format!("{separator}{:02}", seconds % 60));
    }
    out
}

fn fraction(nanos: u32, digits: usize, trim: bool, separator: char) -> String {
    let all = format!("{nanos:09}");
    let kept: String = all
        .chars()
        .chain(std::iter::repeat('0'))
        .take(digits.min(9))
        .collect();
    let kept = if trim {
        kept.trim_end_matches('0')
    } else {
        &kept
    };
    if kept.is_empty() {
        String::new()
    } else {
        format!("{separator}{kept}")
    }
}
