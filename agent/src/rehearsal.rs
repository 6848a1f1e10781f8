//! What a bundle would do, as it is printed: the values of a rehearsal.
//!
//! What comes in: nothing. What goes out: the plan of a bundle, its orders and assignments. `plan` fills it.

use std::collections::BTreeMap;

use outhaul_reconcilers::Change;
use serde::Serialize;

/// What a bundle would do.
#[derive(Debug, Serialize)]
pub struct ImportPlan {
    /// The bundle's number.
    pub number: u64,
    /// The number that runs now.
    pub active: Option<u64>,
    /// Orders that would be carried out, or refused.
    pub orders: Vec<PlannedOrder>,
    /// Assignments that would change.
    pub assignments: Vec<AssignmentPlan>,
    /// Assignments that stay as they are.
    pub unchanged: Vec<String>,
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
    /// Why it would wait for a person, if it would.
    pub waits: Option<String>,
}

/// What a rehearsal found.
#[derive(Debug, Default)]
pub struct Rehearsal {
    /// The plan of the bundle that would be taken.
    pub plan: Option<ImportPlan>,
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
