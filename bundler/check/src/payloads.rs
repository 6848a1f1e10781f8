//! Payloads that no bundle could carry, before one is made.
//!
//! What comes in: what the stages made of an environment. What goes out: a finding for each deployment
//! target whose manifests may not be opened, are not there, or cannot travel, each said once however
//! many cluster types it is on, and for manifests that a cluster could not apply. A server that does not answer now is a finding only where that was asked
//! for, because people check where not every server can be reached; else it is listed as not checked.

use std::collections::BTreeSet;

use outhaul_control::diagnostic::{Cause, Diagnostics};
use outhaul_control::model::Transport;
use outhaul_load::manifests::Manifests;
use outhaul_load::pipeline::Platform;
use outhaul_plane::delivery;
use outhaul_ship::collect::{self, Collector};

/// What `outhaul bundle` would leave out, and why. Returns what was not looked at. With `network` a server
/// that does not answer is a finding.
pub(crate) fn uncollected(
    platform: &Platform,
    network: bool,
    findings: &mut Diagnostics,
) -> Vec<String> {
    let mut unseen = BTreeSet::new();
    let plane = &platform.control_plane;
    let mut collector = Collector::new(&platform.sources, &platform.cache);
    let mut manifests = Manifests::new(platform);
    let mut seen = BTreeSet::new();
    for (cluster_type, group) in &platform.rendering.cluster_types {
        let delivery = plane
            .cluster_types
            .get(cluster_type)
            .and_then(|cluster_type| delivery::of(plane, cluster_type).ok())
            .unwrap_or_default();
        if delivery
            .transport
            .as_ref()
            .is_some_and(|transport| transport.value == Transport::Git)
        {
            continue;
        }
        for (name, rendered) in &group.assignments {
            findings.append(manifests.problems(cluster_type, name, rendered));
            let Some(target) = plane.targets.get(name).filter(|_| seen.insert(name)) else {
                continue;
            };
            // Another storage than git is verified with the delivery policies.
            let storage = rendered.manifests.get("storage").map_or("", String::as_str);
            if !matches!(storage, "" | "git") {
                if let Some(repo) = rendered.manifests.get("repo") {
                    unseen.insert(format!("`{repo}` (storage `{storage}`)"));
                }
                continue;
            }
            let Err(error) = collector.look(name, rendered, None) else {
                continue;
            };
            let storage = target.storage_at.as_ref().unwrap_or(&target.location);
            let finding = collect::finding(&error).at(error.place().unwrap_or(storage));
            if network || finding.cause == Cause::Input {
                findings.push(finding);
            } else if let Some(repo) = rendered.manifests.get("repo") {
                unseen.insert(format!("`{repo}`, which cannot be reached now"));
            }
        }
    }
    findings.append(manifests.noted(&[]));
    unseen.into_iter().collect()
}
