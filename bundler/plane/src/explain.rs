//! Explain: where the values of one pair come from, what checks them, and what they reach.
//!
//! What comes in: a control plane, a deployment target, a cluster type, and perhaps one of its sites or
//! one key. What goes out: a [`Explanation`]: what each policy says, the containers behind each value, those
//! that set a key and do not apply, the schemas with the line that is about it, and the template lines
//! that it reaches. It decides nothing and is pure; sealed values are never shown, nor what looks like a secret in clear.

pub use outhaul_bundle::hub_api::{LayerAt, LayerRole, SetValue};
use outhaul_kit::secrets;
use outhaul_seal::marker;
use serde::Serialize;

use crate::compose::{self, Composed, Mode, Provenance, layers, schema};
use crate::inputs::Inputs;
use crate::render::trace::{self, How};
use crate::schedule::SchedulerAnswers;
use crate::schedule::explain::{PolicyVerdict, explain_on};
use crate::templates;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostics, Location};
use outhaul_control::model::{ClusterType, DeploymentTarget, Site};

use requested::ContainerCandidate;

pub mod key;
pub mod requested;
pub mod site;
pub mod whole;

/// Everything about one pair.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The cluster type's name.
    pub cluster_type: String,
    /// What each policy says of the pair, nearest first.
    pub verdicts: Vec<PolicyVerdict>,
    /// The templates that make it.
    pub templates: Vec<TemplateAt>,
    /// The schemas that check its config.
    pub schemas: Vec<SchemaAt>,
    /// Its config; `None` where it does not run, and nobody asked for it.
    pub config: Option<ConfigExplanation>,
}

/// The config of a pair.
#[derive(Debug, Clone)]
pub struct ConfigExplanation {
    /// The config's version; absent when it cannot be composed.
    pub version: Option<String>,
    /// Its keys.
    pub keys: Vec<KeyExplanation>,
    /// What is wrong with it.
    pub findings: Diagnostics,
}

/// A template and where it is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TemplateAt {
    /// Its name.
    pub template: String,
    /// What it is for.
    pub kind: &'static str,
    /// Where it is written; absent when there is none of this name.
    pub at: Option<String>,
    /// Where the cluster type names it.
    pub named_at: String,
}

/// A schema that applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchemaAt {
    /// Its name; absent for one that the workload itself brings.
    pub name: Option<String>,
    /// Where it is written.
    pub at: String,
}

/// One key of a config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyExplanation {
    /// The key, its value, and who set it.
    #[serde(flatten)]
    pub set: SetValue,
    /// Who sets it and does not apply.
    pub skipped_layers: Vec<SkippedLayer>,
    /// When nothing that applies sets it: where it could be set, for most first.
    pub could_be_set_in: Vec<ContainerCandidate>,
    /// What schemas say of it.
    pub schemas: Vec<SchemaRule>,
    /// The template lines that it reaches.
    pub reaches: Vec<LineAt>,
    /// Whether another value could be tried; when not, only what templates say counts.
    pub tried: bool,
}

/// A container that sets the key and does not apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedLayer {
    /// The container.
    pub container: String,
    /// Where it sets the key.
    pub at: String,
    /// The label that keeps it away.
    pub needs: String,
    /// Where that label is written.
    pub needs_at: String,
    /// What the pair has instead.
    pub has: String,
}

/// What a schema says of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchemaRule {
    /// The schema's name; absent for one that the workload itself brings.
    pub name: Option<String>,
    /// Where it speaks of the key, or where it is written.
    pub at: String,
    /// What it says: a type and the like; absent when it does not know the key.
    pub says: Option<String>,
}

/// A template line that a value reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineAt {
    /// The template.
    pub template: String,
    /// What it is for.
    pub kind: &'static str,
    /// Where: `file:line`.
    pub at: String,
    /// Why it is listed.
    pub how: How,
    /// Whether its output was seen to change with the value.
    pub changes: bool,
}

/// Asks about one pair. Its config is reported where the pair is assigned, and when `always` is set.
pub fn explanation(
    (plane, answers): (&ControlPlane, &SchedulerAnswers),
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    site: Option<&Site>,
    key: Option<&str>,
    with_config: bool,
    mode: Mode,
) -> Explanation {
    let verdicts = explain_on(plane, answers, target, Some(cluster_type), site);
    let assigned = verdicts.iter().any(PolicyVerdict::chooses);
    let config =
        (with_config && assigned).then(|| config(plane, cluster_type, target, site, key, mode));
    Explanation {
        cluster_type: cluster_type.name.clone(),
        verdicts,
        templates: templates(plane, cluster_type, &target.name),
        schemas: schemas(plane, cluster_type, target, mode),
        config,
    }
}

impl Explanation {
    /// Whether at least one policy puts the pair there.
    pub fn assigned(&self) -> bool {
        self.verdicts.iter().any(PolicyVerdict::chooses)
    }
}

fn config(
    plane: &ControlPlane,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    site: Option<&Site>,
    key: Option<&str>,
    mode: Mode,
) -> ConfigExplanation {
    let made = match site {
        Some(site) => compose::compose_for_site(plane, cluster_type, target, site, mode),
        None => compose::compose_one(plane, cluster_type, target, mode),
    };
    let composed = match made {
        Ok(composed) => composed,
        Err(findings) => {
            return ConfigExplanation {
                version: None,
                keys: Vec::new(),
                findings,
            };
        }
    };
    let known = schema::Schemas::of(Inputs::of(plane), mode);
    let applied = known.applying(cluster_type, target);
    let findings = known.check(&applied, &composed).err().unwrap_or_default();
    let wanted = |name: &&String| key.is_none_or(|key| key == name.as_str());
    let mut keys: Vec<KeyExplanation> = composed
        .provenance
        .keys()
        .filter(wanted)
        .map(|key| one_key(plane, cluster_type, target, &composed, &applied, key, mode))
        .collect();
    // Asked for and not set: who would set it is the answer.
    if let Some(key) = key.filter(|key| !composed.provenance.contains_key(*key)) {
        keys.push(one_key(
            plane,
            cluster_type,
            target,
            &composed,
            &applied,
            key,
            mode,
        ));
    }
    ConfigExplanation {
        version: Some(composed.version.short()),
        keys,
        findings,
    }
}

fn one_key(
    plane: &ControlPlane,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    composed: &Composed,
    applied: &[schema::Applied<'_>],
    key: &str,
    mode: Mode,
) -> KeyExplanation {
    let trace = trace::trace(plane, cluster_type, target, composed, key, mode);
    let provenance = composed.provenance.get(key);
    let applies = |container: &str| {
        provenance.is_some_and(|p| p.layers.iter().any(|layer| layer.container == container))
    };
    KeyExplanation {
        set: set_value(composed, key),
        skipped_layers: skipped_layers(plane, cluster_type, target, key, mode, &applies),
        could_be_set_in: match provenance {
            Some(_) => Vec::new(),
            None => requested::candidates(plane, cluster_type, target, mode),
        },
        schemas: applied
            .iter()
            .map(|schema| schema_rule(plane, schema, key))
            .collect(),
        reaches: trace
            .lines
            .iter()
            .map(|line| LineAt {
                template: line.template.clone(),
                kind: line.kind.as_str(),
                at: line.location.file_line(),
                how: line.how,
                changes: line.changes,
            })
            .collect(),
        tried: trace.tried,
    }
}

/// The value of one key, and who set it.
pub(crate) fn set_value(composed: &Composed, key: &str) -> SetValue {
    let value = composed.values.as_map().and_then(|map| map.get(key));
    let provenance = composed.provenance.get(key);
    SetValue {
        key: key.to_owned(),
        value: value.map(|value| shown(key, schema::to_json(value))),
        layers: provenance
            .map(|provenance| layers_at(key, provenance))
            .unwrap_or_default(),
    }
}

fn layers_at(key: &str, provenance: &Provenance) -> Vec<LayerAt> {
    let layers = &provenance.layers;
    let role = |at: usize, merged: bool| match (at + 1 == layers.len(), merged) {
        (true, false) => LayerRole::Decides,
        (true, true) => LayerRole::MergedIn,
        (false, _) if layers[at + 1..].iter().all(|layer| layer.merged) => LayerRole::Under,
        (false, _) => LayerRole::Overridden,
    };
    layers
        .iter()
        .enumerate()
        .rev()
        .map(|(at, layer)| LayerAt {
            role: role(at, layer.merged),
            container: layer.container.clone(),
            at: layer.location.file_line(),
            text: text_of(key, &layer.text),
        })
        .collect()
}

/// A value's text, which nobody but a site may read when it is sealed, and which is not shown when it looks like a secret in clear.
pub(crate) fn text_of(key: &str, text: &str) -> String {
    if text.contains(marker::OPENING) {
        "sealed".into()
    } else if secrets::is_hidden(key, text) {
        secrets::NOT_SHOWN.into()
    } else {
        text.to_owned()
    }
}

/// The value of `key` with nothing sealed and no secret left in it.
pub(crate) fn shown(key: &str, value: serde_json::Value) -> serde_json::Value {
    shown_below("", key, value)
}

/// As [`shown`], where all that stands below `holder` is a secret as its own value is.
fn shown_below(holder: &str, key: &str, value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    let is_secret = |text: &str| {
        [key, holder]
            .iter()
            .any(|key| secrets::is_hidden(key, text))
    };
    let holder = if secrets::holds(key) { key } else { holder };
    match value {
        Value::String(text) => match text_of(key, &text) {
            same if same == text && is_secret(&text) => secrets::NOT_SHOWN.into(),
            other => other.into(),
        },
        Value::Number(number) if is_secret(&number.to_string()) => secrets::NOT_SHOWN.into(),
        Value::Array(items) => {
            let items = items.into_iter();
            items.map(|item| shown_below(holder, key, item)).collect()
        }
        Value::Object(map) => {
            let all = map.into_iter();
            all.map(|(inner, value)| (inner.clone(), shown_below(holder, &inner, value)))
                .collect()
        }
        other => other,
    }
}

fn skipped_layers(
    plane: &ControlPlane,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    key: &str,
    mode: Mode,
    applies: &dyn Fn(&str) -> bool,
) -> Vec<SkippedLayer> {
    let mut found = Vec::new();
    for container in plane.configs.values().filter(|c| !applies(&c.name)) {
        let Some(text) = container.data.get(key) else {
            continue;
        };
        let labels = container.labels.iter();
        let labels = labels.map(|(key, spanned)| (key.as_str(), spanned.value.as_str()));
        let Some((label, value)) = layers::mismatch(labels, cluster_type, target, mode.compat)
        else {
            continue;
        };
        let has = match label {
            "cluster-type" => Some(&cluster_type.name),
            "deployment-target" => Some(&target.name),
            "workload" => Some(&target.workload),
            label => cluster_type
                .labels
                .get(label)
                .or_else(|| target.labels.get(label)),
        };
        let at = container
            .labels
            .get(label)
            .map_or(&container.location, |spanned| &spanned.location);
        found.push(SkippedLayer {
            container: container.name.clone(),
            at: text.location.file_line(),
            needs: format!("{label} = {value}"),
            needs_at: at.file_line(),
            has: has.map_or_else(
                || format!("no label `{label}`"),
                |has| format!("{label} = {has}"),
            ),
        });
    }
    found
}

fn name_of(plane: &ControlPlane, at: &Location) -> Option<String> {
    let schemas = plane.schemas.values();
    schemas
        .filter(|schema| schema.schema.location == *at)
        .map(|schema| schema.name.clone())
        .next()
}

fn schemas(
    plane: &ControlPlane,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    mode: Mode,
) -> Vec<SchemaAt> {
    schema::Schemas::of(Inputs::of(plane), mode)
        .applying(cluster_type, target)
        .iter()
        .map(|schema| SchemaAt {
            name: name_of(plane, schema.location),
            at: schema.location.file_line(),
        })
        .collect()
}

fn schema_rule(plane: &ControlPlane, schema: &schema::Applied<'_>, key: &str) -> SchemaRule {
    let document = serde_json::from_str::<serde_json::Value>(schema.text).unwrap_or_default();
    let property = document.get("properties").and_then(|all| all.get(key));
    let required = document["required"]
        .as_array()
        .is_some_and(|all| all.iter().any(|k| k == key));
    let said = match (property, required) {
        (None, false) => None,
        (None, true) => Some("required".to_owned()),
        (Some(property), required) => {
            let mut text = property.to_string();
            if text.chars().count() > 100 {
                text = text.chars().take(99).chain(['…']).collect();
            }
            Some(if required {
                format!("required, {text}")
            } else {
                text
            })
        }
    };
    let at = said.as_ref().and_then(|_| place_in(schema.location, key));
    SchemaRule {
        name: name_of(plane, schema.location),
        at: at.as_ref().unwrap_or(schema.location).file_line(),
        says: said,
    }
}

/// Where the key stands in the schema's text, preferably among its properties.
fn place_in(schema: &Location, key: &str) -> Option<Location> {
    let text = schema.file.text.get(schema.span.clone())?;
    let quoted = serde_json::to_string(key).ok()?;
    let properties = text.find("\"properties\"").unwrap_or(0);
    let at = text[properties..].find(&quoted).map(|at| properties + at);
    let at = schema.span.start + at.or_else(|| text.find(&quoted))?;
    Some(Location::new(&schema.file, at..at + quoted.len()))
}

fn templates(plane: &ControlPlane, cluster_type: &ClusterType, target: &str) -> Vec<TemplateAt> {
    templates::of_assignment(&plane.deliveries, cluster_type, Some(target))
        .map(|(kind, name)| {
            let template = plane.templates.get(&name.value);
            TemplateAt {
                template: name.value.clone(),
                kind: template.map_or(kind, |template| template.kind).as_str(),
                at: template.map(|template| template.location.file_line()),
                named_at: name.location.file_line(),
            }
        })
        .collect()
}
