//! Every member inherits versions, lints and package data from the workspace's manifest.
//!
//! What comes in: the manifests. What goes out: one line per dependency with a separate version, and
//! per missing inheritance: what is written once cannot drift.

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::repository::text;

const INHERITED: [&str; 4] = ["version", "edition", "rust-version", "license"];
const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub fn findings() -> Result<Vec<String>> {
    let workspace = manifest("Cargo.toml")?;
    let members = workspace
        .get("workspace")
        .and_then(|table| table.get("members")?.as_array())
        .context("Cargo.toml has no list of members")?;
    let mut findings = Vec::new();
    for member in members.iter().filter_map(Value::as_str) {
        let name = format!("{member}/Cargo.toml");
        findings.extend(member_findings(&name, &manifest(&name)?));
    }
    Ok(findings)
}

fn manifest(name: &str) -> Result<Table> {
    let text = text(name)?.with_context(|| format!("{name} is not text"))?;
    text.parse().with_context(|| format!("cannot parse {name}"))
}

fn inherits(value: Option<&Value>) -> bool {
    value
        .and_then(|value| value.get("workspace")?.as_bool())
        .unwrap_or(false)
}

fn member_findings(name: &str, manifest: &Table) -> Vec<String> {
    let mut findings = Vec::new();
    if !inherits(manifest.get("lints")) {
        findings.push(format!("{name}: `[lints]` must say `workspace = true`"));
    }
    for key in INHERITED {
        if !inherits(manifest.get("package").and_then(|package| package.get(key))) {
            findings.push(format!("{name}: `{key}` must say `workspace = true`"));
        }
    }
    for table in TABLES {
        let dependencies = manifest.get(table).and_then(Value::as_table);
        for (dependency, value) in dependencies.into_iter().flatten() {
            if !inherits(Some(value)) {
                findings.push(format!(
                    "{name}: `{dependency}` must take its version from the workspace's manifest"
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_its_own_is_found() {
        let manifest: Table = "[package]\nversion.workspace = true\nedition.workspace = true\n\
             rust-version.workspace = true\nlicense.workspace = true\n[lints]\nworkspace = true\n\
             [dependencies]\nserde = \"1\"\nhex.workspace = true\n"
            .parse()
            .unwrap();
        let findings = member_findings("x/Cargo.toml", &manifest);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("serde"));
    }
}
