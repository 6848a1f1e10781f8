//! Where the manifests of workloads lie, and at which commits now: they travel in bundles, and no snapshot names them before they are collected.
//!
//! What comes in: a control plane that was loaded. What goes out: each repository with its branch and commit, once, sorted. Branches are
//! looked up, and nothing is read.

use std::collections::BTreeSet;

use outhaul_git::source::{self, GitReference};

use crate::pipeline::Loaded;

/// A repository with the manifests of workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadSource {
    /// Its URL as the control plane has it.
    pub repo: String,
    /// Where in it.
    pub reference: GitReference,
    /// The commit there; why it is not known, else. Whoever needs it reports that.
    pub commit: Result<String, String>,
}

/// The repositories of the manifests of all deployment targets.
pub fn payload_sources(loaded: &Loaded) -> Vec<PayloadSource> {
    let mut asked = BTreeSet::new();
    let targets = loaded.control_plane.targets.values();
    for manifests in targets.filter_map(|target| target.manifests.as_ref()) {
        let value = |name| {
            let value = manifests.get(name);
            value.filter(|text: &&String| !text.is_empty())
        };
        if let Some(repo) = value("repo") {
            asked.insert((repo, value("branch")));
        }
    }
    let request = &loaded.request;
    let found = asked.into_iter().map(|(repo, branch)| {
        let reference = match branch {
            Some(branch) => GitReference::Branch(branch.clone()),
            None => GitReference::Head,
        };
        let opened = source::open(repo, &reference, &request.sources, &request.cache);
        PayloadSource {
            repo: repo.clone(),
            reference,
            commit: opened
                .map(|found| found.commit)
                .map_err(|error| error.to_string()),
        }
    });
    found.collect()
}
