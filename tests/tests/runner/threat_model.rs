//! The security officer's threat model names a test for each line: they exist.
//!
//! What comes in: the table of `docs/security-officer.md`, and every test and hostile fixture of the repository.
//! What goes out: each line whose last cell names no test, or one that nobody can run: it was renamed or removed.
//! Whether a test shows what its line says is for people to read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use outhaul_tests::workspace_root;

/// Every test, by name, with the files that it is in.
type Tests = BTreeMap<String, Vec<PathBuf>>;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

fn tests() -> Tests {
    let mut files = Vec::new();
    sources(&workspace_root(), &mut files);
    let mut tests = Tests::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                marked = true;
                continue;
            }
            let declared = line.split_once("fn ").map(|(_, rest)| rest);
            let Some(declared) = declared.filter(|_| marked && !line.starts_with("//")) else {
                continue;
            };
            marked = false;
            let name = declared.split(['(', '<']).next().unwrap_or_default();
            tests.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    tests
}

/// Whether `file` is, or lies in, the module that is meant.
fn is_in(file: &Path, module: &str) -> bool {
    let file = file.with_extension("");
    file.iter().any(|part| part == module)
}

/// What keeps a name from being that of a test, or of a fixture that a test gives to the programs.
fn problem(name: &str, tests: &Tests) -> Option<String> {
    if name.contains('/') {
        let text = fs::read_to_string(workspace_root().join(name)).unwrap_or_default();
        let tested = text.contains("#[test]") || text.contains("mod tests;");
        return (!tested).then(|| format!("`{name}` is no file with tests"));
    }
    let parts: Vec<&str> = name.split("::").collect();
    let (last, modules) = parts.split_last().unwrap();
    let files = |wanted: &dyn Fn(&Path) -> bool| {
        tests.values().flatten().any(|file| wanted(file.as_path()))
    };
    if matches!(*last, "*" | "tests") {
        let all = |file: &Path| modules.iter().all(|module| is_in(file, module));
        return (!files(&all)).then(|| format!("`{name}`: no test is there"));
    }
    let fixture = |kind: &str| {
        let folder = workspace_root()
            .join("tests/fixtures")
            .join(kind)
            .join(last);
        folder.is_dir() && modules.is_empty()
    };
    let fixtures = [
        "attacks",
        "hostile/centre",
        "hostile/media",
        "hostile/peers",
    ];
    if fixtures.into_iter().any(fixture) {
        return None;
    }
    let Some(found) = tests.get(*last) else {
        return Some(format!("there is no test `{name}`"));
    };
    let there = |file: &PathBuf| modules.iter().all(|module| is_in(file, module));
    (!found.iter().any(there)).then(|| format!("`{name}` is elsewhere: {found:?}"))
}

/// What stands in the last cell of each line of the threat model, with the line's first two.
fn lines(page: &str) -> Vec<(String, String)> {
    let table = page.split("## Threat model").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| "));
    rows.skip(1)
        .filter(|line| !line.starts_with("| ---"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!(cells.len(), 4, "{line}");
            (format!("{}: {}", cells[0], cells[1]), cells[3].to_owned())
        })
        .collect()
}

/// What is between backticks.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_line_of_the_threat_model_names_tests_that_exist() {
    let page = fs::read_to_string(workspace_root().join("docs/security-officer.md")).unwrap();
    let tests = tests();
    let mut wrong = Vec::new();
    let mut checked = 0;
    let lines = lines(&page);
    let mut before = String::new();
    for (line, cell) in &lines {
        let cell = match cell.as_str() {
            "the same" => before.clone(),
            cell => cell.to_owned(),
        };
        let found = names(&cell);
        if found.is_empty() {
            wrong.push(format!("{line}: names no test"));
        }
        checked += found.len();
        let problems = found.iter().filter_map(|name| problem(name, &tests));
        wrong.extend(problems.map(|problem| format!("{line}: {problem}")));
        before = cell;
    }
    assert!(
        lines.len() >= 60 && checked >= 80,
        "{} {checked}",
        lines.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_of_nothing_is_found_out() {
    let tests = tests();
    for fine in [
        "a_name_of_nothing_is_found_out",
        "threat_model::a_name_of_nothing_is_found_out",
        "threat_model::*",
        "tests/tests/runner/threat_model.rs",
        "team_name_that_leaves",
    ] {
        assert_eq!(problem(fine, &tests), None, "{fine}");
    }
    for gone in [
        "a_name_of_nothing_was_found_out",
        "cluster::a_name_of_nothing_is_found_out",
        "nowhere::*",
        "tests/tests/runner/nowhere.rs",
        "agent/README.md",
        "sources",
    ] {
        assert!(problem(gone, &tests).is_some(), "{gone}");
    }
}
