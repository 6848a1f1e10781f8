//! A possible cause, as it is told.
//!
//! What comes in: what the walk found. What goes out: the same, to be ranked and shown. It holds no rules.

use std::collections::BTreeSet;

use outhaul_diff::{Reason, TemplateChange, ValueChange};
use serde::Serialize;

/// Digits of an id that people read.
const SHORT_DIGITS: usize = 12;

/// What kind of cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Something that the site or people there did.
    Act,
    /// A commit.
    Commit,
    /// What a bundle carries besides: something that the commits name by a tag became another.
    Content,
    /// Someone changed on site what was applied.
    Drift,
    /// Someone on site left a bundle that was well.
    Rollback,
    /// Nothing that reached the site: the machine, or what it depends on.
    Site,
}

/// A possible cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// What kind.
    pub kind: CauseKind,
    /// How likely it is the cause, in percent. They do not add up to 100: something else is always possible.
    pub confidence: u8,
    /// What, as one sentence.
    pub text: String,
    /// Why it is more or less likely, as sentences.
    pub why: Vec<String>,
    /// The commit, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitCause>,
}

/// A commit that changes what the site got.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommitCause {
    /// The commit's id.
    pub id: String,
    /// The commit before it.
    pub before: String,
    /// The repository's URL as the control plane has it.
    pub repo: String,
    /// What the snapshot calls the source, such as the name of the base repository.
    pub source: String,
    /// Everything that the snapshot reads of the repository at this commit.
    #[serde(skip)]
    pub names: BTreeSet<String>,
    /// The branch that it came by, where the control plane says so.
    pub branch: Option<String>,
    /// Whether it is a merge commit: the change is in the branch that it merged.
    pub is_merge: bool,
    /// Who wrote it.
    pub author: String,
    /// When, as ISO 8601.
    pub at: String,
    /// The first line of its message.
    pub subject: String,
    /// The assignments that it changes, of those that were looked at.
    pub assignments: Vec<String>,
    /// Those of them that the site does not get any more.
    pub removed: Vec<String>,
    /// Policies that decided so, or decide otherwise than before, with their places.
    pub policies: Vec<Reason>,
    /// Values that it changes for them.
    pub values: Vec<ValueChange>,
    /// Templates that it changes for them.
    pub templates: Vec<TemplateChange>,
    /// Files that it changes for them: rendered ones, and the workload's own.
    pub files: Vec<String>,
    /// Everything that it changes in its repository.
    pub paths: Vec<String>,
    /// The lines that it changes for them, with `+` or `-` before each.
    #[serde(skip)]
    pub lines: Vec<String>,
}

impl CommitCause {
    /// So much of its id as people read.
    pub fn short_id(&self) -> &str {
        self.id.get(..SHORT_DIGITS).unwrap_or(&self.id)
    }

    /// What the branch is called that takes it back, unless someone names another.
    pub fn undo_branch(&self) -> String {
        format!("undo-{}", self.short_id())
    }
}
