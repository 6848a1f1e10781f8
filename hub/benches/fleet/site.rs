//! A made-up site of the benchmarks, and reports that it signs.
//!
//! What comes in: a number. What goes out: a site that can ask to be registered, and one report of it after the other.

use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, GenerationState, ReportEvent};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{OLD, name};

/// What each report tells of.
pub const ASSIGNMENTS: usize = 20;

pub fn numbered(number: usize) -> Site {
    Site::new(&format!("site-{number:05}"), "dev", "drone")
}

/// Says that bundle 1 is active and well, in one signed line.
pub fn report(site: &mut Site) -> Vec<u8> {
    let (state, status) = (GenerationState::Active, ComplianceStatus::Compliant);
    let mut event = site.event(1, OLD, state, status);
    let like = event.assignments.swap_remove(0);
    let result = |number| AssignmentResult {
        name: name(&format!("workload-{number:02}")),
        ..like.clone()
    };
    event.assignments = (0..ASSIGNMENTS).map(result).collect();
    site.say(ReportEvent::Generation(event))
}
