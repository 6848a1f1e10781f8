//! Taking a bundle in: from bytes that nobody vouches for to a staged generation, or a refusal.
//!
//! What comes in: a [`Road`] (a file, or a repository over HTTPS; [`slip`] is for metadata alone). What
//! goes out: an [`Outcome`]. In this order: metadata against what the site trusts; number; index;
//! recipients; revocation; space; each blob against its digest while it streams in; unpacking. Only then
//! are other orders carried out, and the new metadata and floors stored, in the same transaction as the
//! generation. A refused bundle leaves one report and nothing else, except for what README.md lists.

use outhaul_bundle::index::{Content, Stream};
use outhaul_bundle::{Digest, Index};
use outhaul_signer::{MetadataSource, TrustError, trust};
use rusqlite::Connection;

use copy::refusal;

use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::error::AgentError;
use crate::generation;
use crate::machine::{Event, State};
use crate::offer::believe;
pub use crate::offer::{Offer, Outcome};
use crate::runner::Happening;
use crate::state::clock;
use crate::state::floors::Floors;
use crate::state::generations::{self, Generation};
use crate::state::{self, StateError, floors, key};

pub(crate) mod copy;
pub mod file;
pub mod media;
mod mistaken;
mod published;
pub mod pull;
mod roots;
pub mod slip;
mod told;
pub mod visit;

use roots::Roots;

/// Refusals of one visit that are reported one by one. A stick full of forgeries must not fill the outbox.
pub const MAX_TOLD: usize = 16;

/// A way by which a bundle comes. The same verifier judges all of them.
pub trait Road {
    /// File name or URL, without this machine's folders.
    fn name(&self) -> &str;

    /// The metadata, unverified.
    ///
    /// # Errors
    /// [`AgentError`] of the stick or the link.
    fn metadata(&mut self) -> Result<&dyn MetadataSource, AgentError>;

    /// The index that the metadata vouches for.
    ///
    /// # Errors
    /// [`AgentError`], a refusal included.
    fn index(&mut self, expected: &Content) -> Result<(Index, Vec<u8>), AgentError>;

    /// Every blob of the index into the store.
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
    fn is_carried(&self) -> bool {
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

impl Agent {
    /// Verifies a road's metadata against what this site trusts. Changes nothing.
    ///
    /// # Errors
    /// A refusal, or [`AgentError`] of the road or the memory.
    pub fn judge(&self, road: &mut dyn Road) -> Result<Offer, AgentError> {
        let floors = floors::floors(self.store.read(), &self.home.floors())?;
        self.judge_above(road, &floors, &self.site.stream)
    }

    fn judge_above(
        &self,
        road: &mut dyn Road,
        floors: &Floors,
        stream: &Stream,
    ) -> Result<Offer, AgentError> {
        let db = self.store.read();
        let trusted = floors::trusted(db)?;
        let moment = clock::now(db, &self.config.clock)?;
        let name = road.name().to_owned();
        let carried = road.is_carried();
        let max_age_h = road.max_issued_age_h();
        let role = stream.role.as_str();
        let metadata = &Roots::of(road.metadata()?);
        let now = moment.policy();
        let acceptance = trust::verify(&trusted, floors, metadata, role, now)
            .or_else(|error| {
                let known = match &error {
                    TrustError::Rollback { .. } if carried => {
                        slip::still_vouched_for(&trusted, floors, metadata, role, now)
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
        let roots = metadata.taken();
        if !road.brings(role) {
            let Stream {
                environment,
                cluster_type,
                ..
            } = stream;
            let message = format!("it is not of this site's stream, {environment}/{cluster_type}");
            return Err(AgentError::refused(&name, "stream", message));
        }
        let stale = |hours: u64| {
            let age =
                jiff::SignedDuration::from_hours(i64::try_from(hours).unwrap_or(i64::MAX / 3600));
            acceptance
                .policy(moment.policy())
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

    /// Takes in what a road brings and drives it as far as it goes.
    ///
    /// # Errors
    /// A refusal (reported home), or [`AgentError`]; what runs was not touched by either.
    pub fn admit(&mut self, road: &mut dyn Road) -> Result<Outcome, AgentError> {
        let outcome = self.try_admit(road);
        if !road.is_polled() {
            if let Err(error) = &outcome {
                self.tell_refusal(error)?;
            }
            return outcome;
        }
        // Asked every few minutes, a repository says the same every few minutes: told once.
        let refused = match &outcome {
            Err(error @ AgentError::Refused { .. }) => Some(error.to_string()),
            Err(_) => return outcome,
            Ok(_) => None,
        };
        let told: Option<String> = state::meta(self.store.read(), key::REFUSED)?;
        if refused != told {
            if let Err(error) = &outcome {
                self.tell_refusal(error)?;
            }
            self.commit(|db, _| state::set_meta(db, key::REFUSED, refused.as_ref()))
                .map_err(|error: StateError| AgentError::from(error))?;
        }
        outcome
    }

    fn try_admit(&mut self, road: &mut dyn Road) -> Result<Outcome, AgentError> {
        let (offer, read) = match self.judge(road) {
            Ok(offer) => (offer, None),
            Err(error) => match self.back_from_move(road)? {
                Some(again) => (again.offer, Some((again.index, again.bytes))),
                None => return Err(error),
            },
        };
        let number = offer.acceptance.number;
        if let Some(outcome) = self.known(road.name(), &offer)? {
            return Ok(outcome);
        }
        // Its folder was lost: it is brought back, and applied again.
        let restored = self
            .stands()?
            .active
            .is_some_and(|active| active.number == number);
        if offer.acceptance.expired {
            let message = format!(
                "its signatures expired on {}; a new install needs fresh ones",
                offer.acceptance.expires
            );
            return Err(AgentError::refused(road.name(), "expired", message));
        }
        let (index, bytes) = match read {
            Some(read) => read,
            None => road.index(&expected(&offer))?,
        };
        self.check_index(road.name(), &index, &offer)?;
        self.drop_void_orders(&index, &offer)?;
        if self.rehearsal.is_some() {
            return self.rehearse(road, index, &offer, restored);
        }
        if let Some(outcome) = self.obey_revocation(&index, &offer)? {
            return Ok(outcome);
        }
        self.refuse_if_revoked(road.name())?;
        let index = index.for_site(&self.site.name);
        let kind = index.reconciler.kind.as_str();
        let ordered = !self.orders_of(&index)?.is_empty();
        if !ordered {
            self.reconciler(kind)?.ready()?;
        }
        let mut blobs = Blobs::new(&self.home);
        let needed = blobs
            .missing_bytes(&index.blobs)
            .saturating_add(generation::unpacked_bytes(&index));
        self.check_space(needed)?;
        if !restored {
            self.begin(road.name(), &index, &offer)?;
        }
        let staged = self
            .stage(road, (&index, &bytes), &offer, &mut blobs)
            .and_then(|()| self.obey(&index, &offer))
            .and_then(|ended| {
                // An order may be the cure for a reconciler that is not here, so that it comes first.
                if ordered && ended.is_none() {
                    self.reconciler(kind)?.ready()?;
                }
                Ok(ended)
            });
        match staged {
            Ok(None) => {}
            Ok(Some(outcome)) => {
                self.put_away(number, "nothing else of it is for this site", &mut blobs)?;
                return Ok(outcome);
            }
            Err(error) => {
                self.take_back(number, &error, &mut blobs)?;
                return Err(error);
            }
        }
        if restored {
            self.store_trust(&offer)?;
            return self.repair_known(number, "its folder was brought back");
        }
        self.commit_staged(&index, &offer)
    }

    /// Applies the active bundle again, because `why`.
    fn repair_known(&mut self, number: u64, why: &str) -> Result<Outcome, AgentError> {
        self.transition(&Happening::new(Event::RepairDue, why), |_, _| Ok(()))?;
        if self.rehearsal.is_some() {
            return Ok(Outcome::Rests {
                number,
                state: State::Applying,
                note: why.to_owned(),
            });
        }
        self.drive()?;
        self.rests(number)
    }

    /// Whether this site knows another bundle under an offer's number. What it refused of a stream that it
    /// has left since is none, nor is what a key signed that the fleet took away.
    fn contradicts(&self, row: &Generation, offer: &Offer) -> bool {
        let left = row.state == State::Rejected && row.stream.role != self.site.stream.role;
        let taken_back = generations::is_taken_back(row, &offer.acceptance.trusted);
        row.index != offer.index && !left && !taken_back
    }

    /// What is to be done with a number that this site has met before.
    fn known(&mut self, name: &str, offer: &Offer) -> Result<Option<Outcome>, AgentError> {
        let number = offer.acceptance.number;
        let row = generations::one(self.store.read(), number)?;
        let site = self.stands()?;
        // One that is worked with keeps its number until the fleet's next one takes its place.
        let contradicts = |row: &Generation| {
            self.contradicts(row, offer) || (row.index != offer.index && !site.is_free(number))
        };
        if let Some(row) = row.as_ref().filter(|row| contradicts(row)) {
            let message = format!(
                "this site knows another bundle {number}: its index is {}…, this one's is {}…",
                row.index.short(),
                offer.index.short()
            );
            return Err(AgentError::refused(name, "published-twice", message));
        }
        if let Some(active) = site.active.filter(|active| active.number == number) {
            if self.index(number).is_err() {
                return Ok(None);
            }
            // The same content under newer metadata: floors and time move.
            let remembered = self.store_trust(offer)?;
            if active.broken {
                return self.repair_known(number, "imported again").map(Some);
            }
            return Ok(Some(Outcome::AlreadyActive { number, remembered }));
        }
        if let Some(reason) = generations::remembered(self.store.read(), &offer.index)? {
            let message = format!("bundle {number} is not tried again on this site: {reason}");
            return Err(AgentError::refused(name, "failed-before", message));
        }
        let known = [site.worked_on(), site.waiting.map(|waiting| waiting.number)];
        if !known.contains(&Some(number)) {
            return Ok(None);
        }
        self.drive()?;
        Ok(Some(self.rests(number)?))
    }

    pub(crate) fn rests(&self, number: u64) -> Result<Outcome, AgentError> {
        let row = generations::one(self.store.read(), number)?;
        let (state, note) = row.map_or((State::Rejected, String::new()), |r| (r.state, r.note));
        Ok(Outcome::Rests {
            number,
            state,
            note,
        })
    }

    /// Believes the newer metadata of a bundle that is known. Returns what of it is new.
    fn store_trust(&mut self, offer: &Offer) -> Result<Vec<String>, AgentError> {
        let db = self.store.read();
        let known = floors::floors(db, &self.home.floors())?;
        let versions = &offer.acceptance.versions;
        if known == *versions && floors::trusted(db)? == offer.acceptance.trusted {
            return Ok(Vec::new());
        }
        let mut news = floors::news(&known, versions);
        if news.is_empty() {
            news.push("other signatures of the same versions".to_owned());
        }
        self.keep_roots(offer)?;
        floors::raise(&self.home, db, versions)?;
        self.commit(|db, author| believe(db, author.moment, offer))
            .map_err(|error: StateError| AgentError::from(error))?;
        Ok(news)
    }
}

/// The index that an offer's metadata vouches for.
fn expected(offer: &Offer) -> Content {
    Content {
        digest: offer.index,
        size: offer.acceptance.index_length,
    }
}

fn is_active(db: &Connection, number: u64) -> bool {
    let row = generations::one(db, number);
    row.is_ok_and(|row| row.is_some_and(|row| row.state == State::Active))
}
