//! Storages: a slip of the pen in where a workload's manifests lie.
//!
//! What comes in: a control plane. What goes out: a warning for each deployment target whose `storage` is
//! nearly one that is known. Another word is its team's own: nothing here knows every storage.

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_kit::suggest::nearest;

/// What manifests are kept in.
const KNOWN: [&str; 3] = ["git", "helm", "oci"];

pub(super) fn misspelt(plane: &ControlPlane, findings: &mut Diagnostics) {
    for target in plane.targets.values() {
        let manifests = target.manifests.as_ref();
        let Some(storage) = manifests.and_then(|manifests| manifests.get("storage")) else {
            continue;
        };
        if KNOWN.contains(&storage.as_str()) {
            continue;
        }
        if let Some(near) = nearest(storage, &KNOWN) {
            let message = format!(
                "the manifests of `{}` lie in storage `{storage}`, which no bundle carries",
                target.name
            );
            let at = target.storage_at.as_ref().unwrap_or(&target.location);
            findings.push(
                Diagnostic::warning("unknown-storage", message)
                    .at(at)
                    .help(format!("did you mean `{near}`?")),
            );
        }
    }
}
