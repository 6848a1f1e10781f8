//! `ConfigMap` and `ConfigSchema`: the values of the platform, and what they must look like.
//!
//! What comes in: a document. What goes out: a [`ConfigContainer`], when the `ConfigMap` is labelled as
//! platform config or named after Azure's, and nothing for any other; or a [`ConfigSchema`].

use super::super::model::{ConfigContainer, ConfigSchema};
use super::super::yaml::Node;
use super::fields::{Fields, Reader};
use super::metadata::Metadata;

/// The label that makes a `ConfigMap` platform config.
pub const PLATFORM_CONFIG: &str = "platform-config";
/// How the names of those begin whose keys carry labels.
pub const AZURE_PREFIX: &str = "azure-app-config";

/// Only what is meant for us is held to our rules: other `ConfigMap`s may look as they like.
pub(super) fn container(reader: &mut Reader<'_>, document: &Node) -> Option<ConfigContainer> {
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
    let known = &[
        "apiVersion",
        "kind",
        "metadata",
        "data",
        "binaryData",
        "immutable",
    ];
    let object = reader.map(document, "ConfigMap", known)?;
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

pub(super) fn schema(reader: &mut Reader<'_>, object: &Fields<'_>) -> Option<ConfigSchema> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec", &["schema"])?;
    let schema = reader.text(&spec, "schema");
    let metadata = metadata?;
    Some(ConfigSchema {
        name: metadata.name,
        labels: metadata.labels,
        schema: schema?,
        location: metadata.location,
    })
}
