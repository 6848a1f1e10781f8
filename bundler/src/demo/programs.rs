//! Where the demo finds the other two programs, and how it sees to it that they are current.
//!
//! What comes in: where this program runs from. What goes out: the paths of `outhaul`, `outhaul-agent`
//! and `outhaul-hub`. From a source checkout cargo is asked to build the two, which takes a moment
//! when they are current; from an installation they are expected beside this program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::DemoError;

/// The three programs of the loop.
#[derive(Debug, Clone)]
pub struct Programs {
    /// This program.
    pub outhaul: PathBuf,
    /// The site's.
    pub agent: PathBuf,
    /// The hub's.
    pub hub: PathBuf,
}

/// Finds the programs, building them first when this one was built from a checkout.
///
/// # Errors
/// [`DemoError::Programs`] when they are not there or cannot be built.
pub fn locate() -> Result<Programs, DemoError> {
    let outhaul = std::env::current_exe().map_err(|error| DemoError::Programs {
        problem: error.to_string(),
    })?;
    let folder = outhaul.parent().unwrap_or(Path::new(".")).to_path_buf();
    if let Some(checkout) = checkout(&folder) {
        build(&checkout, &folder)?;
    }
    let beside = |name: &str| {
        let path = folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(DemoError::Programs {
            problem: format!(
                "there is no `{name}` beside this program in `{}`\nhelp: install it there, or run \
                 the demo from a source checkout with `cargo run --release --bin outhaul -- demo`",
                folder.display()
            ),
        })
    };
    Ok(Programs {
        agent: beside("outhaul-agent")?,
        hub: beside("outhaul-hub")?,
        outhaul,
    })
}

/// The checkout that this program was built from: `cargo run` says so; otherwise it lies in one.
fn checkout(folder: &Path) -> Option<PathBuf> {
    let has_agent = |root: &Path| root.join("agent/Cargo.toml").is_file();
    let by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let by_cargo = by_cargo.and_then(|manifest| manifest.parent().map(Path::to_path_buf));
    by_cargo.filter(|root| has_agent(root)).or_else(|| {
        folder
            .ancestors()
            .find(|root| has_agent(root))
            .map(Path::to_path_buf)
    })
}

fn build(checkout: &Path, folder: &Path) -> Result<(), DemoError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(checkout)
        .args([
            "build",
            "--quiet",
            "--bin",
            "outhaul-agent",
            "--bin",
            "outhaul-hub",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    // Cargo names the folder after the profile, except that `dev` lies in `debug`.
    match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(profile) => {
            command.args(["--profile", profile]);
        }
    }
    if let Some(target) = folder.parent() {
        command.arg("--target-dir").arg(target);
    }
    let failed = |problem: String| DemoError::Programs { problem };
    let status = command
        .status()
        .map_err(|error| failed(format!("cannot start cargo: {error}")))?;
    if !status.success() {
        return Err(failed(
            "cargo could not build the agent and the hub (see above)".to_owned(),
        ));
    }
    Ok(())
}
