//! Objects of a Kalypso observability hub, as a hub of ours keeps them.
//!
//! What comes in and goes out: the fields of a descriptor and of a reconciler. They are read from YAML and stored elsewhere; nothing here
//! says whether they are true.

/// What should run, as a `DeploymentDescriptor` says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// Repository, branch and folder of the manifests, with `/` between.
    pub manifests_endpoint: String,
    /// The commit there that carries it.
    pub commit: String,
    /// The workload's version.
    pub version: String,
    /// The workspace.
    pub workspace: String,
    /// The application.
    pub application: String,
    /// The workload.
    pub workload: String,
    /// Repository, branch and folder of the source.
    pub source_endpoint: String,
    /// The deployment target.
    pub target: String,
    /// The environment.
    pub environment: String,
    /// The build; empty where none is said.
    pub build: String,
    /// The commit that was built.
    pub build_commit: String,
}

/// What a `Reconciler` reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedReconciler {
    /// The host.
    pub host: String,
    /// The reconciler.
    pub reconciler: String,
    /// `flux`, `arc` or `wo`.
    pub kind: String,
    /// The place of the manifests.
    pub endpoint: String,
    /// The commit that it reports; empty where it reported none.
    pub commit: String,
    /// `success`, `failure` or `in_progress`.
    pub status: String,
    /// What it said.
    pub message: String,
}
