//! Memory: unchanged assignments are not rendered again.
//!
//! What comes in: one control plane after another. What goes out: for each the same [`Rendering`] as a
//! full render gives. It compares the [`Keys`] of what an assignment's files depend on, composes and
//! renders what a change can reach (rather too much than too little), on every processor, and shares
//! the rest with the last rendering. What was broken is rendered every time, so that its findings
//! point to where things are written now. Like the stages, it is pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outhaul_bundle::index::Snapshot;

use super::engine::{Engines, Shared};
use super::keys::{Container, Keys};
use super::{Done, Pair, RenderedClusterType, Rendering, empty_group, rendering};
use crate::compose::{Composing, Mode, layers};
use crate::control::ControlPlane;
use crate::control::model::{ClusterType, DeploymentTarget, Site};
use crate::schedule::{Assignment, AssignmentId, Schedule};

/// Assignments that a thread takes at once.
const BATCH: usize = 64;

/// The last rendering of one environment, and what it was made from.
#[derive(Debug, Default)]
pub struct Memory {
    keys: Keys,
    groups: BTreeMap<String, Arc<RenderedClusterType>>,
    rendered: usize,
}

type Work<'a> = (&'a AssignmentId, &'a Assignment);

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
        let work = self.work(plane, schedule, &change);
        let done = compose_and_render(plane, &work, mode);
        self.rendered = work.len();
        // What broke must not stay as it was: only whoever writes may keep it, and says so.
        let anew: BTreeSet<&AssignmentId> = work.iter().map(|(id, _)| *id).collect();
        let groups = self.merged(plane, schedule, &change, &anew, done.rendered);
        self.keys = keys;
        self.groups.clone_from(&groups);
        rendering(plane, schedule, snapshot, groups, done.failures)
    }

    /// What has to be done, in order.
    fn work<'a>(
        &self,
        plane: &'a ControlPlane,
        schedule: &'a Schedule,
        change: &Change<'_>,
    ) -> Vec<Work<'a>> {
        let mut work = Vec::new();
        let mut at: Option<OfType<'_>> = None;
        let mut targets = plane.targets.values().peekable();
        for (id, assignment) in &schedule.assignments {
            if at
                .as_ref()
                .is_none_or(|at| at.cluster_type.name != id.cluster_type)
            {
                targets = plane.targets.values().peekable();
                let Some(cluster_type) = plane.cluster_types.get(&id.cluster_type) else {
                    continue;
                };
                let before = self.groups.get(&id.cluster_type);
                at = Some(OfType::new(cluster_type, before, change));
            }
            // Both go by name: no look-up for each of them.
            while targets.next_if(|target| target.name < id.target).is_some() {}
            let (Some(at), Some(target)) = (&mut at, targets.peek()) else {
                continue;
            };
            if target.name == id.target && at.is_reached(target, assignment, change) {
                work.push((id, assignment));
            }
        }
        work
    }

    /// The last groups with what was done anew in them, and without what is not assigned any more.
    fn merged(
        &self,
        plane: &ControlPlane,
        schedule: &Schedule,
        change: &Change<'_>,
        anew: &BTreeSet<&AssignmentId>,
        rendered: Vec<(AssignmentId, Arc<super::RenderedAssignment>)>,
    ) -> BTreeMap<String, Arc<RenderedClusterType>> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut last: Option<(&str, usize)> = None;
        for id in schedule.assignments.keys() {
            match &mut last {
                Some((name, count)) if *name == id.cluster_type => *count += 1,
                _ => {
                    counts.extend(last.take());
                    last = Some((&id.cluster_type, 1));
                }
            }
        }
        counts.extend(last);
        let reached: BTreeSet<&str> = anew.iter().map(|id| id.cluster_type.as_str()).collect();
        let mut rendered = rendered.into_iter().peekable();
        let mut groups = BTreeMap::new();
        for (name, cluster_type) in &plane.cluster_types {
            let before = self.groups.get(name).filter(|_| !change.is_of_type(name));
            let count = counts.get(name.as_str()).copied().unwrap_or_default();
            if let Some(before) = before
                && !reached.contains(name.as_str())
                && before.assignments.len() == count
            {
                groups.insert(name.clone(), Arc::clone(before));
                continue;
            }
            let mut group = empty_group(cluster_type);
            if let Some(before) = before {
                let still = before.assignments.iter().filter(|(target, _)| {
                    let id = AssignmentId {
                        cluster_type: name.clone(),
                        target: (*target).clone(),
                    };
                    schedule.assignments.contains_key(&id) && !anew.contains(&id)
                });
                let still = still.map(|(target, one)| (target.clone(), Arc::clone(one)));
                group.assignments = still.collect();
            }
            while let Some((id, one)) = rendered.next_if(|(id, _)| id.cluster_type == *name) {
                group.assignments.insert(id.target, one);
            }
            groups.insert(name.clone(), Arc::new(group));
        }
        groups
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
    before: std::iter::Peekable<
        std::collections::btree_map::Iter<'a, String, Arc<super::RenderedAssignment>>,
    >,
}

impl<'a> OfType<'a> {
    fn new(
        cluster_type: &'a ClusterType,
        before: Option<&'a Arc<RenderedClusterType>>,
        change: &Change<'a>,
    ) -> Self {
        static NOTHING: BTreeMap<String, Arc<super::RenderedAssignment>> = BTreeMap::new();
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
        }
    }

    /// Whether the assignment has to be rendered. Must be asked in order of the targets' names.
    fn is_reached(
        &mut self,
        target: &DeploymentTarget,
        assignment: &Assignment,
        change: &Change<'_>,
    ) -> bool {
        while self
            .before
            .next_if(|(name, _)| **name < target.name)
            .is_some()
        {}
        let last = self.before.peek().filter(|(name, _)| **name == target.name);
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
    let batches: Vec<&[Work<'_>]> = work.chunks(BATCH).collect();
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
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
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
