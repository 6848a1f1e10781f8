//! The way of one bundle on a site, as a pure function: `(state, event) → (state, actions)`.
//!
//! What comes in: where a bundle stands and what just happened. What goes out: where it stands now and
//! what to do next. It does no I/O, so every path can be walked in a test. The runner commits the new
//! state together with the actions marked `tx` in one transaction, and only then does the others:
//! after a power cut the event [`Event::Resumed`] gives back the work that was not finished.
//!
//! | state | event | next | actions |
//! | --- | --- | --- | --- |
//! | received | verified | verified | stage |
//! | received | refused | rejected | refuse (tx) |
//! | verified | staged | staged | report (tx), ask the gate |
//! | verified | refused | rejected | refuse (tx), discard |
//! | verified | source lost | rejected | discard |
//! | staged, gated | gate open | applying | report (tx), apply |
//! | staged | gate shut | gated | report (tx) |
//! | gated | gate shut | gated | |
//! | staged, gated | superseded | superseded | clean up |
//! | applying | applied | soaking | watch |
//! | applying, soaking | broken, a good generation is there | reverting | remember (tx), report (tx), revert |
//! | applying, soaking | broken, none is there | failed | remember (tx), report (tx) |
//! | soaking | healthy | active | report (tx), clean up |
//! | active | superseded | superseded | |
//! | active | rollback ordered | reverting | remember (tx), revert |
//! | reverting | reverted | reverted | clean up; the report is that of the reinstated bundle |
//! | active, superseded | reinstated | active | report (tx) |
//! | reverting | revert broken | failed | report (tx) |
//! | any | resumed | the same | its unfinished work |
//!
//! Everything else is refused as [`Impossible`]: a bug in the runner, never a guess.

use outhaul_bundle::report::GenerationState;
use serde::{Deserialize, Serialize};

/// Where a bundle stands. `Reverting` is the agent's own; the hub is told `failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its bytes are being read; nothing is on disk.
    Received,
    /// Metadata, index and recipient are right; blobs are being copied.
    Verified,
    /// All of it is on disk, verified and synced.
    Staged,
    /// It waits for a person.
    Gated,
    /// The reconciler is at work.
    Applying,
    /// Applied; health is being looked at.
    Soaking,
    /// It runs.
    Active,
    /// Going back to the generation before.
    Reverting,
    /// Refused before anything was changed.
    Rejected,
    /// Broken, and there was nothing to go back to.
    Failed,
    /// Broken or unwanted; the generation before runs.
    Reverted,
    /// A newer bundle took its place.
    Superseded,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// Signatures, number, stream, recipient and space are right.
    Verified,
    /// A rule of trust refused it.
    Refused,
    /// Every blob was verified and unpacked, and all of it is durable.
    Staged,
    /// The stick was pulled, the link broke or the disk is full: not the bundle's fault.
    SourceLost,
    /// Nothing and nobody holds it back.
    GateOpen,
    /// It has to wait.
    GateShut,
    /// Every assignment was applied.
    Applied,
    /// An assignment failed, or health is bad.
    Broken {
        /// Whether a generation that once worked is whole on disk.
        can_revert: bool,
    },
    /// Health is good.
    Healthy,
    /// A person wants the generation before.
    RollbackOrdered,
    /// The generation before is applied again.
    RevertDone,
    /// Going back failed as well.
    RevertBroken,
    /// A newer bundle goes ahead.
    Superseded,
    /// A newer bundle was taken back, and this one was applied again.
    Reinstated,
    /// The agent starts after a stop or power cut and finds the bundle in this state.
    Resumed,
}

/// What to do. The first three belong into the transaction of the state change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Queue a report of the new state (tx).
    Report,
    /// Queue a report of the refusal (tx).
    Refuse,
    /// Remember the content's digest, so that it is not tried again (tx).
    Remember,
    /// Copy the blobs, verify and unpack them.
    Stage,
    /// Remove what a cut-off or refused copy left.
    Discard,
    /// Ask hold, approval and the removal guard.
    AskGate,
    /// Apply every assignment that has no recorded result yet.
    Apply,
    /// Ask the reconciler for health.
    Watch,
    /// Apply the last good generation again.
    Revert,
    /// Remove generations and blobs that nothing refers to.
    CleanUp,
}

impl Action {
    /// Whether it is a row in the transaction of the state change, not work after it.
    pub fn in_transaction(self) -> bool {
        matches!(self, Self::Report | Self::Refuse | Self::Remember)
    }
}

/// An event that cannot happen in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a bundle that is {state:?} cannot meet {event:?}; this is a defect of the agent")]
pub struct Impossible {
    state: State,
    event: Event,
}

impl State {
    /// The word that goes into reports.
    pub fn reported(self) -> GenerationState {
        match self {
            Self::Received => GenerationState::Received,
            Self::Verified => GenerationState::Verified,
            Self::Staged => GenerationState::Staged,
            Self::Gated => GenerationState::Gated,
            Self::Applying => GenerationState::Applying,
            Self::Soaking => GenerationState::Soaking,
            Self::Active => GenerationState::Active,
            Self::Rejected => GenerationState::Rejected,
            Self::Failed | Self::Reverting => GenerationState::Failed,
            Self::Reverted => GenerationState::Reverted,
            Self::Superseded => GenerationState::Superseded,
        }
    }

    /// The word that is stored and shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Verified => "verified",
            Self::Staged => "staged",
            Self::Gated => "gated",
            Self::Applying => "applying",
            Self::Soaking => "soaking",
            Self::Active => "active",
            Self::Reverting => "reverting",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Reverted => "reverted",
            Self::Superseded => "superseded",
        }
    }

    /// The state that [`Self::word`] names.
    pub fn from_word(word: &str) -> Option<Self> {
        ALL.into_iter().find(|state| state.word() == word)
    }

    /// Whether work on it is still to be finished, after a power cut for example.
    pub fn unfinished(self) -> bool {
        matches!(
            self,
            Self::Verified
                | Self::Staged
                | Self::Gated
                | Self::Applying
                | Self::Soaking
                | Self::Reverting
        )
    }
}

/// All states.
pub const ALL: [State; 12] = [
    State::Received,
    State::Verified,
    State::Staged,
    State::Gated,
    State::Applying,
    State::Soaking,
    State::Active,
    State::Reverting,
    State::Rejected,
    State::Failed,
    State::Reverted,
    State::Superseded,
];

/// One step of the machine.
///
/// # Errors
/// [`Impossible`] for a pair that the table does not have.
pub fn step(state: State, event: Event) -> Result<(State, Vec<Action>), Impossible> {
    use Action::{
        Apply, AskGate, CleanUp, Discard, Refuse, Remember, Report, Revert, Stage, Watch,
    };
    let (next, actions) = match (state, event) {
        (State::Received, Event::Verified) => (State::Verified, vec![Stage]),
        (State::Received, Event::Refused) => (State::Rejected, vec![Refuse]),
        (State::Verified, Event::Staged) => (State::Staged, vec![Report, AskGate]),
        (State::Verified, Event::Refused) => (State::Rejected, vec![Refuse, Discard]),
        (State::Verified, Event::SourceLost) => (State::Rejected, vec![Discard]),
        (State::Staged | State::Gated, Event::GateOpen) => (State::Applying, vec![Report, Apply]),
        (State::Staged, Event::GateShut) => (State::Gated, vec![Report]),
        (State::Gated, Event::GateShut) => (State::Gated, vec![]),
        (State::Staged | State::Gated, Event::Superseded) => (State::Superseded, vec![CleanUp]),
        (State::Applying, Event::Applied) => (State::Soaking, vec![Watch]),
        (State::Applying | State::Soaking, Event::Broken { can_revert: true }) => {
            (State::Reverting, vec![Remember, Report, Revert])
        }
        (State::Applying | State::Soaking, Event::Broken { can_revert: false }) => {
            (State::Failed, vec![Remember, Report])
        }
        (State::Soaking, Event::Healthy) => (State::Active, vec![Report, CleanUp]),
        (State::Active, Event::Superseded) => (State::Superseded, vec![]),
        (State::Active, Event::RollbackOrdered) => (State::Reverting, vec![Remember, Revert]),
        (State::Reverting, Event::RevertDone) => (State::Reverted, vec![CleanUp]),
        (State::Reverting, Event::RevertBroken) => (State::Failed, vec![Report]),
        (State::Active | State::Superseded, Event::Reinstated) => (State::Active, vec![Report]),
        (_, Event::Resumed) => (state, resume(state)),
        _ => return Err(Impossible { state, event }),
    };
    Ok((next, actions))
}

/// The work that a state still owes.
fn resume(state: State) -> Vec<Action> {
    match state {
        State::Received | State::Rejected => vec![Action::Discard],
        State::Verified => vec![Action::Stage],
        State::Staged | State::Gated => vec![Action::AskGate],
        State::Applying => vec![Action::Apply],
        State::Soaking => vec![Action::Watch],
        State::Reverting => vec![Action::Revert],
        State::Active | State::Reverted | State::Superseded => vec![Action::CleanUp],
        State::Failed => vec![],
    }
}

#[cfg(test)]
#[path = "machine/tests.rs"]
mod tests;
