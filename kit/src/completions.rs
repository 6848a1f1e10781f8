//! Completions: a script for a shell, from a program's own command line.
//!
//! What comes in: the command line, and which shell. What goes out: the script, on standard output. It is
//! for programs of the centre; the agent's is made with its man page, so that no site carries the generator.

use clap::{Command, ValueEnum};
use serde_json::json;

use crate::console;

/// The shells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash, with bash-completion.
    Bash,
    /// fish.
    Fish,
    /// zsh.
    Zsh,
}

/// Prints the script of `command` for `shell`; with `--output json` it is the result's `script`.
pub fn print(mut command: Command, shell: Shell) {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Fish => clap_complete::Shell::Fish,
        Shell::Zsh => clap_complete::Shell::Zsh,
    };
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    let script = String::from_utf8_lossy(&script);
    if console::is_json() {
        console::result(json!({ "script": script }));
    } else {
        console::document(script.trim_end());
    }
}
