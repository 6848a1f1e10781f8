//! Which crate may reach which: the architecture as a table, asked of cargo.
//!
//! What comes in: the normal dependencies of each member, as cargo resolves them for that member alone.
//! What goes out: one line per dependency that must not be there, with the command that shows its way.

mod rules;

use anyhow::Result;

use crate::repository::normal_dependencies;
use rules::{OUTSIDE_THE_CENTRE, RULES};

/// What renders, parses or fetches a control plane: for the centre only. The one YAML reader beside them,
/// `saphyr-parser`, also reads manifests for the Kubernetes API: see [`MANIFESTS`].
const CENTRE: [&str; 27] = [
    "git2",
    "gix",
    "gtmpl",
    "gtmpl-ng",
    "jsonschema",
    "minijinja",
    "outhaul-attest",
    "outhaul-blame",
    "outhaul-check",
    "outhaul-control",
    "outhaul-copy",
    "outhaul-cosign",
    "outhaul-diff",
    "outhaul-git",
    "outhaul-gocompat",
    "outhaul-import",
    "outhaul-load",
    "outhaul-needs",
    "outhaul-pins",
    "outhaul-plane",
    "outhaul-promote",
    "outhaul-publish",
    "outhaul-registry",
    "outhaul-remote",
    "outhaul-scaffold",
    "outhaul-ship",
    "yaml_serde",
];
/// What reads YAML: for the centre, and for who applies manifests.
const MANIFESTS: &[&str] = &["saphyr-parser"];
/// What serves, asks, or keeps rows.
const SERVERS_AND_STORES: &[&str] = &[
    "axum", "hyper", "postgres", "rusqlite", "rustls", "tokio", "ureq",
];
/// Networks, databases and runtimes: never below the programs.
const OUTSIDE: [&str; 10] = [
    "axum",
    "hyper",
    "postgres",
    "reqwest",
    "rusqlite",
    "rustls",
    "serde_yaml",
    "tokio",
    "ureq",
    "yaml_serde",
];

/// A member, and what it must not reach.
struct Rule {
    member: &'static str,
    never: &'static [&'static [&'static str]],
    why: &'static str,
}

/// What only tests stand on: part of no program.
const TESTS: &[&str] = &["outhaul-test-kit", "outhaul-test-planes", "outhaul-tests"];
const PROGRAMS: &[&str] = &["outhaul-agent", "outhaul-bundler", "outhaul-hub"];

pub fn findings() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for rule in RULES.iter().chain(OUTSIDE_THE_CENTRE) {
        let reached = normal_dependencies(rule.member)?;
        let others = |name: &&&str| **name != rule.member;
        for never in rule.never.iter().copied().flatten().filter(others) {
            let is_it = |known: &String| known.split(' ').next() == Some(*never);
            if reached.iter().any(is_it) {
                let Rule { member, why, .. } = rule;
                findings.push(format!(
                    "{member} reaches {never}: {why} (cargo tree -p {member} -e normal -i {never})"
                ));
            }
        }
    }
    Ok(findings)
}
