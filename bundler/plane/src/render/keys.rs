//! Keys: what of a control plane an assignment's files depend on, as digests.
//!
//! What comes in: a control plane. What goes out: [`Keys`]: one digest for what every assignment
//! depends on, and one for each container, cluster type and target. Where something is written is not a
//! part of them: only what it says. Every type is taken apart whole, without `..`: a field that a stage could
//! newly read does not compile before it is named here.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use serde::{Deserialize, Serialize};

use crate::compose::Mode;
use crate::inputs::Inputs;
use crate::templates;
use outhaul_control::model::{
    Bootstrap, ClusterType, CompositionPolicy, ConfigContainer, ConfigSchema, DeploymentTarget,
    OpenValues, ReconcilerKind, Site, Spanned, Template,
};

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
    /// Whether its keys hold their own labels.
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

    fn spots(&mut self, map: &BTreeMap<String, Spanned<String>>) {
        self.map(map.iter().map(|(key, spanned)| (key, &spanned.value)));
    }

    fn end(self) -> Digest {
        Digest::of(&self.0)
    }
}

impl Keys {
    pub fn of(inputs: Inputs<'_>, mode: Mode) -> Self {
        let Inputs {
            environment,
            cluster_types,
            targets,
            templates,
            configs,
            composition,
            schemas,
            sites,
            site_values,
            deliveries,
        } = inputs;
        let mut of_types: BTreeMap<&str, Vec<&Site>> = BTreeMap::new();
        for site in sites.values() {
            let of_type = of_types.entry(&site.cluster_type.value).or_default();
            of_type.push(site);
        }
        let mut parts = Parts::new("common");
        parts.text(env!("CARGO_PKG_VERSION"));
        parts.text(environment);
        let Mode { compat } = mode;
        parts.count(usize::from(compat));
        parts.count(templates.len());
        for template in templates.values() {
            parts.template(template);
        }
        parts.count(schemas.len());
        for schema in schemas.values() {
            parts.schema(schema);
        }
        if let Some(policy) = composition {
            parts.composition(policy);
        }
        parts.count(site_values.len());
        for open in site_values.values() {
            parts.open_values(open);
        }
        Self {
            common: Some(parts.end()),
            containers: configs
                .values()
                .map(|one| (one.name.clone(), container(one)))
                .collect(),
            cluster_types: cluster_types
                .values()
                .map(|one| {
                    let sites = of_types.get(one.name.as_str());
                    let sites = sites.map_or(&[][..], Vec::as_slice);
                    let bootstrap = templates::bootstrap(deliveries, one);
                    (one.name.clone(), cluster_type(one, sites, bootstrap))
                })
                .collect(),
            targets: targets
                .values()
                .map(|one| (one.name.clone(), target(one)))
                .collect(),
        }
    }
}

impl Parts {
    fn template(&mut self, template: &Template) {
        let Template {
            name,
            language,
            kind,
            content_type,
            manifests,
            reconciler,
            location: _,
        } = template;
        self.text(name);
        self.text(&format!("{language:?} {kind:?}"));
        self.maybe(content_type.as_ref().map(|t| t.value.as_str()));
        // No file contains it, and what brings a reconciler fails where it is another.
        self.maybe(reconciler.as_ref().map(ReconcilerKind::as_str));
        self.count(manifests.len());
        for manifest in manifests {
            self.text(&manifest.value);
        }
    }

    fn schema(&mut self, schema: &ConfigSchema) {
        let ConfigSchema {
            name,
            labels,
            schema,
            location: _,
        } = schema;
        self.text(name);
        self.spots(labels);
        self.text(&schema.value);
    }

    fn composition(&mut self, policy: &CompositionPolicy) {
        let CompositionPolicy {
            name: _,
            precedence,
            priorities,
            arrays,
            arrays_by_key,
            conflicts,
            allowed,
            location: _,
        } = policy;
        let priorities: Vec<&str> = priorities.iter().map(|p| p.value.as_str()).collect();
        self.text(&format!(
            "{precedence:?} {priorities:?} {arrays:?} {arrays_by_key:?} {conflicts:?} {allowed:?}"
        ));
    }
}

impl Parts {
    fn open_values(&mut self, open: &OpenValues) {
        let OpenValues {
            name,
            targets,
            cluster_types,
            form,
            keys,
            location: _,
        } = open;
        let keys: Vec<_> = keys.iter().map(|(key, rule)| (key, &rule.value)).collect();
        self.text(&format!(
            "{name} {targets} {cluster_types} {form:?} {keys:?}"
        ));
    }
}

fn container(one: &ConfigContainer) -> Container {
    let ConfigContainer {
        name,
        labels,
        data,
        location: _,
    } = one;
    let mut parts = Parts::new("container");
    parts.text(name);
    parts.spots(labels);
    parts.spots(data);
    Container {
        digest: parts.end(),
        labels: labels
            .iter()
            .map(|(label, value)| (label.clone(), value.value.clone()))
            .collect(),
        azure: name.starts_with(crate::compose::layers::AZURE_PREFIX),
    }
}

fn cluster_type(one: &ClusterType, sites: &[&Site], bootstrap: Option<&Bootstrap>) -> Digest {
    let ClusterType {
        name,
        labels,
        reconciler,
        namespace_service,
        config_type,
        location: _,
    } = one;
    let mut parts = Parts::new("cluster type");
    parts.text(name);
    parts.map(labels.iter());
    parts.text(&reconciler.value);
    parts.text(&namespace_service.value);
    parts.maybe(config_type.as_ref().map(|name| name.value.as_str()));
    if let Some(Bootstrap {
        targets,
        reconciler,
    }) = bootstrap
    {
        parts.text("bootstrap");
        parts.text(&reconciler.value);
        parts.count(targets.len());
        for target in targets {
            parts.text(&target.value);
        }
    }
    parts.count(sites.len());
    for site in sites {
        let Site {
            name,
            labels,
            // Whose list this is.
            cluster_type: _,
            ring,
            // What is sealed is sealed after rendering.
            public_key: _,
            location: _,
        } = site;
        parts.text(name);
        parts.map(labels.iter());
        parts.maybe(ring.as_deref());
    }
    parts.end()
}

fn target(one: &DeploymentTarget) -> Digest {
    let DeploymentTarget {
        name,
        short_name,
        workload,
        registration,
        workspace,
        environment,
        labels,
        manifests,
        storage_at: _,
        config_schemas,
        environment_at: _,
        location: _,
    } = one;
    let mut parts = Parts::new("target");
    for text in [
        name,
        short_name,
        workload,
        registration,
        workspace,
        environment,
    ] {
        parts.text(text);
    }
    parts.map(labels.iter());
    parts.count(usize::from(manifests.is_some()));
    let manifests: Vec<_> = manifests.iter().flatten().collect();
    parts.map(manifests.into_iter());
    parts.count(config_schemas.len());
    for schema in config_schemas {
        parts.text(&schema.value);
    }
    parts.end()
}
