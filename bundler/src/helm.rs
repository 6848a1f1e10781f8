//! `helm template`: what a chart makes of the values of a release.
//!
//! What comes in: the archive of a chart, and a release. What goes out: the manifests that helm prints, within a time and a
//! size. It runs in a separate folder, with no configuration, repository or plugin of the user, and asks no cluster: a chart that
//! looks something up in one finds nothing. It changes nothing.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use outhaul_kit::group;
use outhaul_needs::Release;

/// The command, where another one than that in `PATH` is meant.
const COMMAND: &str = "OUTHAUL_HELM";
/// How long it may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked at.
const PAUSE: Duration = Duration::from_millis(10);
/// The most that it may print.
const MAX_OUTPUT: u64 = 32 << 20;
/// What is kept of what it prints on standard error.
const MAX_STDERR: u64 = 64 << 10;

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
    command.arg("--").arg(name).arg(archive);
    let child = command
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", folder.path())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(File::create(file("out")).map_err(failed)?)
        .stderr(File::create(file("err")).map_err(failed)?)
        // A group of its own, so that what it starts can be stopped with it.
        .process_group(0)
        .spawn();
    let mut child = child.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("`helm` was not found; install it, or name it in ${COMMAND}")
        }
        _ => format!("`helm` cannot be started: {error}"),
    })?;
    let outcome = ended(&mut child, &file("out"));
    if outcome.is_err() {
        group::kill(&child);
        // It is gone either way.
        drop(child.kill());
        drop(child.wait());
    }
    if outcome? {
        return bounded(&file("out"), MAX_OUTPUT);
    }
    let printed = bounded(&file("err"), MAX_STDERR)?;
    let printed = String::from_utf8_lossy(&printed);
    let line = printed.lines().rfind(|line| !line.trim().is_empty());
    let line = line.unwrap_or_default().chars();
    let line: String = line.filter(|c| !c.is_control()).take(300).collect();
    Err(format!("`helm template` failed: {line}"))
}

/// Whether it ended well, within its limits.
fn ended(child: &mut Child, out: &Path) -> Result<bool, String> {
    let until = Instant::now() + LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) => {}
            Err(error) => return Err(format!("`helm template` cannot be waited for: {error}")),
        }
        if out.metadata().is_ok_and(|found| found.len() > MAX_OUTPUT) {
            return Err(too_much(MAX_OUTPUT));
        }
        if Instant::now() >= until {
            let limit = LIMIT.as_secs();
            return Err(format!("`helm template` did not end within {limit} s"));
        }
        thread::sleep(PAUSE);
    }
}

fn bounded(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(max + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("what `helm template` printed cannot be read: {error}"))?;
    match bytes.len() as u64 > max {
        true => Err(too_much(max)),
        false => Ok(bytes),
    }
}

fn too_much(max: u64) -> String {
    format!("`helm template` prints more than {max} bytes")
}
