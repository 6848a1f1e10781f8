//! `outhaul demo`: the whole loop on an example.

use std::process::ExitCode;

use super::Failure;

/// Show the whole loop on an example
#[derive(Debug, clap::Args)]
pub struct Args {}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        Ok(ExitCode::SUCCESS)
    }
}
