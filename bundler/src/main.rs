//! The program `outhaul`: reads the command line, does it, ends with the exit code.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

use clap::error::ErrorKind;
use mimalloc::MiMalloc;
use outhaul_bundler::cli::{Cli, settings};
use outhaul_git::terminal;
use outhaul_kit::console::{self, options};
use outhaul_plane::render::jinja_process;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Rendering makes and drops many small texts on every processor.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == jinja_process::ARGUMENT)
    {
        jinja_process::serve();
        return ExitCode::SUCCESS;
    }
    if let Ok(program) = std::env::current_exe() {
        jinja_process::isolate_in(program);
    }
    let typed: Vec<OsString> = std::env::args_os().collect();
    console::begin::<Cli>(&typed);
    let arguments = match settings::complete(typed) {
        Ok(arguments) => arguments,
        Err(failure) => return console::finish(failure.report()),
    };
    let help = |error: &clap::Error| match error.kind() {
        ErrorKind::MissingRequiredArgument => settings::missing(&error.to_string()),
        _ => None,
    };
    let cli: Cli = match console::parse_with(arguments, help) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    cli.messages.apply();
    // What shipping warns of stands in no answer: a bundle that is on record although the command failed.
    let level = cli.messages.log_level("error,outhaul_ship=warn");
    let asked = EnvFilter::try_from_env("OUTHAUL_LOG").ok();
    let is_log = asked.is_some() || options::is_verbose();
    let log = tracing_subscriber::fmt()
        .with_writer(|| terminal::Log)
        // What colours it would be written out with the rest.
        .with_ansi(false)
        // A log that nobody reads is no reason to fail.
        .log_internal_errors(false)
        .with_env_filter(asked.unwrap_or_else(|| EnvFilter::new(level)));
    match is_log {
        true => log.init(),
        // Among messages, a line for people.
        false => log.event_format(AsMessage).init(),
    }
    cli.run()
}

/// What is logged, as a message: `warning: …`, without the time and the place in the program.
struct AsMessage;

impl<S, N> FormatEvent<S, N> for AsMessage
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let kind = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "note",
        };
        write!(writer, "{kind}: ")?;
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
