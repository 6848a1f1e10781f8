//! From a verified index to a generation on disk, or to nothing: what is checked, copied and taken back.
//!
//! What comes in: an index that the metadata lists, and the source that brings its blobs. What goes out:
//! a staged generation with the trust by which it was verified, in one transaction, or a state folder as it was
//! before. It decides nothing about orders: that is its caller's business.

use std::collections::BTreeSet;

use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use outhaul_bundle::{Digest, Index, Parity, Volume};
use outhaul_kit::format_count::format_count;
use outhaul_kit::text::chain;
use outhaul_signer::TrustError;
use rusqlite::Connection;

use super::{BundleSource, ImportOutcome, Offer, accept_metadata, listed, parity, since};
use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::cut;
use crate::error::AgentError;
use crate::generation::{self, GenerationError};
use crate::intake;
use crate::machine::{CopyRefusal, Event, State};
use crate::orders::executed::{self, arrived};
use crate::roots;
use crate::runner::tidy;
use crate::runner::{self, Transition};
use crate::state::generations::{self, Generation, is_taken_back};
use crate::state::{self, Note, StateError, floors, holds, key};

/// A bundle of the stream that this site follows again.
#[derive(Debug)]
pub(super) struct Followed {
    /// What its metadata says.
    pub offer: Offer,
    /// Its index.
    pub index: Index,
    /// The index as it was carried.
    pub bytes: Vec<u8>,
}

/// A bundle of the stream that this site was asked to leave, when the order to move does not count any
/// more: the site follows it again. Decided by verified metadata and index, before any blob is read.
pub(super) fn back_from_move(
    agent: &mut Agent,
    source: &mut dyn BundleSource,
) -> Result<Option<Followed>, AgentError> {
    let Some(moved) = executed::moved(agent.store.read())? else {
        return Ok(None);
    };
    let floors = floors::floors(agent.store.read(), &agent.state_folder.floors())?;
    let Ok(offer) = intake::verify_above(agent, source, &floors, &moved.from) else {
        return Ok(None);
    };
    let Ok((index, bytes)) = source.index(&listed(&offer)) else {
        return Ok(None);
    };
    if index.stream != moved.from || !executed::take_back_move(agent, &moved, &index, &offer)? {
        return Ok(None);
    }
    Ok(Some(Followed {
        offer,
        index,
        bytes,
    }))
}

pub(crate) fn check_index(
    agent: &Agent,
    name: &str,
    index: &Index,
    offer: &Offer,
) -> Result<(), AgentError> {
    let site = &agent.site;
    let stream = |s: &Stream| format!("{}/{}", s.environment, s.cluster_type);
    if index.fleet != site.fleet {
        let message = format!(
            "it is of fleet `{}`, this site is of `{}`",
            index.fleet, site.fleet
        );
        return Err(AgentError::refused(name, "fleet", message));
    }
    // An order to move names the new stream; what the stream calls itself, its own key signs.
    let arrives =
        index.stream.role == site.stream.role && executed::moved(agent.store.read())?.is_some();
    if index.stream != site.stream && !arrives {
        let message = format!(
            "this bundle is for {}, this site is {} of {}",
            stream(&index.stream),
            site.name,
            stream(&site.stream)
        );
        return Err(AgentError::refused(name, "stream", message));
    }
    if !index.recipients.is_empty() && !index.recipients.contains(&site.name) {
        let names: Vec<_> = index.recipients.iter().map(Name::as_str).take(10).collect();
        let message = format!(
            "this bundle is for {}, this site is {}",
            names.join(", "),
            site.name
        );
        return Err(AgentError::refused(name, "recipient", message));
    }
    if index.number != offer.acceptance.number {
        let signed = offer.acceptance.number;
        let message = format!(
            "its metadata has number {signed}, its index {}",
            index.number
        );
        return Err(AgentError::refused(name, "mix-and-match", message));
    }
    if let Some(base) = index.requires {
        let message = format!("it builds on bundle {base}; this agent reads whole bundles only");
        return Err(AgentError::refused(name, "delta", message));
    }
    Ok(())
}

/// The row from which a power cut is seen: a copy was begun.
pub(crate) fn begin(
    agent: &mut Agent,
    name: &str,
    index: &Index,
    offer: &Offer,
) -> Result<(), AgentError> {
    let trusted = &offer.acceptance.trusted;
    let generation = Generation {
        number: index.number,
        index: offer.index,
        state: State::Verified,
        stream: index.stream.clone(),
        snapshot: index.snapshot.clone(),
        source: name.to_owned(),
        note: Note::default(),
        good: false,
        whole: false,
        signers: trusted.stream_signers(index.stream.role.as_str()),
    };
    let number = index.number;
    let site = runner::site_now(agent.store.read())?;
    let mut taken_back = BTreeSet::new();
    for known in site.numbers() {
        let row = generations::one(agent.store.read(), known)?;
        taken_back.extend(row.filter(|row| is_taken_back(row, trusted)).map(|_| known));
    }
    let message = match site.refuses_copy(number, &taken_back) {
        Some(CopyRefusal::Newer(newest)) if newest == number => {
            format!("this site has a bundle {number} already")
        }
        Some(CopyRefusal::Newer(newest)) => {
            format!("this site has bundle {newest}, which is newer than {number}")
        }
        Some(CopyRefusal::InUse) => format!("this site works with a bundle {number} already"),
        None => {
            let site = runner::transition(agent, &Transition::copy_begun(generation))?;
            match site.incoming == Some(number) {
                true => return Ok(()),
                false => format!("this site cannot begin to copy bundle {number} now"),
            }
        }
    };
    Err(AgentError::refused(name, "rollback", message))
}

/// Bytes that must be free for what a bundle, a part or a parity part brings: what is kept, made and unpacked of it.
pub(super) fn needed(
    agent: &Agent,
    (index, digest): (&Index, &Digest),
    (volume, parity): (Option<&Volume>, Option<&Parity>),
    blobs: &Blobs,
) -> Result<u64, AgentError> {
    let of_parity = parity::bytes_to_keep(agent, (index, digest), parity, blobs)?;
    let all = [
        blobs.missing_bytes(&index.blobs),
        since::making_bytes(index, volume),
        of_parity,
        generation::unpacked_bytes(index),
    ];
    Ok(all.into_iter().fold(0, u64::saturating_add))
}

/// Says how many stored files were damaged, which nothing else shows once they are copied again.
pub(super) fn log_damaged(number: u64, count: usize) {
    if count > 0 {
        let what = format_count(count, "stored file", "stored files");
        tracing::warn!(
            "bundle {number}: damaged on this machine's disk, and restored from what came: {what}; the disk may be failing"
        );
    }
}

pub(super) fn stage(
    agent: &mut Agent,
    source: &mut dyn BundleSource,
    (index, bytes): (&Index, &[u8]),
    offer: &Offer,
    blobs: &mut Blobs,
) -> Result<(), AgentError> {
    if let Err(error) = source.blobs(index, blobs) {
        return Err(since::or_wrong(agent, source.name(), index, blobs, error));
    }
    since::check_twins(agent, source.name(), index, blobs)?;
    if let Some(made) = blobs.made() {
        tracing::info!("bundle {}: {made}", index.number);
    }
    blobs.sync()?;
    cut::here("blobs-complete");
    agent.heartbeat.beat();
    if agent.heartbeat.is_cancelled() {
        return Err(AgentError::Stopped);
    }
    let metadata = &offer.acceptance.trusted.0;
    let state_folder = &agent.state_folder;
    generation::unpack(state_folder, blobs, index, bytes, metadata, &agent.limits)
        .map_err(|error| of_unpacking(source.name(), error))
}

/// A copy that did not come to its end leaves nothing of itself.
pub(super) fn take_back(
    agent: &mut Agent,
    number: u64,
    error: &AgentError,
    blobs: &mut Blobs,
) -> Result<(), AgentError> {
    let refused = matches!(error, AgentError::Refused { .. });
    leave_nothing(agent, number, &error.to_string(), refused, blobs)
}

/// A copy that was verified whole and of which nothing is to be installed.
pub(super) fn put_away(
    agent: &mut Agent,
    number: u64,
    why: &str,
    blobs: &mut Blobs,
) -> Result<(), AgentError> {
    leave_nothing(agent, number, why, true, blobs)
}

/// A copy of the active bundle that did not come to its end: what was unpacked of it goes.
pub(super) fn leave_as_it_is(agent: &mut Agent, number: u64) -> Result<(), AgentError> {
    crate::durable::remove_tree(&agent.state_folder.generation(number).with_extension("new"))?;
    tidy::discard(agent)
}

fn leave_nothing(
    agent: &mut Agent,
    number: u64,
    why: &str,
    blobs_too: bool,
    blobs: &mut Blobs,
) -> Result<(), AgentError> {
    let lost = Transition::new(Event::CopyLost(number), why);
    runner::transition(agent, &lost)?;
    crate::durable::remove_tree(&agent.state_folder.generation(number).with_extension("new"))?;
    // What a held assignment keeps may be there from before, though nothing vouches for it as a whole: no copy was as good yet.
    let held = holds::of_assignments(agent.store.read())?;
    if held.values().all(|hold| hold.generation != Some(number)) {
        crate::durable::remove_tree(&agent.state_folder.generation(number))?;
    }
    if blobs_too {
        blobs.take_back()?;
    }
    tidy::discard(agent)
}

/// Everything is on disk: the site trusts the metadata from now on, and goes on.
pub(super) fn commit_staged(
    agent: &mut Agent,
    index: &Index,
    offer: &Offer,
) -> Result<ImportOutcome, AgentError> {
    let number = index.number;
    roots::keep(agent, offer)?;
    let versions = &offer.acceptance.versions;
    floors::raise(&agent.state_folder, agent.store.read(), versions)?;
    cut::here("floors-raised");
    let staged = Event::CopyEnded(number);
    let mut site = agent.site.clone();
    site.stream.clone_from(&index.stream);
    runner::transition_with(agent, &staged.into(), |db, author| {
        state::set_meta(db, key::SITE, Some(&site))?;
        arrived(db)?;
        crate::incomplete::supersede(db, number)?;
        issued(db, number, offer)?;
        accept_metadata(db, author.reading, offer)
    })?;
    agent.site = site;
    runner::drive(agent)?;
    intake::outcome_at_rest(agent.store.read(), number)
}

/// When a bundle was issued: its waves begin then.
pub(super) fn issued(db: &Connection, number: u64, offer: &Offer) -> Result<(), StateError> {
    let at_ms = offer.acceptance.issued.as_millisecond();
    state::set_meta(db, key::ISSUED, Some(&(number, at_ms)))
}

/// What unpacking said: a refusal, or a disk that failed.
pub(crate) fn of_unpacking(name: &str, error: GenerationError) -> AgentError {
    if error.is_environment() {
        AgentError::from(error)
    } else {
        AgentError::refused(name, error.rule(), error.to_string())
    }
}

/// What the verifier said: a refusal, or a source that failed.
pub(super) fn refusal(name: &str, error: &TrustError) -> AgentError {
    let message = chain(error);
    if error.is_transient() {
        AgentError::Unreadable {
            source_name: name.to_owned(),
            problem: message,
        }
    } else {
        AgentError::refused(name, error.rule(), message)
    }
}
