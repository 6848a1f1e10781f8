//! Freshness slips: newer signed metadata without a bundle. Floors rise, keys go, time comes; nothing is
//! installed and what runs is not touched.
//!
//! What comes in: a slip's file, or its text as scanned or typed. What goes out: what changed, or a
//! refusal as for bundles. Metadata, floors (sidecar first) and the lower bound of time move together,
//! with one report home. What the slip says of itself only serves the messages. A slip newer than all
//! that a damaged memory still has is also the only way out of contradicting floors.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use jiff::Timestamp;
use outhaul_bundle::index::Index;
use outhaul_bundle::report::ReportEvent;
use outhaul_signer::slip::{MAGIC, MAX_TEXT_BYTES, Slip, SlipError};
use outhaul_signer::{Acceptance, MetadataSource, TimePolicy, TrustedMetadata, trust};

use super::{BundleSource, ListedIndex, Offer, accept_metadata, known};
use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::cut;
use crate::error::AgentError;
use crate::intake::{self, refusals};
use crate::roots;
use crate::state::floors::{self, Floors};
use crate::state::{self, StateError, generations, outbox};

/// What a typed or scanned slip is called in messages and reports.
const TYPED: &str = "the typed slip";

/// What a slip brought.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts of one slip, each said in a sentence of its own"
)]
pub struct SlipEffect {
    /// The file's name, or the name of a typed one.
    pub name: String,
    /// Whether it brought anything that this site did not know.
    pub fresh: bool,
    /// Whether contradicting or lost floors hold again because of it.
    pub recovered: bool,
    /// Whether time begins again at what it signs: what a replaced key signed does not count any more.
    pub time_restarts: bool,
    /// The newest bundle number of the stream that it names.
    pub number: u64,
    /// The signed time that it brings.
    pub signed_at: Timestamp,
    /// The earliest date in it.
    pub expires: Timestamp,
    /// Whether that date has passed: what it lists may not be installed any more.
    pub expired: bool,
}

impl SlipEffect {
    /// What accepting it would do, in one sentence.
    pub fn plan(&self) -> String {
        if !self.fresh {
            return format!("{}; nothing would be done", self.known());
        }
        let again = if self.recovered {
            "; the record of the highest accepted versions would be valid again"
        } else {
            ""
        };
        format!(
            "slip `{}`: floors would rise, {}{again}; nothing would be installed",
            self.name,
            self.details()
        )
    }

    /// One sentence for people.
    pub fn sentence(&self) -> String {
        if !self.fresh {
            return format!("{}; nothing was done", self.known());
        }
        let again = if self.recovered {
            "; the record of the highest accepted versions is valid again"
        } else {
            ""
        };
        let time = if self.time_restarts {
            "times that a replaced key signed do not count any more, "
        } else {
            ""
        };
        format!(
            "slip `{}`: floors raised, {time}{}{again}; nothing was installed",
            self.name,
            self.details()
        )
    }

    fn known(&self) -> String {
        format!(
            "slip `{}`: known already ({}, bundle {})",
            self.name, self.signed_at, self.number
        )
    }

    fn details(&self) -> String {
        let date = if self.expired {
            "expired on"
        } else {
            "good until"
        };
        format!(
            "it is at least {}, the newest bundle is {} ({date} {})",
            self.signed_at, self.number, self.expires
        )
    }
}

/// A slip as a source: metadata, and nothing behind it.
#[derive(Debug)]
struct SlipMetadata<'a> {
    name: &'a str,
    slip: &'a Slip,
}

impl SlipMetadata<'_> {
    fn nothing_behind<T>(&self) -> Result<T, AgentError> {
        let message = "it is a slip, which has no bundle";
        Err(AgentError::refused(self.name, "metadata-only", message))
    }
}

impl BundleSource for SlipMetadata<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn metadata(&mut self) -> Result<&dyn MetadataSource, AgentError> {
        Ok(self.slip.source())
    }

    fn index(&mut self, _: &ListedIndex) -> Result<(Index, Vec<u8>), AgentError> {
        self.nothing_behind()
    }

    fn blobs(&mut self, _index: &Index, _store: &mut Blobs) -> Result<(), AgentError> {
        self.nothing_behind()
    }

    fn brings(&self, role: &str) -> bool {
        let own = format!(".{role}.json");
        self.slip.source().keys().any(|name| name.ends_with(&own))
    }
}

/// Whether `file` is meant as a slip: by the ending of its name or its first bytes.
pub fn is_slip(name: &Path, file: &File) -> bool {
    if name
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("slip"))
    {
        return true;
    }
    let mut first = [0u8; 3];
    file.read_exact_at(&mut first, 0).is_ok() && first == MAGIC[..3]
}

/// Believes what the slip in `file` brings.
///
/// # Errors
/// A refusal, not reported yet, or [`AgentError`] of the stick or the memory; nothing was changed.
pub fn import_file(agent: &mut Agent, name: &str, file: File) -> Result<SlipEffect, AgentError> {
    let mut bytes = Vec::new();
    // One byte more than a slip may have is one that the reader refuses.
    file.take(MAX_TEXT_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| AgentError::Unreadable {
            source_name: name.to_owned(),
            problem: error.to_string(),
        })?;
    accept(agent, name, Slip::from_bytes(&bytes))
}

/// Believes what a scanned or typed slip brings.
///
/// # Errors
/// A refusal (reported to the hub), or [`AgentError`] of the store; nothing was changed then.
pub fn import_text(agent: &mut Agent, text: &str) -> Result<SlipEffect, AgentError> {
    let effect = accept(agent, TYPED, Slip::from_text(text));
    if let Err(error) = &effect {
        refusals::report_refusal(agent, error)?;
    }
    effect
}

fn accept(
    agent: &mut Agent,
    name: &str,
    slip: Result<Slip, SlipError>,
) -> Result<SlipEffect, AgentError> {
    let slip = slip.map_err(|error| AgentError::refused(name, error.rule(), error.to_string()))?;
    check_claims(&agent.site, name, &slip)?;
    let db = agent.store.read();
    let sidecar = agent.state_folder.floors();
    let (floors, doubtful) = match floors::floors(db, &sidecar) {
        Ok(floors) => (floors, false),
        Err(StateError::Floors { .. }) => (floors::highest(db, &sidecar)?, true),
        Err(other) => return Err(other.into()),
    };
    let source = &mut SlipMetadata { name, slip: &slip };
    let offer = intake::verify_above(agent, source, &floors, &agent.site.stream)
        .map_err(|error| with_lacking_roots(error, &slip))?;
    let accepted = &offer.acceptance;
    if doubtful {
        refuse_unless_newer(agent, name, accepted, &floors)?;
    }
    let row = generations::one(db, accepted.number)?;
    if row.is_some_and(|row| known::contradicts(&agent.site, &row, &offer)) {
        let message = format!(
            "this site knows another bundle {} than the slip names",
            accepted.number
        );
        return Err(AgentError::refused(name, "mix-and-match", message));
    }
    let same = !doubtful && floors == accepted.versions && floors::trusted(db)? == accepted.trusted;
    let effect = SlipEffect {
        name: name.to_owned(),
        fresh: !same,
        recovered: doubtful,
        time_restarts: accepted.time_restarts,
        number: accepted.number,
        signed_at: accepted.signed_at,
        expires: accepted.expires,
        expired: accepted.expired,
    };
    if effect.fresh {
        store(agent, name, &offer)?;
    }
    Ok(effect)
}

/// Floors, metadata and time in one step, and the report of it.
fn store(agent: &mut Agent, name: &str, offer: &Offer) -> Result<(), AgentError> {
    let accepted = &offer.acceptance;
    let event = ReportEvent::FreshnessSlip {
        source: name.to_owned(),
        issued_ms: accepted.signed_at.as_millisecond(),
        number: accepted.number,
        versions: accepted.versions.clone(),
    };
    roots::keep(agent, offer)?;
    let versions = &accepted.versions;
    floors::raise(&agent.state_folder, agent.store.read(), versions)?;
    cut::here("slip-floors-raised");
    agent
        .commit(|db, author| {
            accept_metadata(db, author.reading, offer)?;
            outbox::queue(db, author, event).map(drop)
        })
        .map_err(|error: StateError| error.into())
}

/// Someone may have put old files back: only what was signed after all that either place has
/// shows that nothing newer was forgotten.
fn refuse_unless_newer(
    agent: &Agent,
    name: &str,
    accepted: &Acceptance,
    highest: &Floors,
) -> Result<(), AgentError> {
    let version = |floors: &Floors, file| floors.get(file).copied().unwrap_or(0);
    // A newer root may have taken a key away from versions that were driven up.
    let newer_root = version(&accepted.versions, "root") > version(highest, "root");
    let (had, has) = (
        version(highest, "timestamp"),
        version(&accepted.versions, "timestamp"),
    );
    if !newer_root && has <= had {
        let message = format!(
            "the record of the highest accepted versions is damaged or was replaced by an older copy; a slip newer than \
             timestamp version {had} is needed, this one has version {has}"
        );
        return Err(AgentError::refused(name, "rollback", message));
    }
    // Not the lower bound of time: that goes on while a slip is on its way.
    let db = agent.store.read();
    let (trusted, now) = (floors::trusted(db)?, agent.clock_reading()?.policy());
    let role = agent.site.stream.role.as_str();
    let known = trust::remembered(&trusted, &Floors::new(), role, now).map(|known| known.signed_at);
    if let Some(known) = known.ok().filter(|known| accepted.signed_at < *known) {
        let message = format!(
            "the record of the highest accepted versions is damaged or was replaced by an older copy; a slip signed after \
             {known} is needed, this one was signed {}",
            accepted.signed_at
        );
        return Err(AgentError::refused(name, "rollback", message));
    }
    Ok(())
}

/// A slip for others says so itself: clearer words than those of the signatures.
fn check_claims(site: &state::SiteIdentity, name: &str, slip: &Slip) -> Result<(), AgentError> {
    let shown = |text: &str| {
        text.chars()
            .filter(|c| !c.is_control())
            .take(60)
            .collect::<String>()
    };
    if slip.fleet() != site.fleet.as_str() {
        let message = format!(
            "this slip is of fleet `{}`, this site is of `{}`",
            shown(slip.fleet()),
            site.fleet
        );
        return Err(AgentError::refused(name, "foreign-fleet", message));
    }
    if slip.role() != site.stream.role.as_str() {
        let message = format!(
            "this slip is for another stream (`{}`), this site is {} of {}/{}",
            shown(slip.role()),
            site.name,
            site.stream.environment,
            site.stream.cluster_type
        );
        return Err(AgentError::refused(name, "stream", message));
    }
    Ok(())
}

/// A slip without the first roots may be good and still not for a site that has missed rotations.
fn with_lacking_roots(mut error: AgentError, slip: &Slip) -> AgentError {
    if let AgentError::Refused { rule, message, .. } = &mut error
        && matches!(&rule[..], "signature" | "threshold" | "root-chain")
        && slip.oldest_root() != Some(1)
    {
        message.push_str(
            "; it leaves out older root metadata, which this site may lack: ask for a slip made without `--since-root`",
        );
    }
    error
}

/// A medium whose metadata is older than what this site knows, but whose bundle is the very one that the
/// newer metadata lists: a stick written before a slip, or a stream that was signed earlier than the
/// one that ordered this site to move to it. Checked by the newer metadata.
pub(super) fn matches_trusted_target(
    trusted: &TrustedMetadata,
    floors: &Floors,
    metadata: &dyn MetadataSource,
    role: &str,
    now: TimePolicy,
) -> Option<Acceptance> {
    let Ok(known) = trust::remembered_with(trusted, floors, metadata, role, now) else {
        return None;
    };
    let file = format!("{}.{role}.json", known.number);
    let carried = metadata
        .fetch(&file, trust::walk::MAX_TARGETS_BYTES)
        .ok()
        .flatten();
    let own = known.trusted.0.get(&format!("{role}.json"));
    let same = carried.is_some() && carried.as_ref() == own;
    same.then_some(known)
}
