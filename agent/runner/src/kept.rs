//! What of an incomplete bundle must not be tidied away.
//!
//! What comes in: the memory and the store of blobs. What goes out: the digests of the blobs that are kept until the bundle is whole.
//! It removes nothing.

use outhaul_bundle::{Digest, Index};

use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::durable;
use crate::error::AgentError;
use crate::incomplete::incomplete;

/// The digests of what is kept of an incomplete bundle: its index and its blobs.
///
/// # Errors
/// [`AgentError`] of the memory or the disk.
pub fn kept(agent: &Agent) -> Result<Vec<Digest>, AgentError> {
    let Some(known) = incomplete(agent.store.read(), &agent.site)? else {
        return Ok(Vec::new());
    };
    let path = Blobs::new(&agent.state_folder).path(&known.index);
    let bytes = durable::read_if_present(&path, agent.limits.max_index_bytes)?.unwrap_or_default();
    if Digest::of(&bytes) != known.index {
        // Damaged or lost: the parts are imported again.
        return Ok(Vec::new());
    }
    let index = Index::from_bytes(&bytes, &agent.limits);
    let blobs = index.iter().flat_map(|index| &index.blobs);
    let parity = known.parity.iter().chain(&known.set_aside);
    let parity = parity.flat_map(|parity| parity.kept.values());
    let own = [known.index].into_iter().chain(parity.copied());
    Ok(blobs.map(|blob| blob.digest).chain(own).collect())
}
