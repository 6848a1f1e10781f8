//! `outhaul demo`: the whole loop on an example.

use std::path::PathBuf;
use std::process::ExitCode;

use super::failure::{self, Failure};
use crate::demo::{self, DemoError, Options};

/// Show the whole loop on an example: control plane, bundle, gap, site, report, gate
///
/// Needs no root and no network. Uses Ansible where it is installed, and the folder reconciler otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul demo --keep factory --serve")]
pub struct Args {
    /// Keep everything in this new folder, and say what to type next
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Leave the hub's page open
    #[arg(long)]
    serve: bool,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let options = Options {
            keep: self.keep,
            serve: self.serve,
        };
        demo::run(&options)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| {
                let code = match &error {
                    DemoError::InUse { .. } => failure::USAGE,
                    DemoError::Io { .. } | DemoError::Programs { .. } => failure::ENVIRONMENT,
                    _ => failure::INTERNAL,
                };
                Failure::new(code, &error)
            })
    }
}
