//! What people on site hold back: everything that is new, perhaps until a deadline, or single assignments.
//!
//! What comes in: an open transaction, and a reading of the clocks. What goes out: who holds what, why, until when; for an
//! assignment the bundle whose content it keeps. It decides nothing.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use outhaul_bundle::report::{AssignmentResult, StepResult};
use outhaul_reconcilers::shortened;
use outhaul_signer::LowerBound;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::clock::ClockReading;
use super::{StateError, key, meta, set_meta};

pub mod beside;

/// A standing order not to apply anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Who gave it.
    pub who: String,
    /// Why.
    pub why: String,
    /// When it ends; absent for one that a person ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Deadline>,
}

impl Hold {
    /// Who holds, why, and until when.
    pub fn sentence(&self) -> String {
        let until = self
            .until
            .as_ref()
            .map(|until| format!("; until {}", until.at));
        format!(
            "held by {}: {}{}",
            self.who,
            self.why,
            until.unwrap_or_default()
        )
    }
}

/// When a hold ends: when the machine has run for so long. Over a reboot the wall clock may end it as well, where it was
/// trusted when it began and is trusted now: within one boot, or from a reading that was not trusted, it tells
/// nothing of the time that passed. A machine that was switched off meanwhile ends it late, never early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    /// The instant, as this machine's clock counted when the hold began.
    pub at: Timestamp,
    /// How long the machine has to run for it, milliseconds.
    after_ms: i64,
    /// How long it has run since, counted from 1970.
    ran: LowerBound,
    /// The boot in which it began, when the wall clock was trusted then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trusted_in: Option<String>,
}

impl Deadline {
    /// `after` from now.
    pub fn new(reading: &ClockReading, after: SignedDuration) -> Option<Self> {
        let mut ran = LowerBound::new(Timestamp::UNIX_EPOCH);
        let boot = reading.boot.clone()?;
        let trusted_in = reading.wall_trusted.then(|| boot.boot_id.clone());
        ran.advance(boot);
        let at = reading.wall.checked_add(after).ok()?;
        // For people: a fraction of a second later, never earlier.
        let whole = Timestamp::from_second(at.as_second()).ok()?;
        let at = match whole < at {
            true => whole.checked_add(SignedDuration::from_secs(1)).ok()?,
            false => at,
        };
        Some(Self {
            at,
            after_ms: i64::try_from(after.as_millis()).ok()?,
            ran,
            trusted_in,
        })
    }

    /// How long the machine has run for it, as it was last counted.
    pub fn ran(&self) -> SignedDuration {
        self.ran.at().duration_since(Timestamp::UNIX_EPOCH)
    }

    /// How long the machine still has to run for it, as counted on to now: the instant alone says nothing where the clock is wrong.
    #[must_use]
    pub fn left(&self, reading: &ClockReading) -> SignedDuration {
        let mut now = self.clone();
        match now.has_passed(reading) {
            true => SignedDuration::ZERO,
            false => SignedDuration::from_millis(now.after_ms) - now.ran(),
        }
    }

    /// Counts on to now, and returns whether it has passed.
    pub fn has_passed(&mut self, reading: &ClockReading) -> bool {
        if let Some(boot) = reading.boot.clone() {
            self.ran.advance(boot);
        }
        let boot = reading.boot.as_ref().map(|boot| boot.boot_id.as_str());
        let rebooted = self.trusted_in.is_some() && boot != self.trusted_in.as_deref();
        let by_wall = rebooted && reading.wall_trusted && reading.wall >= self.at;
        by_wall || self.ran.at().as_millisecond() >= self.after_ms
    }
}

/// A standing order not to change one assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignmentHold {
    /// Who gave it.
    pub who: String,
    /// Why.
    pub why: String,
    /// The bundle whose content the assignment keeps; absent for one that is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The bundle of which only other assignments were approved: approving all of it ends this hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approves: Option<u64>,
}

/// Every held assignment, by name.
///
/// # Errors
/// [`StateError`]
pub fn of_assignments(db: &Connection) -> Result<BTreeMap<String, AssignmentHold>, StateError> {
    Ok(meta(db, key::HELD)?.unwrap_or_default())
}

/// Of assignments that are released, the last results no longer state that they are held. Whether they are as the active bundle
/// has them is found when it is applied for them, or at the next look.
///
/// # Errors
/// [`StateError`]
pub fn forget(
    db: &Connection,
    released: &BTreeMap<String, AssignmentHold>,
) -> Result<(), StateError> {
    let Some(mut results) = meta::<Vec<AssignmentResult>>(db, key::RESULTS)? else {
        return Ok(());
    };
    let before = results.clone();
    for result in &mut results {
        let Some(hold) = released.get(result.name.as_str()) else {
            continue;
        };
        let held = match result.steps.iter().position(StepResult::is_held) {
            Some(at) => result.steps.remove(at).message,
            // An agent of before kept no such entry.
            None => sentence(hold, hold.generation),
        };
        if let Some(more) = result.message.strip_prefix(&held) {
            result.message = more.trim_start_matches("; ").to_owned();
        }
    }
    match results == before {
        true => Ok(()),
        false => set_meta(db, key::RESULTS, Some(&results)),
    }
}

/// Who holds it, and why: how [`sentence`] begins.
pub fn by_whom(hold: &AssignmentHold) -> String {
    shortened(&held_by(hold))
}

fn held_by(hold: &AssignmentHold) -> String {
    format!("held by {}: {}", hold.who, hold.why)
}

/// Who holds it, why, and at what, in one sentence.
pub fn sentence(hold: &AssignmentHold, at: Option<u64>) -> String {
    let kept = match at {
        Some(number) => format!("it keeps what bundle {number} brought"),
        None => "it is not installed yet".to_owned(),
    };
    shortened(&format!("{}; {kept}", held_by(hold)))
}
