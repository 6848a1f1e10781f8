//! `cargo xtask timings`: how long people wait for a build of the tests.
//!
//! What comes in: the workspace. What goes out: seconds for a build from nothing (with `--clean`), and for
//! one after a touched file of the renderer, of the bundles and of the agent. Everything is built in a
//! separate folder below `target/`, and no source is changed: a new time on a file is what makes cargo
//! build again. It does not measure how long the tests run.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};

use crate::repository::{cargo, root};

/// What is touched, and what that stands for.
const TOUCHED: [(&str, &str); 4] = [
    ("the renderer", "bundler/plane/src/render.rs"),
    ("what writes bundles", "bundler/ship/src/stream.rs"),
    ("the agent", "agent/site/src/machine.rs"),
    ("the hub", "hub/gate/src/lib.rs"),
];

/// Builds all tests and prints how long it takes: from nothing, and after one touched file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask timings --clean")]
pub struct Args {
    /// First from nothing: minutes, and about 6 GB below `target/timings`.
    #[arg(long)]
    clean: bool,
}

impl Args {
    /// Builds, measures and prints.
    pub fn run(&self) -> Result<Vec<String>> {
        let folder = root().join("target/timings");
        if self.clean && folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        let first = build()?;
        if self.clean {
            println!("{:<22} {first:>7.1} s", "from nothing");
        }
        for (name, file) in TOUCHED {
            let source = root().join(file);
            touch(&source).with_context(|| format!("cannot touch {}", source.display()))?;
            println!("{name:<22} {:>7.1} s", build()?);
        }
        Ok(Vec::new())
    }
}

/// Gives a file the time of now, and leaves its content as it is.
#[expect(
    clippy::disallowed_methods,
    reason = "the time of a file on disk, for cargo; nothing is decided by it"
)]
fn touch(source: &Path) -> std::io::Result<()> {
    let file = File::options().append(true).open(source)?;
    file.set_modified(SystemTime::now())
}

/// Builds all tests and returns the seconds that took.
fn build() -> Result<f64> {
    let start = Instant::now();
    let status = Command::new(cargo())
        .args(["test", "--locked", "--workspace", "--no-run", "--quiet"])
        .args(["--target-dir", "target/timings"])
        .current_dir(root())
        .stdout(Stdio::null())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the tests do not build");
    }
    Ok(start.elapsed().as_secs_f64())
}
