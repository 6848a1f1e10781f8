//! The approval before applying: what people decide, the guard against removals, what asks for later, and maintenance windows.
//!
//! What comes in: a staged bundle, the inventory, the clocks. What goes out: it may start, or it must wait, with the reasons that
//! `status` and the report show. What stands is decided by `machine::approval`; here its conditions are looked up and its
//! words are found. A bundle that removes everything always waits, whatever is set.

use std::collections::BTreeSet;

use outhaul_bundle::Index;

use super::{Transition, unknown};
use crate::agent::Agent;
use crate::config::Approval;
use crate::error::AgentError;
use crate::generation;
use crate::machine::approval::{self, Conditions, Obstacle, WindowState};
use crate::machine::{Event, State};
use crate::state::{self, Hold, generations, inventory, key, returns};
use crate::{delays, held, own_values, tidy};
use outhaul_site::windows;

pub(super) fn ask(agent: &mut Agent, number: u64) -> Result<Transition, AgentError> {
    let index = match crate::index_of(agent, number) {
        Err(AgentError::Generation(error)) => {
            let note = format!("{error}; import it again");
            return Ok(Transition::new(Event::FolderLost(number), note));
        }
        other => other?,
    };
    delays::look(agent)?;
    Ok(match why_it_waits(agent, &index)? {
        None => {
            delays::forget(agent)?;
            Event::MayStart(number).into()
        }
        Some(note) => {
            prepare(agent, &index);
            Transition::new(Event::MustWait(number), note)
        }
    })
}

/// Has the reconciler look at a bundle that begins to wait. What it says, it says again when the bundle is
/// let through.
fn prepare(agent: &Agent, index: &Index) {
    let waits = crate::site_now(agent.store.read()).map(|site| site.state_of(index.number));
    if !matches!(waits, Ok(Some(State::Staged))) {
        return;
    }
    let first = generation::desired(&agent.state_folder, index, &agent.site.name)
        .into_iter()
        .next();
    let asked = first.map_or(Ok(()), |first| {
        let reconcilers = agent.reconcilers(index)?;
        let reconciler = reconcilers.for_assignment(&first.assignment);
        Ok::<_, AgentError>(reconciler.prepare(&first, &agent.heartbeat)?)
    });
    if let Err(error) = asked {
        tracing::warn!(number = index.number, "{error}");
    }
}

/// What waits is not for this site any more.
///
/// # Errors
/// [`AgentError`] of the memory.
pub fn withdraw_waiting(agent: &mut Agent, note: &str) -> Result<(), AgentError> {
    crate::transition(agent, &Transition::new(Event::Withdrawn, note))?;
    delays::forget(agent)?;
    tidy::tidy_up(agent)
}

/// Why a bundle would wait, if it would.
///
/// # Errors
/// [`AgentError`] of the memory.
pub fn why_it_waits(agent: &Agent, index: &Index) -> Result<Option<String>, AgentError> {
    let standing = standing(agent, index)?;
    let notes: Vec<String> = standing.into_iter().map(|(_, note)| note).collect();
    Ok(Some(notes.join("; ")).filter(|notes| !notes.is_empty()))
}

/// What stands before a bundle, each with a sentence. Of what only a person lifts the first has to do; what time lifts is
/// named beside it.
///
/// # Errors
/// [`AgentError`] of the memory.
pub fn standing(agent: &Agent, index: &Index) -> Result<Vec<(Obstacle, String)>, AgentError> {
    let db = agent.store.read();
    let number = index.number;
    let row = generations::one(db, number)?.ok_or_else(|| unknown(number))?;
    let hold = state::meta::<Hold>(db, key::HOLD)?;
    let (gone, applied) = removals(agent, index)?;
    let limit = usize::from(agent.config.max_removal_percent);
    let everything = applied > 0 && gone.len() == applied;
    let delays = delays::present(agent)?;
    let (window, next) = window(agent)?;
    let (wave, turn) = wave(agent, index)?;
    let lost = own_values::lost_by(agent, index)?;
    let lacking = held::lacking(agent)?;
    let conditions = Conditions {
        held: hold.is_some(),
        rolled_back: state::meta::<u64>(db, key::NEEDS_APPROVAL)? == Some(number),
        approved: generations::approval(db, &row.index)?.is_some(),
        always: agent.config.approval == Approval::Always,
        removes: everything || gone.len() * 100 > applied * limit,
        returns: returns::count(db, &crate::content_of(index))?,
        max_returns: agent.config.health.max_returns,
        delay: delays::sum(agent, &delays),
        window,
        wave,
        values: !lost.is_empty(),
        content_lacks: !lacking.is_empty(),
    };
    let mut all = Vec::new();
    let obstacles = approval::obstacles(&conditions);
    for obstacle in obstacles.iter().copied() {
        // An approval lifts all of them at once: whoever gives it has to know each. These two say nothing beside another that it lifts.
        let mut before = all.iter();
        let is_named =
            before.any(|(before, _): &(Obstacle, String)| before.is_lifted_by_approval());
        if matches!(obstacle, Obstacle::Approval | Obstacle::Rollback) && is_named {
            continue;
        }
        let approve = format!("approve it with `outhaul-agent approve {number}`");
        let note = match (obstacle, &hold) {
            (Obstacle::Hold, Some(hold)) => {
                let asks = match deadline_has_passed(agent)? {
                    true => {
                        "; the deadline has passed: `outhaul-agent hold --release` ends it, and then the service applies what waits, or `outhaul-agent apply`"
                    }
                    false => "",
                };
                format!("{}{asks}", hold.sentence())
            }
            // The machine's word and the row's are of one transaction.
            (Obstacle::Hold, None) => "held".to_owned(),
            (Obstacle::HeldContent, _) => {
                let each = lacking
                    .iter()
                    .map(|one| format!("{}: {}", one.sentence(), one.help()));
                each.collect::<Vec<_>>().join("; ")
            }
            (Obstacle::Rollback, _) => {
                format!("a rollback was ordered after it came; {approve}")
            }
            (Obstacle::Approval, _) if obstacles.len() > 1 => {
                format!("every bundle needs an approval here: {approve}")
            }
            (Obstacle::Approval, _) => approve,
            (Obstacle::Removal, _) => {
                format!("{}; {approve}", removal_in_words(&gone, applied))
            }
            (Obstacle::Loop, _) => {
                let times = match conditions.returns {
                    1 => "once".to_owned(),
                    many => format!("{many} times"),
                };
                format!(
                    "it was applied and rolled back here {times} (`max_returns` in agent.toml); to try it once more, {approve}"
                )
            }
            (Obstacle::Delay, _) => delays::sentences(&delays, conditions.delay).join("; "),
            (Obstacle::DelayAsks, _) => format!(
                "{}, and a person decides: {approve}",
                delays::sentences(&delays, conditions.delay).join("; ")
            ),
            (Obstacle::Window, _) => match &next {
                Some(next) => format!("no maintenance window is open; the next one begins {next}"),
                None => "no maintenance window is open".to_owned(),
            },
            (Obstacle::Clock, _) => format!(
                "this site has maintenance windows, and its clock is not trusted: when it is time, {approve}"
            ),
            (Obstacle::Wave, _) => turn.clone(),
            (Obstacle::WaveClock, _) => {
                format!("{turn}, and this site's clock is not trusted: when it is time, {approve}")
            }
            (Obstacle::Values, _) => format!(
                "it does not take what this site set ({}): set another value, `outhaul-agent unset` it, or {approve}; then \
                 the centre's value is used and yours is kept",
                lost.join("; ")
            ),
        };
        all.push((obstacle, note));
    }
    Ok(all)
}

fn removal_in_words(gone: &[String], applied: usize) -> String {
    let names: Vec<_> = gone
        .iter()
        .take(5)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = if gone.len() > 5 { " …" } else { "" };
    let (removed, names) = (gone.len(), names.join(", "));
    format!("removes {removed} of {applied} assignments ({names}{more})")
}

/// The assignments that a bundle would remove, and how many are applied. What a person holds is not removed.
fn removals(agent: &Agent, index: &Index) -> Result<(Vec<String>, usize), AgentError> {
    let held = held::names(agent)?;
    let applied: BTreeSet<String> =
        inventory::surplus(agent.store.read(), |name| held.contains(name))?
            .into_iter()
            .map(|item| item.assignment)
            .collect();
    let wanted: BTreeSet<&str> = index.assignments.iter().map(|a| a.name.as_str()).collect();
    let count = applied.len();
    let gone = applied
        .into_iter()
        .filter(|name| !wanted.contains(name.as_str()));
    Ok((gone.collect(), count))
}

/// Whether it is time for what is new, and when the next window begins, in this site's time.
fn window(agent: &Agent) -> Result<(WindowState, Option<String>), AgentError> {
    let Some((windows, offset)) = agent.config.maintenance.windows() else {
        return Ok((WindowState::Always, None));
    };
    let reading = agent.clock_reading()?;
    if !reading.wall_trusted {
        return Ok((WindowState::Unknown, None));
    }
    if windows::is_open(&windows, offset, reading.wall) {
        return Ok((WindowState::Open, None));
    }
    let next = windows::next(&windows, offset, reading.wall);
    let next = next.map(|at| format!("{} (UTC{offset})", offset.to_datetime(at)));
    Ok((WindowState::Shut, next))
}

/// Whether it is this site's turn, and in words when it is. What counts is the latest time that is certain: the one that
/// signatures and the clock since boot prove, and the wall clock where it is trusted.
fn wave(agent: &Agent, index: &Index) -> Result<(WindowState, String), AgentError> {
    let Some(waves) = &index.waves else {
        return Ok((WindowState::Always, String::new()));
    };
    let place = waves.place(&agent.site.name);
    let turn = format!("wave {} of {}", place.wave, place.of);
    if place.after_hours == 0 {
        return Ok((WindowState::Open, turn));
    }
    let issued: Option<(u64, i64)> = state::meta(agent.store.read(), key::ISSUED)?;
    let issued = issued.filter(|(number, _)| *number == index.number);
    let hours = i64::try_from(place.after_hours).unwrap_or(i64::MAX);
    let begins = issued.and_then(|(_, at_ms)| {
        let issued = jiff::Timestamp::from_millisecond(at_ms).ok()?;
        issued
            .checked_add(jiff::SignedDuration::from_hours(hours))
            .ok()
    });
    let Some(begins) = begins else {
        let turn = format!(
            "{turn}: {hours} hours after the bundle was issued, which is not known any more"
        );
        return Ok((WindowState::Unknown, turn));
    };
    let reading = agent.clock_reading()?;
    let certain = match reading.wall_trusted {
        true => reading.bound.at().max(reading.wall),
        false => reading.bound.at(),
    };
    let turn = format!("{turn}: not before {begins}");
    Ok(match (certain >= begins, reading.wall_trusted) {
        (true, _) => (WindowState::Open, turn),
        (false, true) => (WindowState::Shut, turn),
        (false, false) => (WindowState::Unknown, turn),
    })
}

/// Whether the hold's deadline has passed.
fn deadline_has_passed(agent: &Agent) -> Result<bool, AgentError> {
    let db = agent.store.read();
    let deadline = state::meta::<Hold>(db, key::HOLD)?.and_then(|hold| hold.until);
    let Some(mut deadline) = deadline else {
        return Ok(false);
    };
    Ok(deadline.has_passed(&agent.clock_reading()?))
}
