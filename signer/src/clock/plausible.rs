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

/// How far a time that a person typed may be ahead of a clock that is plausible: time zones, and clocks that are hours late.
pub const MAX_TYPED_AHEAD: SignedDuration = SignedDuration::from_hours(24);

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

/// A time that was typed and that nothing should be signed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImplausibleTyped {
    /// Before the newest signed time.
    Behind {
        /// What was typed.
        typed: Timestamp,
        /// The newest signed time.
        newest: Timestamp,
    },
    /// Far after what this machine's clock or the newest signed time allow.
    Ahead {
        /// What was typed.
        typed: Timestamp,
        /// The latest time that is allowed.
        latest: Timestamp,
    },
}

/// Why the `typed` time is not plausible, when `clock` is this machine's clock and `newest` the newest signed time; `None` when it is.
/// It is the word that a clock which is behind lacks: there it may be as far ahead of `newest` as a clock may. A clock is behind when no
/// typed time explains what was signed: else each time that is typed a little ahead would lift the bound of the next one.
pub fn implausible_typed(
    typed: Timestamp,
    clock: Timestamp,
    newest: Timestamp,
) -> Option<ImplausibleTyped> {
    if typed.duration_since(newest) < -MAX_BEHIND {
        return Some(ImplausibleTyped::Behind { typed, newest });
    }
    let is_behind = newest.duration_since(clock) > MAX_TYPED_AHEAD;
    let (from, span) = match is_behind {
        true => (newest, MAX_AHEAD),
        false => (clock, MAX_TYPED_AHEAD),
    };
    let latest = from.checked_add(span).unwrap_or(Timestamp::MAX);
    (typed > latest).then_some(ImplausibleTyped::Ahead { typed, latest })
}

impl fmt::Display for ImplausibleTyped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind { typed, newest } => write!(
                f,
                "{typed} was typed, which is before the newest time that the fleet signed, {newest}"
            ),
            Self::Ahead { typed, latest } => write!(
                f,
                "{typed} was typed, which is after {latest}, the latest time that this machine's clock and what the fleet signed \
                 last allow"
            ),
        }
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

    #[test]
    fn a_typed_time_goes_neither_back_nor_far_ahead_of_a_clock_that_is_plausible() {
        let newest: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let day = SignedDuration::from_hours(24);
        let clock = newest + day * 30;
        let ahead = |typed, clock| {
            matches!(
                implausible_typed(typed, clock, newest),
                Some(ImplausibleTyped::Ahead { .. })
            )
        };
        for clock in [clock, newest - day, newest + day * 500] {
            assert_eq!(implausible_typed(newest, clock, newest), None);
            let found = implausible_typed(newest - day, clock, newest);
            assert!(matches!(found, Some(ImplausibleTyped::Behind { .. })));
        }
        assert!(!ahead(clock + day, clock) && ahead(clock + day * 2, clock));
        // A clock that is behind by more than can have been typed says nothing.
        let behind = newest - day * 2;
        assert!(!ahead(newest + day * 400, behind) && ahead(newest + day * 401, behind));
        // One that is behind because a time was typed before lifts no bound.
        let typed = clock + day;
        assert_eq!(implausible_typed(typed, clock, typed), None);
        assert!(implausible_typed(typed + day, clock, typed).is_some());
        // A fleet that signed nothing for longer than a year.
        let late = newest + day * 500;
        assert!(!ahead(late, late) && ahead(late + day * 2, late));
        assert!(!ahead(Timestamp::MAX, Timestamp::MAX));
    }
}
