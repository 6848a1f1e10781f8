//! What each member of the workspace has: a README, a line in `ARCHITECTURE.md`, and only dependencies that it uses.
//!
//! What comes in: the manifests, the sources and `ARCHITECTURE.md`. What goes out: one line per member without a
//! README or with a long one, or without a line, per path in `ARCHITECTURE.md` that is not there, and per dependency that no source names.

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::repository::{files, root, text};

/// Two printed pages.
const MOST_LINES: usize = 130;
/// A few lines: what a crate needs explained beyond that stands in `docs/internals/`.
const MOST_README_LINES: usize = 40;
const ARCHITECTURE: &str = "ARCHITECTURE.md";

pub fn findings() -> Result<Vec<String>> {
    let workspace = table("Cargo.toml")?;
    let workspace = workspace
        .get("workspace")
        .context("Cargo.toml: no workspace")?;
    let members = workspace.get("members").and_then(Value::as_array);
    let members: Vec<&str> = members
        .context("Cargo.toml has no list of members")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let architecture =
        text(ARCHITECTURE)?.with_context(|| format!("{ARCHITECTURE} is not text"))?;
    let all = files()?;
    let mut findings = described(&architecture, &members, &all);
    let mut used_anywhere = Vec::new();
    for member in &members {
        let readme = text(&format!("{member}/README.md"))?.unwrap_or_default();
        findings.extend(long(member, &readme));
        let manifest = table(&format!("{member}/Cargo.toml"))?;
        for (section, folders) in [
            ("dependencies", &["src"][..]),
            ("dev-dependencies", &["src", "tests", "benches", "examples"]),
        ] {
            let Some(dependencies) = manifest.get(section).and_then(Value::as_table) else {
                continue;
            };
            let mut sources = String::new();
            for file in all.iter().filter(|file| is_source(file, member, folders)) {
                sources.push_str(&text(file)?.unwrap_or_default());
            }
            findings.extend(
                unused(dependencies, &sources)
                    .map(|name| format!("{member}/Cargo.toml: no source names `{name}`")),
            );
            used_anywhere.extend(dependencies.keys().cloned());
        }
    }
    let versions = workspace.get("dependencies").and_then(Value::as_table);
    for name in versions.into_iter().flat_map(Table::keys) {
        if !used_anywhere.contains(name) {
            findings.push(format!("Cargo.toml: no member uses `{name}`"));
        }
    }
    Ok(findings)
}

/// Whether a member's README has become a document.
fn long(member: &str, readme: &str) -> Option<String> {
    (readme.lines().count() > MOST_README_LINES).then(|| {
        format!("{member}/README.md: more than {MOST_README_LINES} lines; what is explained belongs into `docs/internals/`")
    })
}

/// What is missing in the page, and of the members.
fn described(architecture: &str, members: &[&str], all: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for member in members {
        if !all.contains(&format!("{member}/README.md")) {
            findings.push(format!("{member}: no README.md"));
        }
        if !architecture.contains(&format!("| `{member}/` |")) {
            findings.push(format!("{ARCHITECTURE}: no line for the crate `{member}/`"));
        }
    }
    if architecture.lines().count() > MOST_LINES {
        findings.push(format!("{ARCHITECTURE}: more than {MOST_LINES} lines"));
    }
    let quoted = architecture.split('`').skip(1).step_by(2);
    let is_path = |name: &&str| {
        let first = name.split_once('/').map(|(first, _)| first);
        first.is_some_and(|first| {
            members
                .iter()
                .any(|member| member.split('/').next() == Some(first))
        })
    };
    for path in quoted.filter(is_path) {
        if !root().join(path).exists() {
            findings.push(format!("{ARCHITECTURE}: there is no `{path}`"));
        }
    }
    findings
}

/// Whether `file` is a source of `member` in one of `folders`, and of no member below it.
fn is_source(file: &str, member: &str, folders: &[&str]) -> bool {
    let below = file
        .strip_prefix(member)
        .and_then(|rest| rest.strip_prefix('/'));
    let folder = below
        .and_then(|rest| rest.split_once('/'))
        .map(|(folder, _)| folder);
    file.ends_with(".rs") && folder.is_some_and(|folder| folders.contains(&folder))
}

/// The dependencies of which the name is not a word of `sources`.
fn unused<'a>(dependencies: &'a Table, sources: &str) -> impl Iterator<Item = &'a String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let words: std::collections::BTreeSet<String> =
        sources.split(|c| !is_part(c)).map(str::to_owned).collect();
    dependencies
        .keys()
        .filter(move |name| !words.contains(&name.replace('-', "_")))
}

fn table(name: &str) -> Result<Table> {
    let text = text(name)?.with_context(|| format!("{name} is not text"))?;
    text.parse().with_context(|| format!("cannot parse {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let dependencies: Table = "serde_json.workspace = true\nclap-x = \"1\"\nhex = \"1\"\n"
            .parse()
            .unwrap();
        let sources = "use serde_json::json;\nuse clap_x as c; // hexadecimal\n";
        let found: Vec<_> = unused(&dependencies, sources).collect();
        assert_eq!(found, ["hex"]);
    }

    #[test]
    fn a_member_without_a_readme_or_a_line_and_a_path_that_is_gone_are_found() {
        let page = "| `bundle/` | x |\n`bundle/src/gone.rs` and `xtask/src/main.rs`\n";
        let all = ["bundle/README.md".to_owned()];
        let found = described(page, &["bundle", "xtask"], &all);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|line| line.contains("bundle/src/gone.rs")));
    }

    #[test]
    fn a_readme_of_more_than_a_few_lines_is_found() {
        assert_eq!(long("kit", &"a\n".repeat(MOST_README_LINES)), None);
        assert!(long("kit", &"a\n".repeat(MOST_README_LINES + 1)).is_some());
    }

    #[test]
    fn sources_of_a_member_below_are_not_its_own() {
        assert!(is_source("kit/src/a.rs", "kit", &["src"]));
        assert!(!is_source("kit/http/src/a.rs", "kit", &["src"]));
    }
}
