//! Keys: what of a control plane an assignment's files depend on, as digests.
//!
//! What comes in: a control plane. What goes out: [`Keys`]: one digest for what every assignment
//! depends on, and one for each container, cluster type and target. Where something is written is no
//! part of them: only what it says. Whatever a stage newly reads of the control plane belongs in here.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use serde::{Deserialize, Serialize};

use crate::compose::Mode;
use outhaul_control::ControlPlane;
use outhaul_control::model::{ClusterType, ConfigContainer, DeploymentTarget, Site, Spot};

/// The digests of one control plane.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Keys {
    /// Of all that every assignment depends on.
    pub common: Option<Digest>,
    pub containers: BTreeMap<String, Container>,
    /// Of the cluster type and its sites.
    pub cluster_types: BTreeMap<String, Digest>,
    pub targets: BTreeMap<String, Digest>,
}

/// A container's digest, and where it applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Container {
    pub digest: Digest,
    pub labels: Vec<(String, String)>,
    /// Whether its keys hold labels of their own.
    pub azure: bool,
}

/// Writes parts with their lengths, so that no two lists of parts give the same bytes. They are digested
/// at once, which is quicker than one by one.
struct Parts(Vec<u8>);

impl Parts {
    fn new(what: &str) -> Self {
        let mut parts = Self(Vec::with_capacity(1024));
        parts.text(what);
        parts
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn count(&mut self, count: usize) {
        self.0.extend_from_slice(&(count as u64).to_le_bytes());
    }

    fn maybe(&mut self, text: Option<&str>) {
        self.count(usize::from(text.is_some()));
        self.text(text.unwrap_or_default());
    }

    fn map<'m>(&mut self, map: impl ExactSizeIterator<Item = (&'m String, &'m String)>) {
        self.count(map.len());
        for (key, value) in map {
            self.text(key);
            self.text(value);
        }
    }

    fn spots(&mut self, map: &BTreeMap<String, Spot<String>>) {
        self.map(map.iter().map(|(key, spot)| (key, &spot.value)));
    }

    fn end(self) -> Digest {
        Digest::of(&self.0)
    }
}

impl Keys {
    pub fn of(plane: &ControlPlane, mode: Mode) -> Self {
        let mut sites: BTreeMap<&str, Vec<&Site>> = BTreeMap::new();
        for site in plane.sites.values() {
            let of_type = sites.entry(&site.cluster_type.value).or_default();
            of_type.push(site);
        }
        let containers = plane.configs.values();
        let cluster_types = plane.cluster_types.values();
        Self {
            common: Some(common(plane, mode)),
            containers: containers
                .map(|one| (one.name.clone(), container(one)))
                .collect(),
            cluster_types: cluster_types
                .map(|one| {
                    let sites = sites.get(one.name.as_str()).map_or(&[][..], Vec::as_slice);
                    (one.name.clone(), cluster_type(one, sites))
                })
                .collect(),
            targets: plane
                .targets
                .values()
                .map(|one| (one.name.clone(), target(one)))
                .collect(),
        }
    }
}

fn common(plane: &ControlPlane, mode: Mode) -> Digest {
    let mut parts = Parts::new("common");
    parts.text(env!("CARGO_PKG_VERSION"));
    parts.text(&plane.environment);
    parts.count(usize::from(mode.compat));
    parts.count(plane.templates.len());
    for template in plane.templates.values() {
        parts.text(&template.name);
        parts.text(&format!("{:?} {:?}", template.language, template.kind));
        parts.maybe(template.content_type.as_ref().map(|t| t.value.as_str()));
        parts.count(template.manifests.len());
        for manifest in &template.manifests {
            parts.text(&manifest.value);
        }
    }
    parts.count(plane.schemas.len());
    for schema in plane.schemas.values() {
        parts.text(&schema.name);
        parts.spots(&schema.labels);
        parts.text(&schema.schema.value);
    }
    if let Some(policy) = &plane.composition {
        let priorities: Vec<&str> = policy.priorities.iter().map(|p| p.value.as_str()).collect();
        parts.text(&format!(
            "{:?} {priorities:?} {:?} {:?} {:?} {:?}",
            policy.precedence,
            policy.arrays,
            policy.arrays_by_key,
            policy.conflicts,
            policy.allowed
        ));
    }
    parts.end()
}

fn container(one: &ConfigContainer) -> Container {
    let mut parts = Parts::new("container");
    parts.text(&one.name);
    parts.spots(&one.labels);
    parts.spots(&one.data);
    let labels = one.labels.iter();
    Container {
        digest: parts.end(),
        labels: labels
            .map(|(label, value)| (label.clone(), value.value.clone()))
            .collect(),
        azure: one.name.starts_with(crate::compose::layers::AZURE_PREFIX),
    }
}

fn cluster_type(one: &ClusterType, sites: &[&Site]) -> Digest {
    let mut parts = Parts::new("cluster type");
    parts.text(&one.name);
    parts.map(one.labels.iter());
    parts.text(&one.reconciler.value);
    parts.text(&one.namespace_service.value);
    parts.maybe(one.config_type.as_ref().map(|name| name.value.as_str()));
    parts.count(sites.len());
    for site in sites {
        parts.text(&site.name);
        parts.map(site.labels.iter());
        parts.maybe(site.ring.as_deref());
    }
    parts.end()
}

fn target(one: &DeploymentTarget) -> Digest {
    let mut parts = Parts::new("target");
    for text in [&one.name, &one.workload, &one.workspace, &one.environment] {
        parts.text(text);
    }
    parts.map(one.labels.iter());
    parts.count(usize::from(one.manifests.is_some()));
    parts.map(
        one.manifests
            .iter()
            .flatten()
            .collect::<Vec<_>>()
            .into_iter(),
    );
    parts.count(one.config_schemas.len());
    for schema in &one.config_schemas {
        parts.text(&schema.value);
    }
    parts.end()
}
