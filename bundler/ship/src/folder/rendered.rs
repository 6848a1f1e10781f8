//! Rendered: a folder that was rendered before, as one side of a difference.
//!
//! What comes in: a folder as `outhaul render` or Kalypso wrote it. What goes out: a [`Platform`] that
//! knows its files and, where a record lies beside the folder, its commits; it knows no policies and no
//! values. Files that are not part of the platform are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::index::Source;

use super::OutputError;
use outhaul_load::pipeline::Platform;
use outhaul_load::sides::RenderedFolders;
use outhaul_plane::render::{RenderedAssignment, RenderedClusterType, Rendering, SITES};

/// Folders that this crate, or Kalypso, wrote.
#[derive(Debug, Clone, Copy)]
pub struct RenderedBefore;

impl RenderedFolders for RenderedBefore {
    fn is_rendered(&self, folder: &Path) -> bool {
        is_rendered(folder)
    }

    fn read(&self, folder: &Path) -> Result<Platform, Box<dyn Error + Send + Sync>> {
        Ok(read(folder)?)
    }
}

/// Whether a folder was rendered: a record says so, or as in a clone of a platform repository a README
/// in the folder of each cluster type.
fn is_rendered(dir: &Path) -> bool {
    if super::record(dir).is_ok_and(|record| record.is_some()) {
        return true;
    }
    let Ok(entries) = std::fs::read_dir(dir) else {
        return false;
    };
    let readme = |path: PathBuf| {
        super::read_file(&path.join("README.md"))
            .is_ok_and(|text| text.starts_with(b"This folder contains deployment targets"))
    };
    entries.flatten().any(|entry| readme(entry.path()))
}

/// `<cluster type>/<target>/<file>` of a folder; other files are not part of the platform.
fn read(dir: &Path) -> Result<Platform, OutputError> {
    let snapshot = super::record(dir)?.map(|record| record.snapshot);
    let mut cluster_types: BTreeMap<String, RenderedClusterType> = BTreeMap::new();
    let mut files: BTreeMap<Id, Files> = BTreeMap::new();
    let mut by_site = BySite::default();
    for (path, bytes) in super::read_tree(dir)? {
        let mut parts = path.splitn(3, '/');
        let (Some(cluster_type), Some(target)) = (parts.next(), parts.next()) else {
            continue;
        };
        if let Some(of_site) = path.strip_prefix(SITES) {
            by_site.add(of_site, &bytes);
            continue;
        }
        if cluster_type.starts_with('.') {
            continue;
        }
        cluster_types.entry(cluster_type.to_owned()).or_default();
        if let Some(file) = parts.next() {
            let of = (cluster_type.to_owned(), target.to_owned());
            files.entry(of).or_default().insert(file.to_owned(), bytes);
        }
    }
    let for_all = files.into_iter().map(|(id, files)| (id, (None, files)));
    let mut all: BTreeMap<_, _> = for_all.collect();
    for (id, (sites, files)) in by_site.whole() {
        all.entry(id).or_insert((Some(sites), files));
    }
    for ((cluster_type, target), (sites, files)) in all {
        let assignment = RenderedAssignment {
            workload: String::new(),
            workspace: String::new(),
            policies: Vec::new(),
            namespace: String::new(),
            config_version: Digest::of(b""),
            files,
            manifests: BTreeMap::new(),
            sites,
            overlays: Vec::new(),
            site_values: None,
            bootstrap: None,
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
    let snapshot = snapshot
        .unwrap_or_else(|| outhaul_bundle::index::Snapshot::of(nobody(), nobody(), Vec::new()));
    Ok(Platform::of_rendering(Rendering {
        environment,
        snapshot,
        promoted_commit: None,
        cluster_types: cluster_types
            .into_iter()
            .map(|(name, group)| (name, group.into()))
            .collect(),
        failures: BTreeMap::new(),
        undecided: BTreeMap::default(),
    }))
}

/// Cluster type and target.
type Id = (String, String);
type Files = BTreeMap<String, Vec<u8>>;

/// What lies in the folders of single sites.
#[derive(Default)]
struct BySite(BTreeMap<Id, BTreeMap<String, Files>>);

impl BySite {
    /// `<site>/<cluster type>/<target>/<file>`.
    fn add(&mut self, path: &str, bytes: &[u8]) {
        let mut parts = path.splitn(4, '/').map(str::to_owned);
        let parts = (parts.next(), parts.next(), parts.next(), parts.next());
        if let (Some(site), Some(cluster_type), Some(target), Some(file)) = parts {
            let of = self.0.entry((cluster_type, target)).or_default();
            of.entry(site).or_default().insert(file, bytes.to_vec());
        }
    }

    /// Each assignment as if it were for these sites only, with the files that most of them have.
    fn whole(self) -> impl Iterator<Item = (Id, (BTreeSet<String>, Files))> {
        self.0.into_iter().filter_map(|(id, by_site)| {
            let mut alike: BTreeMap<Files, usize> = BTreeMap::new();
            let sites = by_site.keys().cloned().collect();
            for files in by_site.into_values() {
                *alike.entry(files).or_default() += 1;
            }
            let (files, _) = alike.into_iter().max_by_key(|(_, count)| *count)?;
            Some((id, (sites, files)))
        })
    }
}
