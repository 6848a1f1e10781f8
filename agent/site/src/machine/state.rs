//! The states of one bundle: how they are stored, shown and reported.
//!
//! What comes in: a word of the database. What goes out: a [`State`], and the state that reports name.
//! Which state follows which is not known here.

use outhaul_bundle::report::GenerationState;

/// Where a bundle stands. `Reverting` is the agent's own; the hub gets `failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
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
    /// The bundle before is applied in its place.
    Reverting,
    /// It cannot be used any more, though it was never applied.
    Rejected,
    /// Applying it failed and nothing else runs in its place.
    Failed,
    /// Broken or unwanted; the bundle before runs.
    Reverted,
    /// A newer bundle took its place.
    Superseded,
}

/// All states.
pub const ALL: [State; 11] = [
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

impl State {
    /// The word that goes into reports.
    pub fn reported(self) -> GenerationState {
        match self {
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

    /// The word for people, after "the bundle is".
    pub fn shown(self) -> &'static str {
        match self {
            Self::Gated => "waiting",
            other => other.as_str(),
        }
    }

    /// The word that is stored, and printed as JSON.
    pub fn as_str(self) -> &'static str {
        match self {
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

    /// The state that [`Self::as_str`] names; `received` was written by earlier agents.
    pub fn from_word(word: &str) -> Option<Self> {
        if word == "received" {
            return Some(Self::Verified);
        }
        ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether the bundle came to its end.
    pub fn is_over(self) -> bool {
        matches!(
            self,
            Self::Rejected | Self::Failed | Self::Reverted | Self::Superseded
        )
    }

    /// What a bundle is that the machine works with no more: as it ended, or replaced, where an earlier agent left it in a state that
    /// leads nowhere.
    #[must_use]
    pub fn left_behind(self) -> Self {
        match self.is_over() {
            true => self,
            false => Self::Superseded,
        }
    }

    /// Whether work on it is still to be finished, after a power cut for example.
    pub fn unfinished(self) -> bool {
        !self.is_over() && self != Self::Active
    }
}
