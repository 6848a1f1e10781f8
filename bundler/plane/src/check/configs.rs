//! Configs: containers and schemas that apply to nothing.
//!
//! What comes in: a control plane. What goes out: a warning for each container or schema whose labels
//! no pair of target and cluster type has, on no site of it either; with the label that nothing has,
//! or else the one that nothing has together with the others. It never looks at every pair: what has a
//! label is looked up, so that thousands of containers cost little.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::compose::{self, Mode, layers};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::{ClusterType, DeploymentTarget, Spanned};
use outhaul_kit::suggest::{did_you_mean, nearest};

/// More labels than this are looked at pair by pair.
const MAX_LABELS: usize = 5;

/// What has a label: positions of cluster types, targets and sites.
#[derive(Debug, Default)]
struct Holders {
    cluster_types: BTreeSet<usize>,
    targets: BTreeSet<usize>,
    sites: BTreeSet<usize>,
}

/// Who has which label.
pub(super) struct Index<'a> {
    plane: &'a ControlPlane,
    holders: HashMap<(&'a str, &'a str), Holders>,
    /// Position of each site's cluster type.
    site_types: Vec<Option<usize>>,
}

pub(super) fn unused(plane: &ControlPlane, mode: Mode, findings: &mut Diagnostics) {
    if plane.cluster_types.is_empty() || plane.targets.is_empty() {
        return;
    }
    let index = Index::of(plane);
    for container in plane.configs.values() {
        if container.labels.contains_key("platform-config") {
            one(
                "config",
                &container.name,
                &container.labels,
                &index,
                mode,
                true,
                findings,
            );
        }
    }
    for schema in plane.schemas.values() {
        one(
            "schema",
            &schema.name,
            &schema.labels,
            &index,
            mode,
            false,
            findings,
        );
    }
}

fn one(
    kind: &str,
    name: &str,
    labels: &BTreeMap<String, Spanned<String>>,
    index: &Index<'_>,
    mode: Mode,
    with_sites: bool,
    findings: &mut Diagnostics,
) {
    let relevant: Vec<(&str, &Spanned<String>)> = labels
        .iter()
        .filter(|(key, _)| !layers::is_ignored(key))
        .map(|(key, spanned)| (key.as_str(), spanned))
        .collect();
    let pairs: Vec<(&str, &str)> = relevant
        .iter()
        .map(|(k, s)| (*k, s.value.as_str()))
        .collect();
    if index.applies(&pairs, with_sites, mode) {
        return;
    }
    let alone = |pair: &(&str, &str)| index.applies(&[*pair], with_sites, mode);
    // The label that nothing has is the mistake; or all are there, but never together.
    let guilty = relevant.iter().zip(&pairs).find(|(_, pair)| !alone(pair));
    let (finding, help) = match guilty {
        Some(((key, spanned), _)) => {
            let known = index.values(key, with_sites);
            let help = match nearest(&spanned.value, &known) {
                Some(near) => format!("did you mean `{key}: {near}`?"),
                None if known.is_empty() => format!(
                    "nothing has a label `{key}`: {}",
                    did_you_mean(key, &index.keys())
                ),
                None => format!(
                    "nothing has `{key}: {}`; {}",
                    spanned.value,
                    did_you_mean(&spanned.value, &known)
                ),
            };
            let finding = at(kind, name, &spanned.location).label("nothing has this label");
            (finding, help)
        }
        None => {
            let Some((_, spanned)) = relevant.first() else {
                return;
            };
            let help =
                "each of its labels is there, but no target on a cluster type has all of them";
            (at(kind, name, &spanned.location), help.to_owned())
        }
    };
    findings.push(finding.help(help));
}

fn at(kind: &str, name: &str, location: &outhaul_control::diagnostic::Location) -> Diagnostic {
    let code = if kind == "schema" {
        "unused-schema"
    } else {
        "unused-config"
    };
    Diagnostic::warning(code, format!("{kind} `{name}` applies to nothing")).at(location)
}

impl<'a> Index<'a> {
    pub(super) fn of(plane: &'a ControlPlane) -> Self {
        let mut holders: HashMap<(&str, &str), Holders> = HashMap::new();
        for (at, cluster_type) in plane.cluster_types.values().enumerate() {
            let own = ("cluster-type", cluster_type.name.as_str());
            for label in pairs(&cluster_type.labels).chain([own]) {
                holders.entry(label).or_default().cluster_types.insert(at);
            }
        }
        for (at, target) in plane.targets.values().enumerate() {
            let own = [
                ("deployment-target", target.name.as_str()),
                ("workload", target.workload.as_str()),
            ];
            for label in pairs(&target.labels).chain(own) {
                holders.entry(label).or_default().targets.insert(at);
            }
        }
        let positions: HashMap<&str, usize> = plane
            .cluster_types
            .keys()
            .enumerate()
            .map(|(at, name)| (name.as_str(), at))
            .collect();
        let mut site_types = Vec::new();
        for (at, site) in plane.sites.values().enumerate() {
            site_types.push(positions.get(site.cluster_type.value.as_str()).copied());
            for label in compose::site_labels(site) {
                holders.entry(label).or_default().sites.insert(at);
            }
        }
        Self {
            plane,
            holders,
            site_types,
        }
    }

    /// Whether a pair, perhaps on one of its sites, has all of `labels`.
    pub(super) fn applies(&self, labels: &[(&str, &str)], with_sites: bool, mode: Mode) -> bool {
        if labels.len() > MAX_LABELS || mode.compat && labels.iter().any(|(_, v)| v.is_empty()) {
            return self.any_pair(labels, mode);
        }
        let nothing = Holders::default();
        let found: Vec<&Holders> = labels
            .iter()
            .map(|label| self.holders.get(label).unwrap_or(&nothing))
            .collect();
        // Who has which label: the cluster type, the target or the site.
        let ways = if with_sites { 3usize } else { 2 };
        let count = u32::try_from(labels.len()).unwrap_or_default();
        (0..ways.pow(count)).any(|way| self.one_way(&found, way, ways))
    }

    fn one_way(&self, found: &[&Holders], mut way: usize, ways: usize) -> bool {
        let mut chosen: [Option<BTreeSet<usize>>; 3] = [None, None, None];
        for holders in found {
            let who = way % ways;
            way /= ways;
            let sets = [&holders.cluster_types, &holders.targets, &holders.sites];
            let (Some(set), Some(so_far)) = (sets.get(who), chosen.get_mut(who)) else {
                return false;
            };
            let both = match so_far.take() {
                None => (*set).clone(),
                Some(before) => before.intersection(set).copied().collect(),
            };
            if both.is_empty() {
                return false;
            }
            *so_far = Some(both);
        }
        let [cluster_types, _, sites] = &chosen;
        // A site has one cluster type, which must be one of those.
        sites.as_ref().is_none_or(|sites| {
            sites.iter().any(|site| {
                let of = self.site_types.get(*site).copied().flatten();
                of.is_some_and(|of| {
                    cluster_types
                        .as_ref()
                        .is_none_or(|types| types.contains(&of))
                })
            })
        })
    }

    fn any_pair(&self, labels: &[(&str, &str)], mode: Mode) -> bool {
        let applies = |cluster_type: &ClusterType, target: &DeploymentTarget| {
            layers::applies(labels.iter().copied(), cluster_type, target, mode.compat)
        };
        let types = || self.plane.cluster_types.values();
        self.plane
            .targets
            .values()
            .any(|target| types().any(|c| applies(c, target)))
    }

    fn values(&self, key: &str, with_sites: bool) -> Vec<&str> {
        let used = |holders: &Holders| {
            with_sites || !holders.cluster_types.is_empty() || !holders.targets.is_empty()
        };
        let values: BTreeSet<&str> = self
            .holders
            .iter()
            .filter(|((k, _), holders)| *k == key && used(holders))
            .map(|((_, value), _)| *value)
            .collect();
        values.into_iter().collect()
    }

    fn keys(&self) -> Vec<&str> {
        let keys: BTreeSet<&str> = self
            .holders
            .keys()
            .map(|(key, _)| *key)
            .filter(|key| !key.contains('/'))
            .collect();
        keys.into_iter().collect()
    }
}

fn pairs(labels: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    labels
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
}
