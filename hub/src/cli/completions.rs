//! `outhaul-hub completions`: a script for a shell.

use outhaul_kit::completions::{self, Shell};

/// Print a script that completes commands and options in a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub completions bash > ~/.local/share/bash-completion/completions/outhaul-hub"
)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn run(args: &Args) -> u8 {
    completions::print(super::command(), args.shell);
    0
}
