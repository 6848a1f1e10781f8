//! Requested: which keys of the platform config someone asks for, set or not.
//!
//! What comes in: a control plane, and its schedule. What goes out: for each cluster type the keys that a
//! config schema requires or describes and that a template names, with every place, who sets them, the
//! targets for which nobody does, and the containers in which they could be set. It is pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{name_of, place_in};
use crate::compose::{self, Mode, layers, schema};
use crate::inputs::Inputs;
use crate::render::place;
use crate::render::trace::references::{Names, References};
use crate::schedule::Schedule;
use crate::templates;
use outhaul_control::ControlPlane;
use outhaul_control::model::{ClusterType, ConfigContainer, DeploymentTarget};

/// A key that someone asks for on one cluster type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requested {
    /// The cluster type's name.
    pub cluster_type: String,
    /// The key.
    pub key: String,
    /// Whether a schema requires it.
    pub required: bool,
    /// Who asks.
    pub by: Vec<Asker>,
    /// Containers that set it for at least one target.
    pub set_by: BTreeSet<String>,
    /// Targets for which a schema or a template asks for it and nobody sets it.
    pub missing_for: BTreeSet<String>,
    /// Containers that apply to those targets, the most general first.
    pub could_be_set_in: Vec<ContainerCandidate>,
}

/// Who asks for a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Asker {
    /// How: `schema `x` requires it`.
    pub how: String,
    /// Where: `file:line`.
    pub at: String,
}

/// A container in which a key could be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainerCandidate {
    /// The container.
    pub container: String,
    /// Where it is written: `file:line`.
    pub at: String,
    /// What it applies to, as text.
    pub applies_to: String,
}

/// Every key that someone asks for, by cluster type and key; only `key` when one is named.
pub fn requested(
    plane: &ControlPlane,
    schedule: &Schedule,
    key: Option<&str>,
    mode: Mode,
) -> Vec<Requested> {
    let schemas = schema::Schemas::of(Inputs::of(plane), mode);
    let mut found: BTreeMap<(String, String), Requested> = BTreeMap::new();
    for id in schedule.assignments.keys() {
        let (Some(cluster_type), Some(target)) = (
            plane.cluster_types.get(&id.cluster_type),
            plane.targets.get(&id.target),
        ) else {
            continue;
        };
        let mut asked: BTreeMap<String, (bool, BTreeSet<Asker>)> = BTreeMap::new();
        for applied in schemas.applying(cluster_type, target) {
            of_schema(plane, &applied, &mut asked);
        }
        of_templates(plane, cluster_type, &mut asked);
        let composed = compose::compose_one(plane, cluster_type, target, mode).ok();
        for (name, (required, by)) in asked {
            if key.is_some_and(|key| key != name) {
                continue;
            }
            let entry = found.entry((id.cluster_type.clone(), name.clone()));
            let one = entry.or_insert_with(|| Requested {
                cluster_type: id.cluster_type.clone(),
                key: name.clone(),
                required: false,
                by: Vec::new(),
                set_by: BTreeSet::new(),
                missing_for: BTreeSet::new(),
                could_be_set_in: Vec::new(),
            });
            one.required |= required;
            one.by.extend(by);
            one.by.sort();
            one.by.dedup();
            let layers = composed
                .as_ref()
                .and_then(|composed| composed.provenance.get(&name));
            match layers {
                Some(provenance) => one.set_by.extend(
                    provenance
                        .layers
                        .iter()
                        .map(|layer| layer.container.clone()),
                ),
                None => {
                    one.missing_for.insert(id.target.clone());
                    let known = &mut one.could_be_set_in;
                    known.extend(candidates(plane, cluster_type, target, mode));
                    known.dedup();
                }
            }
        }
    }
    let mut all: Vec<Requested> = found.into_values().collect();
    for one in &mut all {
        let mut seen = BTreeSet::new();
        one.could_be_set_in
            .retain(|candidate| seen.insert(candidate.container.clone()));
    }
    all
}

/// Every key that a schema requires or describes, or that a template names, assigned or not: what is not a
/// slip of the pen.
pub fn known_keys(plane: &ControlPlane) -> BTreeSet<String> {
    let mut asked = BTreeMap::new();
    let own = plane
        .targets
        .values()
        .flat_map(|target| &target.config_schemas);
    let schemas = plane.schemas.values().map(|schema| &schema.schema);
    for spanned in schemas.chain(own) {
        let (text, location) = (spanned.value.as_str(), &spanned.location);
        of_schema(plane, &schema::Applied { text, location }, &mut asked);
    }
    for cluster_type in plane.cluster_types.values() {
        of_templates(plane, cluster_type, &mut asked);
    }
    asked.into_keys().collect()
}

type Asked = BTreeMap<String, (bool, BTreeSet<Asker>)>;

fn of_schema(plane: &ControlPlane, applied: &schema::Applied<'_>, asked: &mut Asked) {
    let document = serde_json::from_str::<serde_json::Value>(applied.text).unwrap_or_default();
    let name = match name_of(plane, applied.location) {
        Some(name) => format!("schema `{name}`"),
        None => "the workload's own schema".to_owned(),
    };
    let required = document["required"].as_array().into_iter().flatten();
    let required: BTreeSet<&str> = required.filter_map(serde_json::Value::as_str).collect();
    let described = document["properties"].as_object();
    let described = described
        .into_iter()
        .flat_map(|map| map.keys().map(String::as_str));
    let all: BTreeSet<&str> = described.chain(required.iter().copied()).collect();
    for key in all {
        let is_required = required.contains(key);
        let verb = if is_required { "requires" } else { "describes" };
        let at = place_in(applied.location, key);
        let entry = asked.entry(key.to_owned()).or_default();
        entry.0 |= is_required;
        entry.1.insert(Asker {
            how: format!("{name} {verb} it"),
            at: at.as_ref().unwrap_or(applied.location).file_line(),
        });
    }
}

fn of_templates(plane: &ControlPlane, cluster_type: &ClusterType, asked: &mut Asked) {
    let named = templates::of_cluster_type(&plane.deliveries, cluster_type);
    for template in named.filter_map(|(_, name)| plane.templates.get(&name.value)) {
        for manifest in &template.manifests {
            for reference in References::of(&manifest.value).all {
                let Names::Key(key) = reference.names else {
                    continue;
                };
                let at = place::inside(&manifest.location, reference.line, reference.column);
                asked.entry(key).or_default().1.insert(Asker {
                    how: format!("template `{}` names it", template.name),
                    at: at.file_line(),
                });
            }
        }
    }
}

/// Containers that apply to the pair, those for most first.
pub(crate) fn candidates(
    plane: &ControlPlane,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    mode: Mode,
) -> Vec<ContainerCandidate> {
    let labels = |container: &ConfigContainer| -> Vec<(String, String)> {
        let all = container.labels.iter();
        all.filter(|(key, _)| !layers::is_ignored(key))
            .map(|(key, spanned)| (key.clone(), spanned.value.clone()))
            .collect()
    };
    let mut found: Vec<(usize, ContainerCandidate)> = plane
        .configs
        .values()
        .filter(|container| container.labels.contains_key("platform-config"))
        .filter_map(|container| {
            let labels = labels(container);
            let pairs = labels
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()));
            layers::applies(pairs, cluster_type, target, mode.compat).then(|| {
                let words: Vec<String> = labels
                    .iter()
                    .map(|(key, value)| format!("{key} = {value}"))
                    .collect();
                let candidate = ContainerCandidate {
                    container: container.name.clone(),
                    at: container.location.file_line(),
                    applies_to: match words.as_slice() {
                        [] => "everything".to_owned(),
                        words => words.join(" and "),
                    },
                };
                (labels.len(), candidate)
            })
        })
        .collect();
    found.sort_by(|a, b| (a.0, &a.1.container).cmp(&(b.0, &b.1.container)));
    found.into_iter().map(|(_, candidate)| candidate).collect()
}
