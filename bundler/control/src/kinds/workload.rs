//! `Workload`: an application and the ways to run it, as its team describes it.
//!
//! What comes in: the object's fields. What goes out: a [`Workload`], from which the loader makes
//! deployment targets once it knows which registration brought it.

use std::collections::BTreeMap;

use super::super::diagnostic::{Diagnostic, Location};
use super::super::model::Spanned;
use super::super::yaml::{Node, YamlValue};
use super::KALYPSO;
use super::fields::{FieldReader, Fields, values};
use super::metadata::{Metadata, check_name};
use super::shape::{KindSchema, any_text, kind, list, may, must, name, object, text, text_map};
use outhaul_kit::suggest::nearest;

/// Most deployment targets of one workload. Each is rendered for every cluster type that takes it.
const MAX_TARGETS: usize = 256;
/// The keys of `manifests` that mean something here.
const MANIFEST_KEYS: [&str; 5] = ["storage", "repo", "branch", "path", "digest"];

/// An application.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its labels, which every target gets.
    pub labels: BTreeMap<String, String>,
    /// The ways to run it.
    pub targets: Vec<WorkloadTarget>,
    /// Where it is written.
    pub location: Location,
}

/// One way to run a workload in one environment.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadTarget {
    /// Its name, without the workload's.
    pub name: String,
    /// Its own labels.
    pub labels: BTreeMap<String, String>,
    /// The environment.
    pub environment: String,
    /// Where the environment is written.
    pub environment_at: Location,
    /// Where its manifests lie.
    pub manifests: Option<BTreeMap<String, String>>,
    /// Where their `storage` is written, when it is.
    pub storage_at: Option<Location>,
    /// Its own JSON schemas, then the workload's.
    pub config_schemas: Vec<Spanned<String>>,
    /// Where it is written.
    pub location: Location,
}

pub(super) fn described() -> KindSchema {
    let schemas = || list(any_text("{\"type\": \"object\"}"));
    let target = object(vec![
        must(
            "name",
            "Its name; the full name is `<workload>-<name>`.",
            name(),
        ),
        may(
            "labels",
            "Labels that policies and config containers look for.",
            text_map(),
        ),
        must(
            "environment",
            "The environment that it is for.",
            text("dev"),
        ),
        may(
            "manifests",
            "Where its manifests lie; `storage`, `repo`, `branch` and `path` by convention.",
            text_map(),
        ),
        may(
            "configSchemas",
            "JSON Schemas of its platform config, as text.",
            schemas(),
        ),
    ]);
    kind(
        KALYPSO,
        "Workload",
        "An application and the ways to run it, as its team describes it.",
        "Labels that every one of its targets gets.",
        object(vec![
            may("deploymentTargets", "The ways to run it.", list(target)),
            may(
                "configSchemas",
                "JSON Schemas for every target, as text.",
                schemas(),
            ),
        ]),
    )
}

pub(super) fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<Workload> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let schemas = reader.texts(&spec, "configSchemas");
    let metadata = metadata?;
    let mut targets: Vec<WorkloadTarget> = Vec::new();
    let listed = reader.list(&spec, "deploymentTargets");
    if let Some(beyond) = listed.get(MAX_TARGETS) {
        let message = format!(
            "workload `{}` has {} deployment targets, the limit is {MAX_TARGETS}",
            metadata.name,
            listed.len()
        );
        let help =
            "make several workloads of it, or let policies place fewer targets on more clusters";
        let finding = Diagnostic::error("too-many-targets", message);
        let at = reader.location(beyond);
        reader.report(finding.at(&at).help(help));
        return None;
    }
    for (at, node) in reader.list(&spec, "deploymentTargets").iter().enumerate() {
        let what = format!("{}.deploymentTargets[{at}]", spec.what);
        let Some(fields) = reader.map(node, &what, spec.shape.field("deploymentTargets").item())
        else {
            continue;
        };
        let Some(mut target) = target(reader, &fields, &metadata.name) else {
            continue;
        };
        target.config_schemas.extend(schemas.iter().cloned());
        if let Some(first) = targets.iter().find(|other| same(other, &target)) {
            let message = format!(
                "two targets of environment `{}` are called `{}`",
                target.environment, target.name
            );
            reader.report(
                Diagnostic::error("duplicate-name", message)
                    .at(&target.location)
                    .related(&first.location, "first here")
                    .help("give each deployment target of a workload its own name"),
            );
            continue;
        }
        targets.push(target);
    }
    Some(Workload {
        name: metadata.name,
        labels: values(&metadata.labels),
        targets,
        location: metadata.location,
    })
}

/// One name may stand in several environments: each of them sees only its own.
fn same(a: &WorkloadTarget, b: &WorkloadTarget) -> bool {
    (&a.name, &a.environment) == (&b.name, &b.environment)
}

/// Keys of `manifests` that are nearly one that is known and is not there. Every other key is for the templates,
/// which see all of them.
fn misspelt(reader: &mut FieldReader<'_>, fields: &Fields<'_>) {
    let Some(Node {
        value: YamlValue::Mapping(entries),
        ..
    }) = fields.field("manifests")
    else {
        return;
    };
    let is_written = |key: &str| entries.iter().any(|entry| entry.key == key);
    for entry in entries {
        let key = entry.key.as_str();
        let near = nearest(key, &MANIFEST_KEYS);
        let Some(near) = near.filter(|near| *near != key && !is_written(near)) else {
            continue;
        };
        let finding = Diagnostic::error("unknown-field", format!("unknown field `{key}`"))
            .at(&reader.place(entry.key_span.clone()))
            .label(format!("not a field of `{}.manifests`", fields.what))
            .help(format!("did you mean `{near}`?"));
        reader.report(finding);
    }
}

fn target(
    reader: &mut FieldReader<'_>,
    fields: &Fields<'_>,
    workload: &str,
) -> Option<WorkloadTarget> {
    let name = reader.text(fields, "name");
    let environment = reader.text(fields, "environment");
    let labels = reader.text_map(fields, "labels").unwrap_or_default();
    let manifests = reader.text_map(fields, "manifests");
    misspelt(reader, fields);
    let config_schemas = reader.texts(fields, "configSchemas");
    let name = name?;
    check_name(
        reader,
        &format!("{workload}-{}", name.value),
        &name.location,
    )
    .then_some(())?;
    let environment = environment?;
    Some(WorkloadTarget {
        name: name.value,
        labels: values(&labels),
        environment: environment.value,
        environment_at: environment.location,
        manifests: manifests.as_ref().map(values),
        storage_at: manifests
            .and_then(|mut all| all.remove("storage").map(|spanned| spanned.location)),
        config_schemas,
        location: name.location,
    })
}
