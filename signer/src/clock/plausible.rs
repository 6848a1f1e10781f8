//! Whether a clock is plausible enough to sign with.
//!
//! What comes in: what a clock shows and the newest time that the fleet's metadata signed. What goes out:
//! nothing, or by how much the clock is off. A time that is signed wrongly is trusted by every site that
//! sees it, so that whoever signs with a machine's clock asks here first. Pure: it reads no clock.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// How far a clock may be behind the newest signed time: two machines' clocks differ.
pub const MAX_BEHIND: SignedDuration = SignedDuration::from_mins(10);
/// How far a clock may be ahead of the newest signed time. 400 days: a fleet that signed nothing for longer
/// than a year is rarer than a clock with a wrong year.
pub const MAX_AHEAD: SignedDuration = SignedDuration::from_hours(400 * 24);

/// A clock that nothing should be signed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implausible {
    /// Before the newest signed time.
    Behind {
        /// What the clock shows.
        clock: Timestamp,
        /// The newest signed time.
        newest: Timestamp,
    },
    /// Far after it.
    Ahead {
        /// What the clock shows.
        clock: Timestamp,
        /// The newest signed time.
        newest: Timestamp,
    },
}

/// Why `clock` is not plausible, when `newest` is the newest signed time that is known; `None` when it is.
pub fn implausible(clock: Timestamp, newest: Timestamp) -> Option<Implausible> {
    let ahead = clock.duration_since(newest);
    if ahead < -MAX_BEHIND {
        Some(Implausible::Behind { clock, newest })
    } else if ahead > MAX_AHEAD {
        Some(Implausible::Ahead { clock, newest })
    } else {
        None
    }
}

impl fmt::Display for Implausible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind { clock, newest } => write!(
                f,
                "this machine's clock shows {clock}, before the newest time that the fleet signed, {newest}"
            ),
            Self::Ahead { clock, newest } => write!(
                f,
                "this machine's clock shows {clock}, more than {} days after the newest time that the fleet \
                 signed, {newest}",
                MAX_AHEAD.as_hours() / 24
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_plausible_from_the_newest_signed_time_on_for_400_days() {
        let newest: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let after = |span: SignedDuration| implausible(newest + span, newest);
        assert_eq!(after(SignedDuration::ZERO), None);
        assert_eq!(after(-MAX_BEHIND), None);
        assert_eq!(after(MAX_AHEAD), None);
        let second = SignedDuration::from_secs(1);
        assert!(matches!(
            after(-MAX_BEHIND - second),
            Some(Implausible::Behind { .. })
        ));
        let ahead = after(MAX_AHEAD + second).unwrap();
        assert!(ahead.to_string().contains("400 days"), "{ahead}");
    }
}
