//! The lower bound of time: what a site knows of "now" when nothing may be accepted of its clock.
//!
//! What comes in: times that the fleet's metadata signed, a hub's word, readings of the boot clock, and the
//! wall clock with the caller's word on whether something trustworthy set it. What goes out: a bound that
//! only rises, and the "now" by which expiry is verified. Pure: it reads no clock. The wall clock never
//! raises the bound and a hub's at most by [`HUB_SLACK`], so that a wrong date of 2099 cannot shut a site
//! for good and one of 1970 opens nothing. It falls only when the fleet's root takes away the key that
//! signed the time. [`implausible`] is for those who sign: a wrong clock is best stopped there.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

mod plausible;

pub use plausible::{
    Implausible, ImplausibleTyped, MAX_AHEAD, MAX_BEHIND, MAX_TYPED_AHEAD, implausible,
    implausible_typed,
};

/// How far a hub's time may take the bound beyond what the fleet's metadata and the boot clock say: three
/// days, less than any usual term of a bundle. A hub's key is online; it must not be able to expire what
/// the fleet signed.
pub const HUB_SLACK: SignedDuration = SignedDuration::from_hours(3 * 24);

/// "It is certainly not earlier than this", with what is needed to carry it through a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LowerBound {
    at: Timestamp,
    /// By how many milliseconds a hub's word is ahead of that, at most [`HUB_SLACK`].
    #[serde(default, skip_serializing_if = "is_zero")]
    hub_ahead_ms: u64,
    /// The boot clock when the bound was last moved by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<BootReading>,
}

/// A reading of the clock that counts since boot, suspended time included (`CLOCK_BOOTTIME`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootReading {
    /// Which boot: `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Milliseconds since that boot.
    pub since_boot_ms: u64,
}

impl LowerBound {
    /// The bound of a site that knows nothing yet: when its program was built, or its root signed.
    pub fn new(at: Timestamp) -> Self {
        Self {
            at,
            hub_ahead_ms: 0,
            boot: None,
        }
    }

    /// The bound.
    pub fn at(&self) -> Timestamp {
        // Whatever a file states, a hub's word never counts for more than the slack.
        let ahead = i64::try_from(self.hub_ahead_ms).unwrap_or(i64::MAX);
        let ahead = SignedDuration::from_millis(ahead).min(HUB_SLACK);
        self.at.checked_add(ahead).unwrap_or(Timestamp::MAX)
    }

    /// Whether something that was signed has raised it. Until then it counts from 1970, by how long the machine runs.
    pub fn is_proven(&self) -> bool {
        const YEARS_10: i64 = 10 * 365 * 24 * 3600;
        self.at.as_second() >= YEARS_10
    }

    /// Raises the bound to a time that the fleet's metadata signed. `false` when it was there already.
    pub fn raise(&mut self, signed: Timestamp) -> bool {
        let before = self.at();
        self.at = self.at.max(signed);
        self.keep_ahead(before);
        signed > before
    }

    /// Raises the bound to what a hub states, but never more than [`HUB_SLACK`] beyond what the fleet's
    /// metadata and the boot clock show, however often it does so.
    pub fn raise_by_hub(&mut self, hub: Timestamp) {
        self.keep_ahead(hub.max(self.at()));
    }

    /// Begins again at `signed`, as the boot clock stands: the key that signed what was trusted before does
    /// not count any more.
    pub fn restart(&mut self, signed: Timestamp) {
        self.at = signed;
        self.hub_ahead_ms = 0;
    }

    fn keep_ahead(&mut self, of: Timestamp) {
        let ahead = of.duration_since(self.at);
        let ahead = ahead.clamp(SignedDuration::ZERO, HUB_SLACK).as_millis();
        self.hub_ahead_ms = u64::try_from(ahead).unwrap_or(0);
    }

    /// Raises the bound by the time that has passed by the boot clock.
    ///
    /// Within one boot that is the difference to the last reading. After a reboot it is the whole time
    /// since boot, because the bound was set before it. A clock that runs backwards raises nothing.
    pub fn advance(&mut self, reading: BootReading) {
        let passed_ms = match &self.boot {
            Some(last) if last.boot_id == reading.boot_id => {
                reading.since_boot_ms.saturating_sub(last.since_boot_ms)
            }
            // The first reading ever only sets the mark: the bound may stem from within this boot.
            None => 0,
            Some(_) => reading.since_boot_ms,
        };
        let passed = SignedDuration::from_millis(i64::try_from(passed_ms).unwrap_or(i64::MAX));
        self.at = self.at.checked_add(passed).unwrap_or(Timestamp::MAX);
        let backwards = matches!(&self.boot, Some(last)
            if last.boot_id == reading.boot_id && last.since_boot_ms > reading.since_boot_ms);
        if !backwards {
            self.boot = Some(reading);
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What is known of the time at one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimePolicy {
    /// It is certainly not earlier than this.
    pub lower_bound: Timestamp,
    /// What the wall clock shows.
    pub wall: Timestamp,
    /// Whether something trustworthy set the wall clock (NTP with authentication, a hub's answer).
    pub wall_trusted: bool,
}

impl TimePolicy {
    /// The "now" of every expiry check: the bound, or a trusted wall clock that is later.
    pub fn now(&self) -> Timestamp {
        if self.wall_trusted {
            self.wall.max(self.lower_bound)
        } else {
            self.lower_bound
        }
    }

    /// Whether a date has certainly passed. At the date itself it has.
    pub fn has_passed(&self, date: Timestamp) -> bool {
        self.now() >= date
    }

    /// Whether something signed at `signed_at` is older than `within`, as far as a trusted clock can
    /// tell: the rule against an old but unexpired copy on the network. Without a trusted clock
    /// nothing is called stale.
    pub fn is_stale(&self, signed_at: Timestamp, within: SignedDuration) -> bool {
        self.wall_trusted && self.now().duration_since(signed_at) > within
    }
}

#[cfg(test)]
mod tests;
