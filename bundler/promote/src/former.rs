//! An environment that a gate decided about, and that no environment comes before now.
//!
//! What comes in: the branch of an environment that is the first of the chain. What goes out: the newest promotion that it records
//! through a gate, or past one. The list of environments is on another branch, where a line fewer takes every gate away: what was
//! promoted once stays where its promotion brought it, and moves on by a gate or on someone's word only. It decides about no commit.

use outhaul_git::source::OpenedSource;
use outhaul_kit::text::printable;

use super::moved;
use super::record::{self, MessageReading, Passage};
use super::{Chain, Link, MAX_COMMITS, PromoteError};
use outhaul_control::model::Environment;

/// A line that every message of a promotion through a gate, or past one, has; that of the first environment has none.
const THROUGH_A_GATE: &str = r"^\(Outhaul-Gate: o\|The gate of \)";

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
    /// [`PromoteError`] when its history cannot be read, and none is in that part of it which is here.
    pub(super) fn former_gate(&self, link: &Link) -> Result<Option<FormerGate>, PromoteError> {
        self.former_gate_at(&link.environment, &link.opened)
    }

    /// The same of the branch of `environment`, opened at a commit. A promotion that is recorded of another environment that is still
    /// listed is one of this branch where it moved the base that is here: a list says nothing about where that one was then.
    pub(super) fn former_gate_at(
        &self,
        environment: &Environment,
        opened: &OpenedSource,
    ) -> Result<Option<FormerGate>, PromoteError> {
        let root = &environment.control_plane.path;
        let recorded = opened.recorded_anywhere(THROUGH_A_GATE, MAX_COMMITS)?;
        let searched = recorded.len();
        for made in recorded {
            let Some((name, commit)) = record::promoted(&made.message) else {
                continue;
            };
            let MessageReading::Sound(passage) = record::read(&made.message, name, commit) else {
                continue;
            };
            let is_other = name != environment.name && self.environments.contains_key(name);
            if is_other && moved::besides_move(opened, root, &made, commit)?.is_some() {
                continue;
            }
            return Ok(Some(FormerGate {
                environment: name.to_owned(),
                passage,
                made: made.id,
            }));
        }
        let why = match opened.missing_history()? {
            Some(why) => why,
            None if searched >= MAX_COMMITS => format!(
                "{MAX_COMMITS} commits of its branch name a gate and are none of its promotions, and no more are looked at"
            ),
            None => return Ok(None),
        };
        Err(PromoteError::FormerUnknown {
            environment: environment.name.clone(),
            why: printable(&why).into(),
        })
    }
}
