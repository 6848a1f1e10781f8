//! `outhaul completions`: a script for a shell.

use outhaul_kit::completions::{self, Shell};

use super::{Exit, Failure, Output, command};

/// Print a script that completes commands and options in a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul completions bash > ~/.local/share/bash-completion/completions/outhaul\n  \
    outhaul completions zsh > ~/.zfunc/_outhaul\n  \
    outhaul completions fish > ~/.config/fish/completions/outhaul.fish\n\n\
    `cargo xtask man DIR` writes those of all four programs, and man pages."
)]
pub struct Args {
    /// The shell
    shell: Shell,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    #[expect(clippy::unnecessary_wraps, reason = "every command gives a result")]
    pub fn run(self) -> Result<Exit, Failure> {
        completions::print(command(), self.shell);
        Ok(Exit::SUCCESS)
    }
}
