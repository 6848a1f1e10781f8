//! Replay: real control planes of the past, and the platform repositories that Kalypso made of them.
//!
//! What comes in: every pair of `replay/pairs.json`. What must come out of `outhaul render`, called as
//! its users call it: the expected tree, byte for byte, no file more and no file less.

use std::process::Command;

use outhaul_test_kit::folder::{Tree, files};

use super::kalypso;

#[test]
fn every_recorded_pair_is_rendered_byte_for_byte() {
    let Some(kalypso) = kalypso::folder() else {
        return;
    };
    let replay = kalypso.join("replay");
    let text = std::fs::read_to_string(replay.join("pairs.json")).unwrap();
    let pairs: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut total = 0;
    for pair in &pairs {
        let text = |key: &str| pair[key].as_str().unwrap();
        let out = temporary.path().join(text("id"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul"));
        command
            .args(["render", "--environment", text("environment"), "--env-dir"])
            .arg(replay.join(text("environment_tree")))
            .arg("--base-dir")
            .arg(replay.join(text("base_tree")))
            .args(["--base-commit", text("base_commit")]);
        for workload in pair["workloads"].as_array().unwrap() {
            let tree = replay.join(workload["tree"].as_str().unwrap());
            let source = format!("{}={}", workload["repo"].as_str().unwrap(), tree.display());
            command.args(["--source", &source]);
        }
        let output = command.arg("--out").arg(&out).output().unwrap();
        if !output.status.success() {
            wrong.push(format!(
                "{}: {}",
                text("id"),
                String::from_utf8_lossy(&output.stderr)
            ));
            continue;
        }
        let (expected, found) = (files(&replay.join(text("expected_tree"))), files(&out));
        total += expected.len();
        for path in expected.keys().chain(found.keys()) {
            if expected.get(path) != found.get(path) {
                let of = |files: &Tree| {
                    files
                        .get(path)
                        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
                };
                wrong.push(format!(
                    "{} {path}:\n{:?}\n{:?}",
                    text("id"),
                    of(&expected),
                    of(&found)
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences; the first:\n{}",
        wrong.len(),
        wrong[0]
    );
    assert!(!pairs.is_empty());
    println!("{} pairs, {total} files, all byte-equal", pairs.len());
}
