//! `cargo xtask demo`: the main job from a source checkout, with one command.
//!
//! What comes in: the checkout, and the demo's own options. What goes out: what `outhaul demo` prints. It
//! builds the programs as the tests use them, so that both are built once, and runs the demo that lies beside
//! them; the demo itself builds nothing.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repository::{cargo_build, root};

/// Builds the programs, and shows the whole loop on an example.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask demo --keep /tmp/outhaul")]
pub struct Args {
    /// Options of `outhaul demo`.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTION"
    )]
    options: Vec<String>,
}

impl Args {
    /// Builds and runs.
    pub fn run(&self) -> Result<Vec<String>> {
        let built = cargo_build()
            .args(["--locked", "--workspace", "--bins"])
            .status()
            .context("cannot run cargo")?;
        if !built.success() {
            bail!("the programs do not build");
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let demo = Command::new(root().join(target).join("debug/outhaul"))
            .arg("demo")
            .args(&self.options)
            .status()
            .context("cannot start the demo")?;
        if !demo.success() {
            bail!("the demo ended with {demo}");
        }
        Ok(Vec::new())
    }
}
