//! The contract with a hook program: one JSON message in, one out; `docs/hooks.md` has it for its author.
//!
//! What comes in: what is asked, and the bytes that were answered. What goes out: a message, or an answer
//! whose every name is sound and whose every text is bounded. What does not hold to the contract is refused
//! with what is wrong. It starts nothing and keeps nothing.

use std::path::PathBuf;

use outhaul_bundle::Digest;
use outhaul_bundle::report::StepResult;
use serde::{Deserialize, Serialize};

use crate::inventory;
use crate::outcome::step;

/// The version that stands in every message.
pub const PROTOCOL: &str = "outhaul.dev/hook/v1";
/// Largest answer in bytes.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// Most items of one assignment, and most steps of an answer.
const MAX_ITEMS: usize = 1000;
/// Longest name or digest of an item in bytes.
const MAX_NAME_BYTES: usize = 300;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HookVerb {
    /// Is everything there that the program needs?
    Ready,
    /// What will an assignment be on this host? Nothing is changed.
    Plan,
    /// Make it so.
    Apply,
    /// Is it as it was applied? Nothing is changed.
    Observe,
    /// Is what was just applied healthy? Nothing is changed.
    Health,
    /// Take these items away.
    Remove,
}

impl HookVerb {
    /// The word of the message.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Observe => "observe",
            Self::Health => "health",
            Self::Remove => "remove",
        }
    }

    /// The words by which it may be answered.
    fn statuses(self) -> &'static [HookStatus] {
        use HookStatus::{Drifted, Failed, None, Ok, Unable, Waiting};
        match self {
            Self::Ready | Self::Plan | Self::Apply | Self::Remove => &[Ok, Failed, Unable],
            Self::Observe => &[Ok, Drifted, Waiting, Failed, Unable],
            Self::Health => &[Ok, Drifted, Waiting, Failed, Unable, None],
        }
    }
}

/// A message to the program.
#[derive(Debug, Serialize)]
pub struct Message<'a> {
    /// [`PROTOCOL`]
    pub protocol: &'static str,
    /// What is asked.
    pub verb: HookVerb,
    /// What the stream is rendered for.
    pub reconciler: &'a str,
    /// Which assignment, unless the program itself is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignment: Option<&'a AssignmentDescription<'a>>,
    /// What the inventory has of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Vec<RecordedItem<'a>>>,
    /// What is applied, or removed: nothing else may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ItemRef<'a>>>,
}

/// An assignment, as the program gets it.
#[derive(Debug, Serialize)]
pub struct AssignmentDescription<'a> {
    /// Its name, unlike that of any other on this site.
    pub name: &'a str,
    /// The bundle's number.
    pub generation: u64,
    /// What a removal does not know any more.
    #[serde(flatten)]
    pub desired: Option<DesiredFields<'a>>,
}

/// What is wanted.
#[derive(Debug, Serialize)]
pub struct DesiredFields<'a> {
    /// This site.
    pub site: &'a str,
    /// The fleet.
    pub fleet: &'a str,
    /// The environment.
    pub environment: &'a str,
    /// The team.
    pub workspace: &'a str,
    /// The workload.
    pub workload: &'a str,
    /// `report` or `correct`: what the stream says of drift.
    pub drift: outhaul_bundle::index::DriftPolicy,
    /// Its files.
    pub files: Vec<FileRef<'a>>,
}

/// One file.
#[derive(Debug, Serialize)]
pub struct FileRef<'a> {
    /// Its name: what was rendered, and below `payload/` what was carried.
    pub name: String,
    /// Where it lies while the program runs.
    pub path: PathBuf,
    /// Digest of what the bundle brought.
    pub content: &'a Digest,
    /// Whether it is a program.
    pub executable: bool,
}

/// One thing on the host.
#[derive(Debug, Serialize)]
pub struct ItemRef<'a> {
    /// Its name.
    pub item: &'a str,
    /// The program's own word for its content.
    pub digest: &'a str,
}

/// One thing of the inventory.
#[derive(Debug, Serialize)]
pub struct RecordedItem<'a> {
    /// Its name.
    pub item: &'a str,
    /// The program's own word for its content.
    pub digest: &'a str,
    /// `applied`, or `intent`: it may or may not be there.
    pub state: &'a str,
}

/// The program's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookStatus {
    /// It is so.
    Ok,
    /// The assignment is at fault.
    Failed,
    /// It is not as it was applied.
    Drifted,
    /// Not yet.
    Waiting,
    /// The program knows nothing about health.
    None,
    /// This host cannot do it now; the assignment is not at fault.
    Unable,
}

/// What the program answered.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookAnswer {
    #[serde(rename = "protocol")]
    _protocol: String,
    /// The verdict.
    pub status: HookStatus,
    /// Why, in a sentence.
    #[serde(default)]
    pub message: String,
    /// What to do next.
    #[serde(default)]
    pub help: String,
    /// What the assignment will be on this host.
    #[serde(default)]
    pub items: Vec<HookItem>,
    /// What was done or found.
    #[serde(default)]
    pub steps: Vec<HookStep>,
}

/// One thing that the program will make.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookItem {
    /// Its name.
    pub item: String,
    /// The program's own word for its content.
    #[serde(default)]
    pub digest: String,
}

/// One thing that was done or found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookStep {
    /// What it is about: an item's name, or any other text.
    pub item: String,
    /// What came of it.
    pub status: StepStatus,
    /// Why.
    #[serde(default)]
    pub message: String,
}

/// What came of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// As wanted already.
    Ok,
    /// Made so; or, when observed, different.
    Changed,
    /// Not done, on purpose.
    Skipped,
    /// It went wrong.
    Failed,
    /// Gone.
    Removed,
    /// Still there, and nothing knows how to remove it.
    Left,
}

impl HookStep {
    /// As a report has it.
    pub fn to_result(&self) -> StepResult {
        let status = match self.status {
            StepStatus::Ok => "ok",
            StepStatus::Changed => "changed",
            StepStatus::Skipped | StepStatus::Left => "skipped",
            StepStatus::Failed => "failed",
            StepStatus::Removed => "removed",
        };
        step(&self.item, status, &self.message)
    }
}

impl HookAnswer {
    /// An answer without details.
    pub fn only(status: HookStatus, message: String) -> Self {
        Self {
            _protocol: PROTOCOL.to_owned(),
            status,
            message,
            help: String::new(),
            items: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The answer to `verb` in `bytes`; or what is wrong with it.
    pub fn read(verb: HookVerb, bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            protocol: String,
        }
        let unreadable = |error: serde_json::Error| {
            format!(
                "its answer to `{}` is not understood: {error}",
                verb.as_str()
            )
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(format!("it answered nothing to `{}`", verb.as_str()));
        }
        let version: Version = serde_json::from_slice(bytes).map_err(unreadable)?;
        if version.protocol != PROTOCOL {
            return Err(format!(
                "its answer to `{}` is of the protocol `{}`, and this agent speaks `{PROTOCOL}`",
                verb.as_str(),
                shown(&version.protocol)
            ));
        }
        let answer: Self = serde_json::from_slice(bytes).map_err(unreadable)?;
        if !verb.statuses().contains(&answer.status) {
            return Err(format!(
                "its answer to `{}` has a status that this verb does not have",
                verb.as_str()
            ));
        }
        if answer.items.len() > MAX_ITEMS || answer.steps.len() > MAX_ITEMS {
            return Err(format!(
                "its answer to `{}` has more than {MAX_ITEMS} items or steps",
                verb.as_str()
            ));
        }
        if verb != HookVerb::Plan && !answer.items.is_empty() {
            return Err(format!(
                "its answer to `{}` names items; they are named by `plan`, before anything is done",
                verb.as_str()
            ));
        }
        Ok(answer)
    }

    /// Whether its verdict and its steps say the same; or in what they differ. A removal is reported item by item.
    pub fn agrees(&self, verb: HookVerb) -> Result<(), String> {
        let failed = self
            .steps
            .iter()
            .find(|step| step.status == StepStatus::Failed);
        match failed.filter(|_| self.status == HookStatus::Ok && verb != HookVerb::Remove) {
            None => Ok(()),
            Some(step) => {
                let why = match step.message.trim() {
                    "" => String::new(),
                    why => format!(" ({why})"),
                };
                let (verb, item) = (verb.as_str(), &step.item);
                Err(format!(
                    "its answer to `{verb}` is `ok`, but its step `{item}` failed{why}"
                ))
            }
        }
    }

    /// What a plan names, each once and each with a sound name; or what is wrong with it.
    pub fn planned(self) -> Result<Vec<HookItem>, String> {
        let mut items = self.items;
        if items.is_empty() {
            return Err("it names no item, so that nothing could be removed again".into());
        }
        for item in &items {
            check(&item.item)?;
            if item.digest.len() > MAX_NAME_BYTES || item.digest.chars().any(char::is_control) {
                return Err(format!("the digest of the item `{}` is not one", item.item));
            }
        }
        items.sort_by(|a, b| a.item.cmp(&b.item));
        match items.windows(2).find(|two| two[0].item == two[1].item) {
            Some(two) => Err(format!("it names the item `{}` twice", two[0].item)),
            None => Ok(items),
        }
    }
}

/// A name that is relative, bounded, and leads nowhere else.
fn check(name: &str) -> Result<(), String> {
    let part = |part: &str| !matches!(part, "" | "." | "..");
    let sound = name.len() <= MAX_NAME_BYTES
        && name.split('/').all(part)
        && !name.chars().any(|c| c.is_control() || c == '\\');
    match sound {
        true => Ok(()),
        false => Err(format!(
            "the item `{}` has a name that no item may have: a relative one, without `..`, of at most \
             {MAX_NAME_BYTES} bytes",
            shown(name)
        )),
    }
}

/// The beginning of a foreign text, for a message.
fn shown(text: &str) -> String {
    text.chars()
        .take(80)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// What the inventory has, for a message.
pub fn recorded(items: &[inventory::Item]) -> Vec<RecordedItem<'_>> {
    let described = items.iter().map(|item| RecordedItem {
        item: &item.item,
        digest: &item.digest,
        state: item.phase.as_str(),
    });
    described.collect()
}

/// Items for a message.
pub fn items(items: &[inventory::Item]) -> Vec<ItemRef<'_>> {
    let described = items.iter().map(|item| ItemRef {
        item: &item.item,
        digest: &item.digest,
    });
    described.collect()
}

#[cfg(test)]
mod tests;
