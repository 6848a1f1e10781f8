//! Past: what one run remembers for the next, which renders only what changed since.
//!
//! What comes in: the [`Past`] of the last run, less what is no longer as that run left it, and a control
//! plane. What goes out: [`Since`]: what had to be rendered, the names of what a full render would give
//! again as it is, and the past for the next run. It holds digests and names, no content and no places,
//! and is as pure as the other stages: keeping it, and finding out what to forget, is for whoever writes.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::index::Snapshot;
use serde::{Deserialize, Serialize};

use super::keys::Keys;
use super::memory::plan::{Before, Change, Plan};
use super::memory::roster::reasons;
use super::memory::work::{Told, compose_and_render};
use super::{Rendering, rendering};
use crate::compose::Mode;
use crate::inputs::Inputs;
use crate::schedule::Schedule;
use outhaul_control::ControlPlane;

/// What an earlier run rendered without fault, and from what. Nothing, when there was none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Past(Before);

/// A rendering of what changed.
#[derive(Debug)]
pub struct Since {
    /// What was rendered now, and every failure. What is in `taken` is not in it.
    pub rendering: Rendering,
    /// What is as the earlier run left it, as `<cluster type>/<target>`.
    pub taken: BTreeSet<String>,
    /// For the next run.
    pub past: Past,
}

impl Past {
    /// What it remembers, as `<cluster type>/<target>`.
    pub fn assignments(&self) -> BTreeSet<String> {
        let rosters = self.0.rosters.iter();
        rosters
            .flat_map(|(name, roster)| {
                let entries = roster.entries();
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
            if let Some(roster) = self.0.rosters.get_mut(name) {
                *roster = roster.without(&targets);
            }
        }
    }
}

/// Renders what changed since `past`, and tells how far it is; everything, when it remembers nothing.
pub fn render_since(
    past: &Past,
    plane: &ControlPlane,
    schedule: &Schedule,
    snapshot: &Snapshot,
    mode: Mode,
    told: &Told<'_>,
) -> Since {
    let Past(before) = past;
    let inputs = Inputs::of(plane);
    let keys = Keys::of(inputs, mode);
    let change = Change::between(&before.keys, &keys, inputs, mode);
    let plan = Plan::of(before, inputs, schedule, &change);
    let mut done = compose_and_render(inputs, &plan.work, mode, told);
    let mut work = plan.work.iter().peekable();
    let mut taken = BTreeSet::new();
    let mut now = Before::default();
    for (id, assignment) in &schedule.assignments {
        let name = id.cluster_type.as_str();
        // The work is a part of the schedule, in its order.
        let is_work = work.next_if(|(one, _)| std::ptr::eq(*one, id)).is_some();
        let known = plan.assigned.contains(name) && plane.targets.contains_key(&id.target);
        if !known || done.failures.contains_key(id) {
            continue;
        }
        if !is_work {
            taken.insert(id.to_string());
        }
        let reasons = reasons(&assignment.policies, assignment.sites.as_ref());
        match now.rosters.get_mut(name) {
            Some(roster) => roster.push(&id.target, &reasons),
            None => now
                .rosters
                .entry(name.to_owned())
                .or_default()
                .push(&id.target, &reasons),
        }
    }
    drop(change);
    now.keys = keys;
    let groups = done.groups(inputs);
    Since {
        rendering: rendering(plane, schedule, snapshot, groups, done.failures),
        taken,
        past: Past(now),
    }
}
