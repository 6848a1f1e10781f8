//! Sites: which sites of a cluster type a policy selects.
//!
//! What comes in: a control plane and one of its policies. What goes out: for each cluster type the names
//! of the sites that `siteSelector` matches. A site answers to its labels, `site` (its name) and `ring`.
//! Only sites that the control plane lists can match: the same snapshot gives the same names anywhere,
//! whoever is enrolled.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_control::ControlPlane;
use outhaul_control::model::{ClusterType, SchedulingPolicy};
use outhaul_kit::text::named;

/// Most names of sites in one sentence.
pub const MAX_NAMED: usize = 5;

/// Names of sites, by cluster type.
pub type ByType<'a> = BTreeMap<&'a str, BTreeSet<String>>;

/// The sites that `policy` selects, by cluster type; `None` when it means every site.
pub fn selected<'a>(plane: &'a ControlPlane, policy: &SchedulingPolicy) -> Option<ByType<'a>> {
    let selector = &policy.placement.sites.as_ref()?.value;
    let mut selected = ByType::new();
    for site in plane.sites.values() {
        if selector.matches(&site.all_labels()) {
            let of = selected.entry(site.cluster_type.value.as_str());
            of.or_default().insert(site.name.clone());
        }
    }
    Some(selected)
}

/// What two policies together select: all sites when one of them means all.
pub fn together(
    one: Option<BTreeSet<String>>,
    other: Option<&BTreeSet<String>>,
) -> Option<BTreeSet<String>> {
    let (mut one, other) = (one?, other?);
    one.extend(other.iter().cloned());
    Some(one)
}

/// What a policy asks of sites, and which of a cluster type's it means, for people.
pub(super) fn meant(
    plane: &ControlPlane,
    policy: &SchedulingPolicy,
    cluster_type: &ClusterType,
    names: &BTreeSet<String>,
) -> Option<String> {
    let selector = policy.placement.sites.as_ref()?;
    Some(format!(
        "{} ({}): {} of {}, {}",
        selector.value,
        selector.location.file_line(),
        names.len(),
        count_of(plane, cluster_type),
        named(names, MAX_NAMED)
    ))
}

/// Why a policy means no site of a cluster type, for people.
pub(super) fn none_of(plane: &ControlPlane, cluster_type: &ClusterType) -> String {
    let name = &cluster_type.name;
    match count_of(plane, cluster_type) {
        0 => format!("the control plane lists no site of `{name}`"),
        1 => format!("the one site of `{name}` has not"),
        count => format!("none of the {count} sites of `{name}` has that"),
    }
}

fn count_of(plane: &ControlPlane, cluster_type: &ClusterType) -> usize {
    let sites = plane.sites.values();
    sites
        .filter(|site| site.cluster_type.value == cluster_type.name)
        .count()
}
