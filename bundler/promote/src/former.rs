//! An environment that a gate decided about, and that no environment comes before now.
//!
//! What comes in: the branch of an environment that is the first of the chain. What goes out: the newest promotion that it records
//! through a gate, or past one. The list of environments is on another branch, where a line fewer takes every gate away: what was
//! promoted once stays where its promotion brought it, and moves on by a gate or on somebody's word only. It decides about no commit.

use outhaul_git::source::{self, OpenedSource};
use outhaul_kit::text::printable;

use super::moved;
use super::record::{self, MessageReading, Passage};
use super::{Chain, Link, MAX_COMMITS, PromoteError};
use outhaul_control::model::Environment;

/// The newest promotion through a gate that a branch records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FormerGate {
    /// The name of the environment then.
    pub environment: String,
    /// What let it in.
    pub passage: Passage,
    /// The commit on the branch.
    pub made: String,
}

impl FormerGate {
    /// Through the gate of which environment, or past one: the rest of a sentence.
    pub(super) fn how(&self) -> String {
        match &self.passage {
            Passage::Gate(from) => format!("through the gate of `{}`", printable(from)),
            _ => "past a gate".to_owned(),
        }
    }

    /// Why the environment is not moved without a gate.
    pub(super) fn refusal(&self, environment: &str) -> PromoteError {
        PromoteError::GateGone {
            environment: environment.to_owned(),
            made: self.made.clone(),
            how: self.how().into(),
        }
    }
}

impl Chain<'_> {
    /// The newest promotion through a gate that the branch of `link` records.
    ///
    /// # Errors
    /// [`PromoteError`] when its history cannot be read.
    pub(super) fn former_gate(&self, link: &Link) -> Result<Option<FormerGate>, PromoteError> {
        self.former_gate_at(&link.environment, &link.opened)
    }

    /// The same of the branch of `environment`, opened at a commit. What is recorded of another one that is still listed is not of this
    /// one, whose branch may have begun as a copy; on one branch with it, unless it moved the base that is here.
    pub(super) fn former_gate_at(
        &self,
        environment: &Environment,
        opened: &OpenedSource,
    ) -> Result<Option<FormerGate>, PromoteError> {
        let at = &environment.control_plane;
        let is_on_this_branch = |other: &Environment| {
            let other = &other.control_plane;
            let url = source::normal_url;
            other.branch == at.branch && url(&other.repo.value) == url(&at.repo.value)
        };
        for made in opened.recorded_anywhere("^Promote ", MAX_COMMITS)? {
            let Some((name, commit)) = record::promoted(&made.message) else {
                continue;
            };
            let MessageReading::Sound(passage) = record::read(&made.message, name, commit) else {
                continue;
            };
            let other = self.environments.get(name);
            if let Some(other) = other.filter(|_| name != environment.name)
                && (!is_on_this_branch(other)
                    || moved::besides_move(opened, &at.path, &made, commit)?.is_some())
            {
                continue;
            }
            return Ok(Some(FormerGate {
                environment: name.to_owned(),
                passage,
                made: made.id,
            }));
        }
        Ok(None)
    }
}
