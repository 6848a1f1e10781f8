//! What one round came to, as the answer of `run --once`.
//!
//! What comes in: the bundles before and after, and the round's first failure. What goes out: which bundles changed and what runs, also
//! where something failed: a hub that does not answer takes back nothing that was applied. It does no work.

use std::collections::BTreeMap;

use serde_json::json;

use crate::agent::Agent;
use crate::calls::CommandResult;
use crate::error::AgentError;
use crate::machine::State;
use crate::state::{StateError, generations, outbox};

/// The states of the bundles before a round.
#[derive(Debug)]
pub struct StatesBefore(BTreeMap<u64, State>);

impl StatesBefore {
    /// As it is now.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn of(agent: &Agent) -> Result<Self, StateError> {
        let all = generations::all(agent.store.read())?;
        Ok(Self(
            all.iter().map(|row| (row.number, row.state)).collect(),
        ))
    }

    /// The answer, when a round has ended with `done`.
    pub fn answer(&self, agent: &Agent, done: &Result<(), AgentError>) -> CommandResult {
        let mut answer = CommandResult::default();
        let told = self.log(agent, &mut answer);
        if let Err(error) = done {
            answer.fail(error);
        }
        if let Err(error) = told {
            answer.fail(&error.into());
        }
        answer
    }

    fn log(&self, agent: &Agent, answer: &mut CommandResult) -> Result<(), StateError> {
        let db = agent.store.read();
        let (mut lines, mut bundles) = (Vec::new(), Vec::new());
        let mut rows = generations::all(db)?;
        rows.sort_by_key(|row| row.number);
        rows.retain(|row| self.0.get(&row.number) != Some(&row.state));
        for row in rows {
            let said = row.note.to_string();
            let note = match said.as_str() {
                "" => String::new(),
                note => format!(": {note}"),
            };
            lines.push(format!(
                "bundle {} is {}{note}",
                row.number,
                row.state.shown()
            ));
            bundles.push(json!({
                "number": row.number, "state": row.state.as_str(), "message": said,
            }));
        }
        let active = generations::active(db)?;
        if lines.is_empty() {
            lines.push(match active {
                Some(number) => format!("no bundle changed; bundle {number} runs"),
                None => "no bundle changed; none runs".to_owned(),
            });
        }
        let waiting = outbox::count(db)?;
        lines.push(match waiting {
            1 => "1 report waits".to_owned(),
            many => format!("{many} reports wait"),
        });
        answer.text = lines.join("\n");
        answer.value = json!({ "active": active, "changed": bundles, "reports_waiting": waiting });
        Ok(())
    }
}
