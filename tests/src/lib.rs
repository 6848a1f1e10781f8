//! What tests share: the programs, built and current, a way to run them, and a way to say that one was
//! skipped.
//!
//! What comes in: arguments as a user would type them. What goes out: what the program printed and
//! its exit code. It starts only programs of this workspace and programs that a test names, and
//! leaves nothing behind outside the folder that it was given.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

pub mod kubernetes;
mod left_alone;
mod skips;

pub use left_alone::Checked;
pub use skips::{available, available_or_skip, kalypso_or_skip, skipped, summary};

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
    run_expecting(&mut build, 0)?;
    // The test program lies in `<target>/debug/deps`; the programs lie one folder up.
    let test_program = std::env::current_exe()?;
    let folder = test_program.ancestors().nth(2).map(Path::to_path_buf);
    folder.ok_or_else(|| anyhow::anyhow!("{} has no folder", test_program.display()))
}
