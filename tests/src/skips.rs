//! Tests that cannot run here: reported where people see it, and summed up at the end of the run.
//!
//! What comes in: the reason, from a test that lacks a program or data. What goes out: a `SKIPPED` line
//! on the process's own standard error, which the test runner does not capture, and a record below the
//! build folder that [`summary`] reads. With `CI` set it panics instead, but where no package registry has what is needed: CI
//! installs what tests need. It never decides that a test may be skipped.

use std::fs;
use std::io::{self, Write as _};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Says that the calling test does not run here, and why.
///
/// # Panics
/// With `CI` set to anything but nothing, `0` or `false`.
#[track_caller]
pub fn skipped(reason: &str) {
    let test = name_of_the_test(Location::caller());
    assert!(!in_ci(), "{test} must run in CI: {reason}");
    note(&test, reason);
}

/// The same for a test that needs a program which no package registry has, so that it runs by hand only: CI skips it, too.
#[track_caller]
pub fn skipped_unless_by_hand(reason: &str) {
    note(&name_of_the_test(Location::caller()), reason);
}

fn note(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    // `eprintln!` would be captured, and thrown away since the test passes.
    let _ = io::stderr().lock().write_all(line.as_bytes());
    if let Some(folder) = records() {
        let file = folder.join(test.replace(['/', ':', ' '], "-"));
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(file, &line));
        assert!(written.is_ok(), "cannot note `{line}`: {written:?}");
    }
}

/// What a command printed that `unshare` ran after it made mounts, with exit code 99 where it could make none: the calling test is [`skipped`]
/// then, and this is `None`.
///
/// # Panics
/// As [`skipped`].
#[track_caller]
pub fn mounted_or_skip(output: Output) -> Option<Output> {
    let could = output.status.code() != Some(99)
        && !String::from_utf8_lossy(&output.stderr).starts_with("unshare:");
    if !could {
        skipped("no mount namespace can be made here");
    }
    could.then_some(output)
}

/// Whether `program` answers to `--version`; when it does not, the calling test is [`skipped`].
///
/// # Panics
/// As [`skipped`].
#[track_caller]
pub fn available_or_skip(program: &str) -> bool {
    let there = available(program);
    if !there {
        skipped(&format!("`{program}` is not installed"));
    }
    there
}

/// Whether `program` answers to `--version` or, as OpenSSL does, to `version`.
pub fn available(program: &str) -> bool {
    ["--version", "version"].iter().any(|argument| {
        let answer = Command::new(program).arg(argument).output();
        answer.is_ok_and(|output| output.status.success())
    })
}

/// Whether a network and a mount namespace can be made here; where not, the calling test is [`skipped`].
///
/// # Panics
/// As [`skipped`].
#[track_caller]
pub fn isolated_or_skip() -> bool {
    let tried = Command::new("unshare")
        .args(["--net", "--mount", "true"])
        .output();
    let can = tried.is_ok_and(|tried| tried.status.success());
    if !can {
        skipped("namespaces need root: `unshare --net --mount` failed");
    }
    can
}

/// `part` of the folder of Kalypso's recorded cases (`OUTHAUL_KALYPSO_DIR`, or `shared/kalypso` beside
/// the workspace); where it is missing the calling test is [`skipped`].
///
/// # Panics
/// As [`skipped`].
#[track_caller]
pub fn kalypso_or_skip(part: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("OUTHAUL_KALYPSO_DIR").map_or_else(
        || crate::workspace_root().join("../shared/kalypso"),
        PathBuf::from,
    );
    if folder.join(part).exists() {
        return Some(folder);
    }
    skipped("Kalypso's recorded cases are missing; set OUTHAUL_KALYPSO_DIR");
    None
}

/// What was skipped since the run began: a heading and one line for each test, by name; `None` when
/// nothing was. Forgets it, and what ended runs left.
pub fn summary() -> Option<String> {
    let folder = records()?;
    let summary = summed_up(&folder);
    let _ = fs::remove_dir_all(&folder);
    for left in fs::read_dir(folder.parent()?).ok()?.flatten() {
        let name = left.file_name().to_string_lossy().into_owned();
        let process = name.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(process).exists() {
            let _ = fs::remove_dir_all(left.path());
        }
    }
    summary
}

fn summed_up(folder: &Path) -> Option<String> {
    let mut lines: Vec<String> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .map(|line| line.trim_start_matches("SKIPPED: ").trim_end().to_owned())
        .collect();
    lines.sort();
    let tests = match lines.len() {
        0 => return None,
        1 => "1 test was skipped".to_owned(),
        many => format!("{many} tests were skipped"),
    };
    Some(format!("SKIPPED: {tests}:\n  {}\n", lines.join("\n  ")))
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false"))
}

/// The test runner names a test's thread after it, except where all tests share one thread.
fn name_of_the_test(caller: &Location<'_>) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let thread = std::thread::current();
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", caller.file(), caller.line()),
    };
    format!("{package} {test}").trim_start().to_owned()
}

/// The folder of this run. One `cargo test` starts every test program, so its process id and the time
/// when it started name the run.
fn records() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let cargo = std::os::unix::process::parent_id();
    let state = fs::read_to_string(format!("/proc/{cargo}/stat")).unwrap_or_default();
    // The program's name stands in brackets and may hold anything; the time is the 20th field behind.
    let fields = state.rsplit(')').next().unwrap_or_default();
    let started = fields.split_whitespace().nth(19).unwrap_or("0");
    let run = format!("{cargo}-{started}");
    Some(program.ancestors().nth(2)?.join("skipped").join(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_skipped_is_summed_up_by_name_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(summed_up(folder.path()), None);
        fs::write(folder.path().join("b"), "SKIPPED: p b::two: no moon\n").unwrap();
        assert_eq!(
            summed_up(folder.path()).unwrap(),
            "SKIPPED: 1 test was skipped:\n  p b::two: no moon\n"
        );
        fs::write(folder.path().join("a"), "SKIPPED: p a::one: no sun\n").unwrap();
        assert_eq!(
            summed_up(folder.path()).unwrap(),
            "SKIPPED: 2 tests were skipped:\n  p a::one: no sun\n  p b::two: no moon\n"
        );
    }
}
