//! `outhaul-signer completions`: a script for a shell.

use outhaul_kit::completions::{self, Shell};

use super::{CommandOutcome, Result};

/// Print a script that completes commands and options in a shell.
///
/// Example: `outhaul-signer completions bash > ~/.local/share/bash-completion/completions/outhaul-signer`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

impl Args {
    #[expect(clippy::unnecessary_wraps, reason = "every command gives a result")]
    pub fn run(self) -> Result {
        completions::print(super::command(), self.shell);
        Ok(CommandOutcome::Done)
    }
}
