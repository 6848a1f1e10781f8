//! Rules about single files: length, header, name, no path of someone's machine, no snapshot that
//! nobody reviewed.
//!
//! What comes in: the list of files. What goes out: one line per finding, `file:line: what is wrong`.

use std::path::Path;

use anyhow::Result;

use crate::repository::{code, files, root, text};

/// Longest Rust file, in lines.
const MAX_LINES: usize = 500;
/// File names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 5] = [
    "common.rs",
    "helpers.rs",
    "manager.rs",
    "mod.rs",
    "utils.rs",
];
/// Folders of someone's machine, without their slashes (or this file would find itself).
const MACHINE_FOLDERS: [&str; 4] = ["work", "home", "Users", "tmp/target"];

pub fn findings() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for name in files()? {
        let Some(text) = text(&name)? else { continue };
        if Path::new(&name)
            .extension()
            .is_some_and(|ending| ending == "rs")
        {
            findings.extend(rust_file(&name, &text));
            findings.extend(torn_writes(&name, &text));
        }
        findings.extend(machine_paths(&name, &text));
    }
    // These are ignored by git, so git does not list them.
    pending_snapshots(&root(), &mut findings)?;
    Ok(findings)
}

fn rust_file(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        findings.push(format!(
            "{name}: {lines} lines, the limit is {MAX_LINES}: split it"
        ));
    }
    if !text.starts_with("//! ") {
        let what = "a `//!` header that states what it is, what comes in and what goes out";
        findings.push(format!("{name}:1: does not begin with {what}"));
    }
    let file = name.rsplit('/').next().unwrap_or(name);
    if EMPTY_NAMES.contains(&file) {
        findings.push(format!("{name}: name it after what is inside"));
    }
    findings
}

/// `fs::write` in a program leaves half a file when the power goes. Tests and tools may use it.
fn torn_writes(name: &str, text: &str) -> Vec<String> {
    let never_ships = ["fuzz/", "tests/", "xtask/"];
    if !name.contains("/src/")
        || never_ships.iter().any(|folder| name.starts_with(folder))
        || name.ends_with("tests.rs")
        || name.contains("/tests/")
    {
        return Vec::new();
    }
    let lines = code(text).lines().zip(1..);
    lines
        .filter(|(line, _)| line.contains("fs::write("))
        .map(|(_, number)| {
            format!("{name}:{number}: `fs::write` tears: use `outhaul_kit::durable`")
        })
        .collect()
}

fn machine_paths(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for folder in MACHINE_FOLDERS {
            let path = format!("/{folder}/");
            let starts_there = line.match_indices(&path).any(|(at, _)| {
                // `docs/home/page` and `https://example.org/home/x` are not paths of a machine.
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || "._-}>$*~)".contains(c))
            });
            if starts_there {
                let number = number + 1;
                findings.push(format!(
                    "{name}:{number}: `{path}` is a path of one machine"
                ));
            }
        }
    }
    findings
}

fn pending_snapshots(folder: &Path, findings: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            if !matches!(name.as_str(), ".git" | "target") {
                pending_snapshots(&path, findings)?;
            }
        } else if name.ends_with(".snap.new") || name.ends_with(".pending-snap") {
            findings.push(format!(
                "{}: a snapshot that nobody reviewed",
                path.display()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_without_header_and_name_is_found_thrice() {
        let long = "fn f() {}\n".repeat(MAX_LINES + 1);
        assert_eq!(rust_file("a/utils.rs", &long).len(), 3);
        assert!(rust_file("a/schedule.rs", "//! Schedules.\n").is_empty());
    }

    #[test]
    fn a_write_that_may_tear_is_found_in_programs_only() {
        let text = "//! x\nfs::write(a, b)\n#[cfg(test)]\nmod tests { fs::write(a, b) }\n";
        assert_eq!(torn_writes("hub/src/store.rs", text).len(), 1);
        assert!(torn_writes("tests/src/lib.rs", text).is_empty());
        assert!(torn_writes("hub/src/store/tests.rs", text).is_empty());
    }

    #[test]
    fn paths_of_a_machine_are_distinguished_from_others() {
        let own = format!("path = \"/{}/me/x\"", "home");
        assert_eq!(machine_paths("f", &own).len(), 1);
        let url = format!("see https://example.org/{}/me", "home");
        assert!(machine_paths("f", &url).is_empty());
    }
}
