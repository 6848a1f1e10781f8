//! The unfinished work that an import ends before it reads anything: what ending it changes.
//!
//! What comes in: an agent whose memory is a copy. What goes out: what the work comes to where nothing fails, in words and file by file. The copy is then
//! as the site would be, so that a bundle is planned against that; where something would make the work fail, its files are not here, or health would be
//! checked for some time, the copy stays as it is. Nothing runs, and nothing outside the copy is changed.

use serde::Serialize;

use super::changes_of;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::machine::{Event, Work};
use crate::rehearsal::HostChanges;
use crate::runner::{self, former_targets, held};
use crate::state::inventory;
use outhaul_bundle::Index;

/// Unfinished work.
#[derive(Debug, Serialize)]
pub(crate) struct Unfinished {
    /// The bundle that the work is about.
    number: u64,
    /// What ending it comes to.
    message: String,
    /// What that changes, and what would make it fail.
    #[serde(flatten)]
    changes: HostChanges,
}

impl Unfinished {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!("first, {}:", self.message)];
        lines.extend(self.changes.lines());
        if self.changes.assignments.is_empty() {
            lines.push("  no file is added, changed or removed for it".to_owned());
        }
        let in_the_way = &self.changes.in_the_way;
        if !in_the_way.is_empty() {
            lines.push(format!("that would fail: {}", in_the_way.join("; ")));
        }
        lines.extend(self.changes.not_looked_for.map(str::to_owned));
        lines.join("\n")
    }
}

/// Ends unfinished work in the copy, as an import does first. `None` where there is none.
///
/// # Errors
/// [`AgentError`] of the store, and of a reconciler that this site lacks.
pub(crate) fn finish(agent: &mut Agent) -> Result<Option<Unfinished>, AgentError> {
    let site = runner::site_now(agent.store.read())?;
    let (Some(number), work) = (site.worked_on(), site.work) else {
        return Ok(None);
    };
    let unfinished = format!(
        "the work on bundle {number} is unfinished, and is ended before anything is imported"
    );
    let (to_run, what, events) = match work {
        Work::Idle => return Ok(None),
        Work::Applying(number) => (
            number,
            format!("{unfinished}: bundle {number} is applied"),
            vec![Event::Applied(number), Event::Healthy(number)],
        ),
        Work::Soaking(number) => (
            number,
            format!("the health of bundle {number}, which is applied, is looked at"),
            Vec::new(),
        ),
        Work::Reverting { from, to, .. } => (
            to,
            format!("{unfinished}: bundle {to} is applied in its place"),
            vec![Event::Returned(from)],
        ),
        Work::Repairing => (
            number,
            format!("{unfinished}: bundle {number} is applied again"),
            vec![Event::Repaired],
        ),
        Work::Correcting => (
            number,
            format!("what differs from bundle {number} on this host is put back"),
            vec![Event::Corrected(number)],
        ),
    };
    former_targets::look(agent)?;
    let mut found = Unfinished {
        number,
        message: what,
        changes: HostChanges::default(),
    };
    // Without its folder the work comes to nothing, as the command that ends it says.
    let Ok(index) = runner::index_of(agent, to_run) else {
        return Ok(Some(found));
    };
    if !matches!(work, Work::Soaking(_)) {
        found.changes = changes_of(agent, &index, &index.assignments)?;
    }
    let is_watched = agent.config.health.soak_s > 0 && matches!(work, Work::Applying(_));
    if !found.changes.in_the_way.is_empty() || is_watched {
        return Ok(Some(found));
    }
    applied(agent, &index)?;
    for event in events {
        runner::transition(agent, &event.into())?;
    }
    Ok(Some(found))
}

/// The inventory of the copy, as it is when all of `index` is applied.
fn applied(agent: &mut Agent, index: &Index) -> Result<(), AgentError> {
    let reconcilers = agent.reconcilers(index)?;
    let held = held::names(agent)?;
    let mut gone = inventory::surplus(agent.store.read(), |name| held.contains(name))?;
    let mut there = Vec::new();
    for desired in held::free(agent, index)? {
        let reconciler = reconcilers.for_assignment(&desired.assignment);
        let items = reconciler.items(&desired).into_iter();
        there.extend(items.map(outhaul_reconcilers::Item::applied));
    }
    gone.retain(|item| {
        let mut there = there.iter();
        !there.any(|one| (&one.kind, &one.item) == (&item.kind, &item.item))
    });
    Ok(agent.store.commit(|db| {
        for item in &gone {
            inventory::forget(db, item)?;
        }
        for item in &there {
            inventory::put(db, item)?;
        }
        Ok::<_, crate::state::StateError>(())
    })?)
}
