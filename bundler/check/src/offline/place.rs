//! Places of what rendered files name: rendered files have none of their own, so that what makes them is named.
//!
//! What comes in: a need of rendered files, and the cluster type. What goes out: where one of its templates writes it, else where the cluster type
//! names its reconciler. It reads nothing.

use outhaul_control::diagnostic::Location;
use outhaul_control::model::ClusterType;
use outhaul_load::pipeline::Platform;
use outhaul_needs::Need;

/// Where a template writes it, when it is there as it is.
pub(super) fn written(
    platform: &Platform,
    cluster_type: &ClusterType,
    need: &Need,
) -> Option<Location> {
    let text = need.text();
    let names = [
        Some(&cluster_type.reconciler),
        Some(&cluster_type.namespace_service),
        cluster_type.config_type.as_ref(),
    ];
    let templates = names.into_iter().flatten();
    let templates = templates.filter_map(|name| platform.control_plane.templates.get(&name.value));
    for manifest in templates.flat_map(|template| &template.manifests) {
        let file = &manifest.location.file;
        let within = file.text.get(manifest.location.span.clone())?;
        if let Some(at) = within.find(text) {
            let start = manifest.location.span.start + at;
            return Some(Location::new(file, start..start + text.len()));
        }
    }
    Some(cluster_type.reconciler.location.clone())
}
