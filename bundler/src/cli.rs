//! What people type: one file per subcommand, each with its arguments and a `run`.
//!
//! What comes in: the command line. What goes out: data on standard output (with `--output json` one
//! envelope), messages on standard error, and an exit code: 0 ok, 1 findings or refused, 2 usage or configuration, 3 environment, 4 trust,
//! 5 internal. It holds no rules.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use outhaul_kit::{console, signals};

use outhaul_control::{Diagnostic, Diagnostics};
pub(crate) use outhaul_git::terminal::{data, say};

mod blame;
mod bundle;
mod check;
mod completions;
mod copy;
mod demo;
mod diff;
mod estimate;
mod explain;
pub mod failure;
mod foreign;
mod import;
mod init;
mod inspect;
mod key;
mod new;
mod piece;
mod places;
mod project;
mod promote;
mod publish;
mod registries;
mod render;
mod schedule;
mod schema;
mod secret;
mod serve;
pub mod settings;
mod site;
mod slip;
mod sources;
mod verify;

pub use failure::Failure;
pub use outhaul_kit::console::{Exit, Output};

/// Workload management for clusters and hosts that no network reaches.
#[derive(Debug, Parser)]
#[command(name = "outhaul", version, after_help = console::GLOSSARY)]
pub struct Cli {
    /// How much is printed, and in which colours.
    #[command(flatten)]
    pub messages: console::Options,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show after which commit, value or act on site a site broke, and take the commit back on a branch
    Blame(blame::Args),
    /// Render an environment and write one signed bundle per stream
    Bundle(bundle::Args),
    /// Check a control plane: all findings, each with location and fix
    Check(check::Args),
    /// Print a script that completes commands and options in a shell
    Completions(completions::Args),
    /// Copy the bundles that were signed last onto a stick: the same bytes, read back and compared
    Copy(copy::Args),
    /// Show the whole loop on an example: control plane, bundle, gap, site, report, gate
    Demo(demo::Args),
    /// Show what a change does: assignments, values, files and sites
    Diff(diff::Args),
    /// Explain why something runs where it does, or does not, and where its values come from
    Explain(explain::Args),
    /// Compare what another tool wrote with what Outhaul would write, before taking it over
    Import(import::Args),
    /// Write a control plane to start from
    Init(init::Args),
    /// Show what a bundle is, for whom, what is in it, and whether it is whole
    Inspect(inspect::Args),
    /// Make a fleet's keys, or show them
    Key(key::Args),
    /// Add one object to a working copy of a control plane
    New(new::Args),
    /// Show the settings that need not be typed in this folder, or agree to their file
    Project(project::Args),
    /// Move the next environment to a commit, when the gate of the one before is open
    Promote(promote::Args),
    /// Publish a rendered environment to a branch, or signed bundles to where sites pull them
    Publish(publish::Args),
    /// Render an environment into a folder
    Render(render::Args),
    /// Show what runs where, and which policies say so
    Schedule(schedule::Args),
    /// Show the kinds of a control plane, or write their JSON Schemas for editors
    Schema(schema::Args),
    /// Seal values for sites, and make keys to seal for
    Secret(secret::Args),
    /// Do it all on a schedule and on a webhook: fetch, render what changed, bundle, publish, promote
    Serve(serve::Args),
    /// Enrol sites
    Site(site::Args),
    /// Write a freshness slip: keys, floors and time for a site, small enough for a QR code
    Slip(slip::Args),
    /// Check that a bundle is whole and trusted, and that its commits render to it
    Verify(verify::Args),
}

/// The command line, for what is generated from it.
pub fn command() -> clap::Command {
    Cli::command()
}

impl Cli {
    /// Does what was typed; which messages are printed was set before.
    pub fn run(self) -> ExitCode {
        failure::say_settings();
        if !matches!(self.command, Command::Serve(_)) {
            signals::watch();
        }
        let result = match self.command {
            Command::Blame(args) => args.run(),
            Command::Bundle(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Completions(args) => args.run(),
            Command::Copy(args) => args.run(),
            Command::Demo(args) => args.run(),
            Command::Diff(args) => args.run(),
            Command::Explain(args) => args.run(),
            Command::Import(args) => args.run(),
            Command::Init(args) => args.run(),
            Command::Inspect(args) => args.run(),
            Command::Key(args) => args.run(),
            Command::New(args) => args.run(),
            Command::Project(args) => args.run(),
            Command::Promote(args) => args.run(),
            Command::Publish(args) => args.run(),
            Command::Render(args) => args.run(),
            Command::Schedule(args) => args.run(),
            Command::Schema(args) => args.run(),
            Command::Secret(args) => args.run(),
            Command::Serve(args) => args.run(),
            Command::Site(args) => args.run(),
            Command::Slip(args) => args.run(),
            Command::Verify(args) => args.run(),
        };
        console::finish(result.unwrap_or_else(|failure| failure.report()))
    }
}

/// The result as JSON, for the envelope on standard output.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the last line of every command, whose type is this"
)]
pub(crate) fn print_json(value: &serde_json::Value) -> Result<Exit, Failure> {
    console::result(value.clone());
    Ok(Exit::SUCCESS)
}

/// One line of a picture that this program made itself, colours and all, on standard output.
pub(crate) fn picture(line: &str) {
    console::data(line);
}

/// Findings that do not end the command: on standard error, and in the envelope.
pub(crate) fn say_findings(findings: &Diagnostics) {
    say(findings.render(false).trim_end());
    in_envelope(findings);
}

/// Findings that are printed elsewhere, for the envelope.
pub(crate) fn in_envelope(findings: &Diagnostics) {
    for finding in findings.iter().map(Diagnostic::to_json) {
        console::finding(finding);
    }
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::volume::MAX_PARITY_PARTS;
    use outhaul_control::model::EXPIRES_DAYS_DEFAULT;

    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_names_the_bounds_and_defaults_that_hold() {
        for (command, option, says) in [
            (
                "bundle",
                "expires_days",
                format!("or else {EXPIRES_DAYS_DEFAULT}"),
            ),
            ("copy", "parity", format!("({MAX_PARITY_PARTS} at most)")),
        ] {
            let cli = Cli::command();
            let mut options = cli.find_subcommand(command).unwrap().get_arguments();
            let option = options.find(|one| one.get_id() == option).unwrap();
            let help = option.get_help().unwrap().to_string();
            assert!(help.contains(&says), "{help}");
        }
    }

    #[test]
    fn verify_needs_a_control_plane_only_to_render_again() {
        let parse = |words: &str| Cli::try_parse_from(words.split(' ').chain(["--root", "r"]));
        assert_eq!(
            parse("outhaul verify f")
                .err()
                .map(|error| error.to_string()),
            None
        );
        assert!(parse("outhaul verify f --snapshot").is_err());
        let whole = "outhaul verify f --snapshot --environment dev --control-plane c";
        assert!(parse(whole).is_ok());
    }
}
