//! The machine's site in the database: the rows that it is read from and written to.
//!
//! What comes in: an open transaction. What goes out: a [`Site`], or its rows with the journal and the
//! reports of a change, and what a person decided in it; without a step, what `without_step` names. Nothing else writes these
//! rows (`xtask/src/check/once.rs`). It decides nothing: which site follows which is the machine's business. Rows of
//! earlier agents that contradict themselves (a failed active bundle, an order that stands) read as a
//! site that can go on.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, Transaction};

use crate::machine::{Action, Active, Event, MAX_EARLIER, Site, State, WaitingBundle, Work};
use crate::state::events::generation_event;
use crate::state::generations::{self, Generation};
use crate::state::holds::{self, AssignmentHold};
use crate::state::outbox::{self, Author};
use crate::state::{self, Hold, Note, StateError, key};
use outhaul_bundle::report::{AssignmentResult, ReportEvent, RevertedFrom};
use outhaul_reconcilers::shortened;

mod observed;
mod without_step;

pub use without_step::{add_known, count_hold_on, give_holds_back, put_holds};

/// An event with what is to be reported of it.
#[derive(Debug, Clone)]
pub struct Transition {
    /// The event.
    pub event: Event,
    /// One sentence: why; of a look at its health what was found, of what is blocked by what.
    pub note: String,
    /// Each assignment's result, where there are any.
    pub results: Vec<AssignmentResult>,
    /// What a person decided, where the event is a decision.
    pub decision: Option<Decision>,
    /// The bundle that the event brings, where it is one that this site has not met, or takes the place of its number.
    pub brings: Option<Box<Generation>>,
    /// A look that found what the last one found is not reported again for so long, in milliseconds. 0: it is.
    pub unchanged_ms: u64,
}

/// What is kept of a person's decision beside the machine's site: who, why, until when.
#[derive(Debug, Clone)]
pub enum Decision {
    /// Whatever is new is held back.
    Hold(Hold),
    /// It is not any more.
    Release,
    /// Who wants an earlier bundle.
    Rollback(String),
    /// The bundle that is to run is applied again, and what others changed in it is taken back.
    ApplyAgain(u64),
    /// Every assignment that is held, by name.
    Assignments(BTreeMap<String, AssignmentHold>),
}

impl From<Event> for Transition {
    fn from(event: Event) -> Self {
        Self::new(event, String::new())
    }
}

impl Transition {
    /// An event and why.
    pub fn new(event: Event, note: impl Into<String>) -> Self {
        Self {
            event,
            note: note.into(),
            results: Vec::new(),
            decision: None,
            brings: None,
            unchanged_ms: 0,
        }
    }

    /// The copy of a bundle was begun: its row is in the transaction of the step.
    pub fn copy_begun(row: Generation) -> Self {
        let begun = Self::from(Event::CopyBegun(row.number));
        Self {
            brings: Some(Box::new(row)),
            ..begun
        }
    }

    /// An event that a person decided.
    pub fn decided(event: Event, note: impl Into<String>, decision: Decision) -> Self {
        Self {
            decision: Some(decision),
            ..Self::new(event, note)
        }
    }

    /// An event, why, and what came of each assignment.
    pub fn with(event: Event, note: impl Into<String>, results: Vec<AssignmentResult>) -> Self {
        Self {
            results,
            ..Self::new(event, note)
        }
    }
}

/// How the site stands.
///
/// # Errors
/// [`StateError`]
pub fn load(db: &Connection) -> Result<Site, StateError> {
    let rows = generations::all(db)?;
    let pointer: Option<u64> = state::meta(db, key::ACTIVE)?;
    let newest = |wanted: &dyn Fn(&Generation) -> bool| rows.iter().find(|row| wanted(row));
    let active = newest(&|row| Some(row.number) == pointer);
    let is_active = |row: &Generation| Some(row.number) == pointer;
    let kept = |row: &&Generation| {
        row.good && row.whole && pointer.is_some_and(|pointer| row.number < pointer)
    };
    let earlier: Vec<u64> = rows.iter().filter(kept).map(|row| row.number).collect();
    let pins: BTreeSet<u64> = holds::of_assignments(db)?
        .values()
        .filter_map(|hold| hold.generation)
        .filter(|number| rows.iter().any(|row| row.number == *number && row.whole))
        .collect();
    let chosen: Option<u64> = state::meta(db, key::ROLLBACK_TO)?;
    let target = chosen
        .filter(|chosen| earlier.contains(chosen))
        .or_else(|| earlier.first().copied());
    let other = |state: State| newest(&|row| row.state == state && !is_active(row));
    let decided = state::meta::<String>(db, key::ROLLBACK)?.is_some();
    let correcting: Option<u64> = state::meta(db, key::CORRECTING)?;
    let work = match (active.map(|row| row.state), target) {
        (Some(State::Applying), _) => Work::Repairing,
        (Some(State::Reverting), Some(to)) => Work::Reverting {
            from: pointer.unwrap_or_default(),
            to,
            decided,
        },
        _ => match (other(State::Reverting), active) {
            (Some(from), Some(to)) => Work::Reverting {
                from: from.number,
                to: to.number,
                decided,
            },
            _ => match (other(State::Applying), other(State::Soaking)) {
                (Some(row), _) => Work::Applying(row.number),
                (None, Some(row)) => Work::Soaking(row.number),
                (None, None) if pointer.is_some() && correcting == pointer => Work::Correcting,
                (None, None) => Work::Idle,
            },
        },
    };
    let broken: Option<u64> = state::meta(db, key::BROKEN)?;
    let needs: Option<u64> = state::meta(db, key::NEEDS_APPROVAL)?;
    let waiting = newest(&|row| matches!(row.state, State::Staged | State::Gated));
    let watched: Option<u64> = state::meta(db, key::WATCHED)?;
    let mut site = Site {
        watched: matches!(work, Work::Soaking(number) if watched == Some(number)),
        active: active.map(|row| Active {
            number: row.number,
            broken: row.state == State::Failed || broken == pointer,
        }),
        earlier,
        pins,
        incoming: other(State::Verified).map(|row| row.number),
        waiting: waiting.map(|row| WaitingBundle {
            number: row.number,
            gated: row.state == State::Gated,
            needs_approval: needs == Some(row.number),
        }),
        work,
        hold: state::meta::<Hold>(db, key::HOLD)?.is_some(),
    };
    site.keep_earlier(MAX_EARLIER);
    Ok(site)
}

/// Writes how the site stands after `transition`, what became of the others, journal and reports.
///
/// # Errors
/// [`StateError`]
pub fn save(
    db: &Transaction<'_>,
    author: &Author<'_>,
    (before, after): (&Site, &Site),
    actions: &[Action],
    transition: &Transition,
) -> Result<(), StateError> {
    let at_ms = author.reading.wall_ms();
    // Reports first: a bundle that is forgotten is still reported with its row.
    for action in actions {
        record(db, author, *action, transition)?;
    }
    let ended = |number: u64| {
        actions.iter().find_map(|action| match action {
            Action::End(ended, state) if *ended == number => Some(*state),
            _ => None,
        })
    };
    if let Some(row) = &transition.brings {
        generations::put(db, row)?;
    }
    let noted = noted(before, after, transition.event);
    for row in generations::all(db)? {
        if actions.contains(&Action::Forget(row.number)) {
            generations::forget(db, row.number)?;
            generations::journal(db, row.number, at_ms, "forgotten", &transition.note)?;
            continue;
        }
        let mut new = row.clone();
        let live = after.state_of(row.number).or_else(|| ended(row.number));
        new.state = live.unwrap_or(row.state.left_behind());
        new.good |= new.state == State::Active;
        new.whole |= transition.event == Event::CopyEnded(row.number);
        new.whole &= after.keeps(row.number);
        if noted.contains(&Some(row.number)) {
            new.note = note_after(&row.note, transition);
        } else if transition.event == Event::Corrected(row.number) {
            new.note = row.note.unblocked();
        } else if new.state == State::Superseded && row.state.unfinished() {
            new.note = Note::new("a newer bundle came before it ran");
        } else if new.state == State::Superseded && row.state != new.state {
            new.note = Note::default();
        }
        if row.whole && !new.whole {
            for pass in PASSES {
                generations::forget_results(db, &format!("{pass} {}", row.number))?;
            }
        }
        if new != row {
            generations::put(db, &new)?;
        }
        if new.state != row.state || noted.contains(&Some(row.number)) {
            generations::journal(
                db,
                row.number,
                at_ms,
                new.state.as_str(),
                &new.note.to_string(),
            )?;
        }
    }
    if let Some(pass) = pass(after).filter(|new| pass(before).as_ref() != Some(new)) {
        generations::forget_results(db, &pass)?;
    }
    let active = after.active;
    state::set_meta(db, key::ACTIVE, active.map(|active| active.number).as_ref())?;
    let broken = active.filter(|active| active.broken);
    state::set_meta(db, key::BROKEN, broken.map(|active| active.number).as_ref())?;
    let needs = after.waiting.filter(|waiting| waiting.needs_approval);
    let needs = needs.map(|waiting| waiting.number);
    state::set_meta(db, key::NEEDS_APPROVAL, needs.as_ref())?;
    let correcting = active.filter(|_| after.work == Work::Correcting);
    state::set_meta(db, key::CORRECTING, correcting.map(|a| a.number).as_ref())?;
    if let Event::Observed(_) | Event::DriftFound(_) | Event::Corrected(_) = transition.event {
        state::set_meta(db, key::OBSERVED, Some(&at_ms))?;
    }
    let soaking = match after.work {
        Work::Soaking(number) => Some(number),
        _ => None,
    };
    state::set_meta(db, key::WATCHED, soaking.filter(|_| after.watched).as_ref())?;
    if soaking.is_none() {
        state::set_meta::<u64>(db, key::SOAK, None)?;
    }
    let target = match after.work {
        Work::Reverting { from, to, .. } if Some(from) == active.map(|a| a.number) => Some(to),
        _ => None,
    };
    state::set_meta(db, key::ROLLBACK_TO, target.as_ref())?;
    keep(db, after, transition.decision.as_ref())
}

/// Writes what is kept of a decision, and clears what no longer stands.
fn keep(db: &Transaction<'_>, after: &Site, decision: Option<&Decision>) -> Result<(), StateError> {
    match decision {
        Some(Decision::Hold(hold)) => state::set_meta(db, key::HOLD, Some(hold))?,
        Some(Decision::Rollback(who)) => state::set_meta(db, key::ROLLBACK, Some(who))?,
        Some(Decision::ApplyAgain(number)) => {
            state::set_meta(db, key::TAKES_BACK, Some(number))?;
        }
        Some(Decision::Assignments(all)) => put_holds(db, None, all)?,
        Some(Decision::Release) | None => {}
    }
    if !after.hold {
        state::set_meta::<Hold>(db, key::HOLD, None)?;
    }
    if !matches!(after.work, Work::Reverting { decided: true, .. }) {
        state::set_meta::<String>(db, key::ROLLBACK, None)?;
    }
    if after.work == Work::Idle {
        state::set_meta::<u64>(db, key::TAKES_BACK, None)?;
    }
    Ok(())
}

/// The words that names of passes begin with.
const PASSES: [&str; 4] = ["apply", "revert", "repair", "correct"];

/// The name under which the results of the work under way are recorded.
pub fn pass(site: &Site) -> Option<String> {
    match site.work {
        Work::Idle => None,
        Work::Applying(number) | Work::Soaking(number) => Some(format!("apply {number}")),
        Work::Reverting { from, .. } => Some(format!("revert {from}")),
        Work::Repairing => Some(format!("repair {}", site.active?.number)),
        Work::Correcting => Some(format!("correct {}", site.active?.number)),
    }
}

/// The bundles that the note of an event is about.
fn noted(before: &Site, after: &Site, event: Event) -> [Option<u64>; 2] {
    let active = after.active.map(|active| active.number);
    match event {
        Event::CopyBegun(number)
        | Event::CopyEnded(number)
        | Event::CopyLost(number)
        | Event::MayStart(number)
        | Event::MustWait(number)
        | Event::Approved(number)
        | Event::Applied(number)
        | Event::Broken(number)
        | Event::Healthy(number)
        | Event::HealthySoFar(number)
        | Event::FolderLost(number) => [Some(number), None],
        // What is active again, and what did not work out.
        Event::Returned(number) | Event::ReturnBroken(number) => [Some(number), active],
        Event::RollbackOrdered(_) | Event::Blocked => [after.worked_on(), None],
        // It goes on with the work on a newer bundle: the active one is not applied again.
        Event::RepairDue if matches!(after.work, Work::Applying(_) | Work::Soaking(_)) => {
            [None, None]
        }
        Event::RepairDue
        | Event::Repaired
        | Event::RepairBroken
        | Event::Pinned { repair: true, .. }
        | Event::Unpinned { repair: true, .. } => [active, None],
        Event::Withdrawn => [before.waiting.map(|waiting| waiting.number), None],
        Event::Held
        | Event::Released
        | Event::KeptAtMost(_)
        | Event::Observed(_)
        | Event::DriftFound(_)
        | Event::Corrected(_)
        | Event::Pinned { .. }
        | Event::Unpinned { .. } => [None, None],
    }
}

/// What was found of the assignments, and when.
fn keep_found(
    db: &Transaction<'_>,
    author: &Author<'_>,
    results: &Vec<AssignmentResult>,
) -> Result<(), StateError> {
    state::set_meta(db, key::RESULTS, Some(results))?;
    state::set_meta(db, key::OBSERVED, Some(&author.reading.wall_ms()))
}

/// The rows of one action.
fn record(
    db: &Transaction<'_>,
    author: &Author<'_>,
    action: Action,
    transition: &Transition,
) -> Result<(), StateError> {
    let row = |number: u64| generations::one(db, number)?.ok_or_else(|| unknown(number));
    let results = &transition.results;
    match action {
        Action::ReportAgain(..) if observed::is_unchanged(db, author, action, transition)? => {
            Ok(())
        }
        Action::Report(number, state) | Action::ReportAgain(number, state) => {
            let mut row = row(number)?;
            row.state = state;
            let note = note_after(&row.note, transition).to_string();
            let event = generation_event(&row, results, &note);
            observed::keep(db, author, action, transition)?;
            // Of a bundle without assignments nothing is left of those before it.
            if state == State::Active || (state == State::Failed && !results.is_empty()) {
                keep_found(db, author, results)?;
            }
            let event = match action {
                Action::ReportAgain(..) => ReportEvent::Observation(event),
                _ => ReportEvent::Generation(event),
            };
            outbox::queue(db, author, event).map(|_| ())
        }
        Action::ReportRevert { from, to } => {
            let left = row(from)?;
            let mut runs = row(to)?;
            runs.state = State::Active;
            let mut event = generation_event(&runs, results, &transition.note);
            event.reverted_from = Some(RevertedFrom {
                number: from,
                index: left.index,
                decided_by: state::meta(db, key::ROLLBACK)?,
                reason: shortened(&left.note.unblocked().to_string()),
            });
            keep_found(db, author, results)?;
            outbox::queue(db, author, ReportEvent::Generation(event)).map(|_| ())
        }
        Action::Remember(number) => {
            let row = row(number)?;
            // What was broken has just been said; what a person left was said when it was ordered.
            let reason = match transition.event {
                Event::Broken(_) => transition.note.clone(),
                _ => row.note.to_string(),
            };
            generations::remember(db, &row.index, number, &reason)
        }
        Action::End(..) | Action::Forget(_) => Ok(()),
    }
}

/// What is said of a bundle after an event that says something of it.
fn note_after(before: &Note, transition: &Transition) -> Note {
    let said = transition.note.clone();
    match transition.event {
        // Until when it would be looked at is not known then.
        Event::Blocked => Note {
            blocked: said,
            ..Note::new(before.why.clone())
        },
        Event::HealthySoFar(_) => Note {
            health: said,
            ..Note::new(before.why.clone())
        },
        _ => Note::new(said),
    }
}

/// What is said of a generation that is not there.
pub fn unknown(number: u64) -> StateError {
    StateError::Value {
        what: format!("generation {number}"),
        problem: "it is not there".into(),
    }
}

#[cfg(test)]
mod tests;
