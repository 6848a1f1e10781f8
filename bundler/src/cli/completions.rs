//! `outhaul completions`: a script for a shell.

use clap::ValueEnum;
use outhaul_kit::console;
use serde_json::json;

use super::{Exit, Failure, Format, command, print_json};

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
    output: Format,
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
    pub fn run(self) -> Result<Exit, Failure> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Fish => clap_complete::Shell::Fish,
            Shell::Zsh => clap_complete::Shell::Zsh,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command(), "outhaul", &mut script);
        let script = String::from_utf8_lossy(&script);
        if self.output == Format::Json {
            return print_json(&json!({ "script": script }));
        }
        console::document(script.trim_end());
        Ok(Exit::SUCCESS)
    }
}
