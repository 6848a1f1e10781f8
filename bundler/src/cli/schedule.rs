//! `outhaul schedule`: what runs where, and which policies say so.

use std::collections::BTreeMap;

use serde_json::json;

use super::failure::{Failure, REFUSED};
use super::render::InputArgs;
use super::{Exit, Output, data, print_json, say};
use outhaul_control::{ControlPlane, Diagnostic};
use outhaul_kit::text::named;
use outhaul_plane::schedule::choose::Choice;
use outhaul_plane::schedule::{self, Assignment, AssignmentId, Schedule};

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
    output: Output,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let loaded = self.input.load_to_schedule()?;
        let schedule = loaded.schedule();
        let (control_plane, snapshot) = (loaded.control_plane, loaded.snapshot);
        let choices: Choices<'_> = control_plane
            .policies
            .values()
            .filter(|policy| !policy.placement.preferred.is_empty())
            .map(|policy| {
                (
                    policy.name.as_str(),
                    schedule::choose(&control_plane, policy),
                )
            })
            .collect();
        let findings = schedule.findings();
        if self.output == Output::Json {
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
                        "sites": assignment.sites,
                        "scores": scores(&choices, &id.cluster_type, &assignment.policies),
                    })
                })
                .collect();
            let failures: Vec<_> = findings.iter().map(Diagnostic::to_json).collect();
            print_json(&json!({
                "environment": control_plane.environment,
                "snapshot": snapshot,
                "assignments": assignments,
                "unassigned": unassigned(&control_plane, &schedule),
                "failures": failures,
            }))?;
        } else {
            print_text(&control_plane, &schedule, &choices);
            if !findings.is_empty() {
                super::say_findings(&findings);
            }
        }
        // What a team's repository would bring is not in the schedule.
        Ok(if findings.has_errors() || !control_plane.lost.is_empty() {
            Exit::from(REFUSED)
        } else {
            Exit::SUCCESS
        })
    }
}

/// What policies with preferences make of each cluster type, by policy.
type Choices<'a> = BTreeMap<&'a str, Choice<'a>>;

/// The scores by which `cluster_type` was chosen, by policy.
fn scores<'a>(
    choices: &Choices<'_>,
    cluster_type: &str,
    policies: &'a [String],
) -> BTreeMap<&'a str, u32> {
    let score = |policy: &'a String| {
        let mut candidates = choices.get(policy.as_str())?.candidates.iter();
        let candidate = candidates.find(|c| c.cluster_type.name == cluster_type)?;
        Some((policy.as_str(), candidate.score))
    };
    policies.iter().filter_map(score).collect()
}

fn print_text(control_plane: &ControlPlane, schedule: &Schedule, choices: &Choices<'_>) {
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
            policies(choices, id, assignment),
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
            "help: `outhaul explain … {}` shows why",
            waiting[0]
        ));
    }
}

/// `near-users (score 80), security-tools`
fn policies(choices: &Choices<'_>, id: &AssignmentId, assignment: &Assignment) -> String {
    let scores = scores(choices, &id.cluster_type, &assignment.policies);
    let text = |policy: &String| match scores.get(policy.as_str()) {
        Some(score) => format!("{policy} (score {score})"),
        None => policy.clone(),
    };
    let texts: Vec<String> = assignment.policies.iter().map(text).collect();
    let texts = texts.join(", ");
    match &assignment.sites {
        Some(sites) => format!(
            "{texts}; only on {}",
            named(sites, schedule::sites::MAX_NAMED)
        ),
        None => texts,
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
