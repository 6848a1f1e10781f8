//! Bundles whose number this site knows already: whether they are the same, and what is done with them then.
//!
//! What comes in: a verified offer, and its source. What goes out: what came of it without a copy, a refusal, or that it is to be taken in.
//! Of a bundle that is active only stored blobs are copied, where some are missing. It decides nothing of what is new.

use outhaul_bundle::Index;

use super::{
    BundleSource, ImportOutcome, Offer, listed, outcome_at_rest, refusals, repair_known, since,
    store_trust,
};
use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::error::AgentError;
use crate::intact::{self, Look};
use crate::machine::{State, Work};
use crate::runner;
use crate::state;
use crate::state::generations::{self, Generation};

/// The outcome for a bundle that is here already, once stored blobs of it that are missing are copied from the source: without them nothing of
/// it that is damaged later can be put back, and no copy can leave them out.
///
/// # Errors
/// A refusal, or [`AgentError`] of the source or the disk; what runs was not touched by either.
pub(super) fn refilled(
    agent: &mut Agent,
    source: &mut dyn BundleSource,
    offer: &Offer,
    outcome: ImportOutcome,
) -> Result<ImportOutcome, AgentError> {
    let mut missing = match &outcome {
        ImportOutcome::AlreadyActive { number, .. } => {
            runner::index_of(agent, *number).map_or(0, |index| missing_blobs(agent, &index))
        }
        _ => 0,
    };
    if let Some(rehearsal) = &mut agent.rehearsal {
        rehearsal.missing_blobs = std::mem::take(&mut missing);
    }
    if missing == 0 {
        source.is_here_already(&listed(offer));
        return Ok(outcome);
    }
    let number = offer.acceptance.number;
    let back = match copied(agent, source, offer) {
        Ok(None) => return Ok(outcome),
        Ok(Some(index)) => missing.saturating_sub(missing_blobs(agent, &index)),
        Err(error @ (AgentError::State(_) | AgentError::Stopped)) => return Err(error),
        // The bundle is active all the same: nothing that runs needs what came.
        Err(error) => {
            tracing::warn!("bundle {number}: its missing blobs were not restored: {error}");
            return Ok(outcome);
        }
    };
    tracing::warn!(
        "bundle {number}: {missing} of its stored blobs were missing on this machine's disk, and {back} of them are restored from what came"
    );
    Ok(outcome)
}

/// Copies the blobs that are missing here; `None` for a parity part, which has none.
fn copied(
    agent: &Agent,
    source: &mut dyn BundleSource,
    offer: &Offer,
) -> Result<Option<Index>, AgentError> {
    let (index, _) = source.index(&listed(offer))?;
    let volume = source.volume(&index)?;
    if source.parity(&index)?.is_some() {
        return Ok(None);
    }
    let mut blobs = Blobs::new(&agent.state_folder);
    agent.check_space(blobs.missing_bytes(&index.blobs))?;
    since::build_on(agent, volume.as_ref(), &mut blobs)?;
    let copied = source.blobs(&index, &mut blobs);
    let copied = copied.and_then(|()| since::check_twins(agent, source.name(), &index, &mut blobs));
    if let Err(error) = copied {
        // A download goes on from its last byte, and what is whole of it stays; a patch is made again.
        let is_refused = matches!(error, AgentError::Refused { .. });
        match source.is_polled() && !is_refused {
            true => blobs.take_back_twins()?,
            false => blobs.take_back()?,
        }
        return Err(error);
    }
    if !source.is_polled() {
        blobs.clear_partial()?;
    }
    blobs.sync()?;
    Ok(Some(index))
}

/// How many blobs of a bundle are not stored here.
pub(crate) fn missing_blobs(agent: &Agent, index: &Index) -> usize {
    let blobs = Blobs::new(&agent.state_folder);
    index.blobs.iter().filter(|blob| !blobs.has(blob)).count()
}

/// Whether this site knows another bundle under an offer's number. What it refused of a stream that it
/// has left since is none, nor is what a key signed that the fleet took away.
pub(super) fn contradicts(site: &state::SiteIdentity, row: &Generation, offer: &Offer) -> bool {
    let left = row.state == State::Rejected && row.stream.role != site.stream.role;
    let taken_back = generations::is_taken_back(row, &offer.acceptance.trusted);
    row.index != offer.index && !left && !taken_back
}

/// What is to be done with a number that this site has met before.
pub(super) fn outcome(
    agent: &mut Agent,
    source: &dyn BundleSource,
    offer: &Offer,
) -> Result<Option<ImportOutcome>, AgentError> {
    let name = source.name();
    let number = offer.acceptance.number;
    let row = generations::one(agent.store.read(), number)?;
    let site = runner::site_now(agent.store.read())?;
    // One that is worked with keeps its number until the fleet's next one takes its place.
    let contradicts = |row: &Generation| {
        contradicts(&agent.site, row, offer) || (row.index != offer.index && !site.is_free(number))
    };
    if let Some(row) = row.as_ref().filter(|row| contradicts(row)) {
        let message = format!(
            "this site knows another bundle {number}: its index is {}…, this one's is {}…",
            row.index.short(),
            offer.index.short()
        );
        return Err(AgentError::refused(
            name,
            refusals::PUBLISHED_TWICE,
            message,
        ));
    }
    if let Some(active) = site.active.filter(|active| active.number == number) {
        let Ok(index) = runner::index_of(agent, number) else {
            return Ok(None);
        };
        // Asked every few minutes, nobody reads all of it again.
        let look = match source.is_polled() {
            true => Look::Changed,
            false => Look::Every,
        };
        let damages = intact::damages(&agent.state_folder, &index, look);
        if !damages.is_empty() && site.work == Work::Idle {
            if !intact::can_be_put_back(&agent.state_folder, &index, &damages) {
                return Ok(None);
            }
            store_trust(agent, offer)?;
            return repair_known(agent, number, "stored files were missing or damaged").map(Some);
        }
        // The same content under newer metadata: floors and time move.
        let remembered = store_trust(agent, offer)?;
        if active.broken {
            return repair_known(agent, number, "imported again").map(Some);
        }
        return Ok(Some(ImportOutcome::AlreadyActive { number, remembered }));
    }
    if let Some(reason) = generations::remembered(agent.store.read(), &offer.index)? {
        return Err(AgentError::failed_before(name, number, &reason));
    }
    let known = [site.worked_on(), site.waiting.map(|waiting| waiting.number)];
    if !known.contains(&Some(number)) {
        return Ok(None);
    }
    runner::drive(agent)?;
    Ok(Some(outcome_at_rest(agent.store.read(), number)?))
}
