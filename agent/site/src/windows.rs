//! Maintenance windows: the days and hours at which a site takes what is new, in its own time.
//!
//! What comes in: `[maintenance]` of `agent.toml`, an instant. What goes out: whether one is open, and when
//! the next one begins. It reads no clock.

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::Offset;
use outhaul_reconcilers::settings::OutOfRange;
use serde::Deserialize;

/// One window. One that ends before it begins ends on the day after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceWindow {
    /// The days on which it begins, Monday first.
    pub days: [bool; 7],
    /// When it begins, in minutes after midnight.
    pub from: u16,
    /// When it ends, likewise.
    pub to: u16,
}

const DAY_MINUTES: u16 = 24 * 60;

impl MaintenanceWindow {
    /// How long it lasts in minutes: from 1 to a whole day.
    fn minutes(&self) -> u16 {
        match self.to > self.from {
            true => self.to - self.from,
            false => DAY_MINUTES - self.from + self.to,
        }
    }
}

/// Day of the week, Monday first, and minutes after midnight.
fn local(at: Timestamp, offset: Offset) -> (usize, u16) {
    let local = offset.to_datetime(at);
    let day = match local.weekday() {
        Weekday::Monday => 0,
        Weekday::Tuesday => 1,
        Weekday::Wednesday => 2,
        Weekday::Thursday => 3,
        Weekday::Friday => 4,
        Weekday::Saturday => 5,
        Weekday::Sunday => 6,
    };
    let hour = u16::try_from(local.hour()).unwrap_or(0);
    let minute = u16::try_from(local.minute()).unwrap_or(0);
    (day, hour * 60 + minute)
}

/// Whether a window is open.
pub fn is_open(windows: &[MaintenanceWindow], offset: Offset, at: Timestamp) -> bool {
    let (day, minute) = local(at, offset);
    let before = (day + 6) % 7;
    windows.iter().any(|window| {
        let today =
            window.days[day] && minute >= window.from && minute - window.from < window.minutes();
        // One that began yesterday.
        let since = minute + DAY_MINUTES - window.from;
        today || (window.days[before] && since < window.minutes())
    })
}

/// When the next window begins, within a week; `None` where no window has a day.
pub fn next(windows: &[MaintenanceWindow], offset: Offset, at: Timestamp) -> Option<Timestamp> {
    let (day, minute) = local(at, offset);
    let begins = windows.iter().flat_map(|window| {
        (0..=7_u16).filter_map(move |ahead| {
            let is_day = window.days[(day + usize::from(ahead)) % 7];
            let minutes = (ahead * DAY_MINUTES + window.from).checked_sub(minute)?;
            (is_day && minutes > 0).then_some(minutes)
        })
    });
    let minutes = begins.min()?;
    let second = at.as_second();
    Timestamp::from_second(second - second.rem_euclid(60) + i64::from(minutes) * 60).ok()
}

/// `[maintenance]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MaintenanceConfig {
    /// The offset of this site's time from UTC, such as `+01:00`.
    pub offset: Option<String>,
    /// When what is new may be applied; without one, at any time.
    pub windows: Vec<WindowConfig>,
}

/// One maintenance window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowConfig {
    /// The days on which it begins, `mon` to `sun`; none: every day.
    pub days: Vec<String>,
    /// When it begins, such as `22:00`.
    pub from: String,
    /// When it ends; at or before the beginning: on the day after.
    pub to: String,
}

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl MaintenanceConfig {
    /// What is out of its range.
    pub fn out_of_range(&self) -> Option<OutOfRange> {
        if let Err(wrong) = self.parsed() {
            return Some(wrong);
        }
        None
    }

    /// The windows in this site's time; `None` when there are none.
    pub fn windows(&self) -> Option<(Vec<MaintenanceWindow>, Offset)> {
        self.parsed()
            .ok()
            .filter(|(windows, _)| !windows.is_empty())
    }

    fn parsed(&self) -> Result<(Vec<MaintenanceWindow>, Offset), OutOfRange> {
        const OFFSET: &str = "the offset of this site's time from UTC, such as \"+01:00\"";
        let offset = match self.offset.as_deref() {
            None if self.windows.is_empty() => Offset::UTC,
            None => return Err(("maintenance.offset", "missing".to_owned(), OFFSET)),
            Some(text) => {
                offset(text).ok_or_else(|| ("maintenance.offset", format!("`{text}`"), OFFSET))?
            }
        };
        let windows = self.windows.iter().map(WindowConfig::parsed);
        Ok((windows.collect::<Result<_, _>>()?, offset))
    }
}

impl WindowConfig {
    fn parsed(&self) -> Result<MaintenanceWindow, OutOfRange> {
        let wrong = |found: &str| {
            (
                "maintenance.windows",
                format!("`{found}`"),
                "a list such as [{ days = [\"sat\", \"sun\"], from = \"22:00\", to = \"04:00\" }]",
            )
        };
        let mut days = [self.days.is_empty(); 7];
        for day in &self.days {
            let at = DAYS.iter().position(|known| known == day);
            *at.and_then(|at| days.get_mut(at))
                .ok_or_else(|| wrong(day))? = true;
        }
        Ok(MaintenanceWindow {
            days,
            from: minutes(&self.from).ok_or_else(|| wrong(&self.from))?,
            to: minutes(&self.to).ok_or_else(|| wrong(&self.to))?,
        })
    }
}

/// Minutes after midnight of `22:00`.
fn minutes(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let two = |part: &str| -> Option<u16> {
        let digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    };
    let (hour, minute) = (two(hour)?, two(minute)?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

fn offset(text: &str) -> Option<Offset> {
    let sign = match text.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let minutes = minutes(text.get(1..)?)?;
    Offset::from_seconds(sign * i32::from(minutes) * 60).ok()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    /// 23 November 2026 is a Monday.
    fn open(windows: &[MaintenanceWindow], offset_h: i8, at: &str) -> bool {
        is_open(windows, jiff::tz::offset(offset_h), at.parse().unwrap())
    }

    #[test]
    fn a_window_is_open_on_its_days_and_hours_and_over_midnight() {
        let mut weekend = [false; 7];
        weekend[5] = true;
        let night = [MaintenanceWindow {
            days: weekend,
            from: 22 * 60,
            to: 4 * 60,
        }];
        for (at, is) in [
            ("2026-11-28T21:59:59Z", false),
            ("2026-11-28T22:00:00Z", true),
            ("2026-11-29T03:59:59Z", true),
            ("2026-11-29T04:00:00Z", false),
            ("2026-11-29T22:30:00Z", false),
            ("2026-11-27T23:00:00Z", false),
        ] {
            assert_eq!(open(&night, 0, at), is, "{at}");
        }
        // In the site's time.
        assert!(open(&night, 1, "2026-11-28T21:00:00Z"));
        assert!(!open(&night, 1, "2026-11-29T03:30:00Z"));
        let always = [MaintenanceWindow {
            days: [true; 7],
            from: 0,
            to: 0,
        }];
        assert!(open(&always, -5, "2026-11-29T03:30:00Z"));
        assert!(!open(&[], 0, "2026-11-29T03:30:00Z"));
    }

    #[test]
    fn the_next_window_begins_when_it_opens_whatever_the_minute() {
        let mut some = [false; 7];
        some[0] = true;
        some[3] = true;
        let windows = [MaintenanceWindow {
            days: some,
            from: 150,
            to: 200,
        }];
        let offset = jiff::tz::offset(2);
        let start: Timestamp = "2026-11-22T00:00:31.25Z".parse().unwrap();
        for step in 0..(8 * 24 * 4) {
            let at = start + SignedDuration::from_mins(15 * step);
            let begins = next(&windows, offset, at).unwrap();
            assert!(begins > at);
            assert!(is_open(&windows, offset, begins), "{at} {begins}");
            let before = begins - SignedDuration::from_secs(1);
            assert!(!is_open(&windows, offset, before), "{at} {begins}");
        }
        assert_eq!(next(&[], offset, start), None);
    }
}
