//! `outhaul demo`: the whole loop on an example.

use std::path::PathBuf;

use outhaul_kit::console;

use super::failure::Failure;
use super::{Exit, Output};
use crate::demo::{self, DemoOptions};

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
    /// How data is printed: in JSON, the lines of the transcript
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        // In JSON the transcript's lines become the result.
        debug_assert_eq!(self.output == Output::Json, console::is_json());
        if let Some(folder) = &self.keep {
            super::places::new_folder(folder)?;
        }
        let options = DemoOptions {
            keep: self.keep,
            serve: self.serve,
        };
        demo::run(&options)
            .map(|()| Exit::SUCCESS)
            .map_err(|error| Failure::of(&error))
    }
}
