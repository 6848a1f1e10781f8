//! What a bundle would change on this site, before anything is changed.
//!
//! What comes in: a bundle and the inventory. What goes out: per assignment, what would be added, run,
//! changed or removed. The bundle is verified as for an import; no blob is read and nothing is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use outhaul_bundle::index::{Assignment, Content};
use outhaul_bundle::name::Name;
use outhaul_bundle::{Digest, Index};
use outhaul_kit::{media, text};
use serde::Serialize;

use crate::agent::Agent;
use crate::apply::Change;
use crate::error::AgentError;
use crate::generation;
use crate::intake::file::FileRoad;
use crate::intake::media::with_claim;
use crate::intake::{self, Road};
use crate::state::inventory;

/// What a bundle would do.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The bundle's number.
    pub number: u64,
    /// The number that runs now.
    pub active: Option<u64>,
    /// Assignments that would change.
    pub assignments: Vec<AssignmentPlan>,
    /// Assignments that stay as they are.
    pub unchanged: Vec<String>,
    /// Files that hold values of this site alone, by assignment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub own_files: BTreeMap<String, Vec<String>>,
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

/// The files that a bundle has for one site alone, by assignment.
pub fn own_files(index: &Index, site: &Name) -> BTreeMap<String, Vec<String>> {
    let overlays = index
        .assignments
        .iter()
        .filter_map(|assignment| Some((&assignment.name, assignment.overlay(site)?)));
    overlays
        .map(|(name, overlay)| {
            let files = overlay.files.iter().map(|file| file.path.to_string());
            (name.to_string(), files.collect())
        })
        .collect()
}

/// Files of one assignment that are not in the other as they are here.
fn differing(before: &Assignment, after: &Assignment) -> Vec<Change> {
    let all = |assignment: &Assignment| -> BTreeMap<String, Digest> {
        let payload = assignment.payload.iter();
        let payload = payload.map(|file| (format!("payload/{}", file.path), file.content));
        let files = assignment.files.iter();
        let files = files.map(|file| (file.path.to_string(), file.content));
        files.chain(payload).collect()
    };
    let (mut before, after) = (all(before), all(after));
    let mut changes = Vec::new();
    for (item, digest) in after {
        let action = match before.remove(&item) {
            Some(known) if known == digest => continue,
            Some(_) => "change",
            None => "add",
        };
        changes.push(Change { action, item });
    }
    let gone = before.into_keys();
    changes.extend(gone.map(|item| Change {
        action: "remove",
        item,
    }));
    changes
}

impl Agent {
    /// Says what importing `file` would change.
    ///
    /// # Errors
    /// [`AgentError`] as for an import.
    pub fn plan(&self, file: &Path) -> Result<Plan, AgentError> {
        let opened = media::open_file(file)?;
        let mut road = FileRoad::new(text::file_name(file), opened, self.limits, &self.pulse);
        let judged = self.judge(&mut road);
        let offer = judged.map_err(|error| with_claim(error, &road, &self.site))?;
        let expected = Content {
            digest: offer.index,
            size: offer.acceptance.index_length,
        };
        let (index, _) = road.index(&expected)?;
        self.check_index(road.name(), &index, &offer)?;
        let own = own_files(&index, &self.site.name);
        let index = index.for_site(&self.site.name);
        let reconciler = self.reconciler(index.reconciler.kind.as_str())?;
        let mut plan = Plan {
            number: index.number,
            active: intake::active(self.store.read())?,
            assignments: Vec::new(),
            unchanged: Vec::new(),
            own_files: own,
        };
        let running = match plan.active {
            // A folder that is gone keeps nobody from looking at a newer bundle.
            Some(number) => self.index(number).map(|index| index.assignments),
            None => Ok(Vec::new()),
        };
        let running = running.unwrap_or_default();
        for desired in generation::desired(&self.home, &index) {
            let name = desired.assignment.name.as_str().to_owned();
            let recorded = self.recorded(reconciler.kind(), &name)?;
            let mut changes = reconciler.plan(&desired, &recorded);
            if changes.is_empty() {
                // What the inventory does not list, such as the config that a playbook reads.
                let known = running.iter().find(|a| a.name == desired.assignment.name);
                changes =
                    known.map_or_else(Vec::new, |known| differing(known, &desired.assignment));
            }
            if changes.is_empty() {
                plan.unchanged.push(name);
                continue;
            }
            let action = if recorded.is_empty() { "add" } else { "change" };
            plan.assignments.push(AssignmentPlan {
                name,
                action,
                changes,
            });
        }
        let wanted: BTreeSet<&str> = index.assignments.iter().map(|a| a.name.as_str()).collect();
        for item in inventory::items(self.store.read(), None)? {
            if item.phase == "left" || wanted.contains(item.assignment.as_str()) {
                continue;
            }
            let change = Change {
                action: "remove",
                item: item.item,
            };
            match plan
                .assignments
                .last_mut()
                .filter(|last| last.name == item.assignment)
            {
                Some(last) => last.changes.push(change),
                None => plan.assignments.push(AssignmentPlan {
                    name: item.assignment,
                    action: "remove",
                    changes: vec![change],
                }),
            }
        }
        Ok(plan)
    }
}
