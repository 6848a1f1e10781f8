//! Go's `time.Time` as far as templates reach it, without a clock.
//!
//! In: instants from data, `toDate`, or a number of seconds. Out: their parts and texts.
//! The local zone of this module is UTC, as in Kalypso's container; other zones come from
//! the built-in zone database, never from the host.

use std::cmp::Ordering;

mod duration;
mod layout;
mod parse;

pub(crate) use duration::parse_duration;
pub(crate) use parse::parse;

/// Seconds of Go's zero time, 1 January of the year 1.
const ZERO_SECONDS: i64 = -62_135_596_800;

/// An instant with the zone it is shown in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Time {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    pub nanos: u32,
    /// Seconds east of UTC.
    pub offset: i32,
    /// Abbreviation; empty when the zone has none.
    pub zone: String,
    /// The zone is Go's `time.Local`, which is UTC here but is hashed as another zone.
    pub local: bool,
}

/// Date and time of day in the instant's own zone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Civil {
    pub year: i64,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    /// 0 is Sunday.
    pub weekday: u32,
    /// 1 is the first of January.
    pub year_day: u32,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// `time.Month.String`.
pub(crate) fn month_name(month: i64) -> String {
    let at = usize::try_from(month - 1).ok();
    at.and_then(|at| MONTHS.get(at))
        .map_or_else(|| format!("%!Month({month})"), ToString::to_string)
}

/// `time.Weekday.String`.
pub(crate) fn weekday_name(day: i64) -> String {
    let at = usize::try_from(day).ok();
    at.and_then(|at| DAYS.get(at))
        .map_or_else(|| format!("%!Weekday({day})"), ToString::to_string)
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(month: u32, year: i64) -> u32 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = i64::from((month + 9) % 12);
    let day_of_year = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

impl Time {
    pub fn utc(seconds: i64, nanos: u32) -> Self {
        Self {
            seconds,
            nanos,
            offset: 0,
            zone: "UTC".to_owned(),
            local: false,
        }
    }

    /// Go's zero time: what `toDate` gives for text that does not fit the layout.
    pub fn zero() -> Self {
        Self::utc(ZERO_SECONDS, 0)
    }

    pub fn civil(&self) -> Civil {
        let local = self.seconds.saturating_add(i64::from(self.offset));
        let days = local.div_euclid(86_400);
        let of_day = u32::try_from(local.rem_euclid(86_400)).unwrap_or(0);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = u32::try_from(day_of_year - (153 * shifted_month + 2) / 5 + 1).unwrap_or(1);
        let month = u32::try_from((shifted_month + 2) % 12 + 1).unwrap_or(1);
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let weekday = u32::try_from((days + 4).rem_euclid(7)).unwrap_or(0);
        let year_day = u32::try_from(days - days_from_civil(year, 1, 1) + 1).unwrap_or(1);
        Civil {
            year,
            month,
            day,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            weekday,
            year_day,
        }
    }

    /// From parts that were checked; the parts are in the zone with that offset.
    fn from_parts(date: (i64, u32, u32), of_day: (u32, u32, u32), nanos: u32, offset: i32) -> Self {
        let days = days_from_civil(date.0, date.1, date.2);
        let of_day = i64::from(of_day.0) * 3600 + i64::from(of_day.1) * 60 + i64::from(of_day.2);
        let seconds = days * 86_400 + of_day - i64::from(offset);
        Self {
            seconds,
            nanos,
            offset,
            zone: String::new(),
            local: false,
        }
    }

    /// `time.Time.String`.
    pub fn to_go_string(&self) -> String {
        self.format(b"2006-01-02 15:04:05.999999999 -0700 MST")
    }

    /// RFC 3339 with nanoseconds as needed: how YAML and JSON show a time.
    pub fn to_rfc3339(&self) -> String {
        self.format(b"2006-01-02T15:04:05.999999999Z07:00")
    }

    pub fn from_rfc3339(text: &str) -> Option<Self> {
        parse("2006-01-02T15:04:05.999999999Z07:00", text, false)
    }

    /// `time.Time.Add`.
    pub fn add_nanos(&self, nanos: i64) -> Self {
        let total = i64::from(self.nanos) + nanos % 1_000_000_000;
        let seconds = self.seconds.wrapping_add(nanos / 1_000_000_000);
        Self {
            seconds: seconds.wrapping_add(total.div_euclid(1_000_000_000)),
            nanos: u32::try_from(total.rem_euclid(1_000_000_000)).unwrap_or(0),
            offset: self.offset,
            zone: self.zone.clone(),
            local: self.local,
        }
    }

    /// The same instant in a named zone; unknown names are UTC, as in sprig.
    pub fn in_zone(&self, name: &str) -> Self {
        let fallback = Self::utc(self.seconds, self.nanos);
        if matches!(name, "" | "UTC" | "Local") || name.starts_with('/') || name.contains("..") {
            return fallback;
        }
        let Ok(zone) = jiff::tz::TimeZoneDatabase::bundled().get(name) else {
            return fallback;
        };
        if zone.iana_name() != Some(name) {
            return fallback;
        }
        let Ok(instant) = jiff::Timestamp::from_second(self.seconds) else {
            return fallback;
        };
        let info = zone.to_offset_info(instant);
        Self {
            offset: info.offset().seconds(),
            zone: info.abbreviation().to_owned(),
            ..fallback
        }
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order in which `fmt` prints keys: nanoseconds are the first word of Go's struct.
impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |time: &Self| (time.nanos, time.seconds, time.offset, time.local);
        key(self)
            .cmp(&key(other))
            .then_with(|| self.zone.cmp(&other.zone))
    }
}
