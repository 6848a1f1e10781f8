//! `cargo xtask man`: man pages and completions of the programs.
//!
//! What comes in: a folder. What goes out: `man1/*.1` and `completions/*` in it. They are made by a separate
//! package, which links the programs; the other commands here need none of them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::repository::cargo;

/// Writes man pages and completions (bash, zsh, fish) of the programs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask man target/share")]
pub struct Args {
    /// The folder to write.
    folder: PathBuf,
}

impl Args {
    /// Writes them.
    pub fn run(&self) -> Result<Vec<String>> {
        let status = Command::new(cargo())
            .args(["run", "--quiet", "--package", "outhaul-manuals", "--"])
            .arg(std::path::absolute(&self.folder)?)
            .status()?;
        if !status.success() {
            bail!("cargo run --package outhaul-manuals: {status}");
        }
        Ok(Vec::new())
    }
}
