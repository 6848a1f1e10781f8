//! Which bundle a site runs, by the reports that it signed itself.
//!
//! What comes in: lines of report files, of unknown origin, in any order. What goes out: for each site the bundle of the newest report
//! that says one is active, or why that is not known. A line that no approved key of its site signed says nothing, and is counted.
//! It asks nobody, and no clock.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Stream;
use outhaul_bundle::report::{GenerationEvent, GenerationState, PAYLOAD_TYPE, Report, ReportEvent};
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

/// What reports said, by site.
#[derive(Debug, Default)]
pub struct Seen {
    /// By site and numbering, the newest report of an active bundle.
    active: BTreeMap<String, BTreeMap<String, RunningBundle>>,
    /// Lines by site that no approved key of it signed.
    unsigned: BTreeMap<String, usize>,
}

impl Sites<'_> {
    /// Adds what a line of a report file says to `seen`.
    ///
    /// # Errors
    /// [`SiteError`] when a record cannot be read.
    pub fn note_running(&self, line: &[u8], seen: &mut Seen) -> Result<(), SiteError> {
        let Ok(envelope) = Envelope::from_json(line) else {
            return Ok(());
        };
        let Ok(report) = Report::from_bytes(envelope.unverified_payload()) else {
            return Ok(());
        };
        let (ReportEvent::Generation(event) | ReportEvent::Observation(event)) = report.event
        else {
            return Ok(());
        };
        if report.fleet.as_str() != self.fleet.id() {
            return Ok(());
        }
        let Some(site) = self.find(report.site.as_str())? else {
            return Ok(());
        };
        let keys = site.public_keys.iter();
        let keys: Vec<PublicKey> = keys
            .filter_map(|pem| PublicKey::from_pem(pem).ok())
            .collect();
        if envelope.verify(PAYLOAD_TYPE, &keys).is_err() {
            *seen.unsigned.entry(site.site.to_string()).or_default() += 1;
            return Ok(());
        }
        let GenerationEvent {
            stream,
            number,
            index,
            state,
            ..
        } = event;
        if state == GenerationState::Active {
            let running = RunningBundle {
                stream,
                number,
                index,
                report: report.number,
            };
            let epochs = seen.active.entry(site.site.to_string()).or_default();
            let newest = epochs
                .entry(report.epoch.to_string())
                .or_insert_with(|| running.clone());
            if newest.report < running.report {
                *newest = running;
            }
        }
        Ok(())
    }
}

impl Seen {
    /// The bundle that `site` runs.
    ///
    /// # Errors
    /// Why that is not known, in words that follow the site's name.
    pub fn running(&self, site: &str) -> Result<&RunningBundle, String> {
        let epochs = self
            .active
            .get(site)
            .map(|epochs| epochs.values().collect::<Vec<_>>());
        match epochs.as_deref() {
            Some([running]) => Ok(running),
            // Numberings have no order: which machine or store is the newer one is not in the reports.
            Some([_, _, ..]) => Err(
                "has reports of two numberings, after a new enrolment or of two machines"
                    .to_owned(),
            ),
            Some([]) | None => Err(match self.unsigned.get(site) {
                Some(_) => "has reports that no key signed which is approved for it".to_owned(),
                None => "has no report of an active bundle there".to_owned(),
            }),
        }
    }
}
