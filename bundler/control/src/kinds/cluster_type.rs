//! `ClusterType`: a group of clusters or hosts with the same workloads and reconciler.
//!
//! What comes in: the object's fields. What goes out: a [`ClusterType`]. Whether the templates that it
//! names exist is checked when everything is loaded.

use super::super::model::ClusterType;
use super::KALYPSO;
use super::fields::{FieldReader, Fields, values};
use super::metadata::Metadata;
use super::shape::{KindSchema, any_text, kind, may, must, object, text};

pub(super) fn described() -> KindSchema {
    let template = || text("flux");
    kind(
        KALYPSO,
        "ClusterType",
        "A group of clusters or hosts with the same workloads and the same reconciler.",
        "What policies and config containers look for.",
        object(vec![
            must(
                "reconciler",
                "The template that makes the reconciler's manifests.",
                template(),
            ),
            must(
                "namespaceService",
                "The template that makes the namespace.",
                template(),
            ),
            may(
                "configType",
                "The template that makes the platform config; without one there is no config file.",
                any_text("config-map"),
            ),
        ]),
    )
}

pub(super) fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<ClusterType> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let reconciler = reader.text(&spec, "reconciler");
    let namespace_service = reader.text(&spec, "namespaceService");
    let config_type = reader
        .optional_text(&spec, "configType")
        .filter(|t| !t.value.is_empty());
    let metadata = metadata?;
    Some(ClusterType {
        name: metadata.name,
        labels: values(&metadata.labels),
        reconciler: reconciler?,
        namespace_service: namespace_service?,
        config_type,
        location: metadata.location,
    })
}
