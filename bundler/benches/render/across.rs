//! `outhaul render` across runs: the whole program, disk included.
//!
//! What comes in: the control plane's folder. What goes out: what a second run takes, with nothing changed
//! and with one value changed, as a share of the first run; the first run against `cp -r` of its files; and the proof that the folder then holds what
//! a full render into an empty one gives.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use outhaul_ship::folder;

use super::measure::{Took, least_and_median, mean, took_by_children};

const ROUNDS: usize = 3;

/// Runs it and prints the shares.
pub fn across_runs(at: &Path) {
    // Each in a folder that was not there: files that were removed just before make the next first run slower.
    let outs: Vec<String> = (1..ROUNDS).map(|round| format!("first-{round}")).collect();
    let outs: Vec<&str> = outs.iter().map(String::as_str).chain(["out"]).collect();
    let mut ratios = Vec::new();
    let first: Vec<Took> = outs
        .iter()
        .map(|out| {
            sync(at);
            let took = render(at, out, &["--full"]);
            let copied = copy(at, out);
            ratios.push(took.wall / copied.wall);
            took
        })
        .collect();
    let (_, ratio) = least_and_median(ratios);
    println!(
        "across runs: the first `outhaul render` takes {ratio:.2} times what `cp -r` of its files and `sync -f` take (aim: 1.50 at most)"
    );
    let (first_wall, first_cpu) = summary(&first);
    println!(
        "across runs: the first `outhaul render` takes {:.0} ms ({:.0} ms of processors), all files written and synced",
        1000.0 * first_wall,
        1000.0 * first_cpu
    );
    for (key, what) in [
        (None, "nothing changed"),
        (
            Some("LINE_0: \"https://line-7."),
            "one value of one cluster type",
        ),
        (Some("APP_0: \"https://app-7."), "one value of one workload"),
        (Some("COMMON_0: \"https://common-0."), "one value of all"),
    ] {
        let again: Vec<Took> = (0..ROUNDS)
            .map(|round| {
                if let Some(key) = key {
                    change(at, key, round);
                }
                render(at, "out", &[])
            })
            .collect();
        let (wall, cpu) = summary(&again);
        println!(
            "across runs, {what}: {:.0} ms, {:.1} % of the first run (in processor time {:.1} %)",
            1000.0 * wall,
            100.0 * wall / first_wall,
            100.0 * cpu / first_cpu
        );
    }
    render(at, "fresh", &["--full"]);
    let same = tree(at, "out") == tree(at, "fresh");
    assert!(same, "the same bytes as a full render");
}

/// What copying the files into a new folder takes, until they are on the disk.
fn copy(at: &Path, out: &str) -> Took {
    let (took, ()) = took_by_children(|| {
        let mut copy = Command::new("cp");
        copy.arg("-r")
            .arg(at.join(out))
            .arg(at.join(format!("copy-{out}")));
        assert!(copy.status().unwrap().success(), "cp");
        sync(at);
    });
    took
}

/// Waits until the file system has written what it has.
fn sync(at: &Path) {
    let status = Command::new("sync").arg("-f").arg(at).status().unwrap();
    assert!(status.success(), "sync");
}

fn summary(rounds: &[Took]) -> (f64, f64) {
    let cpu: Vec<f64> = rounds.iter().map(|one| one.cpu).collect();
    let (_, median) = least_and_median(rounds.iter().map(|one| one.wall));
    (median, mean(&cpu))
}

fn tree(at: &Path, out: &str) -> BTreeMap<String, Vec<u8>> {
    folder::read_tree(&at.join(out)).unwrap()
}

/// The value behind `key` becomes another one.
fn change(at: &Path, key: &str, round: usize) {
    let path = at.join("env/config.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let from = text.find(key).unwrap() + key.len();
    let end = from + text[from..].find('"').unwrap();
    let text = format!("{}round-{round}{}", &text[..from], &text[end..]);
    fs::write(&path, text).unwrap();
}

fn render(at: &Path, out: &str, more: &[&str]) -> Took {
    let source = format!("https://git.example.org/apps={}", at.join("apps").display());
    let (time, output) = took_by_children(|| {
        Command::new(env!("CARGO_BIN_EXE_outhaul"))
            .args(["render", "--environment", "prod", "--env-dir"])
            .arg(at.join("env"))
            .arg("--base-dir")
            .arg(at.join("main"))
            .args([
                "--base-commit",
                &"0".repeat(40),
                "--source",
                &source,
                "--out",
            ])
            .arg(at.join(out))
            .args(more)
            .output()
            .unwrap()
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    time
}
