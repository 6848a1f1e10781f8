//! A bundle that comes in parts: each is verified like a bundle and kept, until all of it is here.
//!
//! What comes in: a part whose metadata and index were verified, as those of a whole bundle are. What goes out: its blobs
//! in the store, and which parts are still missing; or that nothing is missing any more. The blobs of one incomplete
//! bundle are kept, that of which a part came last, and go when a bundle that is not older is staged. Until all of it is here nothing
//! of it takes effect, and none of its metadata is remembered.

use outhaul_bundle::{Index, Volume};

use super::{Brought, BundleSource, ImportOutcome, Offer, parity};
use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::durable;
use crate::error::AgentError;
use crate::incomplete::{IncompleteBundle, incomplete};
use crate::runner::tidy;
use crate::state::{self, StateError, key};

/// Takes the blobs of the part that `source` is; `None` when nothing of the bundle is missing any more.
pub(super) fn collect(
    agent: &mut Agent,
    source: &mut dyn BundleSource,
    (index, bytes): (&Index, &[u8]),
    offer: &Offer,
    volume: &Volume,
    blobs: &mut Blobs,
) -> Result<Option<ImportOutcome>, AgentError> {
    let number = index.number;
    let before = incomplete(agent.store.read(), &agent.site)?;
    let is_known = volume
        .range()
        .all(|at| index.blobs.get(at).is_some_and(|blob| blobs.has(blob)));
    let brought = match is_known {
        true => Brought::Known,
        false => Brought::New,
    };
    if let Err(error) = source.blobs(index, blobs) {
        // What is whole of it stays when the stick was pulled out, and of a part that was refused nothing does.
        if matches!(error, AgentError::Refused { .. }) {
            blobs.take_back()?;
        }
        tidy::discard(agent)?;
        return Err(error);
    }
    blobs.sync()?;
    let missing = volume.missing(|at| index.blobs.get(at).is_some_and(|blob| !blobs.has(blob)));
    if missing.is_empty() {
        return Ok(None);
    }
    durable::write(&blobs.path(&offer.index), bytes, durable::SECRET_MODE)?;
    let same = before.as_ref().filter(|before| before.index == offer.index);
    let mut kept = same.and_then(|before| before.parity.clone());
    if let Some(kept) = &mut kept {
        let by_set = kept
            .set
            .missing(|at| index.blobs.get(at).is_some_and(|blob| !blobs.has(blob)));
        kept.count(by_set.len());
    }
    let now = IncompleteBundle {
        number,
        index: offer.index,
        role: index.stream.role.to_string(),
        parts: volume.parts(),
        missing,
        replaced: IncompleteBundle::replaced_by(before.as_ref(), &offer.index),
        cut_by_parity: false,
        parity: kept,
        set_aside: same.and_then(|before| before.set_aside.clone()),
    };
    agent
        .commit(|db, _| state::set_meta(db, key::INCOMPLETE, Some(&now)))
        .map_err(|error: StateError| AgentError::from(error))?;
    if before.is_some_and(|before| before.index != now.index) {
        tidy::discard(agent)?;
    }
    if parity::complete(agent, source, index, &now, blobs)? {
        return Ok(None);
    }
    Ok(Some(ImportOutcome::Incomplete {
        part: volume.part(),
        brought,
        bundle: Box::new(now),
    }))
}
