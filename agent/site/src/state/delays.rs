//! What on this site asks for a bundle to be applied later: who, why, until when.
//!
//! What comes in: what was asked for at this look, what was known before, and a reading of the clocks. What goes out: what
//! stands now, and what is new of it for the report. Each has a deadline, by its own word and by the owner's longest delay,
//! and no clock ends it early. It asks nobody and stores nothing by itself.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::clock::ClockReading;
use super::holds::Deadline;
use crate::machine::approval::Delayed;

/// Something that asks for later, as it was found at one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundDelay {
    /// Who: the name of a file, a command or a probe.
    pub who: String,
    /// Why.
    pub why: String,
    /// Until when, as it was written: an instant, or a length such as `90m`.
    pub until: Option<String>,
}

/// Something that asks for later, since it was first found while a bundle waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// Why.
    pub why: String,
    /// Until when, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The end by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<Deadline>,
    /// The end by the owner's longest delay.
    longest: Deadline,
    /// Whether its deadline has passed; it stays so until it no longer asks.
    #[serde(default)]
    pub passed: bool,
}

/// All of them, by who asks.
pub type Delays = BTreeMap<String, Delay>;

/// What became of one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DelayChange {
    /// It asks for later, or for another reason or time than before.
    Asks(String),
    /// Its deadline has passed.
    Passed(String),
    /// It no longer asks.
    Gone(String),
}

impl Delay {
    /// When it ends, as this machine's clock counts.
    pub fn at(&self) -> Timestamp {
        let own = self.end.as_ref().map(|end| end.at);
        own.map_or(self.longest.at, |own| own.min(self.longest.at))
    }

    /// Why and until when.
    pub fn sentence(&self, who: &str) -> String {
        let until = if self.passed {
            "the deadline was"
        } else {
            "until"
        };
        format!(
            "`{who}` asks for later: {}; {until} {}",
            self.why,
            self.at()
        )
    }
}

/// What stands at the moment of `reading`: a deadline that has passed since the last look has passed.
#[must_use]
pub fn at_present(mut known: Delays, reading: &ClockReading) -> Delays {
    for delay in known.values_mut() {
        let own = delay
            .end
            .as_mut()
            .is_some_and(|end| end.has_passed(reading));
        delay.passed |= own | delay.longest.has_passed(reading);
    }
    known
}

/// The longest that anything is put off: ten years.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 3650);

/// An instant or a length from now, as people write it; not bounded by [`LONGEST`].
pub fn after(text: &str, reading: &ClockReading) -> Option<SignedDuration> {
    match text.parse::<Timestamp>() {
        Ok(at) => Some(at.duration_since(reading.wall)),
        Err(_) => length(text),
    }
}

/// A length such as `90m`, `8h` or `2d`; of what is longer than [`LONGEST`], only that it is.
fn length(text: &str) -> Option<SignedDuration> {
    const TOO_LONG: SignedDuration = LONGEST.saturating_add(SignedDuration::from_secs(1));
    let unit = match text.chars().last()? {
        'm' => 1,
        'h' => 60,
        'd' => 24 * 60,
        _ => return None,
    };
    let count: i64 = text.get(..text.len() - 1)?.parse().ok()?;
    let minutes = count.saturating_mul(unit).min(LONGEST.as_mins() + 1);
    Some(SignedDuration::from_mins(minutes).min(TOO_LONG))
}

/// What stands after a look, and what is new of it. `longest`: the longest delay that the site's owner allows.
pub fn look(
    known: &Delays,
    asked: &[FoundDelay],
    reading: &ClockReading,
    longest: SignedDuration,
) -> (Delays, Vec<DelayChange>) {
    let mut now = Delays::new();
    let mut changes = Vec::new();
    for one in asked {
        let before = known.get(&one.who);
        // A machine that cannot distinguish one boot from another cannot count: it delays nothing.
        let fresh = || Deadline::new(reading, longest);
        let Some(longest) = before.map(|known| known.longest.clone()).or_else(fresh) else {
            continue;
        };
        let same_end = before.filter(|known| known.until == one.until);
        let end = match same_end {
            Some(known) => known.end.clone(),
            None => one
                .until
                .as_deref()
                .and_then(|text| Deadline::new(reading, after(text, reading)?.min(LONGEST))),
        };
        let mut delay = Delay {
            why: one.why.clone(),
            until: one.until.clone(),
            end,
            longest,
            passed: same_end.is_some_and(|known| known.passed),
        };
        let over = delay.longest.has_passed(reading)
            | delay
                .end
                .as_mut()
                .is_some_and(|end| end.has_passed(reading));
        let same = same_end.is_some_and(|known| known.why == one.why);
        if !same {
            changes.push(DelayChange::Asks(one.who.clone()));
        }
        if over && !delay.passed {
            changes.push(DelayChange::Passed(one.who.clone()));
        }
        delay.passed |= over;
        now.insert(one.who.clone(), delay);
    }
    let gone = known.keys().filter(|who| !now.contains_key(*who));
    changes.extend(gone.map(|who| DelayChange::Gone(who.clone())));
    (now, changes)
}

/// Whether so much time was counted since that a power cut must not lose it.
pub fn is_worth_storing(known: &Delays, now: &Delays) -> bool {
    const FORGOTTEN: SignedDuration = SignedDuration::from_secs(60);
    now.iter().any(|(who, delay)| {
        let before = known.get(who).map(|known| known.longest.ran());
        before.is_none_or(|before| delay.longest.ran() - before >= FORGOTTEN)
    })
}

/// What they come to. `goes_on`: at a deadline the bundle goes on, and nobody is asked.
pub fn sum(delays: &Delays, goes_on: bool) -> Delayed {
    let ahead = delays.values().any(|delay| !delay.passed);
    let passed = delays.values().any(|delay| delay.passed);
    match (goes_on, ahead, passed) {
        (_, false, false) => Delayed::No,
        // A person decides about one of them, however the others end.
        (false, _, true) => Delayed::Asks,
        (_, true, _) => Delayed::Until,
        (true, false, true) => Delayed::Over,
    }
}

#[cfg(test)]
mod tests {
    use outhaul_signer::LowerBound;
    use outhaul_signer::clock::BootReading;

    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);

    fn reading(boot: &str, since_boot_h: u64, wall: &str, wall_trusted: bool) -> ClockReading {
        ClockReading {
            bound: LowerBound::new(Timestamp::UNIX_EPOCH),
            wall: wall.parse().unwrap(),
            wall_trusted,
            boot: Some(BootReading {
                boot_id: boot.to_owned(),
                since_boot_ms: since_boot_h * 3_600_000,
            }),
        }
    }

    fn asks(why: &str, until: Option<&str>) -> Vec<FoundDelay> {
        vec![FoundDelay {
            who: "press".to_owned(),
            why: why.to_owned(),
            until: until.map(str::to_owned),
        }]
    }

    #[test]
    fn a_delay_ends_when_it_is_withdrawn_or_its_deadline_passes_by_time_that_ran() {
        let noon = "2026-11-23T12:00:00Z";
        let start = reading("a", 1, noon, false);
        let (one, changes) = look(&Delays::new(), &asks("batch", Some("8h")), &start, DAY);
        assert_eq!(changes, [DelayChange::Asks("press".to_owned())]);
        assert_eq!(sum(&one, true), Delayed::Until);
        assert!(
            one["press"]
                .sentence("press")
                .contains("batch; until 2026-11-23T20:00:00Z")
        );
        // A wall clock that is not trusted ends nothing, forwards or backwards.
        for wall in ["2036-01-01T00:00:00Z", "1999-01-01T00:00:00Z"] {
            let (two, changes) = look(
                &one,
                &asks("batch", Some("8h")),
                &reading("a", 2, wall, false),
                DAY,
            );
            assert_eq!((sum(&two, true), changes.len()), (Delayed::Until, 0));
        }
        // As it is after a power cut: stored, read, another boot.
        let text = serde_json::to_string(&one).unwrap();
        let stored: Delays = serde_json::from_str(&text).unwrap();
        let (later, _) = look(
            &stored,
            &asks("batch", Some("8h")),
            &reading("b", 1, noon, false),
            DAY,
        );
        assert_eq!(sum(&later, true), Delayed::Until);
        // Between two looks, by the clocks alone.
        let soon = at_present(later.clone(), &reading("b", 7, noon, false));
        assert_eq!(sum(&soon, true), Delayed::Until);
        let passed = at_present(later.clone(), &reading("b", 10, noon, false));
        assert!(passed["press"].passed && !later["press"].passed);
        let (over, changes) = look(
            &later,
            &asks("batch", Some("8h")),
            &reading("b", 10, noon, false),
            DAY,
        );
        assert_eq!(changes, [DelayChange::Passed("press".to_owned())]);
        assert_eq!(
            (sum(&over, true), sum(&over, false)),
            (Delayed::Over, Delayed::Asks)
        );
        let (gone, changes) = look(&over, &[], &reading("b", 10, noon, false), DAY);
        assert_eq!(
            (sum(&gone, true), changes),
            (Delayed::No, vec![DelayChange::Gone("press".to_owned())])
        );
    }

    #[test]
    fn a_clock_that_is_set_while_something_is_delayed_ends_nothing_early() {
        let noon = "2026-11-23T12:00:00Z";
        let evening = "2026-11-23T20:00:00Z";
        let begun = |trusted| {
            let start = reading("a", 1, noon, trusted);
            look(&Delays::new(), &asks("batch", Some("8h")), &start, DAY).0
        };
        let later = |known: &Delays, boot: &str, trusted| {
            let now = reading(boot, 2, evening, trusted);
            let (now, _) = look(known, &asks("batch", Some("8h")), &now, DAY);
            sum(&now, true)
        };
        // It was not trusted when it began: then it is set, in this boot or the next.
        assert_eq!(later(&begun(false), "a", true), Delayed::Until);
        assert_eq!(later(&begun(false), "b", true), Delayed::Until);
        // It was trusted and is: what it jumped within one boot did not pass; what skipped a reboot did.
        assert_eq!(later(&begun(true), "a", true), Delayed::Until);
        assert_eq!(later(&begun(true), "b", true), Delayed::Over);
        assert_eq!(later(&begun(true), "b", false), Delayed::Until);
    }

    #[test]
    fn who_asks_for_longer_each_time_gets_no_longer_than_the_owner_allows() {
        let noon = "2026-11-23T12:00:00Z";
        let (mut known, _) = look(
            &Delays::new(),
            &asks("batch", None),
            &reading("a", 0, noon, false),
            DAY,
        );
        for hour in 1..=30 {
            let until = format!("{}h", hour + 100);
            let now = reading("a", hour, noon, false);
            let (next, changes) = look(&known, &asks("batch", Some(&until)), &now, DAY);
            assert!(changes.contains(&DelayChange::Asks("press".to_owned())));
            assert_eq!(sum(&next, true) == Delayed::Over, hour >= 24, "{hour}");
            known = next;
        }
        // What is not a time counts as none.
        let (odd, _) = look(
            &Delays::new(),
            &asks("batch", Some("friday")),
            &reading("a", 0, noon, false),
            DAY,
        );
        assert_eq!(odd["press"].at(), "2026-11-24T12:00:00Z".parse().unwrap());
    }
}
