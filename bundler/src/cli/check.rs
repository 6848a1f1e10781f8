//! `outhaul check`: everything that is wrong or doubtful in a control plane, at once.

use std::process::ExitCode;

use serde_json::json;

use super::failure::Failure;
use super::render::InputArgs;
use super::{Format, data, print_json, say};
use crate::check::{self, Checked};
use crate::control::diagnostic::{Diagnostic, Severity};
use crate::control::{self, Diagnostics};
use crate::counted::{assignments, counted};

/// Check a control plane: every finding at once, with its place and a way out
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --environment every environment that the control plane lists is checked.\n\
    Exit code 1 when there is an error; warnings alone give 0, or 1 with --strict. Notes never count.\n\n\
    Example:\n  outhaul check --control-plane control-plane \
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
        let mut all = Diagnostics::new();
        let mut checked = Vec::new();
        for environment in self.environments()? {
            let request = self.input.request_for(&environment)?;
            let one = check::environment(&request, self.input.mode());
            all.append(one.findings.clone());
            checked.push(one);
        }
        // What environments share is said once.
        all.sort();
        if self.output == Format::Json {
            let documents: Vec<_> = checked.iter().map(document).collect();
            print_json(&json!({
                "errors": all.count(Severity::Error),
                "warnings": all.count(Severity::Warning),
                "notes": all.count(Severity::Note),
                "environments": documents,
            }))?;
        } else {
            if !all.is_empty() {
                data(all.render(false).trim_end());
            }
            for one in &checked {
                talk(one);
            }
        }
        let code = all.exit_code();
        Ok(
            match (code, self.strict && all.count(Severity::Warning) > 0) {
                // What somebody wrote is a finding; a network that fails is not.
                (3, _) => ExitCode::from(super::failure::ENVIRONMENT),
                (0, false) => ExitCode::SUCCESS,
                _ => ExitCode::from(super::failure::REFUSED),
            },
        )
    }

    /// The one that was named, or all.
    fn environments(&self) -> Result<Vec<String>, Failure> {
        if !self.input.environment().is_empty() {
            return Ok(vec![self.input.environment().to_owned()]);
        }
        let request = self.input.request_for("")?;
        let listed = control::environments(&request).map_err(|f| Failure::findings(&f))?;
        if listed.is_empty() {
            return Err(
                Failure::say(super::failure::USAGE, "there is no environment to check")
                    .help("add `--environment NAME`, or list environments in `.environments/`"),
            );
        }
        Ok(listed
            .into_iter()
            .map(|environment| environment.name)
            .collect())
    }
}

fn document(one: &Checked) -> serde_json::Value {
    let findings: Vec<_> = one.findings.iter().map(Diagnostic::to_json).collect();
    json!({
        "environment": one.environment,
        "loaded": one.snapshot.is_some(),
        "snapshot": one.snapshot,
        "errors": one.findings.count(Severity::Error),
        "warnings": one.findings.count(Severity::Warning),
        "notes": one.findings.count(Severity::Note),
        "findings": findings,
    })
}

fn talk(one: &Checked) {
    if one.snapshot.is_none() {
        say(&format!(
            "{}: cannot be loaded whole; what depends on the rest was not checked",
            one.environment
        ));
        return;
    }
    let found = match one.findings.count(Severity::Error) + one.findings.count(Severity::Warning) {
        0 => "nothing to say about".to_owned(),
        _ => "checked".to_owned(),
    };
    say(&format!(
        "{}: {found} {}, {}, {}",
        one.environment,
        counted(one.cluster_types, "cluster type", "cluster types"),
        counted(one.targets, "target", "targets"),
        assignments(one.assignments)
    ));
}
