//! `cargo xtask bench`: the ratios that the design promises, measured in one run.
//!
//! What comes in: the crates with a separate benchmark (`<crate>/benches/`). What goes out: what
//! they print: each figure as a ratio against the tool that one would use instead.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repository::{cargo, root};

/// Crates and benchmarks, in the order in which they run.
const BENCHMARKS: [(&str, &str); 10] = [
    ("outhaul-bundle", "throughput"),
    ("outhaul-parity", "parity"),
    ("outhaul-delta", "layers"),
    ("outhaul-tests", "import"),
    ("outhaul-agent", "applied"),
    ("outhaul-serve", "blob"),
    ("outhaul-bundler", "render"),
    ("outhaul-hub", "affected"),
    ("outhaul-hub", "fleet"),
    ("outhaul-hub", "retention"),
];

/// Runs the benchmarks in release mode and prints their ratios.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask bench\n  cargo xtask bench retention -- 100    with a hundred sites"
)]
pub struct Args {
    /// Only this benchmark.
    #[arg(value_name = "NAME")]
    only: Option<String>,
    /// What it is given, such as a size; its header says what it knows.
    #[arg(last = true, value_name = "ARGUMENT", requires = "only")]
    arguments: Vec<String>,
}

impl Args {
    /// Runs them one after the other.
    pub fn run(&self) -> Result<Vec<String>> {
        let wanted = |name: &str| self.only.as_deref().is_none_or(|only| only == name);
        for (package, name) in BENCHMARKS.into_iter().filter(|(_, name)| wanted(name)) {
            let status = Command::new(cargo())
                .args(["bench", "--locked", "--package", package, "--bench", name])
                .arg("--")
                .args(&self.arguments)
                .current_dir(root())
                .status()
                .context("cannot run cargo")?;
            if !status.success() {
                bail!("benchmark `{name}` failed");
            }
        }
        Ok(Vec::new())
    }
}
