//! The program `outhaul`: reads the command line, does it, ends with the exit code.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use outhaul_bundler::cli::Cli;
use tracing_subscriber::EnvFilter;

/// Rendering makes and drops many small texts on every processor.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::from_env("OUTHAUL_LOG"))
        .init();
    Cli::parse().run()
}
