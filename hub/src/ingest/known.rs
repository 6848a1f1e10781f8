//! What the store knows around the reports of a batch, read at once and kept true while they are recorded.
//!
//! What comes in: the places and sites of a batch; what is recorded of it. What goes out: registrations, keys of numberings and
//! reports on record, those of this batch included. What was not read at once is asked for by itself. In a transaction that
//! writes nobody else does, so what was read stays right; what this batch changes is changed here, too, or read again. Reports wait
//! here to be written together, and are written before anything is asked that reads them. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::report::Report;

use super::Batch;
use super::signed::{SignedReport, place};
use crate::store::{
    KnownEpoch, NewReport, Registration, ReportPosition, Session, SiteEpoch, StoreError,
    StoredReport,
};

/// A batch's part of the store.
#[derive(Debug)]
pub(super) struct Known<'s, 'a> {
    session: &'s Session<'a>,
    batch: &'s Batch<'s>,
    sites: BTreeMap<String, Option<Registration>>,
    epochs: BTreeMap<SiteEpoch, Option<KnownEpoch>>,
    removed: BTreeMap<SiteEpoch, bool>,
    reports: BTreeMap<ReportPosition, Option<StoredReport>>,
    waiting: Vec<Arc<SignedReport>>,
}

impl<'s, 'a> Known<'s, 'a> {
    /// What is known around `reports`.
    pub fn around<'r>(
        session: &'s Session<'a>,
        batch: &'s Batch<'s>,
        reports: impl Iterator<Item = &'r Report>,
    ) -> Result<Self, StoreError> {
        let (mut sites, mut epochs, mut places) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for report in reports {
            sites.insert(report.site.as_str());
            epochs.insert((report.site.to_string(), report.epoch.to_string()));
            let number = report.number;
            for number in [number.saturating_sub(1), number, number.saturating_add(1)] {
                places.insert(place(report, number));
            }
        }
        let sites: Vec<&str> = sites.into_iter().collect();
        let epochs: Vec<SiteEpoch> = epochs.into_iter().collect();
        let places: Vec<ReportPosition> = places.into_iter().collect();
        Ok(Self {
            session,
            batch,
            sites: session.sites_named(&sites)?,
            epochs: session.known_epochs(&epochs)?,
            removed: session.have_removed(&epochs)?,
            reports: session.stored_reports(&places)?,
            waiting: Vec::new(),
        })
    }

    /// The registration of a site.
    pub fn site(&self, name: &str) -> Result<Option<Registration>, StoreError> {
        match self.sites.get(name) {
            Some(known) => Ok(known.clone()),
            None => self.session.site(name),
        }
    }

    /// What is on record at a place, what this batch recorded included.
    pub fn stored(&self, place: &ReportPosition) -> Result<Option<StoredReport>, StoreError> {
        match self.reports.get(place) {
            Some(known) => Ok(known.clone()),
            // Not what waits: that is always among what is known.
            None => self.session.stored_report(place),
        }
    }

    /// Whether the report at a place was on record and is no longer kept.
    pub fn is_removed(&self, place: &ReportPosition) -> Result<bool, StoreError> {
        let epoch = (place.site.clone(), place.epoch.clone());
        match self.removed.get(&epoch) {
            Some(false) => Ok(false),
            _ => self.session.is_removed(place),
        }
    }

    /// The numbering of a report; `None` when it is new.
    pub fn epoch(&mut self, report: &Report) -> Result<Option<KnownEpoch>, StoreError> {
        let epoch = (report.site.to_string(), report.epoch.to_string());
        if let Some(known) = self.epochs.get(&epoch) {
            return Ok(known.clone());
        }
        self.epochs
            .extend(self.session.known_epochs(std::slice::from_ref(&epoch))?);
        Ok(self.epochs.get(&epoch).cloned().flatten())
    }

    /// Begins a numbering: what is known of the site's other ones is read again.
    pub fn start_epoch(&mut self, report: &Report, generation: i64) -> Result<(), StoreError> {
        let site = report.site.as_str();
        self.of_site(site)?.start_epoch(report, generation)?;
        self.epochs.retain(|(of, _), _| of != site);
        Ok(())
    }

    /// A report is signed by a newer key.
    pub fn rekey_epoch(&mut self, report: &Report, generation: i64) -> Result<(), StoreError> {
        self.of_site(report.site.as_str())?
            .rekey_epoch(report, generation)?;
        let epoch = (report.site.to_string(), report.epoch.to_string());
        self.epochs.remove(&epoch);
        Ok(())
    }

    /// Records a report, which is written with those after it.
    pub fn add(&mut self, report: &Arc<SignedReport>) {
        let stored = StoredReport {
            digest: report.digest().to_owned(),
            previous: report.previous(),
        };
        let at = place(report.report(), report.number());
        self.reports.insert(at, Some(stored));
        self.waiting.push(Arc::clone(report));
    }

    /// The store, to be asked about a site: with all that was recorded of it so far.
    pub fn of_site(&mut self, site: &str) -> Result<&'s Session<'a>, StoreError> {
        if self
            .waiting
            .iter()
            .any(|one| one.report().site.as_str() == site)
        {
            self.write()?;
        }
        Ok(self.session)
    }

    /// Writes the reports that wait.
    pub fn write(&mut self) -> Result<(), StoreError> {
        let new: Vec<NewReport<'_>> = self
            .waiting
            .iter()
            .map(|one| NewReport {
                report: one.report(),
                digest: one.digest(),
                envelope: one.line(),
                via: self.batch.via,
                received_ms: self.batch.received_ms,
            })
            .collect();
        self.session.add_reports(&new)?;
        self.waiting.clear();
        Ok(())
    }

    /// What is known of a site is read again: its registration changed.
    pub fn forget_site(&mut self, name: &str) {
        self.sites.remove(name);
    }

    /// The batch.
    pub fn batch(&self) -> &'s Batch<'s> {
        self.batch
    }
}
