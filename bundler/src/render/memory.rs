//! Memory: unchanged assignments are not rendered again.
//!
//! What comes in: one control plane after another. What goes out: for each the same [`Rendering`] as a
//! full render gives. It compares the [`Keys`] of what an assignment's files depend on, composes and
//! renders what a change can reach (rather too much than too little), on every processor, and shares
//! the rest with the last rendering. What was broken is rendered every time, so that its findings
//! point to where things are written now. Like the stages, it is pure.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outhaul_bundle::index::Snapshot;

use super::engine::{Engines, Shared};
use super::keys::{Container, Keys};
use super::{
    Done, Pair, RenderedAssignment, RenderedClusterType, Rendering, empty_group, rendering,
};
use crate::compose::{Composing, Mode, layers};
use crate::control::ControlPlane;
use crate::control::diagnostic::Diagnostics;
use crate::control::model::{ClusterType, DeploymentTarget, Site};
use crate::schedule::{Assignment, AssignmentId, Schedule};

/// The most assignments that a thread takes at once.
const BATCH: usize = 64;

/// The last rendering of one environment, and what it was made from.
#[derive(Debug, Default)]
pub struct Memory {
    keys: Keys,
    groups: BTreeMap<String, Arc<RenderedClusterType>>,
    rendered: usize,
}

type Work<'a> = (&'a AssignmentId, &'a Assignment);

/// What has to be done, in order, and what is no longer there.
#[derive(Default)]
struct Plan<'a> {
    work: Vec<Work<'a>>,
    /// Cluster types that something is assigned to.
    assigned: BTreeSet<&'a str>,
    /// By cluster type: targets that were assigned to it.
    gone: Vec<(String, String)>,
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
        let keys = Keys::of(plane, mode);
        let mut change = Change::between(&self.keys, &keys);
        change.look_at_sites(plane, mode);
        let plan = self.plan(plane, schedule, &change);
        let done = compose_and_render(plane, &plan.work, mode);
        self.rendered = plan.work.len();
        merge(
            &mut self.groups,
            plane,
            &change,
            plan,
            &done.failures,
            done.rendered,
        );
        self.keys = keys;
        rendering(
            plane,
            schedule,
            snapshot,
            self.groups.clone(),
            done.failures,
        )
    }

    /// One pass through the schedule, beside what was rendered last.
    fn plan<'a>(
        &self,
        plane: &'a ControlPlane,
        schedule: &'a Schedule,
        change: &Change<'_>,
    ) -> Plan<'a> {
        let mut plan = Plan::default();
        let mut at: Option<OfType<'_>> = None;
        let mut targets = plane.targets.values().peekable();
        for (id, assignment) in &schedule.assignments {
            if at
                .as_ref()
                .is_none_or(|at| at.cluster_type.name != id.cluster_type)
            {
                let Some(cluster_type) = plane.cluster_types.get(&id.cluster_type) else {
                    continue;
                };
                targets = plane.targets.values().peekable();
                let before = self.groups.get(&id.cluster_type);
                let next = OfType::new(cluster_type, before, change);
                plan.end(at.replace(next));
                plan.assigned.insert(&cluster_type.name);
            }
            // Both go by name: no look-up for each of them.
            while targets.next_if(|target| target.name < id.target).is_some() {}
            let (Some(at), Some(target)) = (&mut at, targets.peek()) else {
                continue;
            };
            if target.name == id.target && at.is_reached(target, assignment, change) {
                plan.work.push((id, assignment));
            }
        }
        plan.end(at);
        plan
    }
}

impl Plan<'_> {
    /// Nothing else is assigned to this type.
    fn end(&mut self, at: Option<OfType<'_>>) {
        if let Some(at) = at {
            let name = &at.cluster_type.name;
            let rest = at.before.map(|(target, _)| target);
            let gone = at.gone.into_iter().chain(rest);
            self.gone
                .extend(gone.map(|target| (name.clone(), target.clone())));
        }
    }
}

/// Puts into the last groups what was done anew, and takes out what is no more. A group that the last
/// rendering still has is copied first.
fn merge(
    groups: &mut BTreeMap<String, Arc<RenderedClusterType>>,
    plane: &ControlPlane,
    change: &Change<'_>,
    plan: Plan<'_>,
    failures: &BTreeMap<AssignmentId, Diagnostics>,
    rendered: Vec<(AssignmentId, Arc<RenderedAssignment>)>,
) {
    groups.retain(|name, _| plane.cluster_types.contains_key(name));
    for (name, cluster_type) in &plane.cluster_types {
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

/// What is different between two control planes.
struct Change<'k> {
    everything: bool,
    /// Containers as they were or as they are, whichever changed, came or went.
    containers: Vec<&'k Container>,
    /// Labels of those that something else than cluster type and target may have in their place.
    elsewhere: BTreeSet<(&'k str, &'k str)>,
    cluster_types: BTreeSet<&'k str>,
    targets: BTreeSet<&'k str>,
}

impl<'k> Change<'k> {
    fn between(before: &'k Keys, now: &'k Keys) -> Self {
        let mut containers = Vec::new();
        for (name, one) in &now.containers {
            match before.containers.get(name) {
                Some(old) if old.digest == one.digest => {}
                old => containers.extend(old.into_iter().chain([one])),
            }
        }
        let gone = before.containers.iter();
        let gone = gone.filter(|(name, _)| !now.containers.contains_key(*name));
        containers.extend(gone.map(|(_, one)| one));
        Self {
            everything: before.common != now.common || containers.iter().any(|one| one.azure),
            containers,
            elsewhere: BTreeSet::new(),
            cluster_types: changed(&before.cluster_types, &now.cluster_types),
            targets: changed(&before.targets, &now.targets),
        }
    }

    /// A site may have a label that neither cluster type nor target has; to Kalypso an empty one is
    /// everywhere.
    fn look_at_sites(&mut self, plane: &ControlPlane, mode: Mode) {
        let labels = self.containers.iter().flat_map(|one| &one.labels);
        for (label, value) in labels {
            let has = |site: &Site| match label.as_str() {
                "site" => site.name == *value,
                label => {
                    site.labels.get(label) == Some(value)
                        || (label == "ring" && site.ring.as_ref() == Some(value))
                }
            };
            if (mode.compat && value.is_empty()) || plane.sites.values().any(has) {
                self.elsewhere.insert((label, value));
            }
        }
    }

    fn is_of_type(&self, cluster_type: &str) -> bool {
        self.everything || self.cluster_types.contains(cluster_type)
    }
}

fn changed<'k, D: PartialEq>(
    before: &'k BTreeMap<String, D>,
    now: &'k BTreeMap<String, D>,
) -> BTreeSet<&'k str> {
    let other = now
        .iter()
        .filter(|(name, one)| before.get(*name) != Some(one));
    other.map(|(name, _)| name.as_str()).collect()
}

/// One cluster type, while its assignments are gone through in order.
struct OfType<'a> {
    cluster_type: &'a ClusterType,
    whole: bool,
    /// Labels of each changed container that the cluster type does not have itself.
    open: Vec<Vec<(&'a str, &'a str)>>,
    before: Peekable<btree_map::Iter<'a, String, Arc<RenderedAssignment>>>,
    /// Targets of `before` that are passed by.
    gone: Vec<&'a String>,
}

impl<'a> OfType<'a> {
    fn new(
        cluster_type: &'a ClusterType,
        before: Option<&'a Arc<RenderedClusterType>>,
        change: &Change<'a>,
    ) -> Self {
        static NOTHING: BTreeMap<String, Arc<RenderedAssignment>> = BTreeMap::new();
        let containers = change.containers.iter();
        let open = containers.filter_map(|one| {
            let labels = one.labels.iter();
            let labels: Vec<_> = labels
                .map(|(label, value)| (label.as_str(), value.as_str()))
                .filter(|label| !layers::has_type(cluster_type, *label))
                .filter(|label| !change.elsewhere.contains(label) || layers::is_of_pair(label.0))
                .collect();
            // Another cluster type's: no target can have that label in its place.
            let others = labels.iter().any(|(label, _)| *label == "cluster-type");
            (!others).then_some(labels)
        });
        Self {
            cluster_type,
            whole: change.is_of_type(&cluster_type.name),
            open: open.collect(),
            before: before
                .map_or(&NOTHING, |group| &group.assignments)
                .iter()
                .peekable(),
            gone: Vec::new(),
        }
    }

    /// Whether the assignment has to be rendered. Must be asked in order of the targets' names.
    fn is_reached(
        &mut self,
        target: &DeploymentTarget,
        assignment: &Assignment,
        change: &Change<'_>,
    ) -> bool {
        while let Some((name, _)) = self.before.next_if(|(name, _)| **name < target.name) {
            self.gone.push(name);
        }
        let last = self.before.next_if(|(name, _)| **name == target.name);
        self.whole
            || last.is_none_or(|(_, last)| last.policies != assignment.policies)
            || change.targets.contains(target.name.as_str())
            || self.open.iter().any(|labels| {
                let mut labels = labels.iter();
                labels.all(|label| layers::has_target(target, *label))
            })
    }
}

/// Composes and renders `work`, on as many threads as there are processors. The result does not depend
/// on how many.
fn compose_and_render(plane: &ControlPlane, work: &[Work<'_>], mode: Mode) -> Done {
    let engines = &Engines::new(plane, mode);
    let next = &AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // Small batches where there is little to do, so that every processor gets its share.
    let batch = work.len().div_ceil(4 * threads).clamp(1, BATCH);
    let batches: Vec<&[Work<'_>]> = work.chunks(batch).collect();
    let batches = &batches;
    let one_thread = || {
        let mut composing = Composing::new(plane, mode);
        let mut shared = Shared::default();
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = batches.get(at) else {
                return made;
            };
            let mut done = Done::default();
            for (id, assignment) in *batch {
                let Some(pair) = Pair::of(plane, id) else {
                    continue;
                };
                let result = composing
                    .assignment(pair.cluster_type, pair.target)
                    .and_then(|(composed, overlays)| {
                        pair.render(assignment, &composed, &overlays, engines, &mut shared)
                    });
                done.add(id, result);
            }
            made.push((at, done));
        }
    };
    let threads = threads.min(batches.len()).max(1);
    let mut made: Vec<(usize, Done)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one_thread)).collect();
        let mut made = one_thread();
        for other in others {
            match other.join() {
                Ok(theirs) => made.extend(theirs),
                // A fault of the program is told as one.
                Err(fault) => std::panic::resume_unwind(fault),
            }
        }
        made
    });
    made.sort_by_key(|(at, _)| *at);
    let mut all = Done::default();
    for (_, mut done) in made {
        all.rendered.append(&mut done.rendered);
        all.failures.append(&mut done.failures);
    }
    all
}

#[cfg(test)]
mod tests;
