//! The gate before applying: a person's hold, a person's approval, and the guard against removals.
//!
//! What comes in: a staged bundle and the inventory. What goes out: open, or shut with the reason that
//! `status` and the report show. A bundle that removes everything always waits, whatever is set.

use std::collections::BTreeSet;

use outhaul_bundle::Index;

use super::{Transition, unknown};
use crate::agent::Agent;
use crate::config::Approval;
use crate::error::AgentError;
use crate::generation;
use crate::machine::{Event, State};
use crate::runner::{self, held, tidy};
use crate::state::{self, Hold, generations, inventory, key};

pub(super) fn ask(agent: &mut Agent, number: u64) -> Result<Transition, AgentError> {
    let index = match runner::index_of(agent, number) {
        Err(AgentError::Generation(error)) => {
            let note = format!("{error}; import it again");
            return Ok(Transition::new(Event::FolderLost(number), note));
        }
        other => other?,
    };
    Ok(match why_shut(agent, &index)? {
        None => Event::GateOpen(number).into(),
        Some(note) => {
            prepare(agent, &index);
            Transition::new(Event::GateShut(number), note)
        }
    })
}

/// Has the reconciler look at a bundle that begins to wait. What it says, it says again when the bundle is
/// let through.
fn prepare(agent: &Agent, index: &Index) {
    let waits = runner::site_now(agent.store.read()).map(|site| site.state_of(index.number));
    if !matches!(waits, Ok(Some(State::Staged))) {
        return;
    }
    let first = generation::desired(&agent.state_folder, index, &agent.site.name)
        .into_iter()
        .next();
    let asked = first.map_or(Ok(()), |first| {
        agent
            .reconciler(index.reconciler.kind.as_str())?
            .prepare(&first, &agent.heartbeat)
    });
    if let Err(error) = asked {
        tracing::warn!(number = index.number, "{error}");
    }
}

/// What waits is not for this site any more.
pub(crate) fn withdraw_waiting(agent: &mut Agent, note: &str) -> Result<(), AgentError> {
    runner::transition(agent, &Transition::new(Event::Withdrawn, note))?;
    tidy::tidy_up(agent)
}

/// Why a bundle would wait, if it would.
pub(crate) fn why_shut(agent: &Agent, index: &Index) -> Result<Option<String>, AgentError> {
    let db = agent.store.read();
    let number = index.number;
    let row = generations::one(db, number)?.ok_or_else(|| unknown(number))?;
    if let Some(hold) = state::meta::<Hold>(db, key::HOLD)? {
        let asks = match deadline_has_passed(agent)? {
            true => "; the deadline has passed: `outhaul-agent hold --release` lets it through",
            false => "",
        };
        return Ok(Some(format!("{}{asks}", hold.sentence())));
    }
    if state::meta::<u64>(db, key::NEEDS_APPROVAL)? == Some(number) {
        return Ok(Some(format!(
            "a rollback was ordered after it came; approve it with `outhaul-agent approve {number}`"
        )));
    }
    if generations::approval(db, &row.index)?.is_some() {
        return Ok(None);
    }
    if agent.config.approval == Approval::Always {
        return Ok(Some(format!(
            "approve it with `outhaul-agent approve {number}`"
        )));
    }
    // What a person holds is not removed.
    let held = held::names(agent)?;
    let applied: BTreeSet<String> = inventory::items(db, None)?
        .into_iter()
        .filter(|item| item.phase != "left" && !held.contains(&item.assignment))
        .map(|item| item.assignment)
        .collect();
    let wanted: BTreeSet<&str> = index.assignments.iter().map(|a| a.name.as_str()).collect();
    let gone: Vec<_> = applied
        .iter()
        .filter(|name| !wanted.contains(name.as_str()))
        .collect();
    let limit = usize::from(agent.config.max_removal_percent);
    let everything = !applied.is_empty() && gone.len() == applied.len();
    if everything || gone.len() * 100 > applied.len() * limit {
        let names: Vec<_> = gone
            .iter()
            .take(5)
            .map(|name| format!("`{name}`"))
            .collect();
        let more = if gone.len() > 5 { " …" } else { "" };
        return Ok(Some(format!(
            "removes {} of {} assignments ({}{more}); approve it with `outhaul-agent approve {number}`",
            gone.len(),
            applied.len(),
            names.join(", "),
        )));
    }
    Ok(None)
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
