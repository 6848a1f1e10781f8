//! What the text of a status leaves out, so that what is new stands out; `--output json` has all of it.
//!
//! What comes in: how the site stands. What goes out: how the enrolment stands, which bundles and sticks have a line, what is said of the active one
//! only once, and which steps of an assignment are not as they should be. It looks at nothing else.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};

use outhaul_site::backup::restored::Restored;

use super::{GenerationStatus, Status};
use crate::attention::AttentionKind;
use crate::intake::visit::Visit;
use crate::machine::State;
use crate::orders::EnrolmentStatus;
use crate::runner::held;
use crate::state::holds::AssignmentHold;

/// How many steps of one assignment are listed.
const MAX_STEPS: usize = 10;

/// How the enrolment stands, with the key that a person tells the centre.
pub(super) fn enrolment(status: &Status) -> String {
    let key: String = status.key.chars().take(16).collect();
    match status.enrolment {
        EnrolmentStatus::Approved => format!("enrolment: approved, key {key}"),
        // How the request gets there is among the next steps.
        EnrolmentStatus::Requested => format!("enrolment: requested, key {key}"),
        EnrolmentStatus::OtherKeyApproved => format!(
            "enrolment: ANOTHER KEY was approved under this site's name, this one has key {key}; \
             tell the centre"
        ),
        EnrolmentStatus::Revoked => {
            "enrolment: revoked; nothing new is installed, the running bundle is not affected; a new kit is the way \
             back"
                .to_owned()
        }
    }
}

/// Whether a bundle has a line: it is on disk, or came after the one that runs; or nothing runs yet. One that failed has none any more when a
/// newer one runs.
pub(super) fn is_shown(status: &Status, bundle: &GenerationStatus) -> bool {
    let unfinished = State::from_word(bundle.state).is_some_and(State::unfinished);
    let newer = status.active.is_none_or(|active| bundle.number > active);
    let failed = State::from_word(bundle.state) == Some(State::Failed);
    let replaced = State::from_word(bundle.state) == Some(State::Superseded);
    let is_over = |active: u64| bundle.number < active && failed;
    if status.active.is_some_and(is_over) {
        return false;
    }
    bundle.on_disk || unfinished || (newer && !replaced) || status.active == Some(bundle.number)
}

/// What is said of a bundle. What made the site come back to the active one stands beside the bundle that was left.
pub(super) fn note<'s>(status: &Status, bundle: &'s GenerationStatus) -> &'s str {
    let said_elsewhere = status.active == Some(bundle.number)
        && status.generations.iter().any(|other| {
            other.number > bundle.number && other.note == bundle.note && is_shown(status, other)
        });
    match said_elsewhere {
        true => "",
        false => &bundle.note,
    }
}

/// The sticks and folders that have a line: the last one, those that are plugged in, and those of which something is to be
/// known still.
pub(super) fn media(status: &Status) -> impl Iterator<Item = &Visit> {
    let last = status.media.len().saturating_sub(1);
    let shown = move |(at, visit): &(usize, &Visit)| {
        let failed = visit.reports.as_ref().is_some_and(|r| r.problem.is_some());
        let open = visit.blocked.is_some_and(|n| status.unfinished == Some(n));
        *at == last || visit.busy || failed || open || status.plugged_in.contains(&visit.place)
    };
    status
        .media
        .iter()
        .enumerate()
        .filter(shown)
        .map(|(_, visit)| visit)
}

/// Of the places that were read, those below a watched folder that are there now.
pub(super) fn plugged_in(watch: &[PathBuf], media: &[Visit]) -> Vec<String> {
    let there = |place: &&String| {
        let path = Path::new(place.as_str());
        watch.iter().any(|folder| path.starts_with(folder)) && path.exists()
    };
    media
        .iter()
        .map(|visit| &visit.place)
        .filter(there)
        .cloned()
        .collect()
}

/// Who holds the site, why, until when, and how long that is.
pub(super) fn hold(status: &Status) -> Option<String> {
    let sentence = status.hold.as_ref()?.sentence();
    Some(match status.hold_left_s {
        None => sentence,
        Some(0) => format!("{sentence}: the deadline has passed"),
        Some(left) => {
            // A part of a minute is shown as one.
            let left = SignedDuration::from_mins((left - 1) / 60 + 1);
            format!("{sentence}, which is {left:#} from now while this machine runs")
        }
    })
}

/// Held assignments: who holds them, and at what. What was found of one states it already.
pub(super) fn held(status: &Status) -> impl Iterator<Item = String> {
    let held = status.held.iter();
    let is_here = |name: &String| {
        let mut lacking = status.attention.iter();
        !lacking.any(|one| {
            one.what == AttentionKind::HeldContent && one.assignment.as_ref() == Some(name)
        })
    };
    let is_known = |name: &String, hold: &AssignmentHold| {
        let by_whom = held::by_whom(hold);
        let mut found = status.assignments.iter();
        found.any(|one| one.name.as_str() == name.as_str() && one.message.contains(&by_whom))
    };
    let new = held.filter(move |(name, hold)| !is_known(name, hold));
    new.map(move |(name, hold)| match (hold.generation, is_here(name)) {
        (Some(number), false) => format!(
            "{name} is {}; it is to keep what bundle {number} brought, which is not on this machine",
            held::by_whom(hold)
        ),
        _ => format!("{name} is {}", held::sentence(hold, hold.generation)),
    })
}

/// The steps of an assignment that are not as they should be.
pub(super) fn differing(assignment: &AssignmentResult) -> Vec<String> {
    if assignment.status == ComplianceStatus::Compliant {
        return Vec::new();
    }
    let quiet = |status: &str| {
        matches!(
            status,
            "ok" | "skipped" | "applied" | "removed" | StepResult::HELD
        )
    };
    let mut lines: Vec<String> = assignment
        .steps
        .iter()
        .filter(|step| !quiet(&step.status) && !step.message.is_empty())
        .filter(|step| !assignment.message.contains(&step.message))
        .map(|step| format!("    {}: {}", step.name, step.message))
        .collect();
    let more = lines.len().saturating_sub(MAX_STEPS);
    lines.truncate(MAX_STEPS);
    if more > 0 {
        lines.push(format!(
            "    {more} more: `outhaul-agent status --output json`"
        ));
    }
    lines
}

/// What signed times prove.
pub(super) fn time(status: &Status) -> String {
    match status.time_is_proven {
        true => format!("time: not before {}", status.time_lower_bound),
        false => "time: unknown: nothing that was signed has proved any yet".to_owned(),
    }
}

/// That this memory came from a backup.
pub(super) fn restored(restored: &Restored) -> String {
    format!(
        "restored from a backup of {} by {} ({}); reports are renumbered since",
        at(restored.made_ms),
        restored.who,
        at(restored.at_ms)
    )
}

/// How the hub's clock and this machine's disagree.
pub(super) fn hub_clock(ahead_ms: i64) -> String {
    let (which, what) = match ahead_ms > 0 {
        true => ("ahead of", "slow"),
        false => ("behind", "fast"),
    };
    let minutes = ahead_ms.unsigned_abs().div_ceil(60_000);
    let span = match (minutes / (24 * 60), minutes / 60, minutes) {
        (days @ 2.., _, _) => format!("{days} days"),
        (_, hours @ 2.., _) => format!("{hours} hours"),
        (_, _, minutes) => format!("{minutes} minutes"),
    };
    format!(
        "hub's clock: {span} {which} this machine's when it answered last: one of them is wrong; this one is {what} if the \
         hub is right"
    )
}

/// A time of the site's clock, for people.
pub(super) fn at(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |at| at.to_string())
}
