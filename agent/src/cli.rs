//! The command line: parse, set up the log, run one command, turn an error into words and an exit code.
//!
//! What comes in: arguments. What goes out: data on stdout (with `--output json` one envelope), messages on
//! stderr, and an exit code of the table in the design. Each command has its own file with its `Args` and `run`.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use outhaul_kit::console::{self, Exit, Output};
use outhaul_kit::failure::Classified as _;
use outhaul_kit::text::{printable, printable_lines};
use serde::Serialize;

use crate::agent::Agent;
use crate::calls::CommandResult;
use crate::error::AgentError;
use crate::intake::visit;
use crate::interrupted;
use crate::state::StateError;
use crate::state_folder::{LockError, StateFolder};
use outhaul_host::owner;

mod apply;
mod apply_helper;
mod approve;
mod backup;
mod enrol;
mod export;
mod hold;
mod import;
mod observe;
mod plan;
mod restore;
mod rollback;
mod run;
mod send;
mod status;
mod trial;
mod values;

/// The folder of a site, where none is named.
const STATE: &str = "/var/lib/outhaul-agent";

/// Verifies bundles, applies them on this site, and reports to the hub.
#[derive(Debug, Parser)]
#[command(
    name = "outhaul-agent",
    version,
    after_help = format!(
        "Example:\n  outhaul-agent --state /var/lib/outhaul-agent import /media/stick\n\n{}",
        console::GLOSSARY
    )
)]
struct Cli {
    /// The folder that holds everything the agent owns.
    #[arg(
        long,
        global = true,
        env = "OUTHAUL_STATE",
        default_value = STATE,
        value_name = "DIR"
    )]
    state: PathBuf,
    /// How data is printed.
    #[arg(long, global = true, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    messages: console::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Enrol(enrol::Args),
    Import(import::Args),
    Run(run::Args),
    Status(status::Args),
    Plan(plan::Args),
    Observe(observe::Args),
    Approve(approve::Args),
    Hold(hold::Args),
    Rollback(rollback::Args),
    Apply(apply::Args),
    Values(values::ListArgs),
    Set(values::SetArgs),
    Unset(values::UnsetArgs),
    #[command(hide = true)]
    Trial(trial::Args),
    Export(export::Args),
    Send(send::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    ApplyHelper(apply_helper::Args),
}

impl Command {
    /// Whether it only reads.
    fn reads(&self) -> bool {
        matches!(self, Self::Status(_) | Self::Plan(_) | Self::Values(_))
    }
}

/// What every command gets.
#[derive(Debug)]
struct Context {
    state: PathBuf,
    output: Output,
}

impl Context {
    /// Prints a result: `text` for people, `value` for scripts.
    fn print(&self, text: &str, value: &impl Serialize) {
        // What is ours to print is text and numbers: it is JSON whatever it holds.
        let value = || serde_json::to_value(value).unwrap_or_default();
        self.output.print(text, value);
    }

    /// Prints an answer: messages on stderr, the result on stdout.
    fn print_answer(&self, answer: &CommandResult) -> u8 {
        let mut errors: Vec<&str> = Vec::new();
        for line in &answer.messages {
            let of_error = line.starts_with("error: ") || line.starts_with("help: ");
            if of_error {
                console::always(&printable_lines(line));
            } else {
                say(line);
            }
            if line.starts_with("error: ") || (of_error && !errors.is_empty()) {
                errors.push(line);
            }
        }
        console::note_failure(answer.exit, &errors.join("\n"));
        if !answer.text.is_empty() || !answer.value.is_null() {
            self.print(&answer.text, &answer.value);
        }
        answer.exit
    }
}

/// The command line, for man pages and completions, which are made elsewhere.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli: Cli = match console::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    cli.messages.apply();
    let by_itself = std::env::var_os("OUTHAUL_STATE").unwrap_or_else(|| STATE.into());
    if cli.state != Path::new(&by_itself) {
        console::place::name("outhaul-agent", "--state", &cli.state);
    }
    // A level and no more: filters by module would bring a regular-expression engine to every site.
    let level = std::env::var("OUTHAUL_LOG").ok();
    let level = level.and_then(|level| level.parse().ok());
    let asked = cli.messages.log_level("info").parse().ok();
    tracing_subscriber::fmt()
        .with_max_level(level.or(asked).unwrap_or(tracing::Level::INFO))
        .with_writer(|| console::Log)
        // A log that nobody reads is no reason to fail.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false)
        // journald and people have their own clock; this one may be wrong.
        .without_time()
        .init();
    if !matches!(
        cli.command,
        Command::Enrol(_) | Command::Restore(_) | Command::Trial(_) | Command::ApplyHelper(_)
    ) {
        let is_service = matches!(cli.command, Command::Run(_));
        crate::update::launch(&cli.state, is_service, &crate::daemon::alive, &say);
    }
    let context = Context {
        state: cli.state,
        output: cli.output,
    };
    let owned = match cli.command {
        Command::ApplyHelper(_) | Command::Trial(_) => Ok(()),
        Command::Enrol(_) | Command::Restore(_) => owner::check(&context.state, true),
        _ => owner::check(&context.state, false),
    };
    let reads = cli.command.reads();
    let (before, beside) = match owned {
        Err(error) if reads => (Ok(()), Some(error)),
        other => (other, None),
    };
    let result = before
        .and_then(|()| refuse_root_in_anothers(&context.state, &cli.command))
        .and_then(|()| match cli.command {
            Command::Enrol(args) => enrol::run(&context, &args),
            Command::Import(args) => import::run(&context, &args),
            Command::Run(args) => run::run(&context, &args),
            Command::Status(args) => status::run(&context, &args),
            Command::Plan(args) => plan::run(&context, &args),
            Command::Observe(args) => observe::run(&context, &args),
            Command::Approve(args) => approve::run(&context, &args),
            Command::Hold(args) => hold::run(&context, &args),
            Command::Rollback(args) => rollback::run(&context, &args),
            Command::Apply(args) => apply::run(&context, &args),
            Command::Values(args) => values::list(&context, &args),
            Command::Set(args) => values::set(&context, &args),
            Command::Unset(args) => values::unset(&context, &args),
            Command::Trial(args) => trial::run(&context, &args),
            Command::Export(args) => export::run(&context, &args),
            Command::Send(args) => send::run(&context, &args),
            Command::Backup(args) => backup::run(&context, &args),
            Command::Restore(args) => restore::run(&context, &args),
            Command::ApplyHelper(args) => apply_helper::run(&context, &args),
        });
    let result = match (result, beside) {
        // What could be read is printed, and what keeps every other command from its work.
        (Ok(code), Some(error)) => {
            for line in error.lines() {
                console::always(&printable_lines(&line));
            }
            Ok(code.max(error.class().code()))
        }
        (Err(_), Some(error)) => Err(error),
        (result, None) => result,
    };
    let code = result.unwrap_or_else(|error| {
        let lines = error.lines().join("\n");
        let code = error.class().code();
        console::fail(code, &printable_lines(&lines));
        code
    });
    // A command that was stopped by a signal says so, unless it came to its end all the same.
    let code = match interrupted::code() {
        Some(signal) if code != 0 => signal,
        _ => code,
    };
    console::finish(Exit::from(code))
}

/// Refuses a command that writes to the state folder when root gives it and the folder is another user's:
/// what root writes there, the service of that user can neither read nor replace.
fn refuse_root_in_anothers(state: &Path, command: &Command) -> Result<(), AgentError> {
    if matches!(command, Command::ApplyHelper(_)) || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let owner_of = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.uid());
    let owner = owner_of(state);
    let reads = command.reads();
    // Settings of another user are not followed by root.
    if owner == 0 || (reads && owner_of(&StateFolder::new(state).config()) != owner) {
        return Ok(());
    }
    Err(AgentError::Usage {
        message: format!(
            "`{}` belongs to user {owner}, and this command runs as root: {}; nothing was changed",
            outhaul_kit::text::path(state),
            match reads {
                true => "root does not follow the settings of that user",
                false => "the service of that user could not read what root writes there",
            }
        ),
        help: format!("repeat the command as that user: put `sudo -u '#{owner}'` in front of it"),
    })
}

/// A line on stderr. It may quote names and messages from untrusted sources, which must not control a terminal.
fn say(line: &str) {
    console::message(&printable_lines(line));
}

/// The agent with the lock, or without it (and `true`) while another process has it.
fn exclusive_or_shared(context: &Context) -> Result<(Agent, bool), AgentError> {
    match Agent::exclusive(&context.state) {
        Err(AgentError::State(StateError::Lock(LockError::Busy { .. }))) => {
            Ok((Agent::open(&context.state)?, true))
        }
        other => {
            let mut agent = other?;
            // Before what is decided now ends the work: what was read then was copied.
            visit::close_interrupted(&mut agent)?;
            Ok((agent, false))
        }
    }
}

/// Who gives a command, as far as the system knows.
fn who() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    named
        .map(|name| printable(&name).into_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}
