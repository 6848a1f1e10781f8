//! Sealed values of another fleet: no site that reads the bundle could open them.
//!
//! What comes in: an assignment as it was rendered, and the id of the fleet that signs. What goes out: a finding for
//! the first value that is sealed for another fleet, where the control plane has it. Environment, workload and key
//! were checked when the config was composed, which is done without a fleet. It opens nothing.

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Location};
use outhaul_plane::render::RenderedAssignment;
use outhaul_seal::marker;

/// What of `rendered` is sealed for another fleet than `fleet`.
pub(super) fn for_another_fleet(
    plane: &ControlPlane,
    fleet: &str,
    rendered: &RenderedAssignment,
    otherwise: &Location,
) -> Option<Diagnostic> {
    let overlays = rendered.overlays.iter().flat_map(|one| one.files.values());
    let files = rendered.files.values().chain(overlays);
    let sealed = files.filter(|bytes| marker::may_have_markers(bytes));
    let bindings = sealed.flat_map(|bytes| marker::bindings(&String::from_utf8_lossy(bytes)));
    let (binding, problem) = bindings.flatten().find_map(|binding| {
        let problem = binding.check_fleet(fleet).err()?;
        Some((binding, problem))
    })?;
    let written = format!("{}{binding},", marker::OPENING);
    let mut values = plane
        .configs
        .values()
        .flat_map(|config| config.data.values());
    let at = values.find(|text| text.value.contains(&written));
    let message = format!("`{}`: {problem}", binding.key());
    let at = at.map_or(otherwise, |text| &text.location);
    Some(Diagnostic::error("sealed", message).at(at))
}
