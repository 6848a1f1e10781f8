//! Go's `time.Parse` with UTC as the local zone.
//!
//! In: a layout and a text. Out: the instant, or nothing where Go reports an error.

use super::layout::{Piece, next_piece};
use super::{DAYS, MONTHS, Time, days_in, leap};

#[derive(Default)]
struct Parts {
    year: i64,
    month: Option<u32>,
    day: Option<u32>,
    year_day: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    pm: Option<bool>,
    utc: bool,
    offset: Option<i32>,
    zone: Option<String>,
    /// A text without a zone is in the local one.
    local: bool,
}

/// `time.Parse(layout, text)`, or `time.ParseInLocation` with the local zone.
pub(crate) fn parse(layout: &str, text: &str, local: bool) -> Option<Time> {
    let mut parts = Parts {
        local,
        ..Parts::default()
    };
    let (mut layout, mut text) = (layout.as_bytes(), text.as_bytes());
    loop {
        let Some((start, piece, length)) = next_piece(layout) else {
            return skip(text, layout)?
                .is_empty()
                .then(|| parts.finish())
                .flatten();
        };
        text = skip(text, &layout[..start])?;
        layout = &layout[start + length..];
        text = parts.read(piece, text, layout)?;
    }
}

/// Matches literal text; a run of spaces matches any run.
fn skip<'t>(mut text: &'t [u8], mut literal: &[u8]) -> Option<&'t [u8]> {
    while let Some(first) = literal.first() {
        if *first == b' ' {
            if text.first().is_some_and(|byte| *byte != b' ') {
                return None;
            }
            literal = cut_spaces(literal);
            text = cut_spaces(text);
            continue;
        }
        if text.first() != Some(first) {
            return None;
        }
        literal = &literal[1..];
        text = &text[1..];
    }
    Some(text)
}

fn cut_spaces(bytes: &[u8]) -> &[u8] {
    let spaces = bytes.iter().take_while(|byte| **byte == b' ').count();
    &bytes[spaces..]
}

/// One or two digits; `fixed` wants two.
fn number(text: &[u8], fixed: bool) -> Option<(u32, &[u8])> {
    let first = text.first().filter(|byte| byte.is_ascii_digit())?;
    match text.get(1).filter(|byte| byte.is_ascii_digit()) {
        Some(second) => Some((
            u32::from(first - b'0') * 10 + u32::from(second - b'0'),
            &text[2..],
        )),
        None if fixed => None,
        None => Some((u32::from(first - b'0'), &text[1..])),
    }
}

fn digits(text: &[u8], count: usize) -> Option<(u32, &[u8])> {
    let head = text.get(..count)?;
    if !head.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some((
        std::str::from_utf8(head).ok()?.parse().ok()?,
        &text[count..],
    ))
}

/// A name of the table, whole or its first three letters, in any case.
fn name<'t>(text: &'t [u8], table: &[&str], short: bool) -> Option<(u32, &'t [u8])> {
    table.iter().enumerate().find_map(|(at, name)| {
        let name = if short {
            &name.as_bytes()[..3]
        } else {
            name.as_bytes()
        };
        let head = text.get(..name.len())?;
        head.eq_ignore_ascii_case(name)
            .then(|| (u32::try_from(at).unwrap_or(0), &text[name.len()..]))
    })
}

fn nanoseconds(text: &[u8], count: usize) -> Option<u32> {
    if !matches!(text.first(), Some(b'.' | b',')) {
        return None;
    }
    let digits = text.get(1..count)?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nine: Vec<u8> = digits
        .iter()
        .copied()
        .chain(std::iter::repeat(b'0'))
        .take(9)
        .collect();
    std::str::from_utf8(&nine).ok()?.parse().ok()
}

impl Parts {
    fn read<'t>(&mut self, piece: Piece, text: &'t [u8], layout: &[u8]) -> Option<&'t [u8]> {
        let (value, rest) = match piece {
            Piece::LongMonth | Piece::Month => name(text, &MONTHS, piece == Piece::Month)?,
            Piece::LongWeekDay | Piece::WeekDay => name(text, &DAYS, piece == Piece::WeekDay)?,
            Piece::Year => digits(text, 2)?,
            Piece::LongYear => digits(text, 4)?,
            Piece::NumMonth | Piece::Day | Piece::Hour12 | Piece::Minute | Piece::Second => {
                number(text, false)?
            }
            Piece::Hour => number(text, false)?,
            Piece::UnderDay => number(text.strip_prefix(b" ").unwrap_or(text), false)?,
            Piece::ZeroMonth
            | Piece::ZeroDay
            | Piece::ZeroHour12
            | Piece::ZeroMinute
            | Piece::ZeroSecond => number(text, piece != Piece::ZeroDay)?,
            Piece::UnderYearDay => {
                let trimmed = text.strip_prefix(b" ").unwrap_or(text);
                let trimmed = trimmed.strip_prefix(b" ").unwrap_or(trimmed);
                digits(trimmed, 3 - (text.len() - trimmed.len()))?
            }
            Piece::ZeroYearDay => digits(text, 3)?,
            Piece::UpperPm | Piece::LowerPm => {
                let upper = text.get(..2)?.to_ascii_uppercase();
                let same = if piece == Piece::UpperPm {
                    text[..2] == upper[..]
                } else {
                    text[..2].iter().all(u8::is_ascii_lowercase)
                };
                let pm = match upper.as_slice() {
                    b"PM" if same => 1,
                    b"AM" if same => 0,
                    _ => return None,
                };
                (pm, &text[2..])
            }
            Piece::Zone { z, colon, parts } => return self.numeric_zone(text, z, colon, parts),
            Piece::ZoneName => return self.zone_name(text),
            Piece::Fraction { digits, trim, .. } => return self.fraction(text, digits, trim),
        };
        self.store(piece, value)?;
        if matches!(piece, Piece::Second | Piece::ZeroSecond) {
            return Some(self.implied_fraction(rest, layout));
        }
        Some(rest)
    }

    fn store(&mut self, piece: Piece, value: u32) -> Option<()> {
        let below = |limit: u32| (value < limit).then_some(value);
        match piece {
            Piece::Year => {
                self.year = i64::from(value) + if value >= 69 { 1900 } else { 2000 };
            }
            Piece::LongYear => self.year = i64::from(value),
            Piece::LongMonth | Piece::Month => self.month = Some(value + 1),
            Piece::NumMonth | Piece::ZeroMonth => {
                self.month = Some(below(13).filter(|month| *month > 0)?);
            }
            Piece::Day | Piece::UnderDay | Piece::ZeroDay => self.day = Some(value),
            Piece::UnderYearDay | Piece::ZeroYearDay => self.year_day = Some(value),
            Piece::Hour => self.hour = below(24)?,
            Piece::Hour12 | Piece::ZeroHour12 => self.hour = below(13)?,
            Piece::Minute | Piece::ZeroMinute => self.minute = below(60)?,
            Piece::Second | Piece::ZeroSecond => self.second = below(60)?,
            Piece::UpperPm | Piece::LowerPm => self.pm = Some(value == 1),
            _ => {}
        }
        Some(())
    }

    /// A fraction that the layout does not ask for is read all the same.
    fn implied_fraction<'t>(&mut self, text: &'t [u8], layout: &[u8]) -> &'t [u8] {
        let next = next_piece(layout).map(|(_, piece, _)| piece);
        if matches!(next, Some(Piece::Fraction { .. })) {
            return text;
        }
        let has = matches!(text.first(), Some(b'.' | b','))
            && text.get(1).is_some_and(u8::is_ascii_digit);
        if !has {
            return text;
        }
        let end = 1 + text[1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        self.nanos = nanoseconds(text, end).unwrap_or(0);
        &text[end..]
    }

    fn fraction<'t>(&mut self, text: &'t [u8], count: usize, trim: bool) -> Option<&'t [u8]> {
        if trim {
            let has = matches!(text.first(), Some(b'.' | b','))
                && text.get(1).is_some_and(u8::is_ascii_digit);
            if !has {
                return Some(text);
            }
            let end = 1 + text[1..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count()
                .min(9);
            self.nanos = nanoseconds(text, end)?;
            return Some(&text[end..]);
        }
        self.nanos = nanoseconds(text, count + 1)?;
        Some(&text[count + 1..])
    }

    fn numeric_zone<'t>(
        &mut self,
        text: &'t [u8],
        z: bool,
        colon: bool,
        parts: u8,
    ) -> Option<&'t [u8]> {
        if z && let Some(rest) = text.strip_prefix(b"Z") {
            self.utc = true;
            return Some(rest);
        }
        let sign = match text.first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let mut rest = &text[1..];
        let mut seconds = 0;
        for (part, unit) in [3600, 60, 1]
            .into_iter()
            .enumerate()
            .take(usize::from(parts))
        {
            if part > 0 && colon {
                rest = rest.strip_prefix(b":")?;
            }
            let (value, tail) = digits(rest, 2)?;
            if value > if part == 0 { 24 } else { 60 } {
                return None;
            }
            seconds += i32::try_from(value).ok()? * unit;
            rest = tail;
        }
        self.offset = Some(sign * seconds);
        Some(rest)
    }

    fn zone_name<'t>(&mut self, text: &'t [u8]) -> Option<&'t [u8]> {
        if let Some(rest) = text.strip_prefix(b"UTC") {
            self.utc = true;
            return Some(rest);
        }
        let upper = text
            .iter()
            .take(6)
            .take_while(|byte| byte.is_ascii_uppercase())
            .count();
        let length = match upper {
            _ if text.starts_with(b"ChST") || text.starts_with(b"MeST") => 4,
            _ if text.starts_with(b"GMT") => 3 + signed_hours(&text[3..]),
            _ if matches!(text.first(), Some(b'+' | b'-')) => {
                Some(signed_hours(text)).filter(|length| *length > 0)?
            }
            5 if text[4] == b'T' => 5,
            4 if text[3] == b'T' || text.starts_with(b"WITA") => 4,
            3 => 3,
            _ => return None,
        };
        self.zone = Some(String::from_utf8_lossy(&text[..length]).into_owned());
        Some(&text[length..])
    }

    fn finish(mut self) -> Option<Time> {
        match self.pm {
            Some(true) if self.hour < 12 => self.hour += 12,
            Some(false) if self.hour == 12 => self.hour = 0,
            _ => {}
        }
        if let Some(year_day) = self.year_day {
            self.date_of_year_day(year_day)?;
        }
        let month = self.month.unwrap_or(1);
        let day = self.day.unwrap_or(1);
        if day < 1 || day > days_in(month, self.year) {
            return None;
        }
        let time = |offset| {
            let of_day = (self.hour, self.minute, self.second);
            Time::from_parts((self.year, month, day), of_day, self.nanos, offset)
        };
        let utc = "UTC".to_owned();
        if self.utc {
            return Some(Time {
                zone: utc,
                ..time(0)
            });
        }
        if let Some(offset) = self.offset {
            let local = offset == 0;
            let zone = if local {
                utc
            } else {
                self.zone.clone().unwrap_or_default()
            };
            return Some(Time {
                zone,
                local,
                ..time(offset)
            });
        }
        if let Some(zone) = &self.zone {
            let hours: i32 = zone
                .strip_prefix("GMT")
                .and_then(|h| h.parse().ok())
                .unwrap_or(0);
            // Go does not move the instant for a zone that it only knows by name.
            return Some(Time {
                zone: zone.clone(),
                offset: hours * 3600,
                ..time(0)
            });
        }
        Some(Time {
            zone: utc,
            local: self.local,
            ..time(0)
        })
    }

    fn date_of_year_day(&mut self, year_day: u32) -> Option<()> {
        if year_day < 1 || year_day > 365 + u32::from(leap(self.year)) {
            return None;
        }
        let (mut month, mut day) = (1, year_day);
        while day > days_in(month, self.year) {
            day -= days_in(month, self.year);
            month += 1;
        }
        if self.month.is_some_and(|given| given != month) || self.day.is_some_and(|d| d != day) {
            return None;
        }
        self.month = Some(month);
        self.day = Some(day);
        Some(())
    }
}

/// Length of `+h` or `-hh` with hours below 24; 0 when there is none.
fn signed_hours(text: &[u8]) -> usize {
    if !matches!(text.first(), Some(b'+' | b'-')) {
        return 0;
    }
    let length = text[1..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let hours = std::str::from_utf8(&text[1..=length])
        .ok()
        .and_then(|hours| hours.parse().ok());
    if hours.is_some_and(|hours: u32| hours <= 23) {
        1 + length
    } else {
        0
    }
}
