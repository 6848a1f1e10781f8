//! Evidence: which of Kalypso's defects make a folder differ that `--compat` writes as it is.
//!
//! What comes in: one assignment in both modes: its values, its files, why it failed. What goes out:
//! numbers of defects, each with a sentence that names what shows it. A defect is named only where its
//! trace is seen; where none is, the list is empty and the caller says so.

use outhaul_kit::bounds::MAX_DNS_LABEL_BYTES;
use std::collections::{BTreeMap, BTreeSet};

use outhaul_gocompat::GoValue;

use crate::{Tree, Views};
use outhaul_plane::compose::{Composed, typing};
use outhaul_plane::render::namespace;
use outhaul_plane::schedule::AssignmentId;

/// Defects with what shows them.
pub(crate) type Evidence = BTreeMap<u8, String>;

/// What shows in the files `there` of an assignment, which `--compat` writes and the default mode does
/// not.
pub(crate) fn of(id: &AssignmentId, there: &Tree, right: Option<&Tree>, views: &Views) -> Evidence {
    let mut found = Evidence::new();
    texts(id, there, views, &mut found);
    values(id, there, right, views, &mut found);
    match right {
        Some(right) => {
            let renamed =
                |name: &&String| !right.contains_key(*name) && !name.starts_with("platform-config");
            if let Some(name) = there.keys().find(renamed) {
                let what = "its template's content type is not compared";
                found.insert(16, format!("`{name}`: {what}"));
            }
        }
        None => refused(id, views, &mut found),
    }
    if found.is_empty() && uses_unquote(id, views) {
        found.insert(
            8,
            "its template calls `unquote`, which strips every quote".to_owned(),
        );
    }
    found
}

fn uses_unquote(id: &AssignmentId, views: &Views) -> bool {
    let plane = &views.right.control_plane;
    let Some(kind) = plane.cluster_types.get(&id.cluster_type) else {
        return false;
    };
    let names = [
        Some(&kind.reconciler),
        Some(&kind.namespace_service),
        kind.config_type.as_ref(),
    ];
    names
        .into_iter()
        .flatten()
        .filter_map(|name| plane.templates.get(&name.value))
        .flat_map(|template| &template.manifests)
        .any(|manifest| manifest.value.contains("unquote"))
}

fn texts(id: &AssignmentId, there: &Tree, views: &Views, found: &mut Evidence) {
    let environment = &views.right.control_plane.environment;
    let whole = namespace::whole(environment, &id.cluster_type, &id.target);
    for (name, bytes) in there {
        let text = String::from_utf8_lossy(bytes);
        if text.contains("<no value>") {
            found.insert(
                12,
                format!("`{name}` holds `<no value>`: something that is not there was used"),
            );
        }
        let glued =
            |line: &&str| line.len() > 3 && line.ends_with("---") && !line.ends_with("----");
        if let Some(line) = text.lines().find(glued) {
            let line: String = line.chars().take(60).collect();
            found.insert(13, format!("`{name}`: `---` is glued to a line: `{line}`"));
        }
        if whole.len() > MAX_DNS_LABEL_BYTES && text.contains(&whole) {
            let what = format!("namespace `{whole}` has {} characters", whole.len());
            found.insert(26, what);
        }
    }
}

/// Where the two modes compose other values, or where only text may stand.
fn values(
    id: &AssignmentId,
    there: &Tree,
    written: Option<&Tree>,
    views: &Views,
    found: &mut Evidence,
) {
    let is_config = |name: &&String| name.starts_with("platform-config");
    let config_differs = written.is_some_and(|written| {
        there
            .keys()
            .filter(is_config)
            .any(|name| there.get(name) != written.get(name))
    });
    let of = |platform: &outhaul_load::pipeline::Platform| {
        platform.composition().assignments.get(id).cloned()
    };
    let Some(compat) = of(&views.compat) else {
        return;
    };
    let right = of(&views.right);
    let empty = GoValue::Null;
    let value = |composed: &Composed, key: &str| match &composed.values {
        GoValue::Map(map) => map.get(key).unwrap_or(&empty).clone(),
        _ => GoValue::Null,
    };
    for (key, provenance) in &compat.provenance {
        let kalypso = value(&compat, key);
        if let Some(right) = &right {
            let containers = |composed: &Composed| -> BTreeSet<String> {
                let layers = composed.provenance.get(key).map(|p| p.layers.as_slice());
                let layers = layers.unwrap_or_default();
                layers.iter().map(|layer| layer.container.clone()).collect()
            };
            let more: Vec<String> = containers(&compat)
                .difference(&containers(right))
                .cloned()
                .collect();
            if let Some(container) = more.first() {
                found.insert(
                    9,
                    format!("`{key}` is set by `{container}`, which only an empty label matches"),
                );
                continue;
            }
            if typing::canonical(&value(right, key)) == typing::canonical(&kalypso) {
                if kalypso.is_container() && config_differs {
                    let what = "is a list or map where only text may stand";
                    found.entry(7).or_insert_with(|| format!("`{key}` {what}"));
                }
                continue;
            }
        }
        let quoted = |text: &str| text.trim().starts_with('\'');
        if !kalypso.is_container() && provenance.layers.iter().any(|layer| quoted(&layer.text)) {
            found.insert(
                8,
                format!("`{key}` is written in quotes, and all of them were stripped"),
            );
        } else if provenance.layers.iter().any(|layer| layer.merged) && has_unnamed_items(&kalypso)
        {
            found.insert(
                5,
                format!("`{key}`: list items without a `name` were merged"),
            );
        } else if kalypso.is_container() {
            found.insert(7, format!("`{key}` was read as YAML 1.1"));
        }
    }
}

/// Items without a name, or several of one name.
fn has_unnamed_items(value: &GoValue) -> bool {
    match value {
        GoValue::List(items) => {
            let names: Vec<Option<&GoValue>> = items
                .iter()
                .filter_map(GoValue::as_map)
                .map(|map| map.get("name"))
                .collect();
            let twice =
                |name: Option<&GoValue>| names.iter().filter(|other| **other == name).count() > 1;
            names.iter().any(|name| name.is_none() || twice(*name))
                || items.iter().any(has_unnamed_items)
        }
        GoValue::Map(map) => map.iter().any(|(_, value)| has_unnamed_items(value)),
        _ => false,
    }
}

/// Why the default mode refuses what Kalypso wrote.
fn refused(id: &AssignmentId, views: &Views, found: &mut Evidence) {
    let Some(findings) = views.right.rendering.failures.get(id) else {
        return;
    };
    for finding in findings.iter() {
        let number = match finding.code {
            "azure-key" => 10,
            "schema" => 6,
            "template" => 12,
            _ => continue,
        };
        found
            .entry(number)
            .or_insert_with(|| finding.message.clone());
    }
}

/// Why Kalypso wrote nothing where Outhaul does.
pub(crate) fn of_missing(id: &AssignmentId, views: &Views) -> Evidence {
    let mut found = Evidence::new();
    let failures = &views.compat.rendering.failures;
    if let Some(finding) = failures.get(id).and_then(|findings| findings.iter().next()) {
        let number = if finding.code == "schema" { 6 } else { 11 };
        found.insert(number, format!("Kalypso fails here: {}", finding.message));
    } else if let Some(other) = failures.keys().next() {
        let what = format!(
            "Kalypso fails for `{}` on `{}`, and then emits nothing more",
            other.target, other.cluster_type
        );
        found.insert(2, what);
    }
    found
}
