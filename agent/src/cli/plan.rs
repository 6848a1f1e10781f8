//! `plan`: what a bundle would change.

use std::path::PathBuf;

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;

/// Verifies a bundle and says what importing it would change. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent plan /media/stick/dev-drone-7.outhaul"
)]
pub struct Args {
    /// The bundle.
    file: PathBuf,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let plan = Agent::open(&context.state)?.plan(&args.file)?;
    let mut lines = vec![match plan.active {
        Some(active) => format!("bundle {} instead of {active}:", plan.number),
        None => format!("bundle {}, the first on this site:", plan.number),
    }];
    for assignment in &plan.assignments {
        lines.push(format!("  {} {}", assignment.action, assignment.name));
        lines.extend(
            assignment
                .changes
                .iter()
                .map(|c| format!("    {} {}", c.action, c.item)),
        );
    }
    if plan.assignments.is_empty() {
        lines.push("  nothing would change".into());
    } else if !plan.unchanged.is_empty() {
        lines.push(format!("  unchanged: {}", plan.unchanged.join(", ")));
    }
    for (assignment, files) in &plan.own_files {
        lines.push(format!(
            "  {assignment} has values of this site: {}",
            files.join(", ")
        ));
    }
    context.print(&lines.join("\n"), &plan);
    Ok(0)
}
