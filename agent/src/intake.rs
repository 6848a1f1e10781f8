//! Taking a bundle in: from bytes that nobody has verified to a staged generation, or a refusal.
//!
//! What comes in: a [`BundleSource`] (a file, or a repository over HTTPS; [`slip`] is for metadata alone). What
//! goes out: an [`ImportOutcome`]. In this order: metadata against what the site trusts; number; index;
//! recipients; revocation; space; each blob against its digest while it streams in; unpacking. Only then
//! are other orders carried out, and the new metadata and floors stored, in the same transaction as the
//! generation. A refused bundle leaves one report and nothing else, except for what docs/internals/agent.md lists.

use outhaul_bundle::index::{Content, Stream};
use outhaul_bundle::{Digest, Index, Parity, ReadError, Volume};
use outhaul_signer::{MetadataSource, TrustError, trust};
use rusqlite::Connection;

use copy::refusal;

use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::error::AgentError;
use crate::intact;
use crate::machine::{Event, State};
use crate::offer::accept_metadata;
pub use crate::offer::{Brought, ImportOutcome, Offer};
use crate::orders::{self, executed};
use crate::roots::{self, Roots};
use crate::runner::{self, Transition};
use crate::state::floors::Floors;
use crate::state::generations;
use crate::state::{self, StateError, floors, key};

pub(crate) mod copy;
pub mod file;
pub(crate) mod known;
pub mod media;
pub mod parity;
pub mod parts;
pub mod plan;
mod published;
pub mod pull;
pub mod refusals;
mod room;
mod set_aside;
mod since;
pub(crate) mod skipped_source;
pub mod slip;
pub mod visit;

/// Refusals of one visit that are reported one by one. A stick full of forgeries must not fill the outbox.
pub const MAX_REPORTED: usize = 16;

/// A way by which a bundle comes. The same verifier checks all of them.
pub trait BundleSource {
    /// File name or URL, without this machine's folders.
    fn name(&self) -> &str;

    /// The metadata, unverified.
    ///
    /// # Errors
    /// [`AgentError`] of the stick or the link.
    fn metadata(&mut self) -> Result<&dyn MetadataSource, AgentError>;

    /// The index that the metadata lists.
    ///
    /// # Errors
    /// [`AgentError`], a refusal included.
    fn index(&mut self, listed: &ListedIndex) -> Result<(Index, Vec<u8>), AgentError>;

    /// Which part of the bundle it is, asked after its index; `None` for a whole one.
    ///
    /// # Errors
    /// [`AgentError`], a refusal included.
    fn volume(&mut self, _index: &Index) -> Result<Option<Volume>, AgentError> {
        Ok(None)
    }

    /// Which parity part it is, asked after [`BundleSource::volume`]; `None` for everything else.
    ///
    /// # Errors
    /// [`AgentError`], a refusal included.
    fn parity(&mut self, _index: &Index) -> Result<Option<Parity>, AgentError> {
        Ok(None)
    }

    /// The bytes of a parity part into the store; the digest under which they are kept there.
    ///
    /// # Errors
    /// [`AgentError`], a refusal included.
    fn parity_bytes(&mut self, _index: &Index, _store: &mut Blobs) -> Result<Digest, AgentError> {
        Err(AgentError::from_read(self.name(), &ReadError::OutOfTurn))
    }

    /// Whether nothing else of the same bundle is still to come from where it lies.
    fn is_last(&self) -> bool {
        true
    }

    /// Takes note that the bundle with this index is here already, so that nothing of it is read.
    fn is_here_already(&mut self, _: &ListedIndex) {}

    /// Takes note that these parts were made again from parity.
    fn rebuilt(&mut self, _parts: &[usize]) {}

    /// Every blob of the index into the store; of a part those that it holds.
    ///
    /// # Errors
    /// [`AgentError`], a refusal included.
    fn blobs(&mut self, index: &Index, store: &mut Blobs) -> Result<(), AgentError>;

    /// Whether it brings metadata of the stream `role` itself. Metadata of the whole fleet holds for
    /// every stream, so that a bundle of another one can be right in all that it says.
    fn brings(&self, _role: &str) -> bool {
        true
    }

    /// Whether it was written once and then carried, so that the site may know newer metadata by now.
    fn is_on_media(&self) -> bool {
        false
    }

    /// Whether it is asked again and again for the same.
    fn is_polled(&self) -> bool {
        false
    }

    /// Whether metadata must be freshly issued, in hours: over a network with a trusted clock.
    fn max_issued_age_h(&self) -> Option<u64> {
        None
    }
}

/// Verifies a source's metadata against what this site trusts. Changes nothing.
///
/// # Errors
/// A refusal, or [`AgentError`] of the source or the memory.
pub fn verify(agent: &Agent, source: &mut dyn BundleSource) -> Result<Offer, AgentError> {
    let floors = floors::floors(agent.store.read(), &agent.state_folder.floors())?;
    verify_above(agent, source, &floors, &agent.site.stream)
}

fn verify_above(
    agent: &Agent,
    source: &mut dyn BundleSource,
    floors: &Floors,
    stream: &Stream,
) -> Result<Offer, AgentError> {
    let db = agent.store.read();
    let trusted = floors::trusted(db)?;
    let reading = agent.clock_reading()?;
    let name = source.name().to_owned();
    let carried = source.is_on_media();
    let max_age_h = source.max_issued_age_h();
    let role = stream.role.as_str();
    let metadata = &Roots::of(source.metadata()?);
    let now = reading.policy();
    let acceptance = trust::verify(&trusted, floors, metadata, role, now)
        .or_else(|error| {
            let known = match &error {
                TrustError::Rollback { .. } if carried => {
                    slip::matches_trusted_target(&trusted, floors, metadata, role, now)
                }
                _ => None,
            };
            // What is installed already needs no second look at an older copy.
            known
                .filter(|known| !is_active(db, known.number))
                .ok_or(error)
        })
        .map_err(|error| refusal(&name, &error))?;
    published::refuse_second(&name, metadata, &acceptance)?;
    let roots = metadata.fetched();
    if !source.brings(role) {
        let Stream {
            environment,
            cluster_type,
            ..
        } = stream;
        let message = format!("it is not of this site's stream, {environment}/{cluster_type}");
        return Err(AgentError::refused(&name, "stream", message));
    }
    let stale = |hours: u64| {
        let age = jiff::SignedDuration::from_hours(i64::try_from(hours).unwrap_or(i64::MAX / 3600));
        acceptance
            .policy(reading.policy())
            .is_stale(acceptance.signed_at, age)
    };
    if max_age_h.is_some_and(stale) {
        let message = format!(
            "it was issued {}, longer ago than allowed",
            acceptance.signed_at
        );
        return Err(AgentError::refused(&name, "stale", message));
    }
    let index = Digest::from_bytes(acceptance.index_sha256);
    Ok(Offer {
        acceptance,
        index,
        roots,
    })
}

/// Takes in what a source brings and drives it as far as it goes.
///
/// # Errors
/// A refusal (reported to the hub), or [`AgentError`]; what runs was not touched by either.
pub fn accept(
    agent: &mut Agent,
    source: &mut dyn BundleSource,
) -> Result<ImportOutcome, AgentError> {
    let outcome = try_accept(agent, source);
    if let Ok(ImportOutcome::AlreadyActive { .. } | ImportOutcome::Rests { .. }) = outcome
        && agent.rehearsal.is_none()
    {
        refusals::clear_refusals(agent, source.name())?;
    }
    let reported = outcome.as_ref().err();
    let reported = reported.and_then(|error| refusals::to_report(error, source.name()));
    // Of what bundle it was, where its metadata hold: read once more, and only for what is reported.
    let number = |agent: &Agent, source: &mut dyn BundleSource| {
        let offer = verify(agent, source).ok();
        offer.map(|offer| offer.acceptance.number)
    };
    // How much space is missing differs each time; that it is missing is reported once.
    let known_by = |refused: &AgentError| match refused {
        AgentError::Refused { rule, .. } if rule == refusals::NO_SPACE => rule.clone(),
        other => other.to_string(),
    };
    if !source.is_polled() {
        if let Some(refused) = &reported {
            let number = number(agent, source);
            refusals::report_source(agent, number, refused)?;
        }
        return outcome;
    }
    // Asked every few minutes, a repository answers the same every few minutes: reported once.
    if outcome.is_err() && reported.is_none() {
        return outcome;
    }
    let now = reported.as_ref().map(known_by);
    let before: Option<String> = state::meta(agent.store.read(), key::REFUSED)?;
    if now != before {
        if let Some(refused) = &reported {
            let number = number(agent, source);
            refusals::report_source(agent, number, refused)?;
        }
        agent
            .commit(|db, _| state::set_meta(db, key::REFUSED, now.as_ref()))
            .map_err(|error: StateError| AgentError::from(error))?;
    }
    outcome
}

fn try_accept(
    agent: &mut Agent,
    source: &mut dyn BundleSource,
) -> Result<ImportOutcome, AgentError> {
    let (offer, read) = match verify(agent, source) {
        Ok(offer) => (offer, None),
        Err(error) => match copy::back_from_move(agent, source)? {
            Some(again) => (again.offer, Some((again.index, again.bytes))),
            None => return Err(error),
        },
    };
    let number = offer.acceptance.number;
    if let Some(outcome) = known::outcome(agent, source, &offer)? {
        return known::refilled(agent, source, &offer, outcome);
    }
    // Its folder was lost: it is brought back, and applied again.
    let active = runner::site_now(agent.store.read())?.active;
    let restored = active.is_some_and(|active| active.number == number);
    if let Some(message) = offer.acceptance.refused_as_new() {
        return Err(AgentError::refused(source.name(), "expired", message));
    }
    let (index, bytes) = match read {
        Some(read) => read,
        None => source.index(&listed(&offer))?,
    };
    copy::check_index(agent, source.name(), &index, &offer)?;
    executed::drop_void_orders(agent, &index, &offer)?;
    if agent.rehearsal.is_some() {
        return plan::rehearse(agent, source, index, &offer, restored);
    }
    if let Some(outcome) = orders::execute_revocation(agent, &index, &offer)? {
        return Ok(outcome);
    }
    orders::refuse_if_revoked(agent.store.read(), source.name())?;
    let volume = source.volume(&index)?;
    let parity = source.parity(&index)?;
    let index = index.for_site(&agent.site.name);
    let ordered = !orders::orders_of(agent, &index)?.is_empty();
    if !ordered {
        agent.can_apply(&index)?;
    }
    let mut blobs = Blobs::new(&agent.state_folder);
    let brought = since::brought(agent, source.name(), &index, volume.as_ref(), &blobs)?;
    // What is here with the right size may be damaged: then the source brings it again.
    let checked = active
        .filter(|_| !restored)
        .and_then(|active| intact::checked(&agent.state_folder, active.number));
    copy::log_damaged(number, blobs.drop_damaged(brought, checked)?);
    since::build_on(agent, volume.as_ref(), &mut blobs)?;
    let pieces = (volume.as_ref(), parity.as_ref());
    let needed = copy::needed(agent, (&index, &offer.index), pieces, &blobs)?;
    room::make(agent, needed, &offer.index, volume.as_ref())?;
    let part = (&index, bytes.as_slice());
    if let Some(incomplete) = collect(agent, source, part, &offer, pieces, &mut blobs)? {
        return Ok(incomplete);
    }
    if !restored {
        copy::begin(agent, source.name(), &index, &offer)?;
    }
    let staged = copy::stage(agent, source, (&index, &bytes), &offer, &mut blobs)
        .and_then(|()| orders::execute(agent, &index, &offer))
        .and_then(|ended| {
            // An order may be the cure for a reconciler that is not here, so that it comes first.
            if ordered && ended.is_none() {
                agent.can_apply(&index)?;
            }
            Ok(ended)
        });
    match staged {
        Ok(None) => {}
        Ok(Some(outcome)) => {
            copy::put_away(
                agent,
                number,
                "nothing else of it is for this site",
                &mut blobs,
            )?;
            return Ok(outcome);
        }
        // What is left of its folder is still the best that the site has.
        Err(error) if restored => {
            copy::leave_as_it_is(agent, number)?;
            return Err(error);
        }
        Err(error) => {
            let error =
                since::or_lost(agent, source.name(), &index, volume.as_ref(), &blobs, error);
            copy::take_back(agent, number, &error, &mut blobs)?;
            return Err(error);
        }
    }
    if restored {
        store_trust(agent, &offer)?;
        return repair_known(agent, number, "its stored files were brought back");
    }
    copy::commit_staged(agent, &index, &offer)
}

/// Takes what a part or a parity part brings; `None` when nothing of the bundle is missing any more.
fn collect(
    agent: &mut Agent,
    source: &mut dyn BundleSource,
    part: (&Index, &[u8]),
    offer: &Offer,
    pieces: (Option<&Volume>, Option<&Parity>),
    blobs: &mut Blobs,
) -> Result<Option<ImportOutcome>, AgentError> {
    let outcome = match pieces {
        (Some(volume), _) if !volume.is_since() => {
            parts::collect(agent, source, part, offer, volume, blobs)?
        }
        (_, Some(parity)) => parity::collect(agent, source, part, offer, parity, blobs)?,
        _ => return Ok(None),
    };
    if outcome.is_none() {
        parity::forget(agent, blobs)?;
    }
    Ok(outcome)
}

/// Applies the active bundle again, because `why`.
fn repair_known(agent: &mut Agent, number: u64, why: &str) -> Result<ImportOutcome, AgentError> {
    runner::transition(agent, &Transition::new(Event::RepairDue, why))?;
    if agent.rehearsal.is_some() {
        return Ok(ImportOutcome::Rests {
            number,
            state: State::Applying,
            note: why.to_owned(),
        });
    }
    runner::drive(agent)?;
    outcome_at_rest(agent.store.read(), number)
}

pub(crate) fn outcome_at_rest(db: &Connection, number: u64) -> Result<ImportOutcome, AgentError> {
    let row = generations::one(db, number)?;
    let (state, note) = row.map_or((State::Rejected, String::new()), |r| {
        (r.state, r.note.to_string())
    });
    Ok(ImportOutcome::Rests {
        number,
        state,
        note,
    })
}

/// Believes the newer metadata of a bundle that is known. Returns what of it is new.
fn store_trust(agent: &mut Agent, offer: &Offer) -> Result<Vec<String>, AgentError> {
    let db = agent.store.read();
    let known = floors::floors(db, &agent.state_folder.floors())?;
    let versions = &offer.acceptance.versions;
    if known == *versions && floors::trusted(db)? == offer.acceptance.trusted {
        return Ok(Vec::new());
    }
    let mut changes = floors::raised(&known, versions);
    if changes.is_empty() {
        changes.push("other signatures of the same versions".to_owned());
    }
    roots::keep(agent, offer)?;
    floors::raise(&agent.state_folder, db, versions)?;
    agent
        .commit(|db, author| accept_metadata(db, author.reading, offer))
        .map_err(|error: StateError| AgentError::from(error))?;
    Ok(changes)
}

/// The index that metadata lists, and its compressed form where it lists one.
#[derive(Debug, Clone, Copy)]
pub struct ListedIndex {
    index: Content,
    compressed: Option<Content>,
}

/// What an offer's metadata lists of the index.
fn listed(offer: &Offer) -> ListedIndex {
    let compressed = offer.acceptance.index_compressed;
    ListedIndex {
        index: Content {
            digest: offer.index,
            size: offer.acceptance.index_length,
        },
        compressed: compressed.map(|(size, sha256)| Content {
            digest: Digest::from_bytes(sha256),
            size,
        }),
    }
}

fn is_active(db: &Connection, number: u64) -> bool {
    let row = generations::one(db, number);
    row.is_ok_and(|row| row.is_some_and(|row| row.state == State::Active))
}
