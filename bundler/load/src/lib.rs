//! Load: from an environment's name and where it lies to a rendered platform, at one snapshot.
//!
//! ```text
//! LoadRequest ─▶ load ─▶ ask schedulers ─▶ plane: schedule ─▶ compose ─▶ render ─▶ Platform
//!                 loader       scheduler       pipeline
//! ```
//!
//! This file reads a control plane, from folders and from git repositories.
//! What comes in: a [`LoadRequest`]: which environment, from where. What goes out: a [`ControlPlane`]
//! and the [`Snapshot`] of the commits that it was read from, or every finding with its place. It
//! reads and never writes outside its cache, and never mixes commits: what it returns was read from
//! exactly the commits that the snapshot names.

use std::path::PathBuf;

use outhaul_bundle::index::Snapshot;
use outhaul_control::model::Environment;
use outhaul_control::{ControlPlane, Diagnostics};
use outhaul_git::source::{Cache, SourceMap};

use crate::scheduler::Schedulers;

mod declared;
mod loader;
pub mod manifests;
mod output;
mod payloads;
pub mod pipeline;
pub mod program;
pub mod scheduler;
pub mod sides;
pub mod since;
mod unread;

pub use declared::declared;
pub use output::{
    NoParent, NoPlace, OutputRefused, OwnInput, PlaceRefused, refuse_file, refuse_folder,
    refuse_folder_of_others, refuse_new_folder, refuse_other_kind, refuse_output, refuse_rendered,
    refuse_rendering, refuse_sources,
};
pub use payloads::{PayloadSource, payload_sources};
pub use unread::uncommitted;

/// Names of pins without a URL: where environments are listed, and what is promoted.
pub use loader::PROMOTED;

/// Where a control plane lists its environments; as a pin without a URL, at which commit.
pub const ENVIRONMENTS: &str = ".environments";
/// The base repository whose commit is promoted.
pub const MAIN: &str = "main";

/// What to load.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// The environment's name.
    pub environment: String,
    /// Where its control plane is.
    pub from: Origin,
    /// Which repositories stand here as folders or mirrors.
    pub sources: SourceMap,
    /// Where other repositories are fetched to.
    pub cache: Cache,
    /// The programs that policies may name to choose for them.
    pub schedulers: Schedulers,
}

/// Where a control plane is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Two folders: what is the environment's own, and what is promoted into it.
    Folders {
        /// The environment's own folder.
        environment_dir: PathBuf,
        /// The folder with a local copy of the base repository named `main`.
        base_dir: Option<PathBuf>,
        /// The commit that `base_dir` is; without it the base repository's pin is used.
        base_commit: Option<String>,
    },
    /// A repository with the environments in `.environments/`, and a branch for each.
    Repository {
        /// Its URL, or a folder.
        url: String,
        /// The branch with the environments; without it `main`, or else the default branch.
        branch: Option<String>,
    },
}

/// Loads one environment.
///
/// A team's repository that cannot be read, or holds a mistake, is not an error: see
/// [`ControlPlane::lost`].
///
/// # Errors
/// Every finding, when at least one is an error.
pub fn load(request: &LoadRequest) -> Result<(ControlPlane, Snapshot), Diagnostics> {
    whole(load_partly(request))
}

/// As [`load`], for scheduling, which places workloads on cluster types and asks about no site. Sites
/// are skipped where they are written plainly and without a mistake, however many there are; the
/// snapshot is the same. When `request` names schedulers, or a policy selects
/// sites, they are read, for those ask.
///
/// What comes of it must not be composed or rendered. Two sites of one name go unnoticed.
///
/// # Errors
/// As [`load`].
pub fn load_to_schedule(request: &LoadRequest) -> Result<(ControlPlane, Snapshot), Diagnostics> {
    if !request.schedulers.is_empty() {
        return load(request);
    }
    let loaded = whole(loaded(loader::Loader::without_sites(request), request))?;
    let (plane, _) = &loaded;
    if plane
        .policies
        .values()
        .any(|policy| policy.placement.sites.is_some())
    {
        return load(request);
    }
    Ok(loaded)
}

/// What was loaded and every finding: whole, unless one of them is an error.
type Loaded = (ControlPlane, Option<Snapshot>, Diagnostics);

fn whole(loaded: Loaded) -> Result<(ControlPlane, Snapshot), Diagnostics> {
    let (mut control_plane, snapshot, mut findings) = loaded;
    match snapshot {
        Some(snapshot) if !findings.has_errors() => {
            control_plane.findings = findings;
            Ok((control_plane, snapshot))
        }
        _ => {
            findings.append(control_plane.lost_findings());
            findings.sort();
            Err(findings)
        }
    }
}

/// Loads what can be loaded of one environment, with every finding: to be looked at, never rendered.
pub fn load_partly(request: &LoadRequest) -> (ControlPlane, Option<Snapshot>, Diagnostics) {
    loaded(loader::Loader::new(request), request)
}

/// Findings of a load that must be whole: an error also when only a team's repository is broken.
///
/// # Errors
/// What is wrong with the workloads that cannot be read.
pub fn without_lost(plane: &ControlPlane) -> Result<(), Diagnostics> {
    if plane.lost.is_empty() {
        return Ok(());
    }
    let mut findings = plane.findings.clone();
    findings.append(plane.lost_findings());
    findings.sort();
    Err(findings)
}

fn loaded(mut loader: loader::Loader<'_>, request: &LoadRequest) -> Loaded {
    loader.run();
    let (found, snapshot, mut findings) = loader.finish();
    let control_plane = outhaul_control::assemble(&request.environment, found, &mut findings);
    unread::missing_base(&control_plane, request, &mut findings);
    declared::undeclared(request, &mut findings);
    findings.sort();
    (control_plane, snapshot, findings)
}

/// Every environment that a control plane in a repository lists, by name; none for two folders, which
/// are one environment.
///
/// # Errors
/// Every finding, when the repository or one of its environments cannot be read.
pub fn environments(request: &LoadRequest) -> Result<Vec<Environment>, Diagnostics> {
    match &request.from {
        Origin::Folders { .. } => Ok(Vec::new()),
        Origin::Repository { url, branch } => {
            loader::Loader::new(request).environments(url, branch.as_deref())
        }
    }
}

/// As [`environments`], but a file with a mistake does not hide the others: those that can be read, and what is wrong
/// with the rest.
pub fn environments_partly(request: &LoadRequest) -> (Vec<Environment>, Diagnostics) {
    match &request.from {
        Origin::Folders { .. } => (Vec::new(), Diagnostics::new()),
        Origin::Repository { url, branch } => {
            loader::Loader::new(request).environments_partly(url, branch.as_deref())
        }
    }
}

#[cfg(test)]
mod tests;
