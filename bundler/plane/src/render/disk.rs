//! The cache on disk: what one run records for the next, which renders only what changed since.
//!
//! What comes in: the [`DiskCache`] of the last run, less what is no longer as that run left it, and a control
//! plane. What goes out: what had to be rendered, the names of what a full render would give again as it is,
//! and the cache for the next run. It holds digests and names, no content and no places, and is as pure as
//! the other stages: keeping it, and finding out what to forget, is for whoever writes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::incremental::assigned::reasons;
use super::incremental::plan::{Before, Change, RenderPlan};
use super::incremental::work::compose_and_render;
use super::keys::Keys;
use super::{Job, Rendered, rendering};
use crate::inputs::Inputs;

/// What an earlier run rendered without fault, and from what; empty when there was none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DiskCache(Before);

impl DiskCache {
    /// What it remembers, as `<cluster type>/<target>`.
    pub fn assignments(&self) -> BTreeSet<String> {
        let assigned = self.0.assigned.iter();
        assigned
            .flat_map(|(name, one)| {
                let entries = one.entries();
                entries.map(move |(target, _)| format!("{name}/{target}"))
            })
            .collect()
    }

    /// Forgets these, so that they are rendered again.
    pub fn forget(&mut self, assignments: &BTreeSet<String>) {
        let mut by_type: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, target) in assignments.iter().filter_map(|one| one.split_once('/')) {
            by_type.entry(name).or_default().insert(target);
        }
        for (name, targets) in by_type {
            if let Some(one) = self.0.assigned.get_mut(name) {
                *one = one.without(&targets);
            }
        }
    }

    /// Renders what changed since the last run; everything, when nothing is recorded.
    pub(super) fn render(&mut self, job: Job<'_>) -> Rendered {
        let before = &self.0;
        let (plane, mode) = (job.plane, job.mode);
        let inputs = Inputs::of(plane);
        let keys = Keys::of(inputs, mode);
        let change = Change::between(&before.keys, &keys, inputs, mode);
        let plan = RenderPlan::of(before, inputs, job.schedule, &change);
        let mut done = compose_and_render(inputs, &plan.work, mode, job.progress);
        let rendered = plan.work.len();
        let mut work = plan.work.iter().peekable();
        let mut reused = BTreeSet::new();
        let mut now = Before::default();
        for (id, assignment) in &job.schedule.assignments {
            let name = id.cluster_type.as_str();
            // The work is a part of the schedule, in its order.
            let is_work = work.next_if(|(one, _)| std::ptr::eq(*one, id)).is_some();
            let known = plan.assigned.contains(name) && plane.targets.contains_key(&id.target);
            if !known || done.failures.contains_key(id) {
                continue;
            }
            if !is_work {
                reused.insert(id.to_string());
            }
            let reasons = reasons(&assignment.policies, assignment.sites.as_ref());
            match now.assigned.get_mut(name) {
                Some(assigned) => assigned.push(&id.target, &reasons),
                None => now
                    .assigned
                    .entry(name.to_owned())
                    .or_default()
                    .push(&id.target, &reasons),
            }
        }
        drop(change);
        now.keys = keys;
        let groups = done.groups(inputs);
        self.0 = now;
        Rendered {
            rendering: rendering(job, groups, done.failures),
            reused,
            rendered,
        }
    }
}
