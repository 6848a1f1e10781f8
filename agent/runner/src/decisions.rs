//! What people decide on site: approve, hold, roll back, apply again.
//!
//! What comes in: a decision and who made it. What goes out: the machine's step for it and its report, in
//! one transaction, so that it stands even when another process does the work. What is impossible now is
//! refused before anything is changed.

use outhaul_bundle::Digest;
use outhaul_bundle::report::ReportEvent;
use outhaul_reconcilers::shortened;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::Transition;
use crate::agent::Agent;
use crate::approval;
use crate::error::AgentError;
use crate::intact::{self, Look};
use crate::known_again;
use crate::machine::{Event, Site, State, Work};
use crate::state::{Hold, Note, StateError, generations, outbox, returns};
use outhaul_site::stored::Decision;

pub mod assignments;
pub mod deadline;
pub mod values;

/// From which bundle to which a rollback goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The bundle that is left.
    pub from: u64,
    /// The bundle that is to run again.
    pub to: u64,
}

pub(super) fn decision(what: &str, who: &str, number: Option<u64>) -> ReportEvent {
    ReportEvent::Decision {
        what: what.to_owned(),
        who: who.to_owned(),
        number,
        assignment: None,
        reason: None,
    }
}

/// The same with why it was decided.
fn because(event: ReportEvent, why: &str) -> ReportEvent {
    match event {
        ReportEvent::Decision {
            what,
            who,
            number,
            assignment,
            ..
        } => ReportEvent::Decision {
            what,
            who,
            number,
            assignment,
            reason: Some(shortened(why)).filter(|why| !why.is_empty()),
        },
        other => other,
    }
}

pub(super) fn nothing(message: &str) -> AgentError {
    nothing_here(message, "`outhaul-agent status` lists the bundles")
}

/// The same, with what the person may look at.
pub(super) fn nothing_here(message: &str, look: &str) -> AgentError {
    AgentError::Nothing {
        message: message.into(),
        help: format!("{look}; nothing was changed"),
    }
}

/// What a rollback comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordered {
    /// An earlier bundle is active again.
    Back(Rollback),
    /// The first bundle, on which work is unfinished, is given up; nothing runs instead.
    GivenUp(u64),
}

/// Commits that `who` wants an earlier bundle: `wanted`, or the one before. Nothing is applied yet:
/// [`crate::drive`] does it.
///
/// # Errors
/// [`AgentError::Nothing`] when there is nothing to go back to.
pub fn order_rollback(
    agent: &mut Agent,
    wanted: Option<u64>,
    who: &str,
    why: &str,
) -> Result<Ordered, AgentError> {
    let site = crate::site_now(agent.store.read())?;
    let Some(active) = site.active else {
        return match (site.candidate(), wanted) {
            (Some(number), None) => give_up(agent, number, who, why),
            _ => Err(nothing("no bundle is active on this site")),
        };
    };
    // Ordered before and cut off: the same order again goes on with it.
    if let Work::Reverting {
        from,
        to,
        decided: true,
    } = site.work
        && wanted.is_none_or(|wanted| wanted == to)
    {
        return Ok(Ordered::Back(Rollback { from, to }));
    }
    let Some((from, to)) = site.rollback_target(wanted) else {
        return Err(match wanted {
            None => nothing("there is no previous generation to go back to"),
            Some(wanted) => nothing(&format!(
                "bundle {wanted} is not one that this site can go back to: {}",
                kept_in_words(&site)
            )),
        });
    };
    if let Err(AgentError::Generation(error)) = crate::index_of(agent, to) {
        let lost = Transition::new(Event::FolderLost(to), error.to_string());
        if to != active.number {
            crate::transition(agent, &lost)?;
        }
        // That its folder is lost is noted.
        return Err(AgentError::Nothing {
            message: format!(
                "bundle {to} is not whole on disk any more, so there is nothing to go back to: {error}"
            ),
            help: "`outhaul-agent status` lists the bundles; the running bundle is not affected"
                .into(),
        });
    }
    let index = crate::index_of(agent, to)?;
    let damages = intact::damages(&agent.state_folder, &index, Look::Every);
    // What the stored blobs have is put back before anything is switched.
    if !intact::can_be_put_back(&agent.state_folder, &index, &damages) {
        return Err(AgentError::Nothing {
            message: format!(
                "{}, in the stored copy, too: there is no intact bundle to roll back to, and the running bundle is not affected",
                intact::sentence(to, &damages)
            ),
            help: "ask the centre for a newer bundle with that content; `outhaul-agent status` lists the bundles"
                .into(),
        });
    }
    let note = by_a_person("rolled back", who, why);
    let note = with_cause(agent, &site, from, note)?;
    let decision_of = Decision::Rollback(who.to_owned());
    let ordered = Transition::decided(Event::RollbackOrdered(to), note, decision_of);
    crate::transition_with(agent, &ordered, |db, author| {
        let reported = because(decision("rollback", who, Some(from)), why);
        outbox::queue(db, author, reported).map(|_| ())
    })?;
    Ok(Ordered::Back(Rollback { from, to }))
}

fn by_a_person(done: &str, who: &str, why: &str) -> String {
    match why {
        "" => format!("{done} by {who}"),
        why => format!("{done} by {who}: {why}"),
    }
}

/// `note`, and what had kept the bundle that is left from running: whoever looks later needs both.
fn with_cause(agent: &Agent, site: &Site, left: u64, note: String) -> Result<String, AgentError> {
    let row = generations::one(agent.store.read(), left)?;
    let before = row.map(|row| row.note).unwrap_or_default();
    let broken = site
        .active
        .is_some_and(|active| active.number == left && active.broken);
    let cause = match before {
        Note { blocked, .. } if !blocked.is_empty() => blocked,
        before if broken => before.to_string(),
        _ => String::new(),
    };
    Ok(match cause.as_str() {
        "" => note,
        cause => format!("{note}; before that: {}", shortened(cause)),
    })
}

/// Commits that the first bundle is given up, on which work is unfinished. There is nothing to go back to; what of it is on
/// this host, `status` lists.
fn give_up(agent: &mut Agent, number: u64, who: &str, why: &str) -> Result<Ordered, AgentError> {
    let site = crate::site_now(agent.store.read())?;
    let note = with_cause(agent, &site, number, by_a_person("given up", who, why))?;
    let broken = Transition::new(Event::Broken(number), note);
    crate::transition_with(agent, &broken, |db, author| {
        let reported = because(decision("rollback", who, Some(number)), why);
        outbox::queue(db, author, reported).map(|_| ())
    })?;
    Ok(Ordered::GivenUp(number))
}

/// The bundles that ran before and are on disk.
pub(super) fn kept_in_words(site: &Site) -> String {
    let numbers: Vec<_> = site.earlier.iter().map(ToString::to_string).collect();
    match &numbers[..] {
        [] => "none that ran before is on disk".to_owned(),
        [one] => format!("bundle {one} is the only one that ran before and is on disk"),
        many => format!("bundles {} ran before and are on disk", many.join(", ")),
    }
}

/// What it means to apply again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// This bundle is applied: the active one, or the one under way.
    Bundle(u64),
    /// A rollback that a person ordered, and that could not go on, comes to its end.
    Rollback(Rollback),
}

/// Commits that `who` wants the active bundle applied again, or work that could not go on to go on now.
///
/// # Errors
/// [`AgentError::Nothing`] when nothing is active and nothing is under way.
pub fn order_repair(agent: &mut Agent, who: &str) -> Result<Again, AgentError> {
    let site = crate::site_now(agent.store.read())?;
    let waiting = site.waiting.map(|waiting| waiting.number);
    let runs = site.worked_on().or(site.active.map(|active| active.number));
    if let (None, Some(first)) = (runs, waiting) {
        // Nothing is repaired: a first bundle that waits is let through where nothing holds it back any more.
        return Ok(Again::Bundle(first));
    }
    let Some(number) = runs else {
        return Err(nothing(
            "no bundle is active on this site, so there is nothing to apply again",
        ));
    };
    if site.worked_on().is_none()
        && let Err(AgentError::Generation(error)) = crate::index_of(agent, number)
    {
        // What is not on disk cannot be repaired, and a newer bundle that waits does not need it.
        if let Some(newer) = waiting {
            return Ok(Again::Bundle(newer));
        }
        return Err(AgentError::Nothing {
            message: format!(
                "bundle {number} cannot be applied again, because its folder is not whole on disk any more: \
                 {error}; what runs was not touched"
            ),
            help: format!(
                "import bundle {number} again, which brings its folder back and applies it, or a newer bundle"
            ),
        });
    }
    // What others changed is taken back in the bundle that is to run.
    let to_run = match site.work {
        Work::Reverting { to, .. } => to,
        _ => number,
    };
    // A rollback that was cut off stays the decision of whoever ordered it.
    let ordered = match site.work {
        Work::Reverting {
            from,
            decided: true,
            ..
        } => crate::note_of(agent.store.read(), from)?,
        _ => String::new(),
    };
    let note = match ordered.is_empty() {
        true => format!("applied again by {who}"),
        false => ordered,
    };
    let due = Transition::decided(Event::RepairDue, note, Decision::ApplyAgain(to_run));
    crate::transition_with(agent, &due, |db, author| {
        outbox::queue(db, author, decision("apply", who, Some(to_run))).map(|_| ())
    })?;
    Ok(match site.work {
        Work::Reverting {
            from,
            to,
            decided: true,
        } => Again::Rollback(Rollback { from, to }),
        _ => Again::Bundle(number),
    })
}

/// Commits that `who` lets a bundle through, also one that failed before, and why.
///
/// # Errors
/// [`AgentError`] when this site does not know it.
pub fn approve(agent: &mut Agent, number: u64, who: &str, why: &str) -> Result<Site, AgentError> {
    let (approved, content) = approval_of(agent, number)?;
    crate::transition_with(agent, &approved, |db, author| {
        store_approval(db, number, content.as_ref(), who)?;
        let event = because(decision("approve", who, Some(number)), why);
        outbox::queue(db, author, event).map(|_| ())
    })
}

/// The machine's step for an approval that is stored and reported already: for one assignment alone.
///
/// # Errors
/// As [`approve`].
pub fn let_through(agent: &mut Agent, number: u64) -> Result<Site, AgentError> {
    let (approved, _) = approval_of(agent, number)?;
    crate::transition(agent, &approved)
}

/// The step of an approval, and the content that it is for, as far as that is known.
fn approval_of(agent: &Agent, number: u64) -> Result<(Transition, Option<Digest>), AgentError> {
    let Some(row) = generations::one(agent.store.read(), number)? else {
        return Err(AgentError::Nothing {
            message: format!("this site knows no bundle {number}"),
            help: "`outhaul-agent status` lists those that it knows".into(),
        });
    };
    if row.state == State::Superseded && row.source == known_again::SOURCE {
        return Err(AgentError::Nothing {
            message: format!(
                "bundle {number} was here before the database of this site was lost, and does not wait: an approval does not apply it; nothing was \
                 changed"
            ),
            help: "import it again, or a newer bundle (`outhaul-agent import FOLDER`)".into(),
        });
    }
    if row.state == State::Superseded {
        return Err(AgentError::Nothing {
            message: format!(
                "bundle {number} was replaced by a newer one: it is not applied any more, and an approval cannot \
                 change that; nothing was changed"
            ),
            help: "`outhaul-agent rollback` goes back to the bundle that ran before, while that is on disk; else \
                   ask the centre for a newer bundle"
                .into(),
        });
    }
    let approved = Transition::new(Event::Approved(number), row.note.unblocked().to_string());
    let content = crate::index_of(agent, number).ok();
    let content = content.map(|index| crate::content_of(&index));
    Ok((approved, content))
}

/// Stores that `who` approves bundle `number`.
fn store_approval(
    db: &Connection,
    number: u64,
    content: Option<&Digest>,
    who: &str,
) -> Result<(), StateError> {
    // A person wants it tried, however often it was left.
    if let Some(content) = content {
        returns::forget(db, content)?;
    }
    match generations::one(db, number)? {
        Some(row) => generations::approve(db, &row.index, who),
        None => Ok(()),
    }
}

/// Commits a hold.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn hold(agent: &mut Agent, hold: &Hold) -> Result<Site, AgentError> {
    let until = hold.until.as_ref();
    let until = until.map_or_else(String::new, |until| format!("; until {}", until.at));
    let why = format!("{}{until}", hold.why);
    let held = Transition::decided(Event::Held, "", Decision::Hold(hold.clone()));
    crate::transition_with(agent, &held, |db, author| {
        let event = because(decision("hold", &hold.who, None), &why);
        outbox::queue(db, author, event).map(|_| ())
    })
}

/// Commits the end of a hold, by `who`, and why.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn release(agent: &mut Agent, who: &str, why: &str) -> Result<Site, AgentError> {
    let over = Transition::decided(Event::Released, "", Decision::Release);
    let site = crate::transition_with(agent, &over, |db, author| {
        let event = because(decision("release", who, None), why);
        outbox::queue(db, author, event).map(|_| ())
    })?;
    match site.waiting.filter(|waiting| waiting.gated) {
        Some(waiting) => waits_on(agent, waiting.number),
        None => Ok(site),
    }
}

/// Why a bundle still waits when a hold is over.
fn waits_on(agent: &mut Agent, number: u64) -> Result<Site, AgentError> {
    let why = match crate::index_of(agent, number) {
        Ok(index) => approval::why_it_waits(agent, &index)?,
        // Whoever does the work finds that its folder is lost.
        Err(_) => None,
    };
    let why = why.unwrap_or_else(|| {
        "the hold is over: the service applies it where it runs, or `outhaul-agent apply`"
            .to_owned()
    });
    crate::transition(agent, &Transition::new(Event::MustWait(number), why))
}
