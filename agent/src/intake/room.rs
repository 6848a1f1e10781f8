//! Space for what comes in.
//!
//! What comes in: how many bytes are needed, and whether a part of a bundle brings them. What goes out: nothing where there is space, or
//! an error. Parity that is kept gives way to a part: the part is signed, and with it less parity is needed. It gives way only where
//! that is enough, and no more of it than that.

use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::durable;
use crate::error::AgentError;
use crate::incomplete::incomplete;
use outhaul_bundle::{Digest, Volume};

use super::parity;

/// Checks that there is space for `needed` bytes of the bundle with this index.
pub(super) fn make(
    agent: &mut Agent,
    needed: u64,
    index: &Digest,
    volume: Option<&Volume>,
) -> Result<(), AgentError> {
    let checked = agent.check_space(needed);
    let is_part = volume.is_some_and(|volume| !volume.is_since());
    if !is_part || !matches!(checked, Err(AgentError::Space { .. })) {
        return checked;
    }
    let known = incomplete(agent.store.read(), &agent.site)?;
    let Some(mut bundle) = known.filter(|known| known.index == *index) else {
        return checked;
    };
    let Some(kept) = &mut bundle.parity else {
        return checked;
    };
    let blobs = Blobs::new(&agent.state_folder);
    let (mut given, mut freed) = (Vec::new(), 0);
    while agent.check_space(needed.saturating_sub(freed)).is_err() {
        let Some((part, digest)) = kept.kept.pop_last() else {
            return checked;
        };
        let path = blobs.path(&digest);
        freed += std::fs::metadata(&path).map_or(0, |found| found.len());
        given.push((part, path));
    }
    kept.count(bundle.missing.len());
    // The row goes first, so that no row names what is gone.
    parity::store(agent, Some(&bundle))?;
    for (part, path) in given {
        if path.exists() {
            durable::remove_file(&path)?;
        }
        tracing::warn!(
            "bundle {}: parity part {part}, which was kept, was deleted to make room for a part: there is no space for both",
            bundle.number
        );
    }
    agent.check_space(needed)
}
