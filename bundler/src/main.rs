//! The program `outhaul`: reads the command line, does it, ends with the exit code.

use std::process::ExitCode;

use clap::Parser;
use outhaul_bundler::cli::Cli;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::from_env("OUTHAUL_LOG"))
        .init();
    Cli::parse().run()
}
