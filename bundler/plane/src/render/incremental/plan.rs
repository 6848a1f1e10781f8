//! Plan: which assignments have to be rendered, because a change can reach them.
//!
//! What comes in: what an earlier render was made from, and a control plane with its schedule. What goes
//! out: a [`RenderPlan`] with those assignments in order, and those that are no more. It names rather too much
//! than too little. A cluster type whose targets are the same ones, and that no change can reach, costs
//! one comparison of names.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::assigned::{Assigned, reasons};
use crate::compose::{Mode, layers};
use crate::inputs::Inputs;
use crate::render::keys::{Container, Keys};
use crate::schedule::{Assignment, AssignmentId, Schedule};
use outhaul_control::model::{ClusterType, DeploymentTarget, Site};

/// What an earlier render was made from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::render) struct Before {
    pub keys: Keys,
    /// By cluster type: what was rendered without fault.
    #[serde(rename = "rosters")]
    pub assigned: BTreeMap<String, Assigned>,
}

pub(in crate::render) type Work<'a> = (&'a AssignmentId, &'a Assignment);

/// What has to be done, in order, and what is no longer there.
#[derive(Debug, Default)]
pub(in crate::render) struct RenderPlan<'a> {
    pub work: Vec<Work<'a>>,
    /// Cluster types that something is assigned to.
    pub assigned: BTreeSet<&'a str>,
    /// Cluster types that have other targets than before, or by other policies.
    pub shifted: BTreeSet<&'a str>,
    /// By cluster type: targets that were assigned to it.
    pub gone: Vec<(String, String)>,
}

impl<'a> RenderPlan<'a> {
    /// One pass through the schedule, beside what was rendered before.
    pub fn of(
        before: &Before,
        plane: Inputs<'a>,
        schedule: &'a Schedule,
        change: &Change<'_>,
    ) -> Self {
        let mut plan = Self::default();
        let mut reach = Reach::default();
        let mut entries = schedule.assignments.iter().peekable();
        let mut of_type: Vec<Work<'a>> = Vec::new();
        while let Some((id, _)) = entries.peek() {
            let name = id.cluster_type.as_str();
            of_type.clear();
            while let Some(one) = entries.next_if(|(id, _)| id.cluster_type == name) {
                of_type.push(one);
            }
            let Some(cluster_type) = plane.cluster_types.get(name) else {
                continue;
            };
            plan.assigned.insert(&cluster_type.name);
            let earlier = before.assigned.get(name);
            let same = earlier.is_some_and(|earlier| {
                earlier.holds(
                    of_type
                        .iter()
                        .map(|(id, one)| (&*id.target, reasons(&one.policies, one.sites.as_ref()))),
                )
            });
            if !same {
                plan.shifted.insert(&cluster_type.name);
            }
            if change.is_of_type(name) {
                plan.work.extend_from_slice(&of_type);
                continue;
            }
            let reached = reach.of(cluster_type, plane, change);
            let is_reached = |id: &AssignmentId| reached.contains(id.target.as_str());
            if same {
                if !reached.is_empty() {
                    let work = of_type.iter().filter(|(id, _)| is_reached(id));
                    plan.work.extend(work);
                }
                continue;
            }
            plan.shifted_type(name, earlier, &of_type, is_reached);
        }
        plan
    }

    fn shifted_type(
        &mut self,
        name: &str,
        earlier: Option<&Assigned>,
        of_type: &[Work<'a>],
        is_reached: impl Fn(&AssignmentId) -> bool,
    ) {
        let mut old: BTreeMap<&str, Vec<&str>> = earlier
            .map(|earlier| earlier.entries().collect())
            .unwrap_or_default();
        for one in of_type {
            let (id, assignment) = one;
            let same = old.remove(id.target.as_str()).is_some_and(|policies| {
                let now = reasons(&assignment.policies, assignment.sites.as_ref());
                policies.into_iter().eq(now.iter().map(String::as_str))
            });
            if !same || is_reached(id) {
                self.work.push(*one);
            }
        }
        let gone = old.into_keys();
        self.gone
            .extend(gone.map(|target| (name.to_owned(), target.to_owned())));
    }
}

/// What is different between two control planes.
pub(in crate::render) struct Change<'k> {
    everything: bool,
    /// Containers as they were or as they are, whichever changed, came or went.
    containers: Vec<&'k Container>,
    /// Labels of those that something else than cluster type and target may have in their place.
    elsewhere: BTreeSet<(&'k str, &'k str)>,
    cluster_types: BTreeSet<&'k str>,
    targets: BTreeSet<&'k str>,
}

impl<'k> Change<'k> {
    pub fn between(before: &'k Keys, now: &'k Keys, plane: Inputs<'_>, mode: Mode) -> Self {
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
        let mut change = Self {
            everything: before.common != now.common || containers.iter().any(|one| one.azure),
            containers,
            elsewhere: BTreeSet::new(),
            cluster_types: changed(&before.cluster_types, &now.cluster_types),
            targets: changed(&before.targets, &now.targets),
        };
        if !change.everything {
            change.look_at_sites(plane, mode);
        }
        change
    }

    /// A site may have a label that neither cluster type nor target has; to Kalypso an empty one is
    /// everywhere.
    fn look_at_sites(&mut self, plane: Inputs<'_>, mode: Mode) {
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

    pub fn is_of_type(&self, cluster_type: &str) -> bool {
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

type Labels<'k> = Vec<(&'k str, &'k str)>;

/// The targets that a change reaches, found once for all cluster types that leave the same labels open.
#[derive(Default)]
struct Reach<'k, 'a> {
    targets: BTreeMap<Vec<Labels<'k>>, BTreeSet<&'a str>>,
}

impl<'k, 'a> Reach<'k, 'a> {
    fn of(
        &mut self,
        cluster_type: &ClusterType,
        plane: Inputs<'a>,
        change: &Change<'k>,
    ) -> &BTreeSet<&'a str> {
        let open = open(cluster_type, change);
        self.targets.entry(open).or_insert_with_key(|open| {
            let reached = |target: &&DeploymentTarget| {
                change.targets.contains(target.name.as_str())
                    || open.iter().any(|labels| {
                        let mut labels = labels.iter();
                        labels.all(|label| layers::has_target(target, *label))
                    })
            };
            let targets = plane.targets.values().filter(reached);
            targets.map(|target| target.name.as_str()).collect()
        })
    }
}

/// Labels of each changed container that the cluster type does not have itself.
fn open<'k>(cluster_type: &ClusterType, change: &Change<'k>) -> Vec<Labels<'k>> {
    let containers = change.containers.iter();
    let open = containers.filter_map(|one| {
        let labels = one.labels.iter();
        let labels: Labels<'k> = labels
            .map(|(label, value)| (label.as_str(), value.as_str()))
            .filter(|label| !layers::has_type(cluster_type, *label))
            .filter(|label| !change.elsewhere.contains(label) || layers::is_of_pair(label.0))
            .collect();
        // Another cluster type's: no target can have that label in its place.
        let others = labels.iter().any(|(label, _)| *label == "cluster-type");
        (!others).then_some(labels)
    });
    open.collect()
}
