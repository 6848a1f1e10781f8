//! `outhaul-signer`: key ceremonies and signing on a machine that is never online.
//!
//! It reads and writes files and nothing else. Data goes to stdout, talk to stderr; the exit code says
//! whose move it is: 0 done, 1 waiting for signatures or refused, 2 usage, 3 files, 4 trust.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    cli::run(cli::Cli::parse())
}
