//! Scheduling as people see it: the example of the platform engineer's page, typed.
//!
//! What comes in: `examples/scheduling`. What goes out: reviewed snapshots of what is printed, and what
//! a scheduler that fails leaves as it was.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use outhaul_tests::Checked as _;

const NORTH: &str = r#"{"assignments": [{"target": "vision-report", "clusterType": "hall-north-2", "reason": "1 site"}]}"#;

fn outhaul(words: &[&str], scheduler: Option<&Path>) -> Output {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
    let (verb, rest) = words.split_first().unwrap();
    command.current_dir(examples).arg(verb);
    command
        .args("--environment dev --env-dir scheduling/dev --base-dir scheduling/main".split(' '));
    command.args([
        "--source",
        "https://git.factory.example/vision=scheduling/vision",
    ]);
    if let Some(program) = scheduler {
        command.arg("--scheduler");
        command.arg(format!("least-sites={}", program.display()));
    }
    command.args(rest).checked().unwrap()
}

fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// A scheduler that says what it is asked to, written by another process: a file that this one has open
/// for writing, even in another thread, cannot be executed.
pub fn scheduler(folder: &Path, script: &str) -> std::path::PathBuf {
    let path = folder.join("scheduler");
    let mut writer = Command::new("sh")
        .args(["-c", "rm -f \"$0\"; cat > \"$0\" && chmod +x \"$0\""])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = writer.stdin.take().unwrap();
    stdin
        .write_all(format!("#!/bin/sh\n{script}\n").as_bytes())
        .unwrap();
    drop(stdin);
    assert!(writer.wait().unwrap().success());
    path
}

#[test]
fn each_assignment_names_its_policies_and_their_scores() {
    let folder = tempfile::tempdir().unwrap();
    let program = scheduler(folder.path(), &format!("cat >/dev/null; echo '{NORTH}'"));
    let output = outhaul(&["schedule"], Some(&program));
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    insta::assert_snapshot!(printed(&output));
}

#[test]
fn without_its_program_a_policy_fails_and_the_others_stand() {
    let output = outhaul(&["schedule"], None);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(printed(&output));
}

#[test]
fn explain_says_what_came_before_and_what_kept_away() {
    let mut message = String::new();
    for (target, cluster_type) in [
        ("vision-detector", "hall-north-2"),
        ("vision-detector", "hall-south"),
        ("vision-log-collector", "lab"),
        ("vision-experiment", "cellar"),
    ] {
        let output = outhaul(&["explain", target, cluster_type], None);
        assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
        message += &printed(&output);
    }
    insta::assert_snapshot!(message);
}

#[test]
fn what_a_failing_scheduler_placed_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let render = ["render", "--out", out.to_str().unwrap()];
    let good = scheduler(folder.path(), &format!("cat >/dev/null; echo '{NORTH}'"));
    assert_eq!(outhaul(&render, Some(&good)).status.code(), Some(0));
    let placed = out.join("hall-north-2/vision-report/reconciler.yaml");
    let before = fs::read(&placed).unwrap();
    let broken = scheduler(folder.path(), "echo 'licence expired' >&2; exit 3");
    let output = outhaul(&render, Some(&broken));
    assert_eq!(output.status.code(), Some(1));
    let message = printed(&output);
    assert!(message.contains("licence expired"), "{message}");
    assert!(
        message.contains("kept: hall-north-2/vision-report stays"),
        "{message}"
    );
    assert_eq!(fs::read(&placed).unwrap(), before);
    // Where it never was, it is not.
    assert!(!out.join("hall-south/vision-report").exists());
}

#[test]
fn the_examples_own_scheduler_chooses_the_least_sites() {
    let program = Path::new("scheduling/least-sites.py");
    if !outhaul_tests::available_or_skip("python3") {
        return;
    }
    let output = outhaul(&["schedule", "--output", "json"], Some(program));
    let message = outhaul_tests::result(&String::from_utf8(output.stdout).unwrap());
    let chosen = message["assignments"].as_array().unwrap().iter();
    let chosen: Vec<&serde_json::Value> = chosen
        .filter(|one| one["target"] == "vision-report")
        .map(|one| &one["cluster_type"])
        .collect();
    assert_eq!(chosen, ["hall-north-2"]);
    assert_eq!(message["failures"], serde_json::json!([]));
}
