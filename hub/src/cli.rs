//! The command line: one file per command, and one way from an error to an exit code.
//!
//! What comes in: arguments. What goes out: data on stdout, talk on stderr, and an exit code (0 ok, 1
//! findings or refused, 2 usage or configuration, 3 environment, 4 trust, 5 internal).

mod acks;
mod caller;
mod gate;
mod import;
mod init;
mod key;
mod print;
mod requests;
mod serve;
mod site;
mod sites;
mod waive;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::error::{HubError, chain};

/// Outhaul's hub: takes signed reports in, shows desired and actual state, and decides promotion gates.
#[derive(Debug, Parser)]
#[command(name = "outhaul-hub", version, about, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// Folder that holds everything the hub owns
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "OUTHAUL_HUB_STATE",
        default_value = "/var/lib/outhaul-hub"
    )]
    state: PathBuf,
    /// File with the passphrase of the hub's key (mode 0600); else `$OUTHAUL_HUB_PASSPHRASE`, else the
    /// systemd credential `outhaul-hub.passphrase`
    #[arg(long, global = true, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Form of the data on stdout
    #[arg(long, global = true, value_name = "FORM", default_value = "text")]
    output: Output,
}

/// Form of the data on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// JSON, for programs
    Json,
    /// Text, for people
    Text,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Init(init::Args),
    Import(import::Args),
    Acks(acks::Args),
    Caller(caller::Args),
    Gate(gate::Args),
    Waive(waive::Args),
    Site(site::Args),
    Sites(sites::Args),
    Key(key::Args),
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
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` are no errors, and nothing is left to do when stdout is gone.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let Cli { common, command } = cli;
    let done = match command {
        Command::Serve(args) => serve::run(&common, args),
        Command::Init(args) => init::run(&common, &args),
        Command::Import(args) => import::run(&common, &args),
        Command::Acks(args) => acks::run(&common, &args),
        Command::Caller(args) => caller::run(&common, &args),
        Command::Gate(args) => gate::run(&common, &args),
        Command::Waive(args) => waive::run(&common, &args),
        Command::Site(args) => site::run(&common, args),
        Command::Sites(args) => sites::run(&common, &args),
        Command::Key(args) => key::run(&common, &args),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(report(&error)),
    }
}

fn report(error: &HubError) -> u8 {
    let text = chain(error);
    print::talk(&format!("error: {text}"));
    // Some causes bring their own way out.
    if let (Some(help), false) = (error.help(), text.contains("\nhelp: ")) {
        print::talk(&format!("help: {help}"));
    }
    error.exit_code()
}
