//! How long the health of a bundle that was applied has been looked at.
//!
//! What comes in: one reading of the clocks for each look. What goes out: the time that the looks cover, and whether it
//! is enough; and for how long without a break health could not be asked. A look covers what lies between it and the one before in the same
//! boot, and for ten minutes at most: the time in which the machine was off, or nobody looked, proves no health. Pure.

use jiff::{SignedDuration, Timestamp};
use outhaul_signer::clock::BootReading;
use serde::{Deserialize, Serialize};

use super::clock::ClockReading;

/// Most that one look covers, milliseconds.
pub const MOST_OF_A_LOOK_MS: u64 = 10 * 60 * 1000;

/// Most that one look in vain covers, milliseconds: while nobody looked, health may have been good.
const MOST_OF_A_LOOK_IN_VAIN_MS: u64 = 60 * 1000;

/// For how long at least health may be impossible to ask before a bundle is left for it, seconds: a program that is being replaced is back by
/// then.
pub const LEAST_PATIENCE_S: u32 = 10 * 60;

/// For how long that is waited for where health has to be good for so many seconds: as long, and [`LEAST_PATIENCE_S`] at least.
pub fn patience_s(seconds: u32) -> u32 {
    seconds.max(LEAST_PATIENCE_S)
}

/// A bundle whose health is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Soak {
    /// The bundle.
    pub number: u64,
    /// How long it was looked at, milliseconds.
    #[serde(default)]
    pub observed_ms: u64,
    /// For how long it could not be asked, since it was asked last, milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unasked_ms: u64,
    /// The boot clock at the last look.
    #[serde(default)]
    last: Option<BootReading>,
}

impl Soak {
    /// Begins with this look. `None` on a machine that cannot distinguish one boot from another: it cannot count.
    pub fn begin(number: u64, reading: &ClockReading) -> Option<Self> {
        Some(Self {
            number,
            observed_ms: 0,
            unasked_ms: 0,
            last: Some(reading.boot.clone()?),
        })
    }

    /// Counts one look on that found health good.
    pub fn look(&mut self, reading: &ClockReading) {
        self.observed_ms = self.observed_ms.saturating_add(self.covered(reading));
        self.unasked_ms = 0;
    }

    /// Counts one look on at which health could not be asked: its time proves nothing.
    pub fn look_in_vain(&mut self, reading: &ClockReading) {
        let covered = self.covered(reading).min(MOST_OF_A_LOOK_IN_VAIN_MS);
        self.unasked_ms = self.unasked_ms.saturating_add(covered);
    }

    /// Whether health could not be asked for so long that nobody waits for it any more.
    pub fn is_given_up(&self, seconds: u32) -> bool {
        self.unasked_ms >= u64::from(patience_s(seconds)) * 1000
    }

    /// The milliseconds that this look covers, which is the last one from now on.
    fn covered(&mut self, reading: &ClockReading) -> u64 {
        let Some(now) = reading.boot.clone() else {
            return 0;
        };
        let passed = self
            .last
            .as_ref()
            .filter(|last| last.boot_id == now.boot_id)
            .map_or(0, |last| {
                now.since_boot_ms.saturating_sub(last.since_boot_ms)
            });
        self.last = Some(now);
        passed.min(MOST_OF_A_LOOK_MS)
    }

    /// How long it still has to be looked at; `None` when it was long enough.
    pub fn left(&self, seconds: u32) -> Option<SignedDuration> {
        let wanted = u64::from(seconds) * 1000;
        let left = wanted
            .checked_sub(self.observed_ms)
            .filter(|left| *left > 0)?;
        Some(SignedDuration::from_millis(i64::try_from(left).ok()?))
    }

    /// When that is, if it is looked at without a break from now on.
    pub fn until(&self, seconds: u32, reading: &ClockReading) -> Option<Timestamp> {
        let until = reading.wall.checked_add(self.left(seconds)?).ok()?;
        // For people: a fraction of a second later, never earlier.
        let whole = Timestamp::from_second(until.as_second()).ok()?;
        match whole < until {
            true => whole.checked_add(SignedDuration::from_secs(1)).ok(),
            false => Some(until),
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use outhaul_signer::LowerBound;

    use super::*;

    fn at(boot: &str, since_boot_s: u64) -> ClockReading {
        ClockReading {
            bound: LowerBound::new(Timestamp::UNIX_EPOCH),
            wall: "2026-03-01T10:00:00Z".parse().unwrap(),
            wall_trusted: true,
            boot: Some(BootReading {
                boot_id: boot.to_owned(),
                since_boot_ms: since_boot_s * 1000,
            }),
        }
    }

    #[test]
    fn one_look_in_vain_after_a_long_time_in_which_nobody_looked_gives_nothing_up() {
        let mut soak = Soak::begin(2, &at("a", 100)).unwrap();
        soak.look(&at("a", 115));
        soak.look_in_vain(&at("a", 115 + 15 * 60));
        assert!(!soak.is_given_up(0));
        // As many as there are minutes, one after the other.
        for minute in 1..10 {
            soak.look_in_vain(&at("a", 115 + (15 + minute) * 60));
        }
        assert!(soak.is_given_up(0));
    }

    #[test]
    fn only_the_time_between_two_looks_of_one_boot_counts() {
        let mut soak = Soak::begin(2, &at("a", 100)).unwrap();
        for since in [115, 130, 145] {
            soak.look(&at("a", since));
        }
        assert_eq!(soak.observed_ms, 45_000);
        // Switched off for a night, whatever the wall clock shows: nobody looked.
        soak.look(&at("b", 30));
        assert_eq!(soak.observed_ms, 45_000);
        soak.look(&at("b", 45));
        assert_eq!(soak.observed_ms, 60_000);
        assert_eq!(soak.left(61), Some(SignedDuration::from_secs(1)));
        assert_eq!(soak.left(60), None);
    }

    #[test]
    fn a_service_that_stood_still_for_hours_vouches_for_ten_minutes() {
        let mut soak = Soak::begin(2, &at("a", 0)).unwrap();
        soak.look(&at("a", 8 * 3600));
        assert_eq!(soak.observed_ms, MOST_OF_A_LOOK_MS);
        assert!(soak.left(3600).is_some());
        let until = soak.until(3600, &at("a", 8 * 3600)).unwrap();
        assert_eq!(until.to_string(), "2026-03-01T10:50:00Z");
    }

    #[test]
    fn looks_in_vain_prove_no_health_and_are_given_up_after_as_long_as_it_has_to_be_good() {
        let mut soak = Soak::begin(2, &at("a", 0)).unwrap();
        soak.look(&at("a", 15));
        for minute in 1..=9 {
            soak.look_in_vain(&at("a", 15 + minute * 60));
            assert!(!soak.is_given_up(0), "{minute}");
        }
        assert_eq!(soak.observed_ms, 15_000);
        // Back for one look: it counts from its last look in vain on, and the patience begins again.
        let mut back = soak.clone();
        back.look(&at("a", 15 + 9 * 60 + 5));
        assert_eq!((back.observed_ms, back.unasked_ms), (20_000, 0));
        soak.look_in_vain(&at("a", 15 + 10 * 60));
        assert!(soak.is_given_up(0) && soak.is_given_up(600));
        assert!(!soak.is_given_up(601));
        // Switched off meanwhile: nobody tried.
        soak.look_in_vain(&at("b", 9000));
        assert!(!soak.is_given_up(601));
    }

    #[test]
    fn a_clock_since_boot_that_runs_backwards_counts_nothing() {
        let mut soak = Soak::begin(2, &at("a", 500)).unwrap();
        soak.look(&at("a", 400));
        assert_eq!(soak.observed_ms, 0);
    }
}
