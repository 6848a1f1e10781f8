//! What a bundle would do, as it is printed: the values of a rehearsal.
//!
//! What comes in: nothing. What goes out: the plan of a bundle, its orders and assignments. `plan` fills it.

use std::collections::BTreeMap;

use outhaul_reconcilers::Change;
use serde::Serialize;

pub mod served;

/// What a bundle would do.
#[derive(Debug, Serialize)]
pub struct ImportPlan {
    /// The bundle's number.
    pub number: u64,
    /// The number that runs now.
    pub active: Option<u64>,
    /// Orders that would be carried out, or refused.
    pub orders: Vec<PlannedOrder>,
    /// What applying it would change on this host.
    #[serde(flatten)]
    pub changes: HostChanges,
    /// Whether the content of the active bundle is not here and would be stored again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stored_again: bool,
    /// Whether the database of this site was lost, and no bundle is active since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub after_loss: bool,
    /// For how many seconds this site has to stay healthy before it is confirmed, if that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak_s: Option<u64>,
    /// Assignments that a person holds: the bundle neither changes nor removes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
    /// Images and commits that would be fetched on this site instead of others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub served: Vec<Change>,
    /// Files that hold values of this site alone, by assignment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub own_files: BTreeMap<String, Vec<String>>,
    /// Assignments of the bundle that are for other sites of the stream.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_others: Vec<String>,
    /// Assignments that nothing takes back once they were applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forward_only: Vec<String>,
    /// Sealed values that this site cannot open, a sentence for each file: its assignment would fail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unopened: Vec<String>,
    /// What becomes of the agent that it brings, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Why it would wait for a person, if it would.
    pub waits: Option<String>,
}

/// What applying a bundle would change on this host.
#[derive(Debug, Default, Serialize)]
pub struct HostChanges {
    /// Assignments that would change.
    pub assignments: Vec<AssignmentPlan>,
    /// Assignments that stay as they are.
    pub unchanged: Vec<String>,
    /// Assignments that stay as they are, and whose programs would be run again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run_again: Vec<String>,
    /// What is on this host and would make the bundle fail, a sentence for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_the_way: Vec<String>,
    /// What only another program can look for, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_looked_for: Option<&'static str>,
}

impl HostChanges {
    /// A line for each assignment that would change, and for each file or object of it; then one for those that are run again.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for assignment in &self.assignments {
            lines.push(format!("  {} {}", assignment.action, assignment.name));
            let changes = assignment.changes.iter();
            lines.extend(changes.map(|change| format!("    {} {}", change.action, change.item)));
        }
        if !self.run_again.is_empty() {
            lines.push(format!(
                "  run again, though unchanged: {}",
                self.run_again.join(", ")
            ));
        }
        lines
    }
}

/// What a rehearsal found.
#[derive(Debug, Default)]
pub struct Rehearsal {
    /// The plan of the bundle that would be taken.
    pub plan: Option<ImportPlan>,
    /// How many stored blobs of the active bundle are missing here and would be copied.
    pub missing_blobs: usize,
}

/// What would happen to one assignment.
#[derive(Debug, Serialize)]
pub struct AssignmentPlan {
    /// Its name.
    pub name: String,
    /// `add`, `change` or `remove`.
    pub action: &'static str,
    /// In detail.
    pub changes: Vec<Change>,
}

/// What carrying out an order would come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedOrder {
    /// Its number.
    pub number: u64,
    /// `approve`, `move`, `rekey` or `revoke`.
    pub what: &'static str,
    /// What it does, or why it is refused.
    pub message: String,
    /// Whether it is refused.
    pub refused: bool,
    /// Whether nothing else of the bundle is for this site.
    pub ends: bool,
}

/// That these assignments are forward only, and what that means.
pub fn forward_only_sentence(names: &[String]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    Some(format!(
        "forward only: {} (no `rollback.yaml` or `remove.yaml`: a rollback runs the playbooks of before again and a removal leaves what was made \
         on this host; nothing else undoes what these playbooks did)",
        names.join(", ")
    ))
}

impl ImportPlan {
    /// Whether it would do anything on this host besides becoming active.
    fn changes_something(&self) -> bool {
        let is_same = self.changes.assignments.is_empty()
            && self.served.is_empty()
            && self.changes.run_again.is_empty();
        !is_same || self.stored_again || !self.changes.in_the_way.is_empty()
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut lines = vec![match self.active {
            Some(active) if active == self.number => format!("bundle {active} again:"),
            Some(active) => format!("bundle {} instead of {active}:", self.number),
            None if self.after_loss => format!(
                "bundle {}, the first since the database of this site was lost:",
                self.number
            ),
            None => format!("bundle {}, the first on this site:", self.number),
        }];
        for order in &self.orders {
            let word = if order.refused { "refuse " } else { "" };
            lines.push(format!(
                "  {word}order {} `{}`: {}",
                order.number, order.what, order.message
            ));
        }
        if self.orders.iter().any(|order| order.ends) {
            lines.push("  nothing else of it is for this site".into());
            return lines.join("\n");
        }
        if self.stored_again {
            lines.push("  its content is not here and would be stored again".into());
        }
        lines.extend(self.changes.lines());
        if !self.changes_something() {
            lines.push("  nothing would change".into());
        } else if !self.changes.unchanged.is_empty() {
            lines.push(format!(
                "  unchanged: {}",
                self.changes.unchanged.join(", ")
            ));
        }
        if !self.served.is_empty() {
            lines.push("  fetched on this site by who applies it:".into());
            let changes = self.served.iter();
            lines.extend(changes.map(|change| format!("    {} {}", change.action, change.item)));
        }
        for (assignment, files) in &self.own_files {
            lines.push(format!(
                "  {assignment} has values of this site: {}",
                files.join(", ")
            ));
        }
        lines.extend(self.agent.iter().map(|agent| format!("  agent: {agent}")));
        if !self.held.is_empty() {
            let names = self.held.join(", ");
            lines.push(format!("  held by a person: {names}"));
        }
        lines.extend(forward_only_sentence(&self.forward_only).map(|line| format!("  {line}")));
        if !self.for_others.is_empty() {
            let names = self.for_others.join(", ");
            lines.push(format!("  for other sites, not for this one: {names}"));
        }
        lines.extend(
            self.unopened
                .iter()
                .map(|what| format!("  this site cannot open {what}")),
        );
        if !self.unopened.is_empty() {
            lines.push(
                "what it cannot open would fail: have it sealed for this site's key (`outhaul site list --recipients` \
                 at the centre)"
                    .to_owned(),
            );
        }
        if !self.changes.in_the_way.is_empty() {
            let what = self.changes.in_the_way.join("; ");
            lines.push(format!("it would fail: {what}"));
        }
        lines.extend(self.changes.not_looked_for.map(str::to_owned));
        lines.extend(self.waits.iter().map(|why| format!("it would wait: {why}")));
        lines.extend(self.soak_s.map(|seconds| {
            format!(
                "once applied, it would be confirmed when this site stays healthy for {seconds} s"
            )
        }));
        lines.join("\n")
    }
}
