//! What is said beside bundles: what no policy forbids, and someone should know.
//!
//! What comes in: a platform, and the cluster types whose bundles are made. What goes out: findings. It changes nothing.

use outhaul_control::Diagnostics;
use outhaul_load::manifests::Manifests;
use outhaul_load::pipeline::Platform;
use outhaul_plane::check::{idle, reaching_nothing};
use outhaul_plane::delivery;

use crate::offline;

/// Of bundles that were made, of `cluster_types`, none for all.
pub fn beside_bundles(platform: &Platform, cluster_types: &[String]) -> Diagnostics {
    let plane = &platform.control_plane;
    let mut noted = offline::unreachable(platform, cluster_types);
    noted.append(delivery::without_effect(plane));
    noted.append(reaching_nothing(plane));
    noted.extend(idle(plane, &platform.schedule, cluster_types));
    noted.append(Manifests::new(platform).noted(cluster_types));
    noted
}

/// Of bundles that would be made, with what is `uncertain` of them.
pub fn beside_estimates(
    platform: &Platform,
    cluster_types: &[String],
    uncertain: &Diagnostics,
) -> Diagnostics {
    let mut noted = offline::unreachable(platform, cluster_types);
    noted.append(uncertain.clone());
    noted.append(reaching_nothing(&platform.control_plane));
    noted.append(Manifests::new(platform).noted(cluster_types));
    noted.sort();
    noted
}
