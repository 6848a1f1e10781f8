//! The command line of `outhaul-audit`.
//!
//! What comes in: an export, the root metadata, and optionally the hub's key and the end of an earlier export. What goes
//! out: each decision and what does not hold on stdout (with `--output json` one envelope), and an exit code: 0 all is
//! as recorded, 1 something cannot be recomputed, 4 something does not hold.

use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use outhaul_kit::console::{self, Exit, Output};
use outhaul_kit::durable;
use outhaul_kit::text::printable;
use outhaul_signer::key::PublicKey;

use crate::audit;
use crate::error::AuditError;
use crate::outcome::{Audit, Recomputed};

/// Largest root metadata and key file, in bytes.
const MAX_SMALL_BYTES: u64 = 1024 * 1024;
const TRUST: u8 = 4;

/// Outhaul's auditor: recomputes what a hub's gates decided, without the hub.
#[derive(Debug, Parser)]
#[command(
    name = "outhaul-audit",
    version,
    about,
    propagate_version = true,
    after_help = console::GLOSSARY
)]
struct Cli {
    #[command(flatten)]
    messages: console::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Verify(Verify),
}

/// Make each decision of an audit export again, from the fleet's root
///
/// Checks every signature and chain of a file that `outhaul-hub audit export` wrote, and makes each decision again with
/// the gate's own function from the evidence in the file. Exit code 0 when all is as recorded, 1 when a decision cannot
/// be recomputed because something is missing, 4 when a signature, a chain or a decision does not hold.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-audit verify gates.audit --root 1.root.json --hub-key hub.pem"
)]
struct Verify {
    /// The export
    file: PathBuf,
    /// The fleet's first root metadata (`1.root.json`)
    #[arg(long, value_name = "FILE")]
    root: PathBuf,
    /// The hub's public key (`outhaul-hub key`), over a trusted channel; without it the key in the export is shown, to be
    /// compared
    #[arg(long, value_name = "FILE")]
    hub_key: Option<PathBuf>,
    /// A digest with which a chain of an earlier export ended: it must still be there, so that nothing was cut or
    /// rewritten since; may be given twice, for decisions and for what people decided
    #[arg(long, value_name = "DIGEST")]
    head: Vec<String>,
    /// Form of the data on stdout
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Output,
}

/// The command line, for man pages and completions, which are made elsewhere.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program with this process's arguments.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs the program with `arguments`, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli: Cli = match console::parse(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    cli.messages.apply();
    let Command::Verify(args) = &cli.command;
    console::finish(match audited(args) {
        Ok(audit) => {
            print(args.output, &audit);
            Exit::from(audit.exit_code())
        }
        Err(error) => console::failed(&error),
    })
}

fn audited(cli: &Verify) -> Result<Audit, AuditError> {
    let root = durable::read(&cli.root, MAX_SMALL_BYTES)?;
    let hub_key = match &cli.hub_key {
        None => None,
        Some(path) => {
            let pem = durable::read(path, MAX_SMALL_BYTES)?;
            let key = PublicKey::from_pem(&String::from_utf8_lossy(&pem));
            Some(key.map_err(AuditError::GivenKey)?)
        }
    };
    let export = File::open(&cli.file).map_err(durable::at("open", &cli.file))?;
    audit(BufReader::new(export), &root, hub_key.as_ref(), &cli.head)
}

fn print(output: Output, audit: &Audit) {
    for problem in &audit.problems {
        let place = match problem.line {
            0 => "the file".to_owned(),
            line => format!("line {line}"),
        };
        let text = format!("{place}: {}", printable(&problem.what));
        console::fail(TRUST, &format!("error: {text}"));
    }
    for one in &audit.decisions {
        if let Recomputed::Differs(differences) = &one.outcome {
            let text = differences
                .iter()
                .map(|one| format!("\n  - {}", printable(one)));
            let text = text.collect::<String>();
            console::fail(
                TRUST,
                &format!(
                    "error: decision {} does not match its evidence{text}",
                    one.id
                ),
            );
        }
    }
    if output == Output::Json {
        match serde_json::to_value(audit) {
            Ok(value) => console::result(value),
            Err(error) => console::fail(
                5,
                &format!("error: the result cannot be written as JSON: {error}"),
            ),
        }
        return;
    }
    for one in &audit.decisions {
        let outcome = match &one.outcome {
            Recomputed::AsRecorded => "recomputed as recorded".to_owned(),
            Recomputed::Differs(_) => "DIFFERS, see above".to_owned(),
            Recomputed::Missing(what) => format!("cannot be recomputed: {what}"),
        };
        let commit: String = one.commit.chars().take(12).collect();
        let step = one.to.as_ref().map(|to| format!(" to {to}"));
        let step = step.unwrap_or_default();
        let line = format!(
            "decision {} ({} {}{step} {commit} {}, asked by {}): {outcome}",
            one.id, one.at, one.environment, one.verdict, one.asked_by
        );
        console::data(&printable(&line));
    }
    let count = |is: fn(&Recomputed) -> bool| {
        audit
            .decisions
            .iter()
            .filter(|one| is(&one.outcome))
            .count()
    };
    console::data(&format!(
        "{} decisions: {} as recorded, {} differ, {} cannot be recomputed; {} problems",
        audit.decisions.len(),
        count(|one| matches!(one, Recomputed::AsRecorded)),
        count(|one| matches!(one, Recomputed::Differs(_))),
        count(|one| matches!(one, Recomputed::Missing(_))),
        audit.problems.len()
    ));
    if !audit.backwards.is_empty() {
        let numbers: Vec<String> = audit.backwards.iter().map(i64::to_string).collect();
        console::data(&format!(
            "the times of decisions run backwards at {}: the hub's clock was put back, or was ahead before; they are in the order of \
             their numbers",
            numbers.join(", ")
        ));
    }
    console::data(&format!("written by the hub with key {}", audit.hub_key));
    for one in &audit.missing {
        console::data(&printable(&one.to_string()));
    }
    if !audit.head.is_empty() {
        console::data(&format!(
            "the chain ends with {}; keep it for `--head`",
            audit.head
        ));
    }
    if !audit.acts_head.is_empty() {
        console::data(&format!(
            "the chain of what people decided ends with {}; keep it for `--head`",
            audit.acts_head
        ));
    }
    for what in &audit.taken_from_the_hub {
        console::message(&format!(
            "note: taken from the hub, with no signature of another party: {what}"
        ));
    }
}
