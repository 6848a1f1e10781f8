//! The command line: one file per command, and one way from an error to an exit code.
//!
//! What comes in: arguments. What goes out: data on stdout (with `--output json` one envelope), messages on
//! stderr, and an exit code (0 ok, 1 findings or refused, 2 usage or configuration, 3 environment, 4 trust,
//! 5 internal).

mod acks;
mod acts;
mod advisories;
mod alerts;
mod audit;
mod backup;
mod caller;
mod carry;
mod check;
mod choose;
mod clock;
mod compact;
mod completions;
mod database;
mod decisions;
mod explanation;
mod explanations;
mod faults;
mod gate;
mod import;
mod init;
mod kalypso;
mod key;
mod lost;
mod moving;
mod person;
mod print;
mod prune;
mod requests;
mod serve;
mod site;
mod sites;
mod token;
mod webhook;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use outhaul_kit::console::{self, Exit, Output};
use outhaul_kit::signals;

/// The state folder where nothing names another one, and the variable that does.
const STATE: &str = "/var/lib/outhaul-hub";
const STATE_VARIABLE: &str = "OUTHAUL_HUB_STATE";

/// Outhaul's hub: takes signed reports in, shows desired and actual state, and decides promotion gates.
#[derive(Debug, Parser)]
#[command(
    name = "outhaul-hub",
    version,
    about,
    propagate_version = true,
    after_help = console::GLOSSARY
)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    messages: console::Options,
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
        env = STATE_VARIABLE,
        default_value = STATE
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

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Init(init::Args),
    Import(import::Args),
    Acks(acks::Args),
    Advisories(advisories::Args),
    Alerts(alerts::Args),
    Caller(caller::Args),
    Carry(carry::Args),
    Check(check::Args),
    Choose(choose::Args),
    Clock(clock::Args),
    Explanation(explanations::Args),
    Faults(faults::Args),
    Gate(gate::Args),
    Decisions(decisions::Args),
    Approve(acts::Approve),
    Hold(acts::Hold),
    Waive(acts::Waive),
    Defer(acts::Defer),
    Withdraw(acts::Withdraw),
    Approvals(acts::List),
    Audit(audit::Args),
    Backup(backup::Backup),
    Site(site::Args),
    Sites(sites::Args),
    Key(key::Args),
    Lost(lost::Args),
    Move(moving::Args),
    Person(person::Args),
    Prune(prune::Args),
    Compact(compact::Args),
    Restore(backup::Restore),
    Token(token::Args),
    Completions(completions::Args),
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
    let Cli {
        common,
        messages,
        command,
    } = cli;
    messages.apply();
    let by_itself = std::env::var_os(STATE_VARIABLE).unwrap_or_else(|| STATE.into());
    if common.state != Path::new(&by_itself) {
        console::place::name("outhaul-hub", "--state", &common.state);
    }
    if !matches!(command, Command::Serve(_)) {
        signals::watch();
    }
    let done = match command {
        Command::Serve(args) => serve::run(&common, messages, args),
        Command::Init(args) => init::run(&common, &args),
        Command::Import(args) => import::run(&common, &args),
        Command::Acks(args) => acks::run(&common, &args),
        Command::Advisories(args) => advisories::run(&common, &args),
        Command::Alerts(args) => alerts::run(&common, args),
        Command::Backup(args) => backup::write(&common, &args),
        Command::Restore(args) => backup::restore(&common, &args),
        Command::Caller(args) => caller::run(&common, &args),
        Command::Carry(args) => carry::run(&common, &args),
        Command::Check(args) => check::run(&common, &args),
        Command::Choose(args) => choose::run(&common, &args),
        Command::Clock(args) => clock::run(&common, &args),
        Command::Explanation(args) => explanations::run(&common, &args),
        Command::Faults(args) => faults::run(&common, &args),
        Command::Gate(args) => gate::run(&common, &args),
        Command::Decisions(args) => decisions::run(&common, &args),
        Command::Approve(args) => acts::approve(&common, &args),
        Command::Hold(args) => acts::hold(&common, &args),
        Command::Waive(args) => acts::waive(&common, &args),
        Command::Defer(args) => acts::defer(&common, &args),
        Command::Withdraw(args) => acts::withdraw(&common, &args),
        Command::Approvals(args) => acts::list(&common, &args),
        Command::Audit(args) => audit::run(&common, &args),
        Command::Site(args) => site::run(&common, args),
        Command::Sites(args) => sites::run(&common, &args),
        Command::Token(args) => token::run(&common, &args),
        Command::Person(args) => person::run(&common, &args),
        Command::Key(args) => key::run(&common, &args),
        Command::Lost(args) => lost::run(&common, &args),
        Command::Prune(args) => prune::run(&common, &args),
        Command::Compact(args) => compact::run(&common, &args),
        Command::Move(args) => moving::run(&common, &args),
        Command::Completions(args) => Ok(completions::run(&args)),
    };
    console::finish(done.map_or_else(|error| console::failed(&error), Exit::from))
}
