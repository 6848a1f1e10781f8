//! Choose: which of the cluster types a policy takes, and what keeps it from the others.
//!
//! What comes in: a control plane and one of its policies. What goes out: a [`Choice`]. Three steps:
//! filter (selectors, required terms, taints, sites), order (what is only tainted with `PreferNoSchedule` last,
//! then by score, then by name), take (as many as `maxClusterTypes` and `spread` allow, from the top).
//! Taking from the top gives the highest score that the limits allow. It knows nothing of what ran
//! before: a choice that moves when labels change is what being a function of the snapshot costs.

use std::collections::{BTreeMap, BTreeSet};

use super::answers::ChosenPair;
use super::sites;
use outhaul_control::ControlPlane;
use outhaul_control::model::{ClusterType, Effect, Placement, SchedulingPolicy, Taint};

/// What a policy makes of every cluster type.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice<'a> {
    /// Those that it may take, best first.
    pub candidates: Vec<ClusterTypeCandidate<'a>>,
    /// Those that it may not take, by name, with everything that keeps them away.
    pub kept_away: BTreeMap<&'a str, Vec<Obstacle<'a>>>,
}

/// A cluster type that a policy may take.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterTypeCandidate<'a> {
    /// The cluster type.
    pub cluster_type: &'a ClusterType,
    /// The weights of all preferences that it meets, added.
    pub score: u32,
    /// Taints that put it behind all others.
    pub avoided: Vec<&'a Taint>,
    /// What the limits make of it.
    pub place: LimitResult<'a>,
    /// The only sites of it that the policy means; `None` for every site. Never empty.
    pub sites: Option<BTreeSet<String>>,
}

/// What the limits make of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub enum LimitResult<'a> {
    /// As many as `maxClusterTypes` come before it.
    Beyond,
    /// As many as `maxPerValue` with its value come before it.
    Crowded {
        /// The label's value.
        value: &'a str,
    },
    /// It is taken; with a scheduler, it may be chosen.
    Taken,
    /// It lacks the label that the policy spreads by.
    Unspread,
}

/// What keeps a policy from a cluster type before anything is weighed.
#[derive(Debug, Clone, PartialEq)]
pub enum Obstacle<'a> {
    /// No required term matches.
    Required,
    /// `clusterTypeSelector` does not match.
    Selector,
    /// `siteSelector` matches none of its sites.
    Sites,
    /// A taint that it does not tolerate.
    Taint(&'a Taint),
}

impl ClusterTypeCandidate<'_> {
    /// Whether it is taken.
    pub fn taken(&self) -> bool {
        self.place == LimitResult::Taken
    }
}

/// Weighs every cluster type for `policy`.
pub fn choose<'a>(plane: &'a ControlPlane, policy: &'a SchedulingPolicy) -> Choice<'a> {
    let placement = &policy.placement;
    let mut candidates = Vec::new();
    let mut kept_away = BTreeMap::new();
    let mut selected = sites::selected(plane, policy);
    for cluster_type in plane.cluster_types.values() {
        let sites = selected
            .as_mut()
            .map(|sites| sites.remove(cluster_type.name.as_str()).unwrap_or_default());
        let taints: Vec<&Taint> = untolerated(plane, placement, cluster_type).collect();
        let mut obstacles = obstacles(policy, cluster_type, &taints);
        if sites.as_ref().is_some_and(BTreeSet::is_empty) {
            obstacles.push(Obstacle::Sites);
        }
        if obstacles.is_empty() {
            candidates.push(ClusterTypeCandidate {
                cluster_type,
                score: score(placement, cluster_type),
                avoided: taints,
                place: LimitResult::Taken,
                sites,
            });
        } else {
            kept_away.insert(cluster_type.name.as_str(), obstacles);
        }
    }
    candidates.sort_by(|a, b| {
        let key =
            |c: &ClusterTypeCandidate<'a>| (!c.avoided.is_empty(), std::cmp::Reverse(c.score));
        key(a)
            .cmp(&key(b))
            .then_with(|| a.cluster_type.name.cmp(&b.cluster_type.name))
    });
    // A program that chooses is held to the limits afterwards, target by target.
    if placement.scheduler.is_none() {
        limit(placement, &mut candidates);
    }
    Choice {
        candidates,
        kept_away,
    }
}

fn obstacles<'a>(
    policy: &SchedulingPolicy,
    cluster_type: &ClusterType,
    taints: &[&'a Taint],
) -> Vec<Obstacle<'a>> {
    let mut found = Vec::new();
    if !policy.cluster_types.matches(&cluster_type.labels) {
        found.push(Obstacle::Selector);
    }
    let required = &policy.placement.required;
    if !required.is_empty()
        && !required
            .iter()
            .any(|term| term.value.matches(&cluster_type.labels))
    {
        found.push(Obstacle::Required);
    }
    let strict = taints
        .iter()
        .filter(|taint| taint.effect == Effect::NoSchedule);
    found.extend(strict.map(|taint| Obstacle::Taint(taint)));
    found
}

/// Taints on `cluster_type` that `placement` does not tolerate.
fn untolerated<'a>(
    plane: &'a ControlPlane,
    placement: &'a Placement,
    cluster_type: &'a ClusterType,
) -> impl Iterator<Item = &'a Taint> {
    plane.taints.values().filter(move |taint| {
        taint.cluster_types.matches(&cluster_type.labels)
            && !placement.tolerations.iter().any(|t| t.tolerates(taint))
    })
}

fn score(placement: &Placement, cluster_type: &ClusterType) -> u32 {
    let met = placement
        .preferred
        .iter()
        .filter(|preference| preference.selector.matches(&cluster_type.labels));
    met.fold(0, |sum, preference| sum.saturating_add(preference.weight))
}

/// Goes down the list and takes what the limits allow.
fn limit<'a>(placement: &Placement, candidates: &mut [ClusterTypeCandidate<'a>]) {
    let most = placement
        .max_cluster_types
        .as_ref()
        .map_or(usize::MAX, |most| most.value as usize);
    let mut taken = 0;
    let mut by_value: BTreeMap<&'a str, u32> = BTreeMap::new();
    for candidate in candidates {
        candidate.place = match &placement.spread {
            // What can never be taken says so, however long the list is.
            Some(spread) => match candidate.cluster_type.labels.get(&spread.label.value) {
                None => LimitResult::Unspread,
                Some(value) => {
                    let count = by_value.entry(value).or_default();
                    if *count >= spread.max_per_value {
                        LimitResult::Crowded { value }
                    } else if taken >= most {
                        LimitResult::Beyond
                    } else {
                        *count += 1;
                        LimitResult::Taken
                    }
                }
            },
            None if taken >= most => LimitResult::Beyond,
            None => LimitResult::Taken,
        };
        taken += usize::from(candidate.taken());
    }
}

/// What of `policy` an answer breaks: a program may choose freely among the candidates, within the
/// limits that the policy sets for each target.
pub fn broken_limit(
    plane: &ControlPlane,
    policy: &SchedulingPolicy,
    chosen: &BTreeMap<ChosenPair, String>,
) -> Option<String> {
    let mut by_target: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pair in chosen.keys() {
        by_target
            .entry(&pair.target)
            .or_default()
            .push(&pair.cluster_type);
    }
    for (target, names) in by_target {
        if let Some(most) = &policy.placement.max_cluster_types
            && names.len() > most.value as usize
        {
            let (count, most) = (names.len(), most.value);
            return Some(format!(
                "it put `{target}` on {count} cluster types, and the policy allows {most}"
            ));
        }
        let Some(spread) = &policy.placement.spread else {
            continue;
        };
        let label = &spread.label.value;
        let mut by_value: BTreeMap<&str, u32> = BTreeMap::new();
        for name in names {
            let value = plane
                .cluster_types
                .get(name)
                .and_then(|c| c.labels.get(label));
            let Some(value) = value else {
                return Some(format!(
                    "it put `{target}` on `{name}`, which has no label `{label}` to spread by"
                ));
            };
            let count = by_value.entry(value).or_default();
            *count += 1;
            if *count > spread.max_per_value {
                return Some(format!(
                    "it put `{target}` on more than {} cluster types with `{label}` = `{value}`",
                    spread.max_per_value
                ));
            }
        }
    }
    None
}
