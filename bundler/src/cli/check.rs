//! `outhaul check`: everything that is wrong or doubtful in a control plane, at once.

use std::process::ExitCode;

use serde_json::json;

use super::failure::Failure;
use super::render::InputArgs;
use super::{Format, data, print_json, say};
use crate::control::diagnostic::{Diagnostic, Severity};
use crate::{check, compose, render, schedule};

/// Check a control plane: every finding at once, with its place and a way out
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code 1 when there is an error; warnings alone give 0, or 1 with --strict.\n\n\
    Example:\n  outhaul check --environment dev --control-plane control-plane \
    --source https://git.factory.example/label-printer=label-printer"
)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Warnings count as errors
    #[arg(long)]
    strict: bool,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let (plane, snapshot, _) = self.input.load()?;
        let mode = self.input.mode();
        let schedule = schedule::schedule(&plane);
        let composition = compose::compose(&plane, &schedule, mode);
        let rendering = render::render(&plane, &schedule, &composition, &snapshot, mode);
        let findings = check::check(&plane, &schedule, &composition, &rendering, mode);
        if self.output == Format::Json {
            let all: Vec<_> = findings.iter().map(Diagnostic::to_json).collect();
            print_json(&json!({
                "environment": plane.environment,
                "snapshot": snapshot,
                "errors": findings.count(Severity::Error),
                "warnings": findings.count(Severity::Warning),
                "findings": all,
            }))?;
        } else if findings.is_empty() {
            say(&format!(
                "{}: nothing to say about {} cluster types, {} targets, {} assignments",
                plane.environment,
                plane.cluster_types.len(),
                plane.targets.len(),
                schedule.assignments.len()
            ));
        } else {
            data(findings.render(false).trim_end());
        }
        let failed = findings.has_errors() || (self.strict && !findings.is_empty());
        Ok(if failed {
            ExitCode::from(super::failure::REFUSED)
        } else {
            ExitCode::SUCCESS
        })
    }
}
