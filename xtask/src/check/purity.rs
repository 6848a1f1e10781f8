//! Which files must be pure: functions of their arguments, without clock, environment, files, network
//! or processes.
//!
//! What comes in: the sources. What goes out: one line per name of the standard library, or of what we
//! wrap around it, that a pure file may not use. Tests may.

use anyhow::Result;

use crate::repository::{code, files, text};

/// Files, and folders with the file of the same name, that plan and decide.
const PURE: &[&str] = &[
    "agent/reconcilers/kubernetes/src/differ",
    "agent/reconcilers/kubernetes/src/health",
    "agent/reconcilers/kubernetes/src/manifest",
    "agent/reconcilers/kubernetes/src/order",
    "agent/reconcilers/kubernetes/src/status",
    "agent/reconcilers/kubernetes/src/yaml",
    "agent/reconcilers/src/assignment",
    "agent/reconcilers/src/inventory",
    "agent/reconcilers/src/kubernetes/ownership",
    "agent/reconcilers/src/outcome",
    "agent/site/src/machine",
    "bundle/gzip/src",
    "bundle/vex/src",
    "bundle/parity/src",
    "bundle/src",
    "bundler/control/src",
    "bundler/diff/src",
    "bundler/plane/src",
    "bundler/qr/src",
    "bundler/record/src",
    "bundler/ship/src/branch/plan",
    "bundler/ship/src/destination",
    "bundler/sites/src/readers",
    "hub/access/src",
    "hub/alerts/src/change",
    "hub/alerts/src/message",
    "hub/gate/src/rules",
    "hub/gate/src/site_status",
    "hub/oidc/src/attempt",
    "hub/oidc/src/keys",
    "hub/oidc/src/person",
    "hub/oidc/src/provider",
    "hub/oidc/src/token",
    "hub/telemetry/src/fleet",
    "hub/telemetry/src/otlp",
    "hub/telemetry/src/text",
    "hub/webhooks/src/argocd",
    "hub/webhooks/src/cluster",
    "hub/webhooks/src/compare",
    "hub/webhooks/src/contents",
    "hub/webhooks/src/event",
    "hub/webhooks/src/flux",
    "hub/webhooks/src/folder",
    "hub/webhooks/src/parse",
    "hub/webhooks/src/seen",
    "hub/webhooks/src/shown",
    "signer/src/trust",
];
/// A team's Jinja template is rendered in a separate process, which is what bounds it.
const EXCEPT: [&str; 1] = ["bundler/plane/src/render/jinja_process.rs"];
const IMPURE: [&str; 9] = [
    "std::env",
    "std::fs",
    "std::process",
    "SystemTime",
    "Instant::now",
    "TcpStream",
    "outhaul_kit::durable",
    "outhaul_kit::media",
    "OffsetDateTime::now",
];

pub fn findings() -> Result<Vec<String>> {
    let all = files()?;
    let mut findings = gone(&all);
    for name in all {
        if is_pure(&name)
            && let Some(text) = text(&name)?
        {
            findings.extend(impure(&name, &text));
        }
    }
    Ok(findings)
}

/// What is listed above and has moved: nothing would be looked at there.
fn gone(all: &[String]) -> Vec<String> {
    let listed = PURE.iter().chain(&EXCEPT);
    let is_gone = |pure: &&&str| !all.iter().any(|name| name == **pure || belongs(name, pure));
    let say = |pure: &&str| {
        format!("xtask/src/check/purity.rs: `{pure}` is not there any more: name where it is now")
    };
    listed.filter(is_gone).map(say).collect()
}

fn belongs(name: &str, pure: &str) -> bool {
    name.strip_prefix(pure)
        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn is_pure(name: &str) -> bool {
    let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
    name.ends_with(".rs")
        && !is_test
        && !EXCEPT.contains(&name)
        && PURE.iter().any(|pure| belongs(name, pure))
}

fn impure(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (line, number) in code(text).lines().zip(1..) {
        if line.trim_start().starts_with("//") {
            continue;
        }
        for word in IMPURE.iter().filter(|word| line.contains(**word)) {
            findings.push(format!(
                "{name}:{number}: `{word}` in a pure file: take it as an argument"
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_in_a_pure_file_is_found_and_one_in_its_tests_is_not() {
        let text = "//! std::fs\nlet now = SystemTime::now();\n#[cfg(test)]\nmod tests {\nuse std::fs;\n}\n";
        let found = impure("agent/site/src/machine.rs", text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("agent/site/src/machine.rs:2: `SystemTime`"));
    }

    #[test]
    fn a_folder_and_its_own_file_are_pure_and_their_neighbours_are_not() {
        assert!(is_pure("agent/site/src/machine.rs") && is_pure("agent/site/src/machine/state.rs"));
        assert!(
            !is_pure("agent/site/src/machinery.rs") && !is_pure("agent/site/src/machine/tests.rs")
        );
        assert!(!is_pure("bundler/plane/src/render/jinja_process.rs"));
    }

    #[test]
    fn what_has_moved_is_named() {
        let all: Vec<String> = PURE[1..].iter().map(|pure| format!("{pure}.rs")).collect();
        let found = gone(&[all, vec![EXCEPT[0].to_owned()]].concat());
        assert_eq!(found.len(), 1);
        assert!(found[0].contains(PURE[0]));
    }
}
