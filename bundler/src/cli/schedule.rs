//! `outhaul schedule`: what runs where, and which policies say so.

use std::process::ExitCode;

use serde_json::json;

use super::failure::Failure;
use super::render::InputArgs;
use super::{Format, data, print_json, say};
use crate::control::ControlPlane;
use crate::schedule::{self, Schedule};

/// Show what runs where, and which policies say so
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul schedule --environment dev --control-plane control-plane \
    --source https://git.factory.example/label-printer=label-printer"
)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let (control_plane, snapshot, _) = self.input.load()?;
        let schedule = schedule::schedule(&control_plane);
        if self.output == Format::Json {
            let assignments: Vec<_> = schedule
                .assignments
                .iter()
                .map(|(id, assignment)| {
                    json!({
                        "cluster_type": id.cluster_type,
                        "target": id.target,
                        "workload": control_plane.targets.get(&id.target).map(|t| &t.workload),
                        "workspace": control_plane.targets.get(&id.target).map(|t| &t.workspace),
                        "policies": assignment.policies,
                    })
                })
                .collect();
            return print_json(&json!({
                "environment": control_plane.environment,
                "snapshot": snapshot,
                "assignments": assignments,
                "unassigned": unassigned(&control_plane, &schedule),
            }));
        }
        print_text(&control_plane, &schedule);
        Ok(ExitCode::SUCCESS)
    }
}

fn print_text(control_plane: &ControlPlane, schedule: &Schedule) {
    let mut rows =
        vec![["CLUSTER TYPE", "DEPLOYMENT TARGET", "WORKSPACE", "POLICIES"].map(str::to_owned)];
    for (id, assignment) in &schedule.assignments {
        let target = control_plane.targets.get(&id.target);
        rows.push([
            id.cluster_type.clone(),
            id.target.clone(),
            target
                .map(|target| target.workspace.clone())
                .unwrap_or_default(),
            assignment.policies.join(", "),
        ]);
    }
    for line in table(&rows) {
        data(&line);
    }
    let idle: Vec<_> = control_plane
        .cluster_types
        .keys()
        .filter(|name| {
            !schedule
                .assignments
                .keys()
                .any(|id| id.cluster_type == **name)
        })
        .map(String::as_str)
        .collect();
    if !idle.is_empty() {
        say(&format!("nothing is assigned to: {}", idle.join(", ")));
    }
    let waiting = unassigned(control_plane, schedule);
    if !waiting.is_empty() {
        say(&format!("assigned nowhere: {}", waiting.join(", ")));
        say(&format!(
            "help: `outhaul explain … {}` says why",
            waiting[0]
        ));
    }
}

fn unassigned<'a>(control_plane: &'a ControlPlane, schedule: &Schedule) -> Vec<&'a str> {
    let targets = control_plane.targets.keys();
    targets
        .filter(|name| !schedule.assignments.keys().any(|id| id.target == **name))
        .map(String::as_str)
        .collect()
}

/// Rows with columns of equal width, two spaces between them.
pub(super) fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
