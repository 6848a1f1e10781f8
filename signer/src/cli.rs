//! The commands of `outhaul-signer`: one file each, and the table from errors to exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use jiff::Timestamp;
use outhaul_kit::console::{self, Exit, Output};
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::signals;
use outhaul_kit::text::{printable_lines, quoted};
use outhaul_place::PlaceRefused;
use outhaul_signer::durable::FileError;
use outhaul_signer::review::ReviewError;
use outhaul_signer::{Fleet, FleetError, KeyError, Secret, TrustError};

mod completions;
mod countersign;
mod init;
mod key;
mod passphrase;
mod restored;
mod revoke;
mod root;
mod rotate;
mod status;
mod stream;
mod verify_metadata;

/// Keys and signatures of an Outhaul fleet, on a machine that is never online.
///
/// Example: `outhaul-signer --passphrase-file pass init ./fleet --root-keys 3 --root-threshold 2`
#[derive(Debug, Parser)]
#[command(
    name = "outhaul-signer",
    version,
    arg_required_else_help = true,
    after_help = console::GLOSSARY
)]
pub(crate) struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    messages: console::Options,
    #[command(subcommand)]
    command: Command,
}

/// What every command understands.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// File with the passphrase of the keys (mode 0600); else `$OUTHAUL_PASSPHRASE`, else the systemd
    /// credential `outhaul-passphrase`, else it is asked for at the terminal
    #[arg(long, global = true, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// How data is printed on stdout
    #[arg(long, global = true, value_enum, default_value = "text")]
    output: Output,
    /// The time to sign with, instead of this machine's clock (RFC 3339)
    #[arg(long, global = true, value_name = "TIME")]
    now: Option<Timestamp>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Completions(completions::Args),
    Countersign(countersign::Args),
    Init(init::Args),
    Key(key::Args),
    Passphrase(passphrase::Args),
    Restored(restored::Args),
    Revoke(revoke::Args),
    Root(root::Args),
    Rotate(rotate::Args),
    Status(status::Args),
    Stream(stream::Args),
    VerifyMetadata(verify_metadata::Args),
}

/// What ended a command before it was done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Place(#[from] PlaceRefused),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("{0}")]
    Usage(String),
}

/// Done, or waiting for someone else's signature.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    Done,
    Waiting,
}

type Result = std::result::Result<CommandOutcome, Failure>;

impl Common {
    /// The option with which the passphrase was given, for a command that a person is to type next.
    fn passphrase_option(&self) -> String {
        let file = self.passphrase_file.as_deref().map(quoted);
        file.map_or_else(String::new, |file| format!(" --passphrase-file {file}"))
    }

    fn secret(&self) -> std::result::Result<Secret, Failure> {
        Ok(Secret::obtain(self.passphrase_file.as_deref(), false)?)
    }

    /// For keys that are made now: typed twice, and refused when it is easy to guess.
    fn new_secret(&self) -> std::result::Result<Secret, Failure> {
        Ok(Secret::obtain(self.passphrase_file.as_deref(), true)?)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the edge of the program: it signs with this time"
    )]
    fn now(&self) -> Timestamp {
        self.now.unwrap_or_else(Timestamp::now)
    }

    /// The time to sign with: what was typed, or this machine's clock if the fleet finds it plausible.
    fn sign_at(&self, fleet: &Fleet) -> std::result::Result<Timestamp, Failure> {
        let now = self.now();
        if self.now.is_none() {
            fleet.refuse_implausible_clock(now)?;
        }
        Ok(now)
    }

    /// Prints `text`, or `json` when that was asked for.
    fn print(&self, text: &str, json: &serde_json::Value) {
        self.output.print(text, || json.clone());
    }
}

/// Runs the program with this process's arguments.
pub fn main() -> ExitCode {
    match console::parse(std::env::args_os()) {
        Ok(cli) => run(cli),
        Err(code) => code,
    }
}

/// The command line, for man pages and completions, which are made elsewhere.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command and returns how it ended.
fn run(cli: Cli) -> ExitCode {
    cli.messages.apply();
    signals::watch();
    let common = &cli.common;
    let result = match cli.command {
        Command::Completions(args) => args.run(),
        Command::Countersign(args) => args.run(common),
        Command::Init(args) => args.run(common),
        Command::Key(args) => args.run(common),
        Command::Passphrase(args) => args.run(common),
        Command::Restored(args) => args.run(common),
        Command::Revoke(args) => args.run(common),
        Command::Root(args) => args.run(common),
        Command::Rotate(args) => args.run(common),
        Command::Status(args) => args.run(common),
        Command::Stream(args) => args.run(common),
        Command::VerifyMetadata(args) => args.run(common),
    };
    console::finish(match result {
        Ok(CommandOutcome::Done) => Exit::SUCCESS,
        Ok(CommandOutcome::Waiting) => Exit::from(1),
        Err(failure) => console::failed(&failure),
    })
}

/// A message on standard error.
fn say(text: &str) {
    console::message(&printable_lines(text));
}

impl Classified for Failure {
    fn class(&self) -> FailureClass {
        match self {
            Self::Refused(_) => FailureClass::Refused,
            Self::Usage(_) => FailureClass::Usage,
            Self::File(_) => FailureClass::Environment,
            Self::Trust(_) | Self::Review(_) => FailureClass::Trust,
            Self::Fleet(error) => error.class(),
            Self::Key(error) => error.class(),
            Self::Place(error) => error.class(),
        }
    }

    fn help(&self) -> Option<String> {
        self.file_error().map(FileError::help)
    }
}

impl Failure {
    /// The file that could not be read or written, whoever needed it.
    fn file_error(&self) -> Option<&FileError> {
        match self {
            Self::File(error)
            | Self::Key(KeyError::File(error))
            | Self::Fleet(FleetError::File(error) | FleetError::Key(KeyError::File(error))) => {
                Some(error)
            }
            _ => None,
        }
    }
}
