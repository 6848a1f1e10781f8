//! `ConfigMap` and `ConfigSchema`: the values of the platform, and what they must look like.
//!
//! What comes in: a document. What goes out: a [`ConfigContainer`], when the `ConfigMap` is labelled as
//! platform config or named after Azure's, and nothing for any other; or a [`ConfigSchema`].

use serde_json::json;

use super::super::model::{ConfigContainer, ConfigSchema};
use super::super::yaml::Node;
use super::KALYPSO;
use super::fields::{FieldReader, Fields};
use super::metadata::Metadata;
use super::shape::{
    CONFIG_LABELS, KindSchema, Shape, kind, may, metadata, must, object, text, text_map,
};

/// The label that makes a `ConfigMap` platform config.
pub const PLATFORM_CONFIG: &str = "platform-config";
/// How the names of those begin whose keys carry labels.
pub const AZURE_PREFIX: &str = "azure-app-config";

pub(super) fn container_described() -> KindSchema {
    let about =
        "A container of platform config: a ConfigMap with the label `platform-config: \"true\"`.";
    let shape = object(vec![
        must(
            "apiVersion",
            "The group and version.",
            json!({"const": "v1"}),
        ),
        must("kind", about, json!({"const": "ConfigMap"})),
        must("metadata", "Name and labels.", metadata(CONFIG_LABELS)),
        may("data", "The values, each as text.", text_map()),
        may("binaryData", "Taken and ignored.", json!({})),
        may("immutable", "Taken and ignored.", json!({})),
    ]);
    KindSchema {
        api_version: "v1",
        name: "ConfigMap",
        about,
        shape: shape.taking_null().with("description", about.into()),
    }
}

pub(super) fn schema_described() -> KindSchema {
    kind(
        KALYPSO,
        "ConfigSchema",
        "A JSON Schema for the platform config of what its labels match.",
        CONFIG_LABELS,
        object(vec![must(
            "schema",
            "The JSON Schema, as text.",
            text("{\"type\": \"object\"}"),
        )]),
    )
}

/// Only what is meant for us is held to our rules: other `ConfigMap`s may look as they like.
pub(super) fn container(
    reader: &mut FieldReader<'_>,
    document: &Node,
    shape: &'static Shape,
) -> Option<ConfigContainer> {
    let metadata = document.field("metadata")?;
    let labelled = metadata
        .field("labels")
        .and_then(|labels| labels.field(PLATFORM_CONFIG));
    let azure = metadata
        .field("name")
        .and_then(Node::as_str)
        .is_some_and(|name| name.starts_with(AZURE_PREFIX));
    if labelled.is_none() && !azure {
        return None;
    }
    let object = reader.map(document, "ConfigMap", shape)?;
    let metadata = Metadata::read(reader, &object);
    let data = reader.text_map(&object, "data").unwrap_or_default();
    let metadata = metadata?;
    let platform = metadata
        .labels
        .get(PLATFORM_CONFIG)
        .is_some_and(|value| value.value == "true");
    (platform || azure).then_some(ConfigContainer {
        name: metadata.name,
        labels: metadata.labels,
        data,
        location: metadata.location,
    })
}

pub(super) fn schema(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<ConfigSchema> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let schema = reader.text(&spec, "schema");
    let metadata = metadata?;
    Some(ConfigSchema {
        name: metadata.name,
        labels: metadata.labels,
        schema: schema?,
        location: metadata.location,
    })
}
