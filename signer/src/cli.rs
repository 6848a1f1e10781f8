//! The commands of `outhaul-signer`: one file each, and the table from errors to exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use jiff::Timestamp;
use outhaul_kit::console::{self, Exit};
use outhaul_kit::signals;
use outhaul_kit::text::{chain, printable_lines};
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Json,
    Text,
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
#[derive(Debug)]
pub(crate) enum Failure {
    Fleet(FleetError),
    File(FileError),
    Key(KeyError),
    Refused(String),
    Review(ReviewError),
    Trust(TrustError),
    Usage(String),
}

/// Done, or waiting for somebody else's signature.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    Done,
    Waiting,
}

type Result = std::result::Result<CommandOutcome, Failure>;

impl Common {
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
        match self.output {
            Output::Json => console::result(json.clone()),
            Output::Text => console::data(&printable_lines(text)),
        }
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
        Err(failure) => {
            let text = format!("error: {}", failure.message());
            console::fail(failure.exit_code(), &printable_lines(&text));
            Exit::from(failure.exit_code())
        }
    })
}

/// A message on standard error.
fn say(text: &str) {
    console::message(&printable_lines(text));
}

impl Failure {
    fn message(&self) -> String {
        let text = self.sentence();
        match self.file_error() {
            Some(error) if !text.contains("\nhelp:") => format!("{text}\nhelp: {}", error.help()),
            _ => text,
        }
    }

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

    fn sentence(&self) -> String {
        match self {
            Self::Fleet(error) => chain(error),
            Self::File(error) => chain(error),
            Self::Key(error) => chain(error),
            Self::Refused(text) | Self::Usage(text) => text.clone(),
            Self::Review(error) => chain(error),
            Self::Trust(error) => chain(error),
        }
    }

    /// The table of exit codes.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Fleet(FleetError::CountersignatureNeeded { .. }) => 1,
            Self::Usage(_)
            | Self::Key(KeyError::NoPassphrase { .. } | KeyError::WeakPassphrase { .. })
            | Self::Fleet(
                FleetError::Exists { .. }
                | FleetError::NotAFleet { .. }
                | FleetError::Option { .. }
                | FleetError::Key(KeyError::NoPassphrase { .. } | KeyError::WeakPassphrase { .. }),
            ) => 2,
            Self::File(_)
            | Self::Key(KeyError::File(_) | KeyError::NoRandomness { .. })
            | Self::Fleet(
                FleetError::Damaged { .. }
                | FleetError::Forgotten { .. }
                | FleetError::File(_)
                | FleetError::Key(KeyError::File(_)),
            ) => 3,
            Self::Trust(_)
            | Self::Review(_)
            | Self::Key(_)
            | Self::Fleet(
                FleetError::Key(_)
                | FleetError::MissingKeys { .. }
                | FleetError::WouldBeRefused { .. },
            ) => 4,
            Self::Fleet(_) => 5,
        }
    }
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        Self::Fleet(error)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<ReviewError> for Failure {
    fn from(error: ReviewError) -> Self {
        Self::Review(error)
    }
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        Self::Trust(error)
    }
}
