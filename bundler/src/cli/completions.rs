//! `outhaul completions`: a script for a shell.

use std::io::Write as _;
use std::process::ExitCode;

use clap::ValueEnum;

use super::{Failure, command};

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
}

/// The shells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    /// bash, with bash-completion.
    Bash,
    /// fish.
    Fish,
    /// zsh.
    Zsh,
}

impl Args {
    /// Does it.
    #[expect(clippy::unnecessary_wraps, reason = "called as every subcommand is")]
    pub fn run(self) -> Result<ExitCode, Failure> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Fish => clap_complete::Shell::Fish,
            Shell::Zsh => clap_complete::Shell::Zsh,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command(), "outhaul", &mut script);
        // A reader that went away is no error.
        let _ = std::io::stdout().lock().write_all(&script);
        Ok(ExitCode::SUCCESS)
    }
}
