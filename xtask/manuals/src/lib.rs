//! The command lines of the programs, and what is generated from them.
//!
//! What comes in: each program's own description of its command line. What goes out: man pages and
//! completions for bash, zsh and fish, as files of a folder. It is part of no program: the agent carries
//! neither of the generators.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::Shell;

/// The programs' command lines, by name.
pub fn programs() -> Vec<Command> {
    vec![
        outhaul_bundler::cli::command(),
        outhaul_agent::cli::command(),
        outhaul_hub::cli::command(),
        outhaul_signer::cli::command(),
        outhaul_audit::cli::command(),
        outhaul_serve::cli::command(),
    ]
}

/// Writes `man1/*.1` and `completions/*` into `folder`; returns how many files there are.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path) -> Result<usize> {
    let (pages, completions) = (folder.join("man1"), folder.join("completions"));
    for one in [&pages, &completions] {
        std::fs::create_dir_all(one).with_context(|| format!("create `{}`", one.display()))?;
    }
    for program in programs() {
        let name = program.get_name().to_owned();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            clap_complete::generate_to(shell, &mut program.clone(), &name, &completions)
                .with_context(|| format!("write completions into `{}`", completions.display()))?;
        }
        clap_mangen::generate_to(program.disable_help_subcommand(true), &pages)
            .with_context(|| format!("write pages into `{}`", pages.display()))?;
    }
    let count = |folder: &Path| std::fs::read_dir(folder).map(Iterator::count);
    Ok(count(&pages)? + count(&completions)?)
}
