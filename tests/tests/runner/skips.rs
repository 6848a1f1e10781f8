//! What the test runner shows of a test that cannot run: its name and the reason, though it passes.
//!
//! What comes in: this very test program, run with a `PATH` that has nothing on it. What must come out:
//! `SKIPPED` on standard error, and in CI a failure.

use std::process::Command;

use outhaul_tests::run_expecting;

/// A test that needs `ansible-playbook`.
const TEST: &str = "loops::the_demo_with_ansible_and_the_commands_that_come_next";

fn without_programs(folder: &std::path::Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", TEST]).env("PATH", folder);
    command.env_remove("CI").env_remove("RUST_TEST_NOCAPTURE");
    command
}

#[test]
fn a_skipped_test_is_reported_past_the_capture_of_the_test_runner() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run_expecting(&mut without_programs(folder.path()), 0).unwrap();
    assert!(ran.stdout.contains("test result: ok. 1 passed"), "{ran:?}");
    let line = format!("SKIPPED: outhaul-tests {TEST}: `ansible-playbook` is not installed\n");
    assert_eq!(ran.stderr, line);
}

#[test]
fn in_ci_a_skipped_test_fails() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run_expecting(without_programs(folder.path()).env("CI", "true"), 101).unwrap();
    assert!(ran.stdout.contains("must run in CI"), "{ran:?}");
}
