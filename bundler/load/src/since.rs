//! What a publication changes: the rendered platform against what the branch was rendered from.
//!
//! What comes in: the platform, how it was loaded, and the snapshot in the branch's record. What goes
//! out: a [`Difference`], or in one sentence why there is none: the older commits are read again, and not
//! all of them can be had for ever. Nothing outside the cache of fetched repositories is written.

use outhaul_bundle::index::Snapshot;

use crate::LoadRequest;
use crate::pipeline::{self, Platform};
use crate::sides::side;
use outhaul_control::model::Transport;
use outhaul_diff::Difference;
use outhaul_plane::compose::Mode;
use outhaul_plane::delivery;

/// What `platform` changes of what was rendered from `before`, in cluster types that travel by git.
///
/// # Errors
/// Why that cannot be said.
pub fn since(
    platform: &Platform,
    request: &LoadRequest,
    mode: Mode,
    before: &Snapshot,
) -> Result<Difference, String> {
    let now = &platform.rendering.snapshot;
    let old = pipeline::run_whole(request, mode, Some(before)).map_err(|findings| {
        let first = findings.iter().next();
        first.map_or_else(String::new, |finding| finding.message.clone())
    })?;
    // A plain folder, or a branch that nobody pinned, is not what it was.
    if old.rendering.snapshot.digest != before.digest {
        return Err("not all of its sources can be read as they were".to_owned());
    }
    let names = [before, now].map(|snapshot| format!("snapshot {}", snapshot.digest.short()));
    let [before, after] = [&names[0], &names[1]];
    let mut difference = outhaul_diff::compare(side(before, &old), side(after, platform));
    // What travels by bundle alone is not in the branch.
    let plane = &platform.control_plane;
    difference.cluster_types.retain(|name, _| {
        let transport = plane
            .cluster_types
            .get(name)
            .and_then(|cluster_type| delivery::of(plane, cluster_type).ok()?.transport);
        transport.is_none_or(|transport| transport.value != Transport::Bundle)
    });
    Ok(difference)
}
