//! Objects that are not ours: those that were meant to be, and those by which Flux would bring more.
//!
//! What comes in: a document whose `apiVersion` is missing or of no group of ours. What goes out: a
//! finding where the group or the label of platform config is misspelt, where a field that makes it an
//! object is missing, and where Flux or Kustomize would read the folder otherwise than it is read here.
//! Every other object gives nothing: it is ignored.

use super::super::diagnostic::{Diagnostic, Location};
use super::super::yaml::{Node, YamlValue};
use super::config::PLATFORM_CONFIG;
use super::fields::FieldReader;
use super::{KALYPSO, OUTHAUL, described};
use outhaul_kit::suggest::nearest;

/// Codes of findings that are about control planes only: in the repository of a workload, whose team
/// may deploy from it with Flux and Kustomize, they mean nothing.
pub const OF_CONTROL_PLANES: [&str; 4] = [
    "flux-object",
    "kustomization",
    "not-an-object",
    "not-config",
];

/// What Flux fetches more objects from, and what it makes of them.
const FLUX_KINDS: [&str; 6] = [
    "Bucket",
    "GitRepository",
    "HelmRelease",
    "HelmRepository",
    "Kustomization",
    "OCIRepository",
];
/// What a `kustomization.yaml` may hold without changing the objects that it lists.
const HARMLESS: [&str; 5] = ["apiVersion", "kind", "metadata", "resources", "namespace"];

/// A document without `apiVersion`.
pub(super) fn without_version(reader: &mut FieldReader<'_>, document: &Node) {
    let YamlValue::Mapping(_) = &document.value else {
        incomplete(reader, document, "`apiVersion` and `kind`");
        return;
    };
    let Some(kind) = document.field("kind").filter(|kind| is_text(kind)) else {
        if looks_like_an_object(document) {
            incomplete(reader, document, "`apiVersion` and `kind`");
        }
        return;
    };
    let name = kind.as_str().unwrap_or_default();
    if let Some(group) = group_of(name) {
        let location = reader.location(kind);
        let message = format!("an object of kind `{name}` without `apiVersion`");
        reader.report(
            Diagnostic::error("missing-field", message)
                .at(&location)
                .help(format!("write `apiVersion: {group}`")),
        );
    } else if looks_like_an_object(document) {
        incomplete(reader, document, "`apiVersion`");
    }
}

/// A document whose `apiVersion` is of no group of ours.
pub(super) fn of_another_group(reader: &mut FieldReader<'_>, document: &Node, version: &str) {
    let at = reader.location(document.field("apiVersion").unwrap_or(document));
    let group = version.split('/').next().unwrap_or_default();
    let ours = [KALYPSO, OUTHAUL].map(|ours| (ours, ours.split('/').next().unwrap_or_default()));
    if let Some((ours, _)) = ours.into_iter().find(|(_, known)| *known == group) {
        let message = format!("unknown version `{version}`");
        reader.report(
            Diagnostic::error("unknown-version", message)
                .at(&at)
                .help(format!("write `apiVersion: {ours}`")),
        );
        return;
    }
    let Some(kind) = document.field("kind").and_then(Node::as_str) else {
        incomplete(reader, document, "`kind`");
        return;
    };
    if group.ends_with("toolkit.fluxcd.io") {
        flux(reader, document, kind);
        return;
    }
    if group == "kustomize.config.k8s.io" {
        kustomization(reader, document);
        return;
    }
    if version.split('/').count() == 1 && has_label(document, PLATFORM_CONFIG) {
        not_a_config_map(reader, document, version, kind);
        return;
    }
    let short = ours.map(|(_, known)| known);
    let within = |known: &str| {
        known
            .split('.')
            .any(|part| part.len() > 4 && group.contains(part))
    };
    let part = short
        .into_iter()
        .find(|known| group_of(kind).is_some() && within(known));
    if let Some(near) = nearest(group, &short).or(part) {
        let meant = ours.iter().find(|(_, known)| *known == near);
        let meant = group_of(kind)
            .or(meant.map(|(ours, _)| *ours))
            .unwrap_or(OUTHAUL);
        let message = format!("unknown group `{version}`: this `{kind}` would not be read");
        reader.report(
            Diagnostic::error("unknown-group", message)
                .at(&at)
                .help(format!("write `apiVersion: {meant}`")),
        );
    }
}

fn has_label(document: &Node, label: &str) -> bool {
    let labels = document.field("metadata").and_then(|m| m.field("labels"));
    labels.and_then(|labels| labels.field(label)).is_some()
}

/// What has the label of platform config and is not a `ConfigMap`, mostly because of one letter.
fn not_a_config_map(reader: &mut FieldReader<'_>, document: &Node, version: &str, kind: &str) {
    let (field, label) = if version == "v1" {
        ("kind", format!("`{kind}` is not `ConfigMap`"))
    } else {
        ("apiVersion", format!("`{version}` is not `v1`"))
    };
    let at = reader.location(document.field(field).unwrap_or(document));
    let message = format!("this {kind} is not read as platform config, whose label it has");
    reader.report(
        Diagnostic::warning("not-config", message)
            .at(&at)
            .label(&label)
            .help("write `apiVersion: v1` and `kind: ConfigMap`, or remove the label `platform-config`"),
    );
}

/// A `ConfigMap` that is not labelled as platform config.
pub(super) fn unlabelled(reader: &mut FieldReader<'_>, document: &Node) {
    let metadata = document.field("metadata");
    let annotations = metadata.and_then(|m| m.field("annotations"));
    if let Some(YamlValue::Mapping(entries)) = annotations.map(|node| &node.value)
        && !has_label(document, PLATFORM_CONFIG)
        && let Some(entry) = entries.iter().find(|entry| entry.key == PLATFORM_CONFIG)
    {
        let at = reader.place(entry.key_span.clone());
        not_config(reader, &at, "an annotation, and not a label");
        return;
    }
    let labels = document.field("metadata").and_then(|m| m.field("labels"));
    let Some(YamlValue::Mapping(entries)) = labels.map(|labels| &labels.value) else {
        return;
    };
    for entry in entries {
        let is_it = entry.key == PLATFORM_CONFIG;
        // What is of another type was reported when the labels were read.
        if (is_it
            && entry
                .value
                .as_str()
                .is_none_or(|value| matches!(value, "true" | "false")))
            || (!is_it && nearest(&entry.key, &[PLATFORM_CONFIG]).is_none())
        {
            continue;
        }
        let location = match is_it {
            true => reader.location(&entry.value),
            false => reader.place(entry.key_span.clone()),
        };
        let label = match is_it {
            true => "neither `\"true\"` nor `\"false\"`",
            false => "not a label that makes it platform config",
        };
        not_config(reader, &location, label);
        return;
    }
}

fn not_config(reader: &mut FieldReader<'_>, location: &Location, label: &str) {
    reader.report(
        Diagnostic::warning(
            "not-config",
            "this ConfigMap is not read as platform config",
        )
        .at(location)
        .label(label)
        .help(format!("write `{PLATFORM_CONFIG}: \"true\"`")),
    );
}

/// Outhaul has the same with a commit that is part of the snapshot; read otherwise it would bring what
/// no review of this control plane shows.
fn flux(reader: &mut FieldReader<'_>, document: &Node, kind: &str) {
    if !FLUX_KINDS.contains(&kind) {
        return;
    }
    let at = reader.location(document.field("kind").unwrap_or(document));
    let name = document.field("metadata").and_then(|m| m.field("name"));
    let name = name.and_then(Node::as_str).unwrap_or_default();
    let message = format!("`{kind}` `{name}` is for Flux: what it would bring here is not read");
    let spec = |path: &[&str]| {
        let mut node = document.field("spec")?;
        for key in path {
            node = node.field(key)?;
        }
        node.as_str()
    };
    let help = match kind {
        "GitRepository" => format!(
            "name the repository in a BaseRepo instead: `repo: {}`, `branch: {}`, and `path` as in the \
             Kustomization",
            spec(&["url"]).unwrap_or("URL"),
            spec(&["ref", "branch"]).unwrap_or("BRANCH")
        ),
        "Kustomization" => format!(
            "name the folder in a BaseRepo instead: `path: {}`, with `repo` and `branch` as in the {} `{}`",
            spec(&["path"]).unwrap_or("."),
            spec(&["sourceRef", "kind"]).unwrap_or("GitRepository"),
            spec(&["sourceRef", "name"]).unwrap_or_default()
        ),
        _ => "a control plane is read from git: put the objects into a repository and name it in a BaseRepo"
            .to_owned(),
    };
    reader.report(Diagnostic::error("flux-object", message).at(&at).help(help));
}

/// All files of a folder are read here; Kustomize reads those that are listed, and may change them.
fn kustomization(reader: &mut FieldReader<'_>, document: &Node) {
    let YamlValue::Mapping(entries) = &document.value else {
        return;
    };
    for entry in entries {
        let at = match (&entry.value.value, entry.key.as_str()) {
            (YamlValue::Sequence(items), "resources") => {
                let elsewhere = |item: &&Node| {
                    let text = item.as_str().unwrap_or_default();
                    text.contains("..") || text.contains(':') || text.starts_with("github.com")
                };
                match items.iter().find(elsewhere) {
                    Some(item) => reader.location(item),
                    None => continue,
                }
            }
            (_, key) if HARMLESS.contains(&key) => continue,
            _ => reader.place(entry.key_span.clone()),
        };
        reader.report(
            Diagnostic::warning("kustomization", "Kustomize is not run on a control plane")
                .at(&at)
                .label("this has no effect")
                .help(
                    "write the objects as they are to be, or name their repository in a BaseRepo",
                ),
        );
        return;
    }
}

fn incomplete(reader: &mut FieldReader<'_>, document: &Node, missing: &str) {
    if !looks_like_an_object(document) {
        return;
    }
    let start = document.span.start;
    let location = reader.place(start..start + 1);
    reader.report(
        Diagnostic::warning(
            "not-an-object",
            format!("this has no {missing}, so it is not read"),
        )
        .at(&location)
        .label("in this document")
        .help("write what kind of object it is, or list the file in `.sourceignore`"),
    );
}

/// Also a list of what looks like objects: in YAML they are their own documents.
fn looks_like_an_object(document: &Node) -> bool {
    if let YamlValue::Sequence(items) = &document.value {
        return items.iter().any(looks_like_an_object);
    }
    let fields = ["metadata", "kind", "spec", "data"];
    fields.iter().any(|field| document.field(field).is_some())
}

fn is_text(node: &Node) -> bool {
    node.as_str().is_some()
}

fn group_of(kind: &str) -> Option<&'static str> {
    [KALYPSO, OUTHAUL]
        .into_iter()
        .find_map(|group| Some(described(group, kind)?.api_version))
}
