//! The program `outhaul`: reads the command line, does it, ends with the exit code.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use mimalloc::MiMalloc;
use outhaul_bundler::cli::{Cli, settings};
use outhaul_bundler::render::jinja_process;
use outhaul_bundler::terminal;
use tracing_subscriber::EnvFilter;

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
    tracing_subscriber::fmt()
        .with_writer(|| terminal::Log)
        // What colours it would be written out with the rest.
        .with_ansi(false)
        .with_env_filter(EnvFilter::from_env("OUTHAUL_LOG"))
        .init();
    let args = match settings::complete(std::env::args_os().collect()) {
        Ok(args) => args,
        Err(failure) => return failure.report(),
    };
    match Cli::try_parse_from(args) {
        Ok(cli) => cli.run(),
        Err(error) => {
            let code = error.exit_code();
            let _ = error.print();
            if error.kind() == ErrorKind::MissingRequiredArgument
                && let Some(help) = settings::missing(&error.to_string())
            {
                eprintln!("{help}");
            }
            ExitCode::from(u8::try_from(code).unwrap_or(2))
        }
    }
}
