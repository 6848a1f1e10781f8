//! The cache in memory: unchanged assignments are not rendered again.
//!
//! What comes in: one control plane after another. What goes out: for each the same rendering as a
//! full render gives. It compares the keys of what an assignment's files depend on, composes and renders
//! what a change can reach, and shares the rest with the last rendering. What was broken is rendered
//! every time, so that its findings point to where things are written now. Like the stages, it is pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::keys::Keys;
use super::{Job, Rendered, RenderedAssignment, RenderedClusterType, empty_group, rendering};
use crate::inputs::Inputs;
use crate::schedule::AssignmentId;
use outhaul_control::diagnostic::Diagnostics;

pub(super) mod assigned;
pub(super) mod plan;
pub(super) mod work;

use assigned::{Assigned, reasons};
use plan::{Before, Change, RenderPlan};
pub use work::Progress;
use work::compose_and_render;

/// The last rendering of one environment, and what it was made from; empty at first.
#[derive(Debug, Default)]
pub struct MemoryCache {
    before: Before,
    groups: BTreeMap<String, Arc<RenderedClusterType>>,
}

impl MemoryCache {
    /// Composes and renders what changed since the last call, and everything the first time.
    pub(super) fn render(&mut self, job: Job<'_>) -> Rendered {
        let inputs = Inputs::of(job.plane);
        let keys = Keys::of(inputs, job.mode);
        let change = Change::between(&self.before.keys, &keys, inputs, job.mode);
        let plan = RenderPlan::of(&self.before, inputs, job.schedule, &change);
        let done = compose_and_render(inputs, &plan.work, job.mode, job.progress);
        let rendered = plan.work.len();
        let (groups, failures) = (&mut self.groups, &done.failures);
        merge(groups, inputs, &change, &plan, failures, done.rendered);
        let assigned = &mut self.before.assigned;
        assigned.retain(|name, _| plan.assigned.contains(name.as_str()));
        let failed = failures.keys().map(|id| id.cluster_type.as_str());
        let other: BTreeSet<&str> = plan.shifted.iter().copied().chain(failed).collect();
        for name in other {
            if let Some(group) = self.groups.get(name) {
                assigned.insert(name.to_owned(), assigned_of(group));
            }
        }
        drop(change);
        self.before.keys = keys;
        Rendered {
            rendering: rendering(job, self.groups.clone(), done.failures),
            reused: BTreeSet::new(),
            rendered,
        }
    }
}

fn assigned_of(group: &RenderedClusterType) -> Assigned {
    let mut assigned = Assigned::default();
    for (target, one) in &group.assignments {
        assigned.push(target, &reasons(&one.policies, one.sites.as_ref()));
    }
    assigned
}

/// Puts into the last groups what was done again, and takes out what is no more. A group that the last
/// rendering still has is copied first.
fn merge(
    groups: &mut BTreeMap<String, Arc<RenderedClusterType>>,
    plane: Inputs<'_>,
    change: &Change<'_>,
    plan: &RenderPlan<'_>,
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
