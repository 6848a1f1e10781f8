//! Which bundle a site runs, by the reports that it signed itself.
//!
//! What comes in: lines of report files, of unknown origin, in any order. What goes out: for each site the bundle of the newest report
//! that says one is active, what it turned away, or why that is not known. A line that no approved key of its site signed says nothing,
//! and is counted. It asks nobody, and no clock.

use std::collections::BTreeMap;

use outhaul_bundle::index::Stream;
use outhaul_bundle::report::{GenerationEvent, GenerationState, PAYLOAD_TYPE, Report, ReportEvent};
use outhaul_bundle::{Digest, Instruction};
use outhaul_signer::{Envelope, PublicKey};

use super::{SiteError, Sites};

/// The bundle that a site runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningBundle {
    /// Its stream.
    pub stream: Stream,
    /// Its number.
    pub number: u64,
    /// Digest of its `index.json`.
    pub index: Digest,
    /// The number of the report that says so.
    pub report: u64,
}

/// What a line of a report file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportLine {
    /// A report of a site of this fleet, signed by a key that is approved for it.
    Known,
    /// A report of a site of this fleet that no key signed which is approved for it.
    Unsigned,
    /// A report of another fleet, or of a site that has no record.
    Foreign,
    /// No report: cut, changed, or something else.
    Damaged,
}

/// What reports said, by site.
#[derive(Debug, Default)]
pub struct Seen {
    sites: BTreeMap<String, SeenSite>,
    /// The keys of each site that a line named, from its record, which is read once; `None`: it has no record.
    keys: BTreeMap<String, Option<Vec<PublicKey>>>,
}

/// What the reports of one site said.
#[derive(Debug, Default)]
struct SeenSite {
    epochs: BTreeMap<String, Epoch>,
    /// Lines that no approved key of it signed.
    unsigned: usize,
}

/// The reports of one numbering.
#[derive(Debug, Default)]
struct Epoch {
    /// Digests of all of them: two of one number are of two machines, or of one that was restored.
    digests: BTreeMap<u64, Digest>,
    is_twofold: bool,
    active: Option<RunningBundle>,
    /// Bundles that the site left or could not apply, by number: the newest report that says so, and why.
    turned_away: BTreeMap<u64, (u64, String)>,
    is_revoked: bool,
}

impl Sites<'_> {
    /// Adds what a line of a report file says to `seen`.
    ///
    /// # Errors
    /// [`SiteError`] when a record cannot be read.
    pub fn note_running(&self, line: &[u8], seen: &mut Seen) -> Result<ReportLine, SiteError> {
        let Ok(envelope) = Envelope::from_json(line) else {
            return Ok(ReportLine::Damaged);
        };
        let payload = envelope.unverified_payload();
        let Ok(report) = Report::from_bytes(payload) else {
            return Ok(ReportLine::Damaged);
        };
        if report.fleet.as_str() != self.fleet.id() {
            return Ok(ReportLine::Foreign);
        }
        let name = report.site.to_string();
        if !seen.keys.contains_key(&name) {
            let record = self.find(&name)?;
            let keys = record.map(|record| {
                let keys = record.public_keys.iter();
                keys.filter_map(|pem| PublicKey::from_pem(pem).ok())
                    .collect()
            });
            seen.keys.insert(name.clone(), keys);
        }
        let Some(Some(keys)) = seen.keys.get(&name) else {
            return Ok(ReportLine::Foreign);
        };
        let seen = seen.sites.entry(name).or_default();
        if envelope.verify(PAYLOAD_TYPE, keys).is_err() {
            seen.unsigned += 1;
            return Ok(ReportLine::Unsigned);
        }
        let digest = Digest::of(payload);
        let epoch = seen.epochs.entry(report.epoch.to_string()).or_default();
        let first = *epoch.digests.entry(report.number).or_insert(digest);
        epoch.is_twofold |= first != digest;
        epoch.note(report);
        Ok(ReportLine::Known)
    }
}

impl Epoch {
    fn note(&mut self, report: Report) {
        let at = report.number;
        let event = match report.event {
            ReportEvent::Generation(event) | ReportEvent::Observation(event) => event,
            ReportEvent::OrderDone { what, .. } => {
                self.is_revoked |= what == Instruction::Revoke.as_str();
                return;
            }
            _ => return,
        };
        let GenerationEvent {
            stream,
            number,
            index,
            state,
            message,
            reverted_from,
            ..
        } = event;
        if let Some(left) = reverted_from {
            self.turn_away(left.number, at, left.reason);
        }
        match state {
            GenerationState::Active => {
                let newest = self.active.as_ref().map_or(0, |active| active.report);
                if newest <= at {
                    self.active = Some(RunningBundle {
                        stream,
                        number,
                        index,
                        report: at,
                    });
                }
            }
            GenerationState::Failed | GenerationState::Rejected | GenerationState::Reverted => {
                self.turn_away(number, at, message);
            }
            _ => {}
        }
    }

    fn turn_away(&mut self, number: u64, at: u64, why: String) {
        let known = self.turned_away.entry(number).or_default();
        if known.0 <= at {
            *known = (at, why);
        }
    }
}

impl Seen {
    /// The bundle that `site` runs.
    ///
    /// # Errors
    /// Why that is not known, in words that follow the site's name.
    pub fn running(&self, site: &str) -> Result<&RunningBundle, String> {
        let none = || "has no report of an active bundle there".to_owned();
        let seen = self.sites.get(site).ok_or_else(none)?;
        let mut epochs = seen.epochs.values();
        match (epochs.next(), epochs.next()) {
            (None, _) => Err("has reports that no key signed which is approved for it".to_owned()),
            // Numberings have no order: which machine or store is the newer one is not in the reports.
            (Some(_), Some(_)) => Err(
                "has reports of two numberings, after a new enrolment or of two machines".to_owned(),
            ),
            (Some(epoch), None) if epoch.is_twofold => Err(
                "has two reports of one number: two machines have its key, or its state folder was restored".to_owned(),
            ),
            (Some(epoch), None) => epoch.active.as_ref().ok_or_else(none),
        }
    }

    /// Why `site` left, or did not take, the bundle `number`, if its reports say so and it does not run it.
    pub fn turned_away(&self, site: &str, number: u64) -> Option<&str> {
        let epochs = self.sites.get(site)?.epochs.values();
        let found = epochs.filter_map(|epoch| epoch.turned_away.get(&number));
        found.map(|(_, why)| why.as_str()).next()
    }

    /// Whether `site` reports that it carried out its revocation.
    pub fn is_revoked(&self, site: &str) -> bool {
        let epochs = self
            .sites
            .get(site)
            .into_iter()
            .flat_map(|seen| seen.epochs.values());
        epochs.into_iter().any(|epoch| epoch.is_revoked)
    }

    /// How many lines name `site` and are signed by no key that is approved for it.
    pub fn unsigned(&self, site: &str) -> usize {
        self.sites.get(site).map_or(0, |seen| seen.unsigned)
    }
}
