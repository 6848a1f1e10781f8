//! `outhaul check`: everything that is wrong or suspicious in a control plane, at once.

use clap::ValueEnum;
use outhaul_kit::console::options::is_coloured_out;
use outhaul_kit::console::{self, paint};
use outhaul_kit::text;
use serde_json::json;

use super::explain::could_be_set_in;
use super::failure::Failure;
use super::render::InputArgs;
use super::{Exit, data, in_envelope, print_json, say};
use outhaul_check::{CheckedEnvironment, CheckedPlane};
use outhaul_control::Diagnostics;
use outhaul_control::diagnostic::{Diagnostic, Severity};
use outhaul_git::terminal;
use outhaul_kit::format_count::{assignments, format_count};
use outhaul_load::{LoadRequest, pipeline};
use outhaul_plane::check::report;
use outhaul_plane::explain::requested::{self, Requested};

/// Check a control plane: all findings, each with location and fix
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --environment every environment that the control plane lists is checked.\n\
    Exit code 1 when there is an error, 2 when the control plane lists no such environment; warnings alone give 0, or 1 with --strict. Notes never count.\n\n\
    Examples:\n  outhaul check --control-plane control-plane \
    --source https://git.factory.example/label-printer=label-printer\n  \
    outhaul check --environment dev --control-plane . --working-copy\n  \
    outhaul check --control-plane . --output sarif > findings.sarif"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Warnings count as errors
    #[arg(long)]
    strict: bool,
    /// Check working copies as they are, with edits that are not committed
    #[arg(long)]
    working_copy: bool,
    /// A server with a workload's manifests that does not answer is an error; without it they are listed as
    /// not checked
    #[arg(long)]
    network: bool,
    /// Instead list the keys of the platform config that schemas and templates ask for, by cluster type
    #[arg(long)]
    requested: bool,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: CheckFormat,
}

/// How findings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CheckFormat {
    /// One JSON document.
    Json,
    /// One line for each finding: `file:line:column: severity[code]: message`.
    Lines,
    /// A SARIF 2.1.0 log.
    Sarif,
    /// For people.
    #[default]
    Text,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        if self.requested {
            return self.list_requested();
        }
        let (environments, unlisted) = self.environments()?;
        let mut checked = Vec::new();
        #[expect(
            clippy::disallowed_methods,
            reason = "the edge of the program: all below is given the time"
        )]
        let now = jiff::Timestamp::now();
        for environment in environments {
            let request = self.request(&environment)?;
            let mode = self.input.mode();
            checked.push(outhaul_check::environment(
                &request,
                mode,
                self.network,
                now,
            ));
        }
        let CheckedPlane {
            environments: checked,
            findings: all,
        } = CheckedPlane::of(checked, unlisted);
        in_envelope(&all);
        match self.output {
            CheckFormat::Json => {
                let documents: Vec<_> = checked.iter().map(document).collect();
                print_json(&json!({
                    "errors": all.count(Severity::Error),
                    "warnings": all.count(Severity::Warning),
                    "notes": all.count(Severity::Note),
                    "environments": documents,
                }))?;
            }
            CheckFormat::Sarif => sarif(&all)?,
            CheckFormat::Lines if !all.is_empty() => data(report::lines(&all).trim_end()),
            CheckFormat::Text if !all.is_empty() => {
                let text = terminal::plain(all.render(false).trim_end()).into_owned();
                console::data(&paint::message(&text, is_coloured_out()));
            }
            CheckFormat::Lines | CheckFormat::Text => {}
        }
        if matches!(self.output, CheckFormat::Lines | CheckFormat::Text) {
            checked.iter().for_each(summary);
        }
        // What was typed is wrong, and nothing of the control plane.
        let is_misnamed = |finding: &Diagnostic| {
            finding.code == "unknown-environment" && finding.location.is_none()
        };
        if all.iter().any(is_misnamed) {
            return Ok(Exit::from(super::failure::USAGE));
        }
        let verdict = all.verdict(self.strict);
        Ok(verdict.map_or(Exit::SUCCESS, |class| Exit::from(class.code())))
    }

    fn list_requested(&self) -> Result<Exit, Failure> {
        let mut documents = Vec::new();
        let (environments, unlisted) = self.environments()?;
        if unlisted.has_errors() {
            return Err(Failure::findings(&unlisted));
        }
        for environment in environments {
            let loaded = pipeline::load(&self.request(&environment)?, None)
                .map_err(|findings| Failure::findings(&findings))?;
            let (plane, schedule) = (&loaded.control_plane, loaded.schedule());
            let found = requested::requested(plane, &schedule, None, self.input.mode());
            if self.output == CheckFormat::Json {
                documents.push(json!({ "environment": environment, "requested": found }));
            } else {
                data(requested_text(&environment, &found).trim_end());
            }
        }
        if self.output == CheckFormat::Json {
            print_json(&json!({ "environments": documents }))?;
        }
        Ok(Exit::SUCCESS)
    }

    fn request(&self, environment: &str) -> Result<LoadRequest, Failure> {
        let mut request = self.input.request_for(environment)?;
        if self.working_copy {
            request.sources.read_working_copies();
            outhaul_check::promoted_as_it_is(&mut request);
        }
        Ok(request)
    }

    /// The one that was named, or all that can be read, and what is wrong with the list of them.
    fn environments(&self) -> Result<(Vec<String>, Diagnostics), Failure> {
        if !self.input.environment().is_empty() {
            let named = self.input.environment().to_owned();
            return Ok((vec![named], Diagnostics::new()));
        }
        let request = self.request("")?;
        let (listed, findings) = outhaul_load::environments_partly(&request);
        if listed.is_empty() && findings.has_errors() {
            return Err(Failure::findings(&findings));
        }
        if listed.is_empty() {
            return Err(
                Failure::say(super::failure::USAGE, "there is no environment to check")
                    .help("add `--environment NAME`, or list environments in `.environments/`"),
            );
        }
        let names = listed.into_iter().map(|environment| environment.name);
        Ok((names.collect(), findings))
    }
}

fn document(one: &CheckedEnvironment) -> serde_json::Value {
    let findings: Vec<_> = one.findings.iter().map(Diagnostic::to_json).collect();
    json!({
        "environment": one.environment,
        "loaded": one.snapshot.is_some(),
        "snapshot": one.snapshot,
        "errors": one.findings.count(Severity::Error),
        "warnings": one.findings.count(Severity::Warning),
        "notes": one.findings.count(Severity::Note),
        "not_looked_at": one.not_looked_at,
        "not_asked_for": one.not_asked_for,
        "not_pulled": one.not_pulled,
        "not_promoted": one.not_promoted,
        "findings": findings,
    })
}

/// A log that other programs read: no envelope of ours.
fn sarif(all: &Diagnostics) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(&report::sarif(all))
        .map_err(|error| Failure::new(super::failure::INTERNAL, &error))?;
    console::document(&text::json(&text));
    Ok(())
}

fn summary(one: &CheckedEnvironment) {
    if one.snapshot.is_none() {
        say(&format!(
            "{}: failed to load; dependent checks skipped",
            one.environment
        ));
        return;
    }
    let found = match one.findings.count(Severity::Error) + one.findings.count(Severity::Warning) {
        0 => "no findings",
        _ => "checked",
    };
    say(&format!(
        "{}: {found} ({}, {}, {})",
        one.environment,
        format_count(one.cluster_types, "cluster type", "cluster types"),
        format_count(one.targets, "target", "targets"),
        assignments(one.assignments)
    ));
    if !one.not_looked_at.is_empty() {
        let what = one.not_looked_at.join(", ");
        say(&format!(
            "{}: not checked: {what} (`--network` makes a server that does not answer an error)",
            one.environment
        ));
    }
    if !one.not_asked_for.is_empty() {
        say(&format!(
            "{}: not checked: whether the sites' registries have {}; no registry is contacted",
            one.environment,
            named(&one.not_asked_for)
        ));
    }
    if !one.not_pulled.is_empty() {
        say(&format!(
            "{}: not checked: whether registries have {}; `outhaul bundle --estimate` asks them",
            one.environment,
            named(&one.not_pulled)
        ));
    }
    if let Some(not_promoted) = &one.not_promoted {
        say(&format!("{}: not checked: {not_promoted}", one.environment));
    }
}

/// How many images, with the first of them.
fn named(images: &[String]) -> String {
    let first: Vec<&str> = images.iter().take(3).map(String::as_str).collect();
    let more = match images.len() - first.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count = format_count(images.len(), "image", "images");
    format!("{count} (`{}`{more})", first.join("`, `"))
}

fn requested_text(environment: &str, found: &[Requested]) -> String {
    let mut out = String::new();
    let mut last = "";
    for one in found {
        if one.cluster_type != last {
            out.push_str(&format!(
                "{environment}, cluster type `{}`:\n",
                one.cluster_type
            ));
            last = &one.cluster_type;
        }
        let quoted = |names: &std::collections::BTreeSet<String>| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let required = if one.required { " (required)" } else { "" };
        out.push_str(&format!("  {}{required}\n", one.key));
        for asker in &one.by {
            out.push_str(&format!("    {} ({})\n", asker.how, asker.at));
        }
        if !one.set_by.is_empty() {
            out.push_str(&format!("    set by {}\n", quoted(&one.set_by)));
        }
        if !one.missing_for.is_empty() {
            out.push_str(&format!("    not set for {}\n", quoted(&one.missing_for)));
            could_be_set_in(&one.could_be_set_in, "    ", &mut out);
        }
    }
    if found.is_empty() {
        out.push_str(&format!("{environment}: no keys are requested\n"));
    }
    out
}
