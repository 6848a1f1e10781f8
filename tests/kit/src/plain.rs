//! Indexes of bundles that carry nothing, and their parts.
//!
//! What comes in: names, numbers, commits. What goes out: values, the same on every call, so that a bundle and the
//! report about it agree. They are of no real fleet, unless one is set.

use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::index::{Assignment, Content, Snapshot, Source, Stream};
use outhaul_bundle::name::Name;
use outhaul_bundle::{Digest, Index};

/// The fleet of most tests.
pub const FLEET: &str = "0123456789abcdef";
/// A base commit.
pub const OLD: &str = "1111111111111111111111111111111111111111";
/// The one after it.
pub const NEW: &str = "2222222222222222222222222222222222222222";

/// A name that is one.
pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A stream whose role tells its names.
pub fn stream(environment: &str, cluster_type: &str) -> Stream {
    Stream {
        role: name(&format!("s-{environment}-{cluster_type}")),
        environment: name(environment),
        cluster_type: name(cluster_type),
    }
}

/// What was rendered at this base commit.
pub fn snapshot(commit: &str) -> Snapshot {
    let source = |name: &str, commit: &str| Source {
        name: name.to_owned(),
        repo: format!("https://git.example/{name}"),
        commit: commit.to_owned(),
    };
    Snapshot {
        environment: source("env", "3333333333333333333333333333333333333333"),
        base: source("main", commit),
        workloads: Vec::new(),
        digest: Digest::of(commit.as_bytes()),
    }
}

/// The version of an assignment's config in bundle `number`.
pub fn config(number: u64, assignment: &str) -> Digest {
    Digest::of(format!("{assignment} {number}").as_bytes())
}

/// Bundle `number` of a stream, with two assignments.
pub fn index(stream: &Stream, number: u64, commit: &str) -> Index {
    let like = FakeBundle::new(number, &[]).unwrap().index;
    let assignment = |text: &str, workspace: &str| Assignment {
        name: name(text),
        workload: text.split('-').next().unwrap().to_owned(),
        workspace: workspace.to_owned(),
        policies: vec!["functional-test".to_owned()],
        config_version: config(number, text),
        ..like.assignments[0].clone()
    };
    Index {
        fleet: name(FLEET),
        stream: stream.clone(),
        snapshot: snapshot(commit),
        assignments: vec![
            assignment("camera-functional", "vision"),
            assignment("maps-uat", "nav"),
        ],
        ..like
    }
}

/// What a bundle's metadata says of its index.
pub fn content(index: &Index) -> Content {
    let bytes = index.to_bytes();
    Content {
        digest: Digest::of(&bytes),
        size: bytes.len() as u64,
    }
}
