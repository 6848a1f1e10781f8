//! The gate before applying: a person's hold, a person's approval, and the guard against removals.
//!
//! What comes in: a staged bundle and the inventory. What goes out: open, or shut with the reason that
//! `status` and the report show. A bundle that removes everything always waits, whatever is set.

use std::collections::BTreeSet;

use outhaul_bundle::Index;

use super::{Happening, unknown};
use crate::agent::Agent;
use crate::config::Approval;
use crate::error::AgentError;
use crate::machine::{Event, State};
use crate::state::{self, Hold, generations, inventory, key};

impl Agent {
    pub(super) fn ask_gate(&mut self, number: u64) -> Result<Happening, AgentError> {
        let index = self.index(number)?;
        Ok(match self.gate(&index)? {
            None => Event::GateOpen.into(),
            Some(note) => Happening {
                note,
                ..Event::GateShut.into()
            },
        })
    }

    /// What waits below `number` is not applied any more.
    pub(crate) fn supersede_waiting(&mut self, number: u64, note: &str) -> Result<(), AgentError> {
        for older in generations::all(self.store.read())? {
            if older.number < number && matches!(older.state, State::Staged | State::Gated) {
                let superseded = Happening {
                    note: note.to_owned(),
                    ..Event::Superseded.into()
                };
                self.drive(older.number, superseded)?;
            }
        }
        Ok(())
    }

    fn gate(&self, index: &Index) -> Result<Option<String>, AgentError> {
        let db = self.store.read();
        let number = index.number;
        let row = generations::one(db, number)?.ok_or_else(|| unknown(number))?;
        if let Some(hold) = state::meta::<Hold>(db, key::HOLD)? {
            return Ok(Some(format!("held by {}: {}", hold.who, hold.why)));
        }
        if generations::approval(db, &row.index)?.is_some() {
            return Ok(None);
        }
        if self.config.approval == Approval::Always {
            return Ok(Some(format!("waits for `outhaul-agent approve {number}`")));
        }
        let applied: BTreeSet<String> = inventory::items(db, None)?
            .into_iter()
            .filter(|item| item.phase != "left")
            .map(|item| item.assignment)
            .collect();
        let wanted: BTreeSet<&str> = index.assignments.iter().map(|a| a.name.as_str()).collect();
        let gone: Vec<_> = applied
            .iter()
            .filter(|name| !wanted.contains(name.as_str()))
            .collect();
        let limit = usize::from(self.config.max_removal_percent);
        let everything = !applied.is_empty() && gone.len() == applied.len();
        if everything || gone.len() * 100 > applied.len() * limit {
            let names: Vec<_> = gone
                .iter()
                .take(5)
                .map(|name| format!("`{name}`"))
                .collect();
            let more = if gone.len() > 5 { " …" } else { "" };
            return Ok(Some(format!(
                "removes {} of {} assignments ({}{more}); waits for `outhaul-agent approve {number}`",
                gone.len(),
                applied.len(),
                names.join(", "),
            )));
        }
        Ok(None)
    }
}
