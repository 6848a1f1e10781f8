//! What tests share: the programs, built and current, a way to run them, and a way to say that one was
//! skipped.
//!
//! What comes in: arguments as a user would type them. What goes out: what the program printed and
//! its exit code. It starts only programs of this workspace and programs that a test names, and
//! leaves nothing behind outside the folder that it was given.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

pub mod argocd;
pub mod faketime;
pub mod fleet;
pub mod flux;
pub mod helm_controller;
pub mod kubernetes;
mod left_alone;
pub mod mirror;
mod output;
pub mod ports;
pub mod postgres;
pub mod sigstore;
mod skips;
pub mod zarf;

pub use left_alone::{Checked, Watched, sentences};
pub use output::{assert_reports, code, stderr, stdout};
pub use skips::{
    available, available_or_skip, isolated_or_skip, kalypso_or_skip, mounted_or_skip, skipped,
    skipped_unless_by_hand, summary,
};

/// What a program printed, and how it ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Both outputs, for a message.
    pub fn everything(&self) -> String {
        format!(
            "exit {:?}\n-- stdout\n{}\n-- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }
}

/// Runs `command` to its end, and compares what it says that it left alone ([`Checked`]).
///
/// # Errors
/// When the program cannot be started.
pub fn run(command: &mut Command) -> anyhow::Result<Ran> {
    Ok(Ran::of(&command.checked().map_err(|error| {
        anyhow::anyhow!("cannot start {}: {error}", command.get_program().display())
    })?))
}

/// Runs a shell with several commands to its end: what one of them says that it left alone is not what all
/// of them did.
///
/// # Errors
/// When the shell cannot be started.
pub fn run_script(shell: &mut Command) -> anyhow::Result<Ran> {
    Ok(Ran::of(&shell.output()?))
}

/// Runs `command` and insists on `code`.
///
/// # Errors
/// When it cannot be started or ends with another code; the message has all that it printed.
pub fn run_expecting(command: &mut Command, code: i32) -> anyhow::Result<Ran> {
    let ran = run(command)?;
    anyhow::ensure!(
        ran.code == Some(code),
        "{command:?} should exit {code}\n{}",
        ran.everything()
    );
    Ok(ran)
}

/// Runs `command`, insists on `code` and on what it says, and on that it says that something was left alone and was
/// compared.
///
/// # Errors
/// When it cannot be started, ends or says otherwise, or nothing was compared; the message has all that it printed.
pub fn run_compared(command: &mut Command, code: i32, says: &[&str]) -> anyhow::Result<Ran> {
    let watched = command.checked_by(Command::output)?;
    let ran = Ran::of(&watched.output);
    anyhow::ensure!(
        ran.code == Some(code),
        "{command:?} should exit {code}\n{}",
        ran.everything()
    );
    let printed = format!("{}{}", ran.stdout, ran.stderr);
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in says {
        anyhow::ensure!(
            printed.contains(words),
            "{command:?} does not say `{words}`\n{}",
            ran.everything()
        );
    }
    anyhow::ensure!(
        watched.compared,
        "{command:?}: nothing was compared\n{}",
        ran.everything()
    );
    Ok(ran)
}

/// The one envelope that a command printed with `--output json`: whole, of the version that is known, and
/// saying what the exit code says.
///
/// # Errors
/// When standard output is anything else.
pub fn envelope(stdout: &str, code: Option<i32>) -> anyhow::Result<serde_json::Value> {
    let envelope: serde_json::Value = serde_json::from_str(stdout)
        .map_err(|error| anyhow::anyhow!("not one JSON document ({error}):\n{stdout}"))?;
    let keys: Vec<_> = envelope.as_object().into_iter().flatten().collect();
    let keys: Vec<_> = keys.iter().map(|(key, _)| key.as_str()).collect();
    let wanted = [
        "apiVersion",
        "command",
        "errors",
        "exitCode",
        "findings",
        "ok",
        "result",
    ];
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    anyhow::ensure!(sorted == wanted, "not an envelope:\n{stdout}");
    anyhow::ensure!(
        envelope["apiVersion"] == "outhaul.dev/cli/v1",
        "another version:\n{stdout}"
    );
    let says = (envelope["exitCode"].as_i64(), envelope["ok"].as_bool());
    let is = (code.map(i64::from), Some(code == Some(0)));
    anyhow::ensure!(says == is, "{says:?}, but it ended with {is:?}:\n{stdout}");
    Ok(envelope)
}

/// The result in the envelope that a command printed with `--output json`.
///
/// # Panics
/// When standard output is anything but one envelope.
#[track_caller]
pub fn result(stdout: &str) -> serde_json::Value {
    let code = serde_json::from_str::<serde_json::Value>(stdout)
        .ok()
        .and_then(|envelope| i32::try_from(envelope["exitCode"].as_i64()?).ok());
    match envelope(stdout, code) {
        Ok(mut envelope) => envelope["result"].take(),
        #[expect(clippy::panic, reason = "a test's assertion")]
        Err(error) => panic!("{error}"),
    }
}

/// Copies a program to where another user may start it. Another process does, and has it open: whatever another test is just starting
/// would have a copy of a file that this one writes, and a program cannot be started while anybody has.
///
/// # Errors
/// When it cannot be copied.
pub fn copy_program(from: impl AsRef<OsStr>, to: &Path) -> anyhow::Result<()> {
    let mut copy = Command::new("cp");
    copy.arg("--").arg(from).arg(to);
    let done = copy.status()?;
    anyhow::ensure!(done.success(), "{copy:?} ends with {done}");
    Ok(())
}

/// The workspace's root folder.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// The path of one of the workspace's programs (`outhaul`, `outhaul-agent`, …), built and current.
///
/// `cargo test` builds a package's programs only for its own tests, so the first call builds them.
///
/// # Errors
/// When cargo cannot be started or the build fails.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| build_programs().map_err(|error| error.to_string()));
    match folder {
        Ok(folder) => Ok(folder.join(name)),
        Err(error) => anyhow::bail!("{error}"),
    }
}

fn build_programs() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .current_dir(workspace_root())
        .args(["build", "--workspace", "--bins", "--quiet"]);
    // What cargo tells this test of its package is none of that build's business: a build script that looks at it
    // (ring's does) would run again, and all that stands on it would be compiled again for each package with tests.
    for (name, _) in std::env::vars_os() {
        let of_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if of_package {
            build.env_remove(name);
        }
    }
    run_expecting(&mut build, 0)?;
    // The test program lies in `<target>/debug/deps`; the programs lie one folder up.
    let test_program = std::env::current_exe()?;
    let folder = test_program.ancestors().nth(2).map(Path::to_path_buf);
    folder.ok_or_else(|| anyhow::anyhow!("{} has no folder", test_program.display()))
}
