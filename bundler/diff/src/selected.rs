//! Selected: assignments that are for some sites only, and how that changes.
//!
//! What comes in: an assignment on both sides. What goes out: the sites that it is and was for, and those
//! that get it or lose it. An assignment for all is for those sites that the control plane lists.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Side;
use outhaul_plane::schedule::AssignmentId;

/// An assignment that is for other sites than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SelectedChange {
    /// The deployment target.
    pub target: String,
    /// Sites that get it.
    pub added: Vec<String>,
    /// Sites that lose it.
    pub removed: Vec<String>,
    /// How many sites it is for now; absent for every site.
    pub now: Option<usize>,
}

impl SelectedChange {
    /// Whom it is for now, and who gets or loses it, for people.
    pub fn sentence(&self) -> String {
        let mut text = match self.now {
            None => "now for every site".to_owned(),
            Some(1) => "now only for 1 site".to_owned(),
            Some(now) => format!("now only for {now} sites"),
        };
        for (word, names) in [("added on", &self.added), ("removed from", &self.removed)] {
            if !names.is_empty() {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                text = format!("{text}; {word} {}", super::phrases::some(&names, 5));
            }
        }
        text
    }
}

/// The only sites that it is or was for; `None` where it is for all on a side that has it.
pub(super) fn only(
    before: &Side<'_>,
    after: &Side<'_>,
    id: &AssignmentId,
) -> Option<BTreeSet<String>> {
    match (before.has(id), after.has(id)) {
        (true, true) => Some(&before.sites(id)? | &after.sites(id)?),
        (true, false) => before.sites(id),
        (false, _) => after.sites(id),
    }
}

/// How the sites of an assignment change that is on both sides.
pub(super) fn change(
    before: &Side<'_>,
    after: &Side<'_>,
    id: &AssignmentId,
) -> Option<SelectedChange> {
    let (was, is) = (before.sites(id), after.sites(id));
    if was == is {
        return None;
    }
    let now = is.as_ref().map(BTreeSet::len);
    let all = |side: &Side<'_>| -> BTreeSet<String> {
        let sites = side.plane.sites.values();
        let here = sites.filter(|site| site.cluster_type.value == id.cluster_type);
        here.map(|site| site.name.clone()).collect()
    };
    let was = was.unwrap_or_else(|| all(before));
    let is = is.unwrap_or_else(|| all(after));
    Some(SelectedChange {
        target: id.target.clone(),
        added: is.difference(&was).cloned().collect(),
        removed: was.difference(&is).cloned().collect(),
        now,
    })
}

impl Side<'_> {
    fn has(&self, id: &AssignmentId) -> bool {
        self.rendered(id).is_some() || self.schedule.assignments.contains_key(id)
    }

    fn sites(&self, id: &AssignmentId) -> Option<BTreeSet<String>> {
        match self.schedule.assignments.get(id) {
            Some(assignment) => assignment.sites.clone(),
            None => self.rendered(id)?.sites.clone(),
        }
    }
}
