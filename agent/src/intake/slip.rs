//! Freshness slips: newer signed metadata without a bundle. Floors rise, keys go, time comes; nothing is
//! installed and what runs is not touched.
//!
//! What comes in: a slip's file, or its text as scanned or typed. What goes out: what changed, or a
//! refusal as for bundles. Metadata, floors (sidecar first) and the lower bound of time move together,
//! with one report home. What the slip says of itself only serves the messages.

use std::path::Path;

use jiff::Timestamp;
use outhaul_bundle::index::{Content, Index};
use outhaul_bundle::report::Event as Told;
use outhaul_signer::slip::{MAGIC, MAX_TEXT_BYTES, Slip, SlipError};
use outhaul_signer::{Acceptance, MetadataSource, TimePolicy, TrustError, TrustedMetadata, trust};

use super::{Offer, Road, believe};
use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::cut;
use crate::durable;
use crate::error::AgentError;
use crate::state::floors::{self, Floors};
use crate::state::{StateError, generations, outbox};

/// What a slip brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The file's name, or what stands for a typed one.
    pub name: String,
    /// Whether it told anything that this site did not know.
    pub fresh: bool,
    /// The newest bundle number of the stream that it tells of.
    pub number: u64,
    /// The signed time that it brings.
    pub signed_at: Timestamp,
    /// The earliest date in it.
    pub expires: Timestamp,
    /// Whether that date has passed: what it vouches for may not be installed any more.
    pub expired: bool,
}

impl News {
    /// One sentence for people.
    pub fn sentence(&self) -> String {
        let Self { name, number, signed_at, expires, .. } = self;
        let date = if self.expired { "expired on" } else { "good until" };
        if self.fresh {
            format!(
                "`{name}`: floors raised, it is at least {signed_at}, the newest bundle is {number} \
                 ({date} {expires}); nothing was installed"
            )
        } else {
            format!("`{name}`: known already ({signed_at}, bundle {number}); nothing was done")
        }
    }
}

/// A slip as a road: metadata, and nothing behind it.
#[derive(Debug)]
struct SlipRoad<'a> {
    name: &'a str,
    slip: &'a Slip,
}

impl SlipRoad<'_> {
    fn nothing_behind<T>(&self) -> Result<T, AgentError> {
        Err(AgentError::refused(self.name, "metadata-only", "it is a slip and carries no bundle".to_owned()))
    }
}

impl Road for SlipRoad<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn metadata(&mut self) -> Result<&dyn MetadataSource, AgentError> {
        Ok(self.slip.source())
    }

    fn index(&mut self, _expected: &Content) -> Result<(Index, Vec<u8>), AgentError> {
        self.nothing_behind()
    }

    fn blobs(&mut self, _index: &Index, _store: &mut Blobs) -> Result<(), AgentError> {
        self.nothing_behind()
    }
}

/// Whether the file at `path` is meant as a slip: by its ending or its first bytes.
pub fn is_slip(path: &Path) -> bool {
    if path.extension().is_some_and(|end| end == "slip") {
        return true;
    }
    let mut first = [0u8; 3];
    let read = std::fs::File::open(path)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut first));
    read.is_ok() && first == MAGIC[..3]
}

impl Agent {
    /// Believes what the slip in the file `path` brings.
    ///
    /// # Errors
    /// A refusal (reported home), or [`AgentError`] of the stick or the memory; nothing was changed then.
    pub fn import_slip(&mut self, path: &Path) -> Result<News, AgentError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = durable::read(path, MAX_TEXT_BYTES as u64)?;
        self.take_slip(&name, Slip::from_bytes(&bytes))
    }

    /// Believes what a scanned or typed slip brings.
    ///
    /// # Errors
    /// As [`Agent::import_slip`].
    pub fn import_slip_text(&mut self, text: &str) -> Result<News, AgentError> {
        self.take_slip("the typed slip", Slip::from_text(text))
    }

    fn take_slip(&mut self, name: &str, slip: Result<Slip, SlipError>) -> Result<News, AgentError> {
        let news = slip
            .map_err(|error| AgentError::refused(name, error.rule(), error.to_string()))
            .and_then(|slip| self.try_take_slip(name, &slip));
        if let Err(error) = &news {
            self.tell_refusal(error)?;
        }
        news
    }

    fn try_take_slip(&mut self, name: &str, slip: &Slip) -> Result<News, AgentError> {
        self.check_claims(name, slip)?;
        let offer = self.judge(&mut SlipRoad { name, slip }).map_err(|e| with_lacking_roots(e, slip))?;
        let accepted = &offer.acceptance;
        let row = generations::one(self.store.read(), accepted.number)?;
        if row.is_some_and(|row| row.index != offer.index) {
            let message = format!(
                "this site knows another bundle {} than the slip tells of; nothing was changed",
                accepted.number
            );
            return Err(AgentError::refused(name, "mix-and-match", message));
        }
        let mut news = News {
            name: name.to_owned(),
            fresh: true,
            number: accepted.number,
            signed_at: accepted.signed_at,
            expires: accepted.expires,
            expired: accepted.expired,
        };
        let db = self.store.read();
        let sidecar = self.home.floors();
        if floors::trusted(db)? == accepted.trusted && floors::floors(db, &sidecar)? == accepted.versions {
            news.fresh = false;
            return Ok(news);
        }
        self.believe_slip(name, &offer)?;
        Ok(news)
    }

    /// Floors, metadata and time in one step, and the report of it.
    fn believe_slip(&mut self, name: &str, offer: &Offer) -> Result<(), AgentError> {
        let accepted = &offer.acceptance;
        let event = Told::FreshnessSlip {
            source: name.to_owned(),
            issued_ms: accepted.signed_at.as_millisecond(),
            number: accepted.number,
            versions: accepted.versions.clone(),
        };
        floors::write_sidecar(self.store.read(), &self.home.floors(), &accepted.versions)?;
        cut::here("slip-floors-raised");
        self.commit(|db, author| {
            believe(db, author.moment, offer)?;
            outbox::queue(db, author, event).map(drop)
        })
        .map_err(|error: StateError| error.into())
    }

    /// A slip for others says so itself: clearer words than those of the signatures.
    fn check_claims(&self, name: &str, slip: &Slip) -> Result<(), AgentError> {
        let site = &self.site;
        let shown = |text: &str| text.chars().filter(|c| !c.is_control()).take(60).collect::<String>();
        if slip.fleet() != site.fleet.as_str() {
            let message = format!(
                "this slip is of fleet `{}`, this site is of `{}`; nothing was changed",
                shown(slip.fleet()),
                site.fleet
            );
            return Err(AgentError::refused(name, "foreign-fleet", message));
        }
        if slip.role() != site.stream.role.as_str() {
            let message = format!(
                "this slip is for another stream (`{}`), this site is {} of {}/{}; nothing was changed",
                shown(slip.role()),
                site.name,
                site.stream.environment,
                site.stream.cluster_type
            );
            return Err(AgentError::refused(name, "stream", message));
        }
        Ok(())
    }
}

/// A slip without the first roots may be good and still not for a site that has missed rotations.
fn with_lacking_roots(error: AgentError, slip: &Slip) -> AgentError {
    match error {
        AgentError::Refused { source_name, rule, message }
            if matches!(&rule[..], "signature" | "threshold" | "root-chain")
                && slip.oldest_root() != Some(1) =>
        {
            let message = format!(
                "{message}; it leaves out older root metadata, which this site may lack: ask for a slip \
                 made without `--since-root`"
            );
            AgentError::Refused { source_name, rule, message }
        }
        other => other,
    }
}

/// A medium whose metadata is older than what this site knows, but whose bundle is the very one that the
/// newer metadata vouches for: a stick written before a slip. Judged by the newer metadata.
pub(super) fn still_vouched_for(
    refused: TrustError,
    trusted: &TrustedMetadata,
    floors: &Floors,
    metadata: &dyn MetadataSource,
    role: &str,
    now: TimePolicy,
) -> Result<Acceptance, TrustError> {
    if !matches!(refused, TrustError::Rollback { .. }) {
        return Err(refused);
    }
    let Ok(known) = trust::remembered(trusted, floors, role, now) else { return Err(refused) };
    let file = format!("{}.{role}.json", known.number);
    let carried = metadata.fetch(&file, trust::walk::MAX_TARGETS_BYTES).ok().flatten();
    let same = carried.is_some() && carried.as_ref() == trusted.0.get(&format!("{role}.json"));
    if same { Ok(known) } else { Err(refused) }
}

#[cfg(test)]
#[path = "slip/tests.rs"]
mod tests;
