//! Sites of which the cluster follows the platform repository directly: which bundle the commit that it shows belongs to.
//!
//! What comes in: sites as they reported, and the bundles that a hub verified. What goes out: the same sites, each such
//! one with the first bundle of its stream that has the base commit which its cluster shows. A commit that no bundle is
//! made from counts for nothing, and neither does a cluster that shows none: both close a gate. Pure.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::facts::{DesiredBundle, Running, SiteState};
use crate::site_status;

fn names_none(running: &Running) -> bool {
    running.bundle == 0
}

/// The names of those that report no bundle.
pub(crate) fn following(sites: &[SiteState]) -> BTreeSet<&str> {
    let follows = |site: &&SiteState| site.running.as_ref().is_some_and(names_none);
    sites
        .iter()
        .filter(follows)
        .map(|site| site.site.as_str())
        .collect()
}

/// The sites, each with the bundle of the commit that its cluster shows.
pub fn resolved<'a>(sites: &'a [SiteState], bundles: &[DesiredBundle]) -> Cow<'a, [SiteState]> {
    if !sites
        .iter()
        .any(|site| site.running.as_ref().is_some_and(names_none))
    {
        return Cow::Borrowed(sites);
    }
    let with_bundle = |site: &SiteState| {
        let mut site = site.clone();
        let shown = site.running.as_ref().filter(|running| names_none(running));
        let found = shown.and_then(|shown| site_status::needed(&shown.base_commit, bundles, &site));
        let found = found.map(|bundle| (bundle.number, bundle.index.clone()));
        if let (Some((number, index)), Some(running)) = (found, &mut site.running) {
            running.bundle = number;
            running.index = index;
        }
        site
    };
    Cow::Owned(sites.iter().map(with_bundle).collect())
}
