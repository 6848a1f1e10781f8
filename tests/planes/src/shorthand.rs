//! Control planes in short, for the laws of scheduling and of asking schedulers.
//!
//! What comes in: one line per object, or documents and targets. What goes out: a control plane.

use std::sync::Arc;

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostics, Location, SourceFile};
use outhaul_control::kinds::{KALYPSO, OUTHAUL, Object, read_file};
use outhaul_control::model::DeploymentTarget;

#[expect(
    clippy::type_complexity,
    reason = "name, workspace and labels of each target, as a table"
)]
pub fn plane_of(documents: &[String], targets: &[(&str, &str, &[(&str, &str)])]) -> ControlPlane {
    let text = documents.join("---\n");
    let file = Arc::new(SourceFile {
        name: "x.yaml".into(),
        text,
    });
    let mut findings = Diagnostics::new();
    let mut plane = ControlPlane {
        environment: "dev".into(),
        ..ControlPlane::default()
    };
    for object in read_file(&file, &mut findings) {
        match object {
            Object::ClusterType(o) => drop(plane.cluster_types.insert(o.name.clone(), o)),
            Object::Policy(o) => drop(plane.policies.insert(o.name.clone(), o)),
            Object::Taint(o) => drop(plane.taints.insert(o.name.clone(), o)),
            Object::Template(o) => drop(plane.templates.insert(o.name.clone(), o)),
            Object::Config(o) => drop(plane.configs.insert(o.name.clone(), o)),
            other => panic!("{other:?}"),
        }
    }
    assert!(findings.is_empty(), "{findings}");
    for (name, workspace, labels) in targets {
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let target = DeploymentTarget {
            name: (*name).into(),
            short_name: (*name).into(),
            workload: "w".into(),
            registration: "w".into(),
            workspace: (*workspace).into(),
            environment: "dev".into(),
            environment_at: Location::new(&file, 0..0),
            labels,
            manifests: None,
            storage_at: None,
            config_schemas: Vec::new(),
            location: Location::new(&file, 0..0),
        };
        plane.targets.insert(target.name.clone(), target);
    }
    plane
}

/// A control plane in short: one line per object.
///
/// `kind: ClusterType NAME LABELS`, `policy: NAME TARGET-LABELS CLUSTER-TYPE-SELECTOR PLACEMENT`,
/// `kalypso: NAME CLUSTER-TYPE-SELECTOR`, `taint: NAME LABELS KEY=VALUE:EFFECT`, `target: NAME LABELS`.
pub fn plane(text: &str) -> ControlPlane {
    let mut documents = Vec::new();
    let mut targets = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let words = split(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["kind:", "ClusterType", name, labels] => documents.push(format!(
                "apiVersion: {KALYPSO}\nkind: ClusterType\nmetadata: {{name: {name}, labels: {labels}}}\n\
                 spec: {{reconciler: r, namespaceService: n}}\n"
            )),
            ["policy:", name, labels, selector, placement] => {
                let inner = &placement[1..placement.len() - 1];
                let comma = if inner.trim().is_empty() { "" } else { ", " };
                documents.push(format!(
                    "apiVersion: {OUTHAUL}\nkind: SchedulingPolicy\nmetadata: {{name: {name}}}\n\
                     spec: {{deploymentTargetSelector: {{labelSelector: {{matchLabels: {labels}}}}}, \
                     clusterTypeSelector: {{labelSelector: {selector}}}{comma}{inner}}}\n"
                ));
            }
            ["kalypso:", name, selector] => documents.push(format!(
                "apiVersion: {KALYPSO}\nkind: SchedulingPolicy\nmetadata: {{name: {name}}}\n\
                 spec: {{deploymentTargetSelector: {{}}, clusterTypeSelector: {{labelSelector: {selector}}}}}\n"
            )),
            ["taint:", name, labels, taint] => {
                let (key, rest) = taint.split_once('=').unwrap();
                let (value, effect) = rest.split_once(':').unwrap();
                documents.push(format!(
                    "apiVersion: {OUTHAUL}\nkind: Taint\nmetadata: {{name: {name}}}\n\
                     spec: {{clusterTypeSelector: {{labelSelector: {{matchLabels: {labels}}}}}, key: {key}, \
                     value: '{value}', effect: {effect}}}\n"
                ));
            }
            ["target:", name, "{}"] => targets.push(name.to_owned()),
            _ => panic!("{line}"),
        }
    }
    let none: &[(&str, &str)] = &[];
    let targets: Vec<_> = targets
        .iter()
        .map(|name| (name.as_str(), "team", none))
        .collect();
    plane_of(&documents, &targets)
}

/// Words, where what stands in braces is one word.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut depth = 0;
    for c in line.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ' ' && depth == 0 {
            words.push(String::new());
        } else {
            words.last_mut().unwrap().push(c);
        }
    }
    words
}
