//! Layers: which containers apply to an assignment, and in which order.
//!
//! What comes in: config containers. What goes out: for a cluster type and a target the positions of
//! the layers that match, in the order in which later ones win. Labels, keys and values are prepared
//! once, because thousands of assignments ask. Order is by container name; keys of Azure's containers,
//! which carry labels of their own, come after all others, the shorter ones first.

use outhaul_gocompat::GoValue;

use super::{Mode, typing};
use crate::control::diagnostic::{Diagnostic, Diagnostics};
use crate::control::model::{ClusterType, ConfigContainer, DeploymentTarget, Spot};

/// How the names of Azure's containers begin.
const AZURE_PREFIX: &str = "azure-app-config";
/// Labels that say nothing about where a container applies.
const IGNORED: &[&str] = &[
    "kustomize.toolkit.fluxcd.io/name",
    "kustomize.toolkit.fluxcd.io/namespace",
    "platform-config",
];

/// All layers of a control plane.
#[derive(Debug)]
pub struct Layers<'a> {
    layers: Vec<Layer<'a>>,
    compat: bool,
}

#[derive(Debug)]
struct Layer<'a> {
    labels: Vec<(&'a str, &'a str)>,
    settings: Vec<Setting<'a>>,
    /// What is wrong with it; told when it applies to something.
    fault: Option<Diagnostic>,
}

/// One key of one layer.
#[derive(Debug)]
pub struct Setting<'a> {
    /// The key, without labels.
    pub key: &'a str,
    /// The typed value.
    pub value: GoValue,
    /// The text as written.
    pub text: &'a Spot<String>,
    /// The container's name.
    pub container: &'a str,
}

impl<'a> Layers<'a> {
    /// The layers of `containers`, which come sorted by name.
    pub fn of(containers: impl Iterator<Item = &'a ConfigContainer>, mode: Mode) -> Self {
        let mut layers = Vec::new();
        let mut azure = Vec::new();
        for container in containers {
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
        Self {
            layers,
            compat: mode.compat,
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
        let mut findings = Diagnostics::new();
        let mut positions = Vec::new();
        for (at, layer) in self.layers.iter().enumerate() {
            if !applies(
                layer.labels.iter().copied(),
                cluster_type,
                target,
                self.compat,
            ) {
                continue;
            }
            if let Some(fault) = layer.fault.as_ref().filter(|_| !self.compat) {
                findings.push(fault.clone());
            }
            positions.push(at);
        }
        if findings.is_empty() {
            Ok(positions)
        } else {
            Err(findings)
        }
    }

    /// What the layer at `position` sets.
    pub fn settings(&self, position: usize) -> &[Setting<'a>] {
        self.layers
            .get(position)
            .map_or(&[], |layer| &layer.settings)
    }
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

fn whole(container: &ConfigContainer, mode: Mode) -> Layer<'_> {
    let labels = container
        .labels
        .iter()
        .map(|(k, v)| (k.as_str(), v.value.as_str()))
        .collect();
    let settings = container
        .data
        .iter()
        .map(|(key, text)| Setting {
            key,
            value: typing::typed(&text.value, mode),
            text,
            container: &container.name,
        })
        .collect();
    Layer {
        labels,
        settings,
        fault: None,
    }
}

/// `label1.value1.label2.value2.key`.
fn labelled<'a>(
    container: &'a ConfigContainer,
    key: &'a str,
    text: &'a Spot<String>,
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
    let value = typing::typed(&text.value, mode);
    let setting = Setting {
        key: last,
        value,
        text,
        container: &container.name,
    };
    Layer {
        labels,
        settings: vec![setting],
        fault,
    }
}
