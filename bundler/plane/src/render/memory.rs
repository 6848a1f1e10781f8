//! Memory: unchanged assignments are not rendered again.
//!
//! What comes in: one control plane after another. What goes out: for each the same [`Rendering`] as a
//! full render gives. It compares the keys of what an assignment's files depend on, composes and renders
//! what a change can reach, and shares the rest with the last rendering. What was broken is rendered
//! every time, so that its findings point to where things are written now. Like the stages, it is pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::index::Snapshot;

use super::keys::Keys;
use super::{RenderedAssignment, RenderedClusterType, Rendering, empty_group, rendering};
use crate::compose::Mode;
use crate::inputs::Inputs;
use crate::schedule::{AssignmentId, Schedule};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::Diagnostics;

#[cfg(test)]
mod edits;
pub(super) mod plan;
pub(super) mod roster;
pub(super) mod work;

use plan::{Before, Change, Plan};
use roster::{Roster, reasons};
pub use work::Told;
use work::compose_and_render;

/// The last rendering of one environment, and what it was made from.
#[derive(Debug, Default)]
pub struct Memory {
    before: Before,
    groups: BTreeMap<String, Arc<RenderedClusterType>>,
    rendered: usize,
}

impl Memory {
    /// Nothing remembered yet: the first render is a full one.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many assignments the last call composed and rendered.
    pub fn rendered(&self) -> usize {
        self.rendered
    }

    /// Composes and renders what changed since the last call, and everything the first time.
    pub fn render(
        &mut self,
        plane: &ControlPlane,
        schedule: &Schedule,
        snapshot: &Snapshot,
        mode: Mode,
    ) -> Rendering {
        self.render_telling(plane, schedule, snapshot, mode, &|_, _| ())
    }

    /// The same, and tells how far it is.
    pub fn render_telling(
        &mut self,
        plane: &ControlPlane,
        schedule: &Schedule,
        snapshot: &Snapshot,
        mode: Mode,
        told: &Told<'_>,
    ) -> Rendering {
        let inputs = Inputs::of(plane);
        let keys = Keys::of(inputs, mode);
        let change = Change::between(&self.before.keys, &keys, inputs, mode);
        let plan = Plan::of(&self.before, inputs, schedule, &change);
        let done = compose_and_render(inputs, &plan.work, mode, told);
        self.rendered = plan.work.len();
        let (groups, failures) = (&mut self.groups, &done.failures);
        merge(groups, inputs, &change, &plan, failures, done.rendered);
        let rosters = &mut self.before.rosters;
        rosters.retain(|name, _| plan.assigned.contains(name.as_str()));
        let failed = failures.keys().map(|id| id.cluster_type.as_str());
        let other: BTreeSet<&str> = plan.shifted.iter().copied().chain(failed).collect();
        for name in other {
            if let Some(group) = self.groups.get(name) {
                rosters.insert(name.to_owned(), roster_of(group));
            }
        }
        drop(change);
        self.before.keys = keys;
        let groups = self.groups.clone();
        rendering(plane, schedule, snapshot, groups, done.failures)
    }
}

fn roster_of(group: &RenderedClusterType) -> Roster {
    let mut roster = Roster::default();
    for (target, one) in &group.assignments {
        roster.push(target, &reasons(&one.policies, one.sites.as_ref()));
    }
    roster
}

/// Puts into the last groups what was done anew, and takes out what is no more. A group that the last
/// rendering still has is copied first.
fn merge(
    groups: &mut BTreeMap<String, Arc<RenderedClusterType>>,
    plane: Inputs<'_>,
    change: &Change<'_>,
    plan: &Plan<'_>,
    failures: &BTreeMap<AssignmentId, Diagnostics>,
    rendered: Vec<(AssignmentId, Arc<RenderedAssignment>)>,
) {
    groups.retain(|name, _| plane.cluster_types.contains_key(name));
    for (name, cluster_type) in plane.cluster_types {
        let is_new = change.is_of_type(name) || !plan.assigned.contains(name.as_str());
        if is_new || !groups.contains_key(name) {
            groups.insert(name.clone(), Arc::new(empty_group(cluster_type)));
        }
    }
    let failed = failures.keys();
    let failed = failed.map(|id| (id.cluster_type.as_str(), id.target.as_str()));
    let gone = plan
        .gone
        .iter()
        .map(|(name, target)| (name.as_str(), target.as_str()));
    // What broke must not stay as it was: only whoever writes may keep it, and says so.
    for (name, target) in gone.chain(failed) {
        if let Some(group) = groups.get_mut(name)
            && group.assignments.contains_key(target)
        {
            Arc::make_mut(group).assignments.remove(target);
        }
    }
    let mut rendered = rendered.into_iter().peekable();
    while let Some(name) = rendered.peek().map(|(id, _)| id.cluster_type.clone()) {
        let mut of_type = Vec::new();
        while let Some((id, one)) = rendered.next_if(|(id, _)| id.cluster_type == name) {
            of_type.push((id.target, one));
        }
        if let Some(group) = groups.get_mut(&name) {
            Arc::make_mut(group).assignments.extend(of_type);
        }
    }
}

#[cfg(test)]
mod tests;
