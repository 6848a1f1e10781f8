//! A bundle of a stream before it is signed, and what goes on record of it.
//!
//! What comes in: what was planned for a stream, and the bundle that was made of it. What goes out: the record of what the stream
//! ships. It makes no bundle and signs nothing.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_signer::fleet::Fleet;

use super::ProduceError;
use super::plan::StreamContents;
use super::shipped::{ShippedAssignment, ShippedStream};
use crate::assemble::UnsignedBundle;

/// A bundle, and the commits of its payloads by assignment.
pub(super) struct Built {
    pub(super) bundle: UnsignedBundle,
    pub(super) commits: BTreeMap<String, String>,
    /// Digest of it before it was sealed.
    pub(super) plain: Digest,
    /// Its bill of materials.
    pub(super) sbom: Vec<u8>,
}

/// What the stream ships with this bundle.
pub(super) fn last_of(
    environment: &str,
    plan: &StreamContents<'_>,
    built: &Built,
) -> ShippedStream {
    let now = built.bundle.index.snapshot.digest;
    let assignments = plan.assignments.iter().filter_map(|(name, rendered)| {
        let kept = plan.kept.iter().find(|(kept, _)| kept.as_str() == name);
        let from = kept.map_or(now, |(_, from)| *from);
        let commit = built.commits.get(name).cloned();
        Some((name.clone(), ShippedAssignment::of(rendered, from, commit)?))
    });
    ShippedStream::new(environment, plan.cluster_type, assignments.collect())
}

/// Puts on record what the stream ships with this bundle, when that is not on record.
pub(super) fn remember(
    fleet: &Fleet,
    environment: &str,
    plan: &StreamContents<'_>,
    built: &Built,
) -> Result<(), ProduceError> {
    let now = last_of(environment, plan, built);
    if plan.last.as_ref() != Some(&now) {
        now.write(fleet.folder(), &plan.role)?;
    }
    Ok(())
}
