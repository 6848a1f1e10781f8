//! The inventory: what the agent itself put on this host, the only thing that it will ever remove.
//!
//! What comes in: intents before a write, confirmations after. What goes out: an [`Item`] per thing, and the
//! [`Ledger`] through which a reconciler has them written. An intent counts as ours: after a cut it may or
//! may not have happened. Who keeps the items, and how, is not known here.

use serde::{Deserialize, Serialize};

use crate::assignment::Desired;

/// One thing on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The reconciler that made it.
    pub kind: String,
    /// The assignment that it belongs to.
    pub assignment: String,
    /// Its name: a file's path below the target, a playbook.
    pub item: String,
    /// Digest of what it holds, or is about to hold.
    pub digest: String,
    /// What it held before a write that may have been cut off; `""`: nothing.
    pub before: String,
    /// The generation that put it there.
    pub generation: u64,
    /// How far it is.
    pub phase: Phase,
}

/// How far a thing on this host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It is about to be put there, or is there: a cut may have come between.
    Intent,
    /// It is there.
    Applied,
    /// Its assignment is gone, and nothing knows how to remove it.
    Left,
}

impl Phase {
    /// As the inventory and hooks have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Applied => "applied",
            Self::Left => "left",
        }
    }

    /// The phase of a word of [`Self::as_str`].
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Intent, Self::Applied, Self::Left];
        all.into_iter().find(|phase| phase.as_str() == word)
    }
}

impl Item {
    /// A thing that is about to be put on this host for `desired`.
    pub fn intent(kind: &str, desired: &Desired, item: String, digest: String) -> Self {
        Self {
            kind: kind.to_owned(),
            assignment: desired.assignment.name.as_str().to_owned(),
            item,
            digest,
            before: String::new(),
            generation: desired.generation,
            phase: Phase::Intent,
        }
    }

    /// The same thing, which is there.
    #[must_use]
    pub fn applied(self) -> Self {
        Self {
            phase: Phase::Applied,
            ..self
        }
    }

    /// The same thing, which nothing knows how to remove.
    #[must_use]
    pub fn left(self) -> Self {
        Self {
            phase: Phase::Left,
            ..self
        }
    }
}

/// The inventory, as a reconciler writes it.
pub trait Ledger {
    /// These are about to be put on the host; durable before the call returns.
    ///
    /// # Errors
    /// [`LedgerError`]
    fn intend(&mut self, items: &[Item]) -> Result<(), LedgerError>;

    /// All that was intended for the assignment is done.
    ///
    /// # Errors
    /// [`LedgerError`]
    fn confirm(&mut self, kind: &str, assignment: &str) -> Result<(), LedgerError>;

    /// The other assignment that has an item, if one has.
    ///
    /// # Errors
    /// [`LedgerError`]
    fn other_holder(
        &self,
        kind: &str,
        assignment: &str,
        item: &str,
    ) -> Result<Option<String>, LedgerError>;

    /// These were removed from the host.
    ///
    /// # Errors
    /// [`LedgerError`]
    fn forget(&mut self, items: &[Item]) -> Result<(), LedgerError>;

    /// An instant at which a test cuts the power: between an intent and its action, and after the action.
    fn passed(&mut self, _instant: &'static str) {}
}

/// Why the inventory cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct LedgerError {
    /// What happened.
    pub problem: String,
    /// What to do next.
    pub help: String,
}
