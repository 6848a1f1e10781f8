//! Compose: which values each assignment gets, and where each came from.
//!
//! What comes in: a [`ControlPlane`] and its [`Schedule`]. What goes out: a [`Composition`]: for each
//! assignment the merged platform config with the place of every key, or what is wrong with it. It is
//! pure, and one assignment's error never touches another. Assignments that the same containers match
//! share one config.

use std::collections::BTreeMap;
use std::sync::Arc;

use outhaul_bundle::Digest;
use outhaul_gocompat::{GoMap, GoValue, MapKind};

use crate::control::ControlPlane;
use crate::control::diagnostic::{Diagnostics, Location};
use crate::control::model::{ClusterType, DeploymentTarget};
use crate::schedule::{AssignmentId, Schedule};

pub mod layers;
pub mod merge;
pub mod schema;
pub mod typing;

use layers::Layers;
use merge::Arrays;

/// How to treat the places where Kalypso's bytes were a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mode {
    /// Reproduce Kalypso where it is not a danger, rather than do the right thing.
    pub compat: bool,
}

/// The config of every assignment.
#[derive(Debug, Clone, Default)]
pub struct Composition {
    /// What was composed.
    pub assignments: BTreeMap<AssignmentId, Arc<Composed>>,
    /// What could not be, and why.
    pub failures: BTreeMap<AssignmentId, Diagnostics>,
}

/// The platform config of one assignment.
#[derive(Debug, Clone)]
pub struct Composed {
    /// The values: always a `map[string]interface{}`.
    pub values: GoValue,
    /// Digest of the values: the config's version.
    pub version: Digest,
    /// Where each top-level key came from.
    pub provenance: BTreeMap<String, Provenance>,
}

/// Where one key's value came from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Provenance {
    /// Every container that set it, in order: the last one decides, or is merged over the others.
    pub layers: Vec<Layer>,
}

/// One container's value for a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The container's name.
    pub container: String,
    /// The value as written.
    pub text: String,
    /// Where it is written.
    pub location: Location,
    /// Whether it was merged into what was there, rather than replacing it.
    pub merged: bool,
}

impl Provenance {
    /// Where the value that counts is written.
    pub fn location(&self) -> Option<&Location> {
        self.layers.last().map(|layer| &layer.location)
    }
}

/// What assignments share: the same layers make the same config, the same schemas check it alike.
type Shared = BTreeMap<Vec<usize>, Arc<Composed>>;
type Checked = BTreeMap<(Vec<usize>, Vec<String>), Result<(), Diagnostics>>;

/// Composes the config of every assignment.
pub fn compose(control_plane: &ControlPlane, schedule: &Schedule, mode: Mode) -> Composition {
    let layers = Layers::of(control_plane.configs.values(), mode);
    let schemas = schema::Schemas::of(control_plane, mode);
    let mut shared = Shared::new();
    let mut checked = Checked::new();
    let mut composition = Composition::default();
    for id in schedule.assignments.keys() {
        let (Some(cluster_type), Some(target)) = (
            control_plane.cluster_types.get(&id.cluster_type),
            control_plane.targets.get(&id.target),
        ) else {
            continue;
        };
        let matching = match layers.matching(cluster_type, target) {
            Ok(matching) => matching,
            Err(findings) => {
                composition.failures.insert(id.clone(), findings);
                continue;
            }
        };
        let composed = shared
            .entry(matching.clone())
            .or_insert_with(|| Arc::new(merge_layers(&layers, &matching, mode)));
        let applied = schemas.applying(cluster_type, target);
        let key = (
            matching,
            applied
                .iter()
                .map(|schema| schema.text.to_owned())
                .collect(),
        );
        let result = checked
            .entry(key)
            .or_insert_with(|| schemas.check(&applied, composed));
        match result {
            Ok(()) => drop(
                composition
                    .assignments
                    .insert(id.clone(), Arc::clone(composed)),
            ),
            Err(findings) => drop(composition.failures.insert(id.clone(), findings.clone())),
        }
    }
    composition
}

/// The config of one pair, schemas left aside: what explanations start from.
///
/// # Errors
/// Findings about containers that match but cannot be read.
pub fn compose_one(
    control_plane: &ControlPlane,
    cluster_type: &ClusterType,
    target: &DeploymentTarget,
    mode: Mode,
) -> Result<Composed, Diagnostics> {
    let layers = Layers::of(control_plane.configs.values(), mode);
    let matching = layers.matching(cluster_type, target)?;
    Ok(merge_layers(&layers, &matching, mode))
}

fn merge_layers(layers: &Layers<'_>, matching: &[usize], mode: Mode) -> Composed {
    let arrays = if mode.compat {
        Arrays::AsKalypso
    } else {
        Arrays::ByName
    };
    let mut values: BTreeMap<&str, GoValue> = BTreeMap::new();
    let mut provenance: BTreeMap<String, Provenance> = BTreeMap::new();
    for at in matching {
        for setting in layers.settings(*at) {
            let before = values.remove(setting.key);
            let merged = before
                .as_ref()
                .is_some_and(|before| merge::merges(before, &setting.value));
            let value = match before {
                None => setting.value.clone(),
                Some(before) => merge::merge(before, setting.value.clone(), arrays),
            };
            values.insert(setting.key, value);
            provenance
                .entry(setting.key.to_owned())
                .or_default()
                .layers
                .push(Layer {
                    container: setting.container.to_owned(),
                    text: setting.text.value.clone(),
                    location: setting.text.location.clone(),
                    merged,
                });
        }
    }
    let mut map = GoMap::new(MapKind::Str);
    for (key, value) in values {
        map.insert(key, value);
    }
    let values = GoValue::Map(map);
    let version = Digest::of(typing::canonical(&values).as_bytes());
    Composed {
        values,
        version,
        provenance,
    }
}

#[cfg(test)]
mod tests;
