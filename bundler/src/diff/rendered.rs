//! Rendered: a folder that was rendered before, as one side of a difference.
//!
//! What comes in: a folder as `outhaul render` or Kalypso wrote it. What goes out: a [`Platform`] that
//! knows its files and, where a record lies beside the folder, its commits; it knows no policies and no
//! values. Files that are no part of the platform are left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::index::Source;

use crate::compose::Composition;
use crate::control::{Cache, ControlPlane, SourceMap};
use crate::output::{self, OutputError};
use crate::pipeline::Platform;
use crate::render::{RenderedAssignment, RenderedClusterType, Rendering};
use crate::schedule::Schedule;

/// Whether a folder was rendered: a record says so, or as in a clone of a platform repository a README
/// in the folder of each cluster type.
pub(super) fn is_rendered(dir: &Path) -> bool {
    if output::record(dir).is_ok_and(|record| record.is_some()) {
        return true;
    }
    let Ok(entries) = std::fs::read_dir(dir) else {
        return false;
    };
    let readme = |path: PathBuf| {
        std::fs::read_to_string(path.join("README.md"))
            .is_ok_and(|text| text.starts_with("This folder contains deployment targets"))
    };
    entries.flatten().any(|entry| readme(entry.path()))
}

/// `<cluster type>/<target>/<file>` of a folder; other files are no part of the platform.
pub(super) fn read(dir: &Path) -> Result<Platform, OutputError> {
    let snapshot = output::record(dir)?.map(|record| record.snapshot);
    let mut cluster_types: BTreeMap<String, RenderedClusterType> = BTreeMap::new();
    let mut files: BTreeMap<(String, String), BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    for (path, bytes) in output::read_tree(dir)? {
        let mut parts = path.splitn(3, '/');
        let (Some(cluster_type), Some(target)) = (parts.next(), parts.next()) else {
            continue;
        };
        if cluster_type.starts_with('.') {
            continue;
        }
        cluster_types.entry(cluster_type.to_owned()).or_default();
        if let Some(file) = parts.next() {
            let of = (cluster_type.to_owned(), target.to_owned());
            files.entry(of).or_default().insert(file.to_owned(), bytes);
        }
    }
    for ((cluster_type, target), files) in files {
        let assignment = RenderedAssignment {
            workload: String::new(),
            workspace: String::new(),
            policies: Vec::new(),
            namespace: String::new(),
            config_version: Digest::of(b""),
            files,
            manifests: BTreeMap::new(),
            overlays: Vec::new(),
        };
        let group = cluster_types.entry(cluster_type).or_default();
        group.assignments.insert(target, assignment.into());
    }
    let environment = snapshot
        .as_ref()
        .map(|s| s.environment.name.clone())
        .unwrap_or_default();
    let nobody = || Source {
        name: String::new(),
        repo: String::new(),
        commit: String::new(),
    };
    let snapshot =
        snapshot.unwrap_or_else(|| crate::snapshot::snapshot(nobody(), nobody(), Vec::new()));
    Ok(Platform {
        control_plane: ControlPlane::default(),
        schedule: Schedule::default(),
        composition: Composition::default(),
        rendering: Rendering {
            environment,
            snapshot,
            promoted_commit: None,
            cluster_types: cluster_types
                .into_iter()
                .map(|(name, group)| (name, group.into()))
                .collect(),
            failures: BTreeMap::new(),
            undecided: BTreeMap::default(),
        },
        sources: SourceMap::default(),
        cache: Cache::at(""),
    })
}
