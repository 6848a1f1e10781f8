//! Statements about exploitability that a hub does not take yet.
//!
//! What comes in: a control plane, and a time. What goes out: a warning for each document with a statement of a time to come, by the
//! rule that the hub has. It reads no clock.

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};

/// What of `plane` is dated after `now_ms`, milliseconds since 1970.
pub fn to_come(plane: &ControlPlane, now_ms: i64) -> Diagnostics {
    let mut found = Diagnostics::new();
    for policy in plane.deliveries.values() {
        for (name, text) in policy.vex.iter().flatten() {
            let Err(problem) = outhaul_vex::read_until(text.as_bytes(), now_ms) else {
                continue;
            };
            let at = policy.places.get("vex").unwrap_or(&policy.location);
            let message = format!("`{name}` in `vex` clears nothing at a hub: {problem}");
            let finding = Diagnostic::warning("statement-to-come", message).at(at);
            found.push(finding.help("correct its `timestamp`, or `last_updated`"));
        }
    }
    found
}
