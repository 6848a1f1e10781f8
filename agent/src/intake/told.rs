//! What the centre is told of refusals: of a stick full of forgeries no more than of one.
//!
//! What comes in: refusals of one visit. What goes out: reports in the outbox, one each of the first ones, and one
//! of all others with their number by rule. It refuses nothing itself.

use std::collections::BTreeMap;

use outhaul_bundle::report::Event as Told;

use super::{MAX_TOLD, visit};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::{StateError, outbox};

impl Agent {
    /// Queues a report of a refusal; of any other error, nothing.
    ///
    /// # Errors
    /// [`AgentError`] of the memory.
    pub fn tell_refusal(&mut self, error: &AgentError) -> Result<(), AgentError> {
        self.tell_refusals(std::slice::from_ref(error))
    }

    /// Queues reports of refusals in one transaction: one each of the first [`MAX_TOLD`], one of the rest.
    /// Of other errors, nothing.
    ///
    /// # Errors
    /// [`AgentError`] of the memory.
    pub fn tell_refusals(&mut self, errors: &[AgentError]) -> Result<(), AgentError> {
        self.tell_further_refusals(0, errors)
    }

    /// The same of a visit of which `before` refusals were reported already.
    ///
    /// # Errors
    /// [`AgentError`] of the memory.
    pub(super) fn tell_further_refusals(
        &mut self,
        before: usize,
        errors: &[AgentError],
    ) -> Result<(), AgentError> {
        let mut told = Vec::new();
        let mut more: BTreeMap<&str, usize> = BTreeMap::new();
        for error in errors {
            let AgentError::Refused {
                source_name,
                rule,
                message,
            } = error
            else {
                continue;
            };
            if before + told.len() >= MAX_TOLD {
                *more.entry(rule).or_default() += 1;
                continue;
            }
            let event = Told::Refusal {
                source: source_name.clone(),
                rule: rule.clone(),
                message: outhaul_reconcilers::shortened(message),
            };
            told.push((error, event));
        }
        if told.is_empty() && more.is_empty() {
            return Ok(());
        }
        self.commit(|db, author| {
            for (error, event) in told {
                visit::remember_refusal(db, author.moment.wall_ms(), error)?;
                outbox::queue(db, author, event)?;
            }
            if !more.is_empty() {
                outbox::queue(db, author, rest_of_refusals(&more))?;
            }
            Ok(())
        })
        .map_err(|error: StateError| error.into())
    }
}

/// One report of all that was refused beyond [`MAX_TOLD`], by rule.
fn rest_of_refusals(more: &BTreeMap<&str, usize>) -> Told {
    let by_rule: Vec<_> = more
        .iter()
        .map(|(rule, count)| format!("{count} by rule `{rule}`"))
        .collect();
    let files: usize = more.values().sum();
    let message = format!(
        "{}; the site's journal and `outhaul-agent import` name them",
        by_rule.join(", ")
    );
    Told::Refusal {
        source: format!("{files} more files of the same medium"),
        rule: "more-refused".to_owned(),
        message: outhaul_reconcilers::shortened(&message),
    }
}
