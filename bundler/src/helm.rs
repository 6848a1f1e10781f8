//! `helm template`: what a chart makes of the values of a release.
//!
//! What comes in: the archive of a chart, and a release. What goes out: the manifests that helm prints, within a time and a
//! size. It runs in a separate folder, with no configuration, repository or plugin of the user, and asks no cluster: a chart that
//! looks something up in one finds nothing. It changes nothing.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outhaul_kit::program::{self, Limits, ProgramFault};
use outhaul_needs::Release;

/// The command, where another one than that in `PATH` is meant.
const COMMAND: &str = "OUTHAUL_HELM";
/// What it may take: time, and what it prints.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(60),
    output: 32 << 20,
    asks: false,
};

/// What the chart in `archive` makes.
///
/// # Errors
/// Why it makes nothing.
pub(crate) fn template(archive: &Path, release: &Release) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("its folder cannot be written: {error}");
    let folder = tempfile::tempdir().map_err(failed)?;
    let file = |name: &str| folder.path().join(name);
    let mut values = File::create(file("values.json")).map_err(failed)?;
    let given = match release.values.as_str() {
        "" => "{}",
        given => given,
    };
    values.write_all(given.as_bytes()).map_err(failed)?;
    let archive = std::path::absolute(archive).map_err(failed)?;
    let program = std::env::var_os(COMMAND).unwrap_or_else(|| "helm".into());
    let mut command = Command::new(program);
    command
        .args(["template", "--values", "values.json", "--include-crds"])
        .args((!release.tests).then_some("--skip-tests"));
    if let Some(namespace) = &release.namespace {
        command.arg(format!("--namespace={namespace}"));
    }
    let name = match release.name.as_str() {
        "" => "release",
        name => name,
    };
    // After `--` nothing is an option, whatever a release is called.
    command
        .arg("--")
        .arg(name)
        .arg(archive)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", folder.path())
        .current_dir(folder.path());
    program::run(&mut command, b"", &LIMITS).map_err(|fault| match fault {
        ProgramFault::Start(error) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("`helm` was not found; install it, or name it in ${COMMAND}")
        }
        ProgramFault::Failed { stderr, .. } => {
            let line = program::last_line(&stderr).unwrap_or_default();
            format!("`helm template` failed: {line}")
        }
        other => format!("`helm template` failed: {}", other.sentence()),
    })
}
