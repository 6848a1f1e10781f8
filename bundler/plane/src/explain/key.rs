//! Key: who sets one key anywhere in an environment, and for how much it counts.
//!
//! What comes in: a control plane, what was composed of it, and a key. What goes out: every container
//! that sets it, and for how many assignments its value applies and decides.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::text_of;
use crate::compose::Composition;
use outhaul_control::ControlPlane;

/// One container that sets the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetBy {
    /// The container.
    pub container: String,
    /// Where: `file:line`.
    pub at: String,
    /// The text as written, or `sealed`.
    pub text: String,
    /// Assignments that it applies to.
    pub applies: usize,
    /// Assignments whose value it decides, alone or merged over others.
    pub decides: usize,
    /// Sites on which it decides and elsewhere does not.
    pub sites: usize,
    /// One of those that it decides, to ask on about: cluster type and target.
    pub example: Option<(String, String)>,
}

/// Who sets `key`, in the order of the containers.
pub fn set_by(plane: &ControlPlane, composition: &Composition, key: &str) -> Vec<SetBy> {
    let mut applies: BTreeMap<&str, usize> = BTreeMap::new();
    let mut decides: BTreeMap<&str, usize> = BTreeMap::new();
    let mut examples: BTreeMap<&str, (String, String)> = BTreeMap::new();
    for (id, composed) in &composition.assignments {
        let Some(provenance) = composed.provenance.get(key) else {
            continue;
        };
        for layer in &provenance.layers {
            *applies.entry(&layer.container).or_default() += 1;
        }
        if let Some(last) = provenance.layers.last() {
            *decides.entry(&last.container).or_default() += 1;
            examples
                .entry(&last.container)
                .or_insert_with(|| (id.cluster_type.clone(), id.target.clone()));
        }
    }
    let mut sites: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (id, overlays) in &composition.overlays {
        let usual = composition.assignments.get(id).and_then(|composed| {
            let last = composed.provenance.get(key)?.layers.last()?;
            Some(&last.container)
        });
        for overlay in overlays {
            let provenance = overlay.composed.provenance.get(key);
            let last = provenance.and_then(|provenance| provenance.layers.last());
            if let Some(last) = last.filter(|last| usual != Some(&last.container)) {
                let names = overlay.sites.iter().map(String::as_str);
                sites.entry(&last.container).or_default().extend(names);
            }
        }
    }
    // The keys of Azure's containers carry labels before the last dot.
    let named = |written: &str| {
        written == key || written.rsplit('.').next() == Some(key) && written.contains('.')
    };
    let mut found = Vec::new();
    for container in plane.configs.values() {
        for (written, text) in container.data.iter().filter(|(written, _)| named(written)) {
            let name = container.name.as_str();
            let by_label = written != key;
            if by_label
                && !applies.contains_key(name)
                && container.labels.contains_key("platform-config")
            {
                continue;
            }
            found.push(SetBy {
                container: container.name.clone(),
                at: text.location.file_line(),
                text: text_of(key, &text.value),
                applies: applies.get(name).copied().unwrap_or_default(),
                decides: decides.get(name).copied().unwrap_or_default(),
                sites: sites.get(name).map_or(0, BTreeSet::len),
                example: examples.get(name).cloned(),
            });
        }
    }
    found
}
