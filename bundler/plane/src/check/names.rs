//! Names: what is too long for what is made of it.
//!
//! What comes in: a control plane. What goes out: a warning for each name that becomes a label's value
//! or a namespace and has more than 63 characters.

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_kit::bounds::MAX_DNS_LABEL_BYTES;

pub(super) fn long(plane: &ControlPlane, findings: &mut Diagnostics) {
    let types = plane
        .cluster_types
        .values()
        .map(|o| ("cluster type", &o.name, &o.location));
    let targets = plane
        .targets
        .values()
        .map(|o| ("deployment target", &o.name, &o.location));
    let registrations = plane.registrations.values();
    let workspaces = registrations.map(|o| ("workspace", &o.workspace, &o.location));
    let sites = plane.sites.values().map(|o| ("site", &o.name, &o.location));
    let named: Vec<(&str, &String, &Location)> = types
        .chain(targets)
        .chain(workspaces)
        .chain(sites)
        .collect();
    for (kind, name, location) in named {
        let length = name.chars().count();
        if length > MAX_DNS_LABEL_BYTES {
            let message = format!(
                "the {kind}'s name `{name}` has {length} characters; as a label's value it may have {MAX_DNS_LABEL_BYTES}"
            );
            let help = match kind {
                "deployment target" => {
                    "shorten the workload's name or the target's: it is both, with `-` between"
                }
                _ => "shorten it",
            };
            findings.push(
                Diagnostic::warning("long-name", message)
                    .at(location)
                    .help(help),
            );
        }
    }
}
