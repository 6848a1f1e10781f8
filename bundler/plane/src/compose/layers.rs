//! Layers: which containers apply to an assignment, and in which order.
//!
//! What comes in: the config containers and the composition policy. What goes out: for a cluster type
//! and a target the positions of the layers that match, in the order in which later ones win. Labels,
//! keys and values are prepared once, and layers are found by their rarest label, because thousands of
//! assignments ask. Order is by rank, which is 0 for all unless a policy says otherwise, then by
//! container name; keys of Azure's containers, which carry their own labels, come after all others
//! of their rank, the shorter ones first.

use std::cell::OnceCell;
use std::collections::HashMap;

use outhaul_gocompat::GoValue;

use super::{Mode, typing};
use crate::inputs::Inputs;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
pub use outhaul_control::kinds::AZURE_PREFIX;
use outhaul_control::model::composition::{PRIORITY_LABEL, Precedence};
use outhaul_control::model::{
    ClusterType, CompositionPolicy, ConfigContainer, DeploymentTarget, Spanned,
};

/// Labels that say nothing about where a container applies.
const IGNORED: &[&str] = &[
    "kustomize.toolkit.fluxcd.io/name",
    "kustomize.toolkit.fluxcd.io/namespace",
    PRIORITY_LABEL,
    "platform-config",
];
/// Labels that are about the pair itself: no site can have them in its place.
const OF_THE_PAIR: &[&str] = &["cluster-type", "deployment-target", "workload"];

/// A label and its value.
pub type Label<'a> = (&'a str, &'a str);

/// All layers of a control plane.
#[derive(Debug)]
pub struct Layers<'a> {
    all: Vec<Layer<'a>>,
    /// The layers of which a label is the rarest.
    anchored: HashMap<Label<'a>, Vec<usize>>,
    /// Layers that must be looked at for every pair.
    everywhere: Vec<usize>,
    /// The layers that have a label.
    labelled: HashMap<Label<'a>, Vec<usize>>,
    compat: bool,
}

#[derive(Debug)]
struct Layer<'a> {
    /// Those that have to match.
    labels: Vec<Label<'a>>,
    settings: Vec<LayerSetting<'a>>,
    rank: i64,
    /// What is wrong with it; reported when it applies to something.
    fault: Option<Diagnostic>,
}

/// One key of one layer.
#[derive(Debug)]
pub struct LayerSetting<'a> {
    /// The key, without labels.
    pub key: &'a str,
    /// The key and its typed value.
    typed: OnceCell<(GoValue, GoValue)>,
    mode: Mode,
    /// The text as written.
    pub text: &'a Spanned<String>,
    /// The container's name.
    pub container: &'a str,
}

impl LayerSetting<'_> {
    /// The typed value. It is typed when it is first asked for: of a change few layers are read.
    pub fn value(&self) -> &GoValue {
        &self.entry().1
    }

    /// The key, and the typed value: what every config that has them shares.
    pub fn entry(&self) -> &(GoValue, GoValue) {
        let make = || {
            (
                GoValue::from(self.key),
                typing::typed(&self.text.value, self.mode),
            )
        };
        self.typed.get_or_init(make)
    }
}

impl<'a> Layers<'a> {
    /// The layers of a control plane.
    pub fn of(plane: Inputs<'a>, mode: Mode) -> Self {
        let mut layers = Vec::new();
        let mut azure = Vec::new();
        for container in plane.configs.values() {
            if container
                .labels
                .get("platform-config")
                .is_some_and(|v| v.value == "true")
            {
                layers.push(whole(container, mode));
            }
            if container.name.starts_with(AZURE_PREFIX) {
                let mut keys: Vec<_> = container.data.iter().collect();
                // Kalypso leaves the order of keys of one length to chance (its defect 10).
                keys.sort_by_key(|(key, _)| (key.len(), key.as_str()));
                azure.extend(
                    keys.into_iter()
                        .map(|(key, text)| labelled(container, key, text, mode)),
                );
            }
        }
        layers.append(&mut azure);
        if let Some(policy) = plane.composition {
            for layer in &mut layers {
                layer.rank = rank(policy, plane, layer);
            }
            layers.sort_by_key(|layer| layer.rank);
        }
        Self::indexed(layers, mode.compat)
    }

    fn indexed(layers: Vec<Layer<'a>>, compat: bool) -> Self {
        let mut labelled: HashMap<Label<'a>, Vec<usize>> = HashMap::new();
        for (at, layer) in layers.iter().enumerate() {
            for label in &layer.labels {
                labelled.entry(*label).or_default().push(at);
            }
        }
        let mut anchored: HashMap<Label<'a>, Vec<usize>> = HashMap::new();
        let mut everywhere = Vec::new();
        for (at, layer) in layers.iter().enumerate() {
            let rarest = layer
                .labels
                .iter()
                // To Kalypso an empty label is there when it is not: it cannot be looked up.
                .filter(|(_, value)| !(compat && value.is_empty()))
                .min_by_key(|label| labelled.get(*label).map_or(0, Vec::len));
            match rarest {
                Some(label) => anchored.entry(*label).or_default().push(at),
                None => everywhere.push(at),
            }
        }
        Self {
            all: layers,
            anchored,
            everywhere,
            labelled,
            compat,
        }
    }

    /// Positions of the layers that apply, in order.
    ///
    /// # Errors
    /// What is wrong with a layer that applies.
    pub fn matching(
        &self,
        cluster_type: &ClusterType,
        target: &DeploymentTarget,
    ) -> Result<Vec<usize>, Diagnostics> {
        let mut positions = self.everywhere.clone();
        let special = [
            ("cluster-type", cluster_type.name.as_str()),
            ("deployment-target", target.name.as_str()),
            ("workload", target.workload.as_str()),
        ];
        let own = cluster_type.labels.iter().chain(&target.labels);
        for label in own.map(|(k, v)| (k.as_str(), v.as_str())).chain(special) {
            positions.extend(self.anchored.get(&label).into_iter().flatten());
        }
        positions.sort_unstable();
        positions.dedup();
        positions.retain(|at| {
            self.all.get(*at).is_some_and(|layer| {
                let labels = layer.labels.iter().copied();
                applies(labels, cluster_type, target, self.compat)
            })
        });
        self.sound(positions)
    }

    /// `positions`, unless something is wrong with one of those layers.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn sound(&self, positions: Vec<usize>) -> Result<Vec<usize>, Diagnostics> {
        let mut findings = Diagnostics::new();
        if !self.compat {
            let layers = positions.iter().filter_map(|at| self.all.get(*at));
            findings.extend(layers.filter_map(|layer| layer.fault.clone()));
        }
        if findings.is_empty() {
            Ok(positions)
        } else {
            Err(findings)
        }
    }

    /// The layers that have the label.
    pub fn with_label<'s>(&'s self, label: Label<'s>) -> &'s [usize] {
        self.labelled.get(&label).map_or(&[], Vec::as_slice)
    }

    /// The labels of the layer at `position` that neither the cluster type nor the target has, and
    /// that a site may have in their place; `None` when one of them no site can have.
    pub fn missing(
        &self,
        position: usize,
        cluster_type: &ClusterType,
        target: &DeploymentTarget,
    ) -> Option<Vec<Label<'a>>> {
        let layer = self.all.get(position)?;
        let mut missing = Vec::new();
        for label in &layer.labels {
            if applies([*label].into_iter(), cluster_type, target, self.compat) {
                continue;
            }
            if OF_THE_PAIR.contains(&label.0) {
                return None;
            }
            missing.push(*label);
        }
        Some(missing)
    }

    /// What the layer at `position` sets.
    pub fn settings(&self, position: usize) -> &[LayerSetting<'a>] {
        self.all.get(position).map_or(&[], |layer| &layer.settings)
    }

    /// How many layers there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The rank of the layer at `position`: of two layers the one with the higher rank wins.
    pub fn rank(&self, position: usize) -> i64 {
        self.all.get(position).map_or(0, |layer| layer.rank)
    }

    /// Positions of layers that have the same labels and the same rank: two or more of each.
    pub fn alike(&self) -> Vec<Vec<usize>> {
        let mut groups: HashMap<(i64, Vec<Label<'a>>), Vec<usize>> = HashMap::new();
        for (at, layer) in self.all.iter().enumerate() {
            let mut labels = layer.labels.clone();
            labels.sort_unstable();
            groups.entry((layer.rank, labels)).or_default().push(at);
        }
        let mut groups: Vec<Vec<usize>> = groups
            .into_values()
            .filter(|group| group.len() > 1)
            .collect();
        groups.sort();
        groups
    }
}

fn rank(policy: &CompositionPolicy, plane: Inputs<'_>, layer: &Layer<'_>) -> i64 {
    match policy.precedence {
        Precedence::Name => 0,
        Precedence::Specificity => i64::try_from(layer.labels.len()).unwrap_or(i64::MAX),
        Precedence::Priority => {
            let Some(container) = layer.settings.first().map(|setting| setting.container) else {
                return 0;
            };
            let listed = policy.priorities.iter().position(|p| p.value == container);
            let label = || {
                let label = plane.configs.get(container)?.labels.get(PRIORITY_LABEL)?;
                label.value.parse::<i32>().ok().map(i64::from)
            };
            match listed {
                Some(at) => i64::try_from(at).map_or(i64::MAX, |at| at + 1),
                // What is not a number was reported when the control plane was loaded.
                None => label().unwrap_or(0),
            }
        }
    }
}

/// Whether a label says nothing about where its container applies.
pub fn is_ignored(label: &str) -> bool {
    IGNORED.contains(&label)
}

/// Whether something with these labels applies to the pair: every label must be the cluster type's
/// or else the target's.
pub fn applies<'l>(
    labels: impl Iterator<Item = (&'l str, &'l str)>,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    compat: bool,
) -> bool {
    mismatch(labels, cluster_type, target, compat).is_none()
}

/// The first label that keeps something from applying to the pair.
pub fn mismatch<'l>(
    mut labels: impl Iterator<Item = (&'l str, &'l str)>,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    compat: bool,
) -> Option<(&'l str, &'l str)> {
    let same = |has: Option<&String>, value: &str| match has {
        Some(has) => has == value,
        // An empty label and none are the same to Kalypso (its defect 9).
        None => compat && value.is_empty(),
    };
    labels.find(|(key, value)| match *key {
        key if IGNORED.contains(&key) => false,
        "cluster-type" => *value != cluster_type.name,
        "deployment-target" => *value != target.name,
        "workload" => *value != target.workload,
        key => !same(cluster_type.labels.get(key), value) && !same(target.labels.get(key), value),
    })
}

/// Whether the label is about the pair itself.
pub(crate) fn is_of_pair(label: &str) -> bool {
    OF_THE_PAIR.contains(&label)
}

/// Whether the cluster type itself has the label, or nothing has to.
pub(crate) fn has_type(cluster_type: &ClusterType, (label, value): Label<'_>) -> bool {
    match label {
        label if IGNORED.contains(&label) => true,
        "cluster-type" => value == cluster_type.name,
        "deployment-target" | "workload" => false,
        label => cluster_type
            .labels
            .get(label)
            .is_some_and(|has| has == value),
    }
}

/// Whether the target is the one that a label about the pair names.
pub(crate) fn has_target(target: &DeploymentTarget, (label, value): Label<'_>) -> bool {
    match label {
        "deployment-target" => value == target.name,
        "workload" => value == target.workload,
        label => target.labels.get(label).is_some_and(|has| has == value),
    }
}

fn whole(container: &ConfigContainer, mode: Mode) -> Layer<'_> {
    let labels = container
        .labels
        .iter()
        .map(|(k, v)| (k.as_str(), v.value.as_str()))
        .filter(|(label, _)| !IGNORED.contains(label))
        .collect();
    let settings = container
        .data
        .iter()
        .map(|(key, text)| LayerSetting {
            key,
            typed: OnceCell::new(),
            mode,
            text,
            container: &container.name,
        })
        .collect();
    Layer {
        labels,
        settings,
        rank: 0,
        fault: None,
    }
}

/// `label1.value1.label2.value2.key`.
fn labelled<'a>(
    container: &'a ConfigContainer,
    key: &'a str,
    text: &'a Spanned<String>,
    mode: Mode,
) -> Layer<'a> {
    let parts: Vec<&str> = key.split('.').collect();
    let last = parts.last().copied().unwrap_or_default();
    let pairs = parts.get(..parts.len() - 1).unwrap_or_default();
    let mut labels: Vec<(&str, &str)> = Vec::new();
    for pair in pairs.chunks_exact(2) {
        // A label that is written twice has its last value.
        labels.retain(|(label, _)| *label != pair[0]);
        labels.push((pair[0], pair[1]));
    }
    labels.retain(|(label, _)| !IGNORED.contains(label));
    let fault = (pairs.len() % 2 == 1).then(|| {
        Diagnostic::error(
            "azure-key",
            format!(
                "key `{key}` of `{}` has a label without a value",
                container.name
            ),
        )
        .at(&text.location)
        .help("write pairs of label and value, then the key: `region.west-us.DATABASE_URL`")
    });
    let setting = LayerSetting {
        key: last,
        typed: OnceCell::new(),
        mode,
        text,
        container: &container.name,
    };
    Layer {
        labels,
        settings: vec![setting],
        rank: 0,
        fault,
    }
}
