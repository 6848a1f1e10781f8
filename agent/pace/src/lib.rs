//! How fast and how much a connected site pulls.
//!
//! What comes in: the site's limits, bytes that came, the time. What goes out: how much may come now, how long to wait, and what was
//! pulled today, for people. [`Rate`] and [`Day`] are pure; [`Pace`] keeps the day in a file. It opens no connection and
//! decides nothing about bundles.

use std::path::{Path, PathBuf};
use std::time::Duration;

use outhaul_kit::durable::{self, FileError, SECRET_MODE};
use outhaul_kit::size;
use serde::{Deserialize, Serialize};

/// The file in the state folder.
pub const FILE: &str = "pulled.json";
/// Largest file in bytes.
const MAX_FILE: u64 = 4096;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// At most so much is read before the rate is looked at again, in bytes.
const PIECE: u64 = 64 * 1024;

/// What a site's owner set; `None` is without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PullLimits {
    /// Most KiB in a second, 1 to 10,000,000.
    pub max_kib_per_s: Option<u64>,
    /// Most MiB in a day of UTC, 1 to 100,000,000.
    pub max_mib_per_day: Option<u64>,
}

impl PullLimits {
    /// A value out of its range: the key, the value, what is allowed.
    pub fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        let wrong = |value: Option<u64>, max: u64| value.filter(|value| !(1..=max).contains(value));
        let rate = wrong(self.max_kib_per_s, 10_000_000).map(|found| {
            (
                "repository.max_kib_per_s",
                found.to_string(),
                "1 to 10000000",
            )
        });
        let budget = wrong(self.max_mib_per_day, 100_000_000).map(|found| {
            (
                "repository.max_mib_per_day",
                found.to_string(),
                "1 to 100000000",
            )
        });
        rate.or(budget)
    }

    fn budget(&self) -> Option<u64> {
        self.max_mib_per_day.map(|mib| mib.saturating_mul(1 << 20))
    }
}

/// What was pulled in one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Day {
    /// Days since 1970 in UTC.
    day: i64,
    bytes: u64,
}

impl Day {
    /// The same at `now_ms`, milliseconds since 1970: another day begins with nothing.
    fn at(self, now_ms: i64) -> Self {
        let day = now_ms.div_euclid(DAY_MS);
        match day == self.day {
            true => self,
            false => Self { day, bytes: 0 },
        }
    }
}

/// How long to wait so that a rate is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Rate {
    bytes: u64,
    took: Duration,
}

impl Rate {
    /// After `bytes` more that took `took`: how long to wait at `per_s` bytes a second.
    fn wait(&mut self, bytes: u64, took: Duration, per_s: u64) -> Duration {
        self.bytes += bytes;
        self.took += took;
        let ms = u128::from(self.bytes) * 1000 / u128::from(per_s.max(1));
        let due = Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX));
        let wait = due.saturating_sub(self.took);
        self.took += wait;
        if self.took > Duration::from_secs(10) {
            // What was slow long ago does not let the line fill up now.
            *self = Self::default();
        }
        wait
    }
}

/// What is pulled and how much may be.
#[derive(Debug)]
pub struct Pace {
    path: PathBuf,
    limits: PullLimits,
    day: Day,
    rate: Rate,
    unsaved: u64,
}

/// What of a budget is used, for people and scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PullStatus {
    /// Bytes of blobs that were pulled today, in UTC.
    pub today_bytes: u64,
    /// Most of a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day_max_bytes: Option<u64>,
    /// Most of a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_max_bytes: Option<u64>,
}

impl PullStatus {
    /// What is known in `state`; `None` where there is neither a limit nor anything pulled.
    pub fn of(state: &Path, limits: PullLimits, now_ms: i64) -> Option<Self> {
        let today = read(&state.join(FILE)).at(now_ms).bytes;
        let is_limited = limits != PullLimits::default();
        (is_limited || today > 0).then(|| Self {
            today_bytes: today,
            day_max_bytes: limits.budget(),
            second_max_bytes: limits.max_kib_per_s.map(|kib| kib.saturating_mul(1024)),
        })
    }

    /// `12.0 MiB of 100.0 MiB today (UTC), at most 256.0 KiB/s`.
    pub fn reported(&self) -> String {
        let day = match self.day_max_bytes {
            None => format!("{} today (UTC)", size::text(self.today_bytes)),
            Some(max) if self.today_bytes >= max => format!(
                "{} of {} today (UTC): the budget is used up, blobs come again tomorrow",
                size::text(self.today_bytes),
                size::text(max)
            ),
            Some(max) => format!(
                "{} of {} today (UTC)",
                size::text(self.today_bytes),
                size::text(max)
            ),
        };
        match self.second_max_bytes {
            None => day,
            Some(max) => format!("{day}, at most {}/s", size::text(max)),
        }
    }
}

/// What cannot be read was not counted.
fn read(path: &Path) -> Day {
    let bytes = durable::read_if_present(path, MAX_FILE).ok().flatten();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

impl Pace {
    /// The pace of the site whose memory is in `state`.
    pub fn of(state: &Path, limits: PullLimits) -> Self {
        let path = state.join(FILE);
        Self {
            day: read(&path),
            path,
            limits,
            rate: Rate::default(),
            unsaved: 0,
        }
    }

    /// How many of `want` bytes may be read now; 0 when the budget of the day is used up.
    pub fn may(&mut self, want: u64, now_ms: i64) -> u64 {
        self.day = self.day.at(now_ms);
        let left = self
            .limits
            .budget()
            .map(|max| max.saturating_sub(self.day.bytes));
        let rate = self
            .limits
            .max_kib_per_s
            .map(|kib| PIECE.min(kib.saturating_mul(1024)));
        want.min(left.unwrap_or(u64::MAX))
            .min(rate.unwrap_or(u64::MAX))
    }

    /// Counts bytes that came and took so long. Returns how long to wait before more is read.
    ///
    /// # Errors
    /// [`FileError`] when the count cannot be written.
    pub fn came(&mut self, bytes: u64, took: Duration) -> Result<Duration, FileError> {
        self.day.bytes = self.day.bytes.saturating_add(bytes);
        self.unsaved += bytes;
        if self.unsaved >= 1 << 20 {
            self.save()?;
        }
        Ok(match self.limits.max_kib_per_s {
            None => Duration::ZERO,
            Some(kib) => self.rate.wait(bytes, took, kib.saturating_mul(1024)),
        })
    }

    /// Writes the count down, when something came since it was written.
    ///
    /// # Errors
    /// [`FileError`]
    pub fn save(&mut self) -> Result<(), FileError> {
        if self.unsaved > 0 {
            let bytes = serde_json::to_vec(&self.day).unwrap_or_default();
            durable::write(&self.path, &bytes, SECRET_MODE)?;
            self.unsaved = 0;
        }
        Ok(())
    }

    /// What was pulled today.
    pub fn today(&self) -> u64 {
        self.day.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 20_000 * DAY_MS + DAY_MS / 2;

    #[test]
    fn a_budget_holds_over_restarts_and_begins_anew_with_the_day() {
        let folder = tempfile::tempdir().unwrap();
        let limits = PullLimits {
            max_mib_per_day: Some(2),
            max_kib_per_s: None,
        };
        let mut pace = Pace::of(folder.path(), limits);
        assert_eq!(pace.may(5 << 20, NOON), 2 << 20);
        assert_eq!(pace.came(3 << 19, Duration::ZERO).unwrap(), Duration::ZERO);
        let mut again = Pace::of(folder.path(), limits);
        assert_eq!(again.may(5 << 20, NOON), 1 << 19);
        again.came(1 << 19, Duration::ZERO).unwrap();
        again.save().unwrap();
        assert_eq!(again.may(1, NOON), 0);
        let reported = PullStatus::of(folder.path(), limits, NOON)
            .unwrap()
            .reported();
        assert!(
            reported.starts_with("2.0 MiB of 2.0 MiB today (UTC): the budget is used up"),
            "{reported}"
        );
        assert_eq!(again.may(5 << 20, NOON + DAY_MS), 2 << 20);
    }

    #[test]
    fn a_rate_is_kept_by_waiting() {
        let limits = PullLimits {
            max_kib_per_s: Some(32),
            max_mib_per_day: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let mut pace = Pace::of(folder.path(), limits);
        assert_eq!(pace.may(1 << 20, NOON), 32 * 1024);
        let wait = pace.came(32 * 1024, Duration::from_millis(250)).unwrap();
        assert_eq!(wait, Duration::from_millis(750));
        // What was slow by itself is not waited for.
        assert_eq!(
            pace.came(1024, Duration::from_secs(3)).unwrap(),
            Duration::ZERO
        );
    }

    #[test]
    fn without_limits_nothing_waits_and_values_out_of_range_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut pace = Pace::of(folder.path(), PullLimits::default());
        assert_eq!(pace.may(u64::MAX, NOON), u64::MAX);
        assert_eq!(pace.came(1 << 30, Duration::ZERO).unwrap(), Duration::ZERO);
        assert_eq!(
            PullStatus::of(Path::new("/nowhere"), PullLimits::default(), NOON),
            None
        );
        let wrong = PullLimits {
            max_kib_per_s: Some(0),
            max_mib_per_day: None,
        };
        assert_eq!(wrong.out_of_range().unwrap().0, "repository.max_kib_per_s");
        assert_eq!(PullLimits::default().out_of_range(), None);
    }
}
