//! Templates: those that do not parse, used or not; and keys that none of them uses.
//!
//! What comes in: a control plane and what was composed of it. What goes out: an error for each template
//! that cannot be parsed, and a warning for each value that reaches no template it could reach. Where a
//! template takes the whole config, or that cannot be known from its text, every key counts as used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::compose::{Composition, Mode};
use crate::render::trace::references::{Names, References};
use crate::render::{self, Rendering};
use crate::templates;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::ClusterType;

pub(super) fn unparsable(plane: &ControlPlane, mode: Mode, findings: &mut Diagnostics) {
    findings.append(render::unparsable(plane, mode));
}

/// The keys that templates use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// All, or it cannot be known.
    All,
    /// These and no other.
    Keys(BTreeSet<String>),
}

pub(super) fn unused_keys(
    plane: &ControlPlane,
    composition: &Composition,
    rendering: &Rendering,
    findings: &mut Diagnostics,
) {
    let uses: BTreeMap<&str, Use> = plane
        .cluster_types
        .values()
        .map(|cluster_type| (cluster_type.name.as_str(), used(plane, cluster_type)))
        .collect();
    if uses.values().all(|used| *used == Use::All) {
        return;
    }
    // A value may itself be a template.
    let mut by_values = BTreeSet::new();
    for container in plane.configs.values() {
        for text in container
            .data
            .values()
            .filter(|text| text.value.contains("{{"))
        {
            for reference in References::of(&text.value).all {
                match reference.names {
                    Names::Key(key) => drop(by_values.insert(key)),
                    Names::Whole => return,
                }
            }
        }
    }
    let mut used: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut unused: BTreeMap<(&str, &str), &Location> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (id, composed) in &composition.assignments {
        let Some(uses) = uses.get(id.cluster_type.as_str()) else {
            continue;
        };
        let overlays = composition.overlays.get(id).into_iter().flatten();
        for composed in overlays.map(|overlay| &overlay.composed).chain([composed]) {
            let broken = rendering.failures.contains_key(id);
            if !seen.insert((Arc::as_ptr(composed).addr(), uses, broken)) {
                continue;
            }
            for (key, provenance) in &composed.provenance {
                let is_used = match uses {
                    // What a broken template would use is not known.
                    _ if broken => true,
                    Use::All => true,
                    Use::Keys(keys) => keys.contains(key) || by_values.contains(key),
                };
                for layer in &provenance.layers {
                    if is_used {
                        used.insert((&layer.container, key));
                    } else {
                        unused.insert((&layer.container, key), &layer.location);
                    }
                }
            }
        }
    }
    for ((container, key), location) in unused {
        if !used.contains(&(container, key)) {
            let message = format!("no template that gets `{key}` of `{container}` uses it");
            findings.push(
                Diagnostic::warning("unused-key", message)
                    .at(location)
                    .help("remove it, or use it in a template: `outhaul explain --key` shows which get it"),
            );
        }
    }
}

fn used(plane: &ControlPlane, cluster_type: &ClusterType) -> Use {
    let mut keys = BTreeSet::new();
    for (_, name) in templates::of_cluster_type(&plane.deliveries, cluster_type) {
        let Some(template) = plane.templates.get(&name.value) else {
            return Use::All;
        };
        for manifest in &template.manifests {
            let references = References::of(&manifest.value);
            if references.whole_data {
                return Use::All;
            }
            for reference in references.all {
                match reference.names {
                    Names::Key(key) => drop(keys.insert(key)),
                    Names::Whole => return Use::All,
                }
            }
        }
    }
    Use::Keys(keys)
}
