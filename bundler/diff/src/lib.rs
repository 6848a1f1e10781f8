//! Diff: what a change of the control plane does, before anybody merges it.
//!
//! What comes in: two [`Side`]s: what the stages made of a control plane before and after. What goes
//! out: a [`Difference`] by cluster type: assignments with the policies that decide them, values with
//! both of their places, files and sites, and how many there are of each. It is pure; an assignment that is broken on one side is reported as broken, never as removed; sealed values are never printed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::index::Snapshot;
use serde::Serialize;

use outhaul_control::{ControlPlane, Diagnostics};
use outhaul_plane::compose::{self, Composed, Composition, Mode};
use outhaul_plane::render::{RenderedAssignment, Rendering};
use outhaul_plane::schedule::{AssignmentId, Schedule};

mod counted;
mod files;
mod lines;
pub mod markdown;
mod phrases;
mod plain;
mod selected;
mod sites;
mod templates;
pub mod text;
mod values;

pub use counted::Counts;
pub use sites::SitesTouched;
pub use templates::TemplateChange;
pub use values::{ValueAt, ValueChange};

use files::FileChange;
use selected::SelectedChange;

/// What the stages made of one control plane.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// What it is called, as the person typed it.
    pub name: &'a str,
    /// The control plane; empty for a folder that was rendered before.
    pub plane: &'a ControlPlane,
    /// Who runs where.
    pub schedule: &'a Schedule,
    /// With which values.
    pub composition: &'a Composition,
    /// As which files.
    pub rendering: &'a Rendering,
}

impl<'a> Side<'a> {
    fn rendered(&self, id: &AssignmentId) -> Option<&'a RenderedAssignment> {
        let group = self.rendering.cluster_types.get(&id.cluster_type)?;
        group.assignments.get(&id.target).map(AsRef::as_ref)
    }

    /// Scheduled, or lying in a folder that was rendered before.
    fn assignments(&self) -> BTreeSet<AssignmentId> {
        let rendered = self
            .rendering
            .cluster_types
            .iter()
            .flat_map(|(name, group)| {
                group.assignments.keys().map(|target| AssignmentId {
                    cluster_type: name.clone(),
                    target: target.clone(),
                })
            });
        rendered
            .chain(self.schedule.assignments.keys().cloned())
            // Nothing is known of these: they may well be there.
            .chain(self.schedule.undecided.keys().cloned())
            .collect()
    }

    /// Why it cannot be rendered, or not even be decided.
    fn complaints(&self, id: &AssignmentId) -> Vec<String> {
        let undecided = self.schedule.undecided.get(id).into_iter().flatten();
        let policies = undecided.filter_map(|policy| self.schedule.failures.get(policy));
        let findings = policies.chain(self.rendering.failures.get(id));
        let findings = findings.flat_map(Diagnostics::iter);
        findings.map(phrases::finding).collect()
    }

    /// Its values, schemas left aside.
    fn composed(&self, id: &AssignmentId) -> Option<Arc<Composed>> {
        if let Some(composed) = self.composition.assignments.get(id) {
            return Some(Arc::clone(composed));
        }
        let cluster_type = self.plane.cluster_types.get(&id.cluster_type)?;
        let target = self.plane.targets.get(&id.target)?;
        compose::compose_one(self.plane, cluster_type, target, Mode::default())
            .ok()
            .map(Arc::new)
    }

    fn reasons(&self, id: &AssignmentId) -> Vec<Reason> {
        let names = self.schedule.assignments.get(id).map(|a| &a.policies);
        names
            .into_iter()
            .flatten()
            .map(|name| Reason {
                policy: name.clone(),
                at: self
                    .plane
                    .policies
                    .get(name)
                    .map(|policy| policy.location.file_line()),
            })
            .collect()
    }
}

/// What differs in one environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The environment.
    pub environment: String,
    /// The side before.
    pub before: Version,
    /// The side after.
    pub after: Version,
    /// Cluster types with at least one difference.
    pub cluster_types: BTreeMap<String, ClusterTypeChange>,
    /// How many cluster types are as they were.
    pub unchanged_cluster_types: usize,
    /// How many of each thing differ.
    pub counts: Counts,
}

/// One side, as it is reported.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Version {
    /// What the person called it.
    pub name: String,
    /// The commits that it was made of.
    pub snapshot: Snapshot,
}

/// Whether something is there on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Only after.
    Added,
    /// On both sides.
    Kept,
    /// Only before.
    Removed,
}

impl Presence {
    fn of(before: bool, after: bool) -> Self {
        match (before, after) {
            (false, true) => Self::Added,
            (true, false) => Self::Removed,
            _ => Self::Kept,
        }
    }
}

/// What differs in one cluster type.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterTypeChange {
    /// Whether the cluster type itself is new or gone.
    pub presence: Presence,
    /// Assignments that are there now.
    pub added: Vec<AssignmentChange>,
    /// Assignments that are gone.
    pub removed: Vec<AssignmentChange>,
    /// Assignments that other policies decide than before.
    pub reasons: Vec<ReasonChange>,
    /// Assignments that are for other sites than before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selected: Vec<SelectedChange>,
    /// Assignments that cannot be rendered on at least one side.
    pub broken: Vec<Broken>,
    /// Values of assignments that are on both sides.
    pub values: Vec<ValueChange>,
    /// Templates that are others, or have another text: why files differ where no value does.
    pub templates: Vec<TemplateChange>,
    /// Files whose bytes differ.
    pub files: Vec<FileChange>,
    /// Sites that get something else than before.
    pub sites: SitesTouched,
}

/// An assignment that comes or goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AssignmentChange {
    /// The deployment target.
    pub target: String,
    /// The workspace that owns it, when known.
    pub workspace: Option<String>,
    /// The policies that decide it, or that did.
    pub policies: Vec<Reason>,
}

/// A policy and where it is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reason {
    /// The policy's name.
    pub policy: String,
    /// `file:line`.
    pub at: Option<String>,
}

/// The same assignment, decided by other policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonChange {
    /// The deployment target.
    pub target: String,
    /// Policies that decide it now and did not.
    pub added: Vec<Reason>,
    /// Policies that decided it and do not.
    pub removed: Vec<Reason>,
}

/// An assignment that cannot be rendered; its last good output stays where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The deployment target.
    pub target: String,
    /// What is wrong before; empty when nothing is.
    pub before: Vec<String>,
    /// What is wrong after; empty when nothing is.
    pub after: Vec<String>,
}

impl ClusterTypeChange {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.presence == Presence::Kept
            && self.added.is_empty()
            && self.removed.is_empty()
            && self.reasons.is_empty()
            && self.selected.is_empty()
            && self.broken.iter().all(|b| b.before == b.after)
            && self.values.is_empty()
            && self.files.is_empty()
            && self.sites.own.is_empty()
    }
}

impl Difference {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.cluster_types.values().all(ClusterTypeChange::is_empty)
    }
}

/// What differs between two sides of one environment.
pub fn compare(before: Side<'_>, after: Side<'_>) -> Difference {
    let (old, new) = (before.assignments(), after.assignments());
    let names = |side: &Side<'_>| -> BTreeSet<String> {
        let rendered = side.rendering.cluster_types.keys();
        rendered
            .chain(side.plane.cluster_types.keys())
            .cloned()
            .collect()
    };
    let (old_types, new_types) = (names(&before), names(&after));
    let mut sites = sites::all(before.plane, after.plane);
    let mut cluster_types = BTreeMap::new();
    let mut unchanged = 0;
    let mut counts = Counts::default();
    let mut cache = values::ValueCache::default();
    let known: BTreeSet<String> = old_types.union(&new_types).cloned().collect();
    // Sites may be of a cluster type that is not there: an error of `check`, but no reason to be silent.
    let strays: Vec<String> = sites.keys().cloned().collect();
    for name in known
        .iter()
        .chain(strays.iter().filter(|s| !known.contains(*s)))
    {
        let of = |ids: &BTreeSet<AssignmentId>| -> BTreeSet<AssignmentId> {
            ids.iter()
                .filter(|id| id.cluster_type == *name)
                .cloned()
                .collect()
        };
        let presence = Presence::of(old_types.contains(name), new_types.contains(name));
        let change = one(
            name,
            (&before, &of(&old)),
            (&after, &of(&new)),
            presence,
            sites.remove(name).unwrap_or_default(),
            &mut cache,
        );
        counts.add(&change);
        if change.is_empty() {
            unchanged += 1;
        } else {
            cluster_types.insert(name.clone(), change);
        }
    }
    Difference {
        environment: after.rendering.environment.clone(),
        before: version(&before),
        after: version(&after),
        counts: Counts {
            values: counted::values(cluster_types.values()),
            ..counts
        },
        cluster_types,
        unchanged_cluster_types: unchanged,
    }
}

fn version(side: &Side<'_>) -> Version {
    Version {
        name: side.name.to_owned(),
        snapshot: side.rendering.snapshot.clone(),
    }
}

fn one(
    cluster_type: &str,
    (before, old): (&Side<'_>, &BTreeSet<AssignmentId>),
    (after, new): (&Side<'_>, &BTreeSet<AssignmentId>),
    presence: Presence,
    sites: sites::OfType,
    cache: &mut values::ValueCache,
) -> ClusterTypeChange {
    let come = |side: &Side<'_>, id: &AssignmentId| AssignmentChange {
        target: id.target.clone(),
        workspace: side
            .plane
            .targets
            .get(&id.target)
            .map(|t| t.workspace.clone()),
        policies: side.reasons(id),
    };
    let mut reasons = Vec::new();
    let mut broken = Vec::new();
    let mut changed_values = values::Collected::default();
    let mut changed_files = Vec::new();
    let mut own_values = BTreeSet::new();
    let mut changed_sites = Vec::new();
    let mut touched = false;
    for id in old.union(new) {
        let only = selected::only(before, after, id);
        let (bad_before, bad_after) = (before.complaints(id), after.complaints(id));
        let whole = bad_before.is_empty() && bad_after.is_empty();
        if !whole {
            broken.push(Broken {
                target: id.target.clone(),
                before: bad_before,
                after: bad_after,
            });
        }
        if old.contains(id) && new.contains(id) {
            reasons.extend(reason_change(before, after, id));
            if let Some(change) = selected::change(before, after, id) {
                own_values.extend(change.added.iter().chain(&change.removed).cloned());
                changed_sites.push(change);
            }
            let composed = (
                before.composition.assignments.get(id),
                after.composition.assignments.get(id),
            );
            if let (None, _) | (_, None) = composed {
                // What a schema refuses has values all the same: often they are why it breaks or is repaired.
                if let (Some(a), Some(b)) = (before.composed(id), after.composed(id)) {
                    changed_values.add(&id.target, &values::changes(&a, &b));
                }
            }
            if let (Some(a), Some(b)) = composed {
                changed_values.add(&id.target, cache.between(a, b));
                let own = values::own_of_sites(
                    (before.composition, a),
                    (after.composition, b),
                    id,
                    cache,
                );
                for (site, changes) in own {
                    // What a site shares with all others is reported already.
                    let shared = cache.between(a, b);
                    let fresh: Vec<_> = changes
                        .into_iter()
                        .filter(|c| !shared.contains(c))
                        .collect();
                    changed_values.add(&format!("{}@{site}", id.target), &fresh);
                    own_values.insert(site);
                }
            }
        }
        // What is broken keeps its last good files: nothing is said to be removed that is not.
        if whole {
            let shared = shared_files(before, after, id, only.as_ref());
            let differs = !shared.is_empty() || old.contains(id) != new.contains(id);
            match only {
                Some(only) if differs => own_values.extend(only),
                _ => touched |= differs,
            }
            changed_files.extend(shared);
            if let (Some(a), Some(b)) = (before.rendered(id), after.rendered(id)) {
                let own = files::of_sites(&id.target, a, b);
                own_values.extend(own.iter().flat_map(|change| change.sites.iter().cloned()));
                changed_files.extend(own);
            }
        }
    }
    ClusterTypeChange {
        presence,
        added: new.difference(old).map(|id| come(after, id)).collect(),
        removed: old.difference(new).map(|id| come(before, id)).collect(),
        reasons,
        selected: changed_sites,
        broken,
        values: changed_values.finish(),
        // Why files differ; a template that changes nothing is nobody's business here.
        templates: match changed_files.is_empty() {
            true => Vec::new(),
            false => templates::between(before.plane, after.plane, cluster_type),
        },
        files: changed_files,
        sites: sites.touched(touched, own_values),
    }
}

/// Files of all sites that have the assignment; with `only` they carry the names of those.
fn shared_files(
    before: &Side<'_>,
    after: &Side<'_>,
    id: &AssignmentId,
    only: Option<&BTreeSet<String>>,
) -> Vec<FileChange> {
    let empty = BTreeMap::new();
    let (a, b) = (before.rendered(id), after.rendered(id));
    let (a, b) = (
        a.map_or(&empty, |a| &a.files),
        b.map_or(&empty, |b| &b.files),
    );
    let mut shared = files::between(&id.target, a, b);
    if let Some(only) = only {
        for change in &mut shared {
            change.sites = only.iter().cloned().collect();
        }
    }
    shared
}

fn reason_change(before: &Side<'_>, after: &Side<'_>, id: &AssignmentId) -> Option<ReasonChange> {
    // A folder that was rendered before knows no policies.
    let scheduled = |side: &Side<'_>| side.schedule.assignments.contains_key(id);
    if !scheduled(before) || !scheduled(after) {
        return None;
    }
    let (was, is) = (before.reasons(id), after.reasons(id));
    let not_in = |one: &[Reason], other: &[Reason]| -> Vec<Reason> {
        let known = |reason: &&Reason| !other.iter().any(|o| o.policy == reason.policy);
        one.iter().filter(known).cloned().collect()
    };
    let change = ReasonChange {
        target: id.target.clone(),
        added: not_in(&is, &was),
        removed: not_in(&was, &is),
    };
    (!change.added.is_empty() || !change.removed.is_empty()).then_some(change)
}

#[cfg(test)]
mod tests;
