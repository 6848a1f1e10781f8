//! Signed indexes that are as large as they may be, and larger: what they cost the real agent in time and
//! memory is printed.
//!
//! What comes in: a rightly signed index with as many files, overlays or names as its bytes can hold. What must
//! come out: an answer within the memory and the deadline that a command has; what is beyond a bound is refused
//! by its count, before it is read.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outhaul_bundle::index::{File, Index, Overlay};
use outhaul_tests::{program, run_expecting};

use super::stage::{Parts, SITE, Stage, limits};

/// Writable memory of the agent in KiB: an index of the largest size, and what it is parsed into.
const MAX_KIB: u32 = 1024 * 1024;
/// Seconds of processor time that one answer may take.
const DEADLINE: u32 = 120;

/// The largest memory that `child` was seen with, in KiB, and its exit code.
fn watched(mut child: Child) -> (u64, Option<i32>) {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let seen = std::fs::read_to_string(&status).ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
            line.split_ascii_whitespace().nth(1)?.parse().ok()
        });
        peak = peak.max(seen.unwrap_or(0));
        if let Some(ended) = child.try_wait().unwrap() {
            return (peak, ended.code());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks the agent what the bundle would do, prints what that cost, and returns its exit code.
fn cost(what: &str, stage: &Stage, bundle: &Parts) -> Option<i32> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bomb.outhaul");
    std::fs::write(&file, bundle.bytes()).unwrap();
    let kit = folder.path().join(format!("{SITE}.kit"));
    std::fs::write(&kit, stage.kit()).unwrap();
    let agent = program("outhaul-agent").unwrap();
    let state = folder.path().join("state");
    let command = |program: &Path| {
        let mut command = Command::new(program);
        command.arg("--state").arg(&state);
        command
    };
    run_expecting(command(&agent).arg("enrol").arg(&kit), 0).unwrap();
    let limit = format!("ulimit -d {MAX_KIB}; ulimit -t {DEADLINE}; exec \"$@\"");
    let mut limited = Command::new("sh");
    limited.args(["-c", &limit, "sh"]).arg(&agent);
    limited.arg("--state").arg(&state).arg("plan").arg(&file);
    let errors = std::fs::File::create(folder.path().join("said")).unwrap();
    let begun = Instant::now();
    let child = limited
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .unwrap();
    let (peak, code) = watched(child);
    let said = std::fs::read_to_string(folder.path().join("said")).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    let line = format!(
        "{what}: index of {} MiB, {:.1} s, peak {} MiB, exit code {code:?}: {}\n",
        bundle.index.len() >> 20,
        begun.elapsed().as_secs_f64(),
        peak >> 10,
        said.lines().next().unwrap_or("taken"),
    );
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    code
}

/// An index with `files` more files, and `overlays` of one file each.
fn widen(index: &mut Index, files: usize, overlays: usize) {
    let assignment = &mut index.assignments[0];
    let first = assignment.files[0].clone();
    assignment.files.extend((0..files).map(|at| File {
        path: format!("f{at:06}").parse().unwrap(),
        ..first.clone()
    }));
    assignment.files.sort_by(|a, b| a.path.cmp(&b.path));
    assignment.overlays = (0..overlays)
        .map(|at| Overlay {
            sites: BTreeSet::from([format!("s{at:06}").parse().unwrap()]),
            config_version: assignment.config_version,
            files: vec![first.clone()],
        })
        .collect();
}

#[test]
fn the_largest_signed_indexes_cost_a_site_seconds_and_what_is_beyond_them_nothing() {
    let max = limits();
    let mut stage = Stage::new();
    let wide = stage.next_bent("many files and overlays", |index| {
        widen(index, 100_000, max.max_overlays);
    });
    assert_eq!(
        cost("100,000 files, 100,000 overlays", &stage, &wide),
        Some(0)
    );
    let mut stage = Stage::new();
    let named = stage.next_bent("many recipients", |index| {
        index.recipients = (0..max.max_recipients - 1)
            .map(|at| format!("s{at:06}").parse().unwrap())
            .chain([SITE.parse().unwrap()])
            .collect();
    });
    assert_eq!(cost("100,000 recipients", &stage, &named), Some(0));
    // Five million names were 452 MB.
    let mut stage = Stage::new();
    let names = vec!["\"a\""; 5_000_000].join(",");
    let bomb = stage.next_text("five million recipients", |text| {
        text.replacen(
            "\"snapshot\"",
            &format!("\"recipients\":[{names}],\"snapshot\""),
            1,
        )
    });
    assert_eq!(cost("5,000,000 recipients", &stage, &bomb), Some(4));
    let mut stage = Stage::new();
    let overlays = vec!["{\"sites\":[\"a\"],\"files\":[]}"; 2_000_000].join(",");
    let bomb = stage.next_text("two million overlays", |text| {
        text.replacen(
            "\"policies\"",
            &format!("\"overlays\":[{overlays}],\"policies\""),
            1,
        )
    });
    assert_eq!(cost("2,000,000 overlays", &stage, &bomb), Some(4));
}
