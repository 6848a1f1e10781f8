//! `ClusterType`: a group of clusters or hosts with the same workloads and reconciler.
//!
//! What comes in: the object's fields. What goes out: a [`ClusterType`]. Whether the templates that it
//! names exist is checked when everything is loaded.

use super::super::model::ClusterType;
use super::fields::{Fields, Reader, values};
use super::metadata::Metadata;

pub(super) fn read(reader: &mut Reader<'_>, object: &Fields<'_>) -> Option<ClusterType> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(
        object,
        "spec",
        &["reconciler", "namespaceService", "configType"],
    )?;
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
