//! The files of single sites: where their values give something else.
//!
//! What comes in: the configs of sites, and the files that the assignment has for all. What goes out:
//! for each config the files that differ. Values that reach no file give nothing: those sites get what
//! all get. A file is never taken away: one that a site's values leave empty is there, and empty.

use std::collections::BTreeMap;

use super::{RenderedAssignment, RenderedOverlay};
use crate::compose::{Composed, Overlay, SiteFindings};
use outhaul_control::diagnostic::Diagnostics;

type Files = BTreeMap<String, Vec<u8>>;

pub(super) fn render(
    overlays: &[Overlay],
    base: &Files,
    mut files: impl FnMut(&Composed) -> Result<Files, Diagnostics>,
) -> Result<Vec<RenderedOverlay>, Diagnostics> {
    let mut rendered = Vec::new();
    let mut findings = SiteFindings::default();
    for overlay in overlays {
        match files(&overlay.composed) {
            Ok(mut own) => {
                for name in base.keys() {
                    own.entry(name.clone()).or_default();
                }
                own.retain(|name, bytes| base.get(name) != Some(bytes));
                if !own.is_empty() {
                    rendered.push(RenderedOverlay {
                        sites: overlay.sites.clone(),
                        config_version: overlay.composed.version,
                        files: own,
                    });
                }
            }
            Err(found) => {
                let sites: Vec<&String> = overlay.sites.iter().collect();
                findings.add(&sites, found);
            }
        }
    }
    if findings.is_empty() {
        Ok(rendered)
    } else {
        Err(findings.finish())
    }
}

impl RenderedAssignment {
    /// The files that lie apart for single sites: what differs from the assignment's own, or all of them
    /// where it is for some sites only.
    pub(super) fn files_by_site(&self) -> impl Iterator<Item = (&str, BTreeMap<&str, &[u8]>)> {
        let named = self.sites.iter().flatten().map(|site| {
            let own = self.overlays.iter().find(|one| one.sites.contains(site));
            let own = own.into_iter().flat_map(|one| &one.files);
            (site.as_str(), borrowed(self.files.iter().chain(own)))
        });
        let overlays = self.overlays.iter().filter(|_| self.sites.is_none());
        let differing = overlays.flat_map(|overlay| {
            let sites = overlay.sites.iter();
            sites.map(|site| (site.as_str(), borrowed(overlay.files.iter())))
        });
        named.chain(differing)
    }
}

fn borrowed<'a>(
    files: impl Iterator<Item = (&'a String, &'a Vec<u8>)>,
) -> BTreeMap<&'a str, &'a [u8]> {
    files
        .map(|(name, bytes)| (name.as_str(), &bytes[..]))
        .collect()
}
