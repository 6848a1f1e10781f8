//! Which sources went from one commit to another between two reports.
//!
//! What comes in: the commits of both reports, and the platform as it is rendered from the newer ones. What goes out: each repository with
//! both commits and everything that it is read for. What the control plane does not name is left out, and so is what has no commits; both are
//! noted. It is pure.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::index::{KEPT, Snapshot, Source};
use outhaul_git::source;
use outhaul_load::pipeline::Platform;

use crate::states::sources;

/// What a snapshot calls the repository of teams' own files, before its branch.
pub(crate) const MANIFESTS: &str = "manifests:";

/// Sources that went from one commit to another together: the same repository, read for several things.
pub(crate) struct SourceMove {
    pub repo: String,
    pub names: BTreeSet<String>,
    pub from: String,
    pub to: String,
}

/// What went from one commit to another. A site writes its own reports: what the control plane does not name is not opened.
pub(crate) fn moved(
    good: &Snapshot,
    bad: &Snapshot,
    platform: &Platform,
    notes: &mut Vec<String>,
) -> Vec<SourceMove> {
    let old: BTreeMap<(&str, &str), &Source> = sources(good)
        .map(|one| ((one.name.as_str(), one.repo.as_str()), one))
        .collect();
    let mut found: Vec<SourceMove> = Vec::new();
    for new in sources(bad) {
        if new.name.starts_with(KEPT) {
            continue;
        }
        let Some(old) = old.get(&(new.name.as_str(), new.repo.as_str())) else {
            notes.push(format!(
                "`{}` ({}) is new and has no commits to compare with",
                new.name, new.repo
            ));
            continue;
        };
        if old.commit == new.commit {
            continue;
        }
        if !is_named(platform, new) {
            notes.push(format!(
                "`{}` ({}) is in the site's report and not in the control plane: it was not opened",
                new.name, new.repo
            ));
            continue;
        }
        if old.commit.starts_with("sha256:") || new.commit.starts_with("sha256:") {
            notes.push(format!(
                "`{}` is a plain folder: it has no commits to look at",
                new.name
            ));
            continue;
        }
        let known = found
            .iter_mut()
            .find(|one| one.repo == new.repo && one.from == old.commit && one.to == new.commit);
        match known {
            Some(known) => {
                known.names.insert(new.name.clone());
            }
            None => found.push(SourceMove {
                repo: new.repo.clone(),
                names: BTreeSet::from([new.name.clone()]),
                from: old.commit.clone(),
                to: new.commit.clone(),
            }),
        }
    }
    found
}

/// Whether the control plane itself reads this repository under this name.
fn is_named(platform: &Platform, one: &Source) -> bool {
    let mut read = sources(&platform.rendering.snapshot);
    if read.any(|known| known.name == one.name && known.repo == one.repo) {
        return true;
    }
    let groups = platform.rendering.cluster_types.values();
    let mut repos = groups
        .flat_map(|group| group.assignments.values())
        .filter_map(|rendered| rendered.manifests.get("repo"));
    one.name.starts_with(MANIFESTS)
        && repos.any(|repo| source::normal_url(repo) == source::normal_url(&one.repo))
}

impl SourceMove {
    /// Its name, without what only tells for what else it is read.
    pub(crate) fn title(&self) -> String {
        let own = self.names.iter().find(|name| !name.starts_with(MANIFESTS));
        own.or(self.names.first()).cloned().unwrap_or_default()
    }

    pub(crate) fn is_source(&self, one: &Source) -> bool {
        one.repo == self.repo && self.names.contains(&one.name)
    }
}
