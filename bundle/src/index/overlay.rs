//! Overlays: where some sites get other files than the rest of their stream.
//!
//! What comes in: an assignment, and the name of a site. What goes out: the assignment as that site
//! gets it, so that nothing after it needs to know of overlays. Sites with equal values share one. An
//! overlay replaces or adds whole files and never takes one away.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::tree::{BundleContents, Tree};
use super::{Assignment, File, IndexError};
use crate::digest::Digest;
use crate::name::Name;

/// The files that some sites get in place of, or beside, the assignment's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// Names of the sites. Never empty.
    pub sites: BTreeSet<Name>,
    /// Digest of the platform config composed for them.
    pub config_version: Digest,
    /// Those files that differ from the assignment's, sorted by path. Never empty.
    pub files: Vec<File>,
}

impl Assignment {
    /// What a site has of its own, if it has anything.
    pub fn overlay(&self, site: &Name) -> Option<&Overlay> {
        self.overlays.iter().find(|o| o.sites.contains(site))
    }

    /// The assignment as one site gets it: with its files, its config's version, and no overlays.
    #[must_use]
    pub fn for_site(&self, site: &Name) -> Self {
        let mut own = self.clone();
        own.take_overlay(site);
        own
    }

    pub(super) fn take_overlay(&mut self, site: &Name) {
        let overlays = std::mem::take(&mut self.overlays);
        let Some(overlay) = overlays.into_iter().find(|o| o.sites.contains(site)) else {
            return;
        };
        self.config_version = overlay.config_version;
        self.files = laid_over(std::mem::take(&mut self.files), overlay.files);
    }

    /// No site twice, no overlay without sites or files, and each gives a tree that can be written.
    pub(super) fn check_overlays(
        &self,
        base: &Tree<'_>,
        carried: BundleContents<'_>,
    ) -> Result<(), IndexError> {
        let fail = |problem: String| Err(IndexError::Inconsistent { problem });
        let mut seen: BTreeSet<&Name> = BTreeSet::new();
        for overlay in &self.overlays {
            let Some(first) = overlay.sites.first() else {
                return fail(format!("an overlay of `{}` is for no site", self.name));
            };
            if overlay.files.is_empty() {
                return fail(format!(
                    "the overlay of `{}` for `{first}` changes nothing",
                    self.name
                ));
            }
            for site in &overlay.sites {
                if !seen.insert(site) {
                    return fail(format!("`{}` has two overlays for `{site}`", self.name));
                }
            }
            let tree = format!("{} for {first}", self.name);
            Tree::new(&tree, &overlay.files, carried)?;
            base.takes(&tree, &overlay.files)?;
        }
        Ok(())
    }
}

fn laid_over(base: Vec<File>, files: Vec<File>) -> Vec<File> {
    let mut all: BTreeMap<_, File> = base.into_iter().map(|f| (f.path.clone(), f)).collect();
    all.extend(files.into_iter().map(|f| (f.path.clone(), f)));
    all.into_values().collect()
}
