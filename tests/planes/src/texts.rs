//! Control planes of texts, for tests.
//!
//! What comes in: files by name, as an environment, its base and a team would have them. What goes out: a
//! control plane, or every finding. Nothing is read from disk.

use std::sync::Arc;

use outhaul_bundle::index::{Snapshot, Source};
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::kinds::{self, Object};
use outhaul_control::{ControlPlane, Diagnostics, FoundObject, ObjectOrigin, RawObjects, assemble};

/// A file of an environment or its base: its name, and what is in it.
pub type Text = (&'static str, String);

/// The environment of these files, in which `team` brings the workloads of the only registration.
///
/// # Errors
/// Every finding.
pub fn load(
    environment: &str,
    own: &[Text],
    base: &[Text],
    team: &Text,
) -> Result<ControlPlane, Diagnostics> {
    let mut findings = Diagnostics::new();
    let mut everything = RawObjects::default();
    let mut read = |(name, text): &Text, by: &ObjectOrigin| {
        let name = format!("folder/{name}");
        let text = text.clone();
        let file = Arc::new(SourceFile { name, text });
        for object in kinds::read_file(&file, &mut findings) {
            everything.objects.push(FoundObject {
                object,
                by: by.clone(),
            });
        }
    };
    for file in own {
        read(file, &ObjectOrigin::Environment);
    }
    for file in base {
        read(file, &ObjectOrigin::Base);
    }
    let registration = everything
        .objects
        .iter()
        .find_map(|found| match &found.object {
            Object::Registration(registration) => Some(ObjectOrigin::Registration {
                name: registration.name.clone(),
                workspace: registration.workspace.clone(),
            }),
            _ => None,
        });
    let mut brought = Vec::new();
    let file = Arc::new(SourceFile {
        name: format!("folder/{}", team.0),
        text: team.1.clone(),
    });
    for object in kinds::read_file(&file, &mut findings) {
        brought.push(FoundObject {
            object,
            by: registration.clone().unwrap_or(ObjectOrigin::Environment),
        });
    }
    everything.objects.extend(brought);
    let plane = assemble(environment, everything, &mut findings);
    findings.sort();
    match findings.has_errors() {
        true => Err(findings),
        false => Ok(plane),
    }
}

/// A snapshot of nothing.
pub fn snapshot(environment: &str) -> Snapshot {
    let source = |name: &str| Source {
        name: name.to_owned(),
        repo: String::new(),
        commit: "0".repeat(40),
    };
    outhaul_bundle::index::Snapshot::of(source(environment), source("main"), Vec::new())
}
