//! What the store knows around the reports of a batch, read at once and kept true while they are recorded.
//!
//! What comes in: the places and sites of a batch; what is recorded of it. What goes out: registrations, keys of numberings and
//! reports on record, those of this batch included. What was not read at once is asked for by itself. In a transaction that
//! writes nobody else does, so what was read stays right; what this batch changes is changed here, too, or read again. Reports wait
//! here to be written together, and are written before anything is asked that reads them. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::report::{Report, ReportEvent};

use crate::Batch;
use crate::signed::{Signed, SignedReport, place};
use outhaul_store::{
    KnownEpoch, NewReport, Registration, ReportPosition, Session, SiteEpoch, StoreError,
    StoredReport,
};

/// A batch's part of the store.
#[derive(Debug)]
pub(crate) struct BatchStore<'s, 'a> {
    session: &'s Session<'a>,
    batch: &'s Batch<'s>,
    sites: BTreeMap<String, Option<Registration>>,
    epochs: BTreeMap<SiteEpoch, Option<KnownEpoch>>,
    removed: BTreeMap<SiteEpoch, bool>,
    reports: BTreeMap<ReportPosition, Option<StoredReport>>,
    waiting: Vec<Arc<SignedReport>>,
    webhook_sites: BTreeSet<String>,
    by_webhook: bool,
}

impl<'s, 'a> BatchStore<'s, 'a> {
    /// What is known around `reports`. Of those that are on record already only the sites are asked for.
    pub fn around<'r>(
        session: &'s Session<'a>,
        batch: &'s Batch<'s>,
        reports: impl Iterator<Item = &'r Arc<SignedReport>>,
    ) -> Result<Self, StoreError> {
        let (mut sites, mut epochs, mut places) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for signed in reports {
            let report = signed.report();
            sites.insert(report.site.as_str());
            if signed.signed.is_on_record() {
                continue;
            }
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
            webhook_sites: session.webhook_sites_of(&sites)?,
            by_webhook: false,
        })
    }

    /// The hub itself made the reports, of webhooks.
    pub fn is_made_of_webhooks(&mut self) {
        self.by_webhook = true;
    }

    /// Whether a report comes in a way in which its site does not report.
    pub fn comes_another_way(&self, report: &Report) -> bool {
        let is_marked =
            matches!(&report.event, ReportEvent::Cluster(seen) if seen.webhook.is_some());
        self.webhook_sites.contains(report.site.as_str()) && !(self.by_webhook && is_marked)
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

    /// A report is signed by the site's present key: its numbering is that key's from here on, where it was not before.
    pub fn rekey_epoch(&mut self, report: &Report, generation: i64) -> Result<(), StoreError> {
        let is_newer = |of: KnownEpoch| {
            of.key_generation < generation || of.rekeyed_at.is_some_and(|at| at > report.number)
        };
        if !self.epoch(report)?.is_some_and(is_newer) {
            return Ok(());
        }
        self.session.rekey_epoch(report, generation)?;
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

    /// A report that is on record without a signature that holds came with one, or one whose text is lost came again: that one is
    /// kept. Whether it is a lost text that is there again.
    pub fn replace(&mut self, better: &Arc<SignedReport>) -> Result<bool, StoreError> {
        let at = place(better.report(), better.number());
        let is_signed = !matches!(better.signed, Signed::ByNobody(_));
        let same = |one: &&mut Arc<SignedReport>| one.digest() == better.digest();
        if let Some(waiting) = self.waiting.iter_mut().find(same) {
            if is_signed && matches!(waiting.signed, Signed::ByNobody(_)) {
                *waiting = Arc::clone(better);
            }
            return Ok(false);
        }
        // What the report after it confirms is as good as what was there.
        let restored = match better.signed {
            Signed::Restored => true,
            Signed::ByNobody(_) => {
                let there = self.session.envelopes_at(std::slice::from_ref(&at))?;
                there.is_empty()
            }
            _ => false,
        };
        if restored || matches!(better.signed, Signed::Better) {
            let digest = better.digest();
            self.session.replace_envelope(&at, digest, better.line())?;
        }
        Ok(restored)
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

#[cfg(test)]
mod tests {
    use outhaul_signer::key::SigningKey;
    use outhaul_test_kit::Site;
    use outhaul_test_kit::plain::{FLEET, NEW};

    use super::*;
    use crate::{Ingested, check, ingest, record_report};
    use outhaul_enrol as enrol;
    use outhaul_signer::envelope::EnvelopeLine;
    use outhaul_store::Store;

    const BATCH: Batch<'_> = Batch {
        fleet: FLEET,
        via: "stick.reports",
        received_ms: 100,
    };

    fn store_with(sites: &[&Site]) -> Store {
        let mut store = Store::in_memory().unwrap();
        for site in sites {
            let request = enrol::check(&site.request(), FLEET).unwrap();
            store
                .write(|session| enrol::approve(session, &request, false, 10))
                .unwrap();
        }
        store
    }

    fn take(store: &mut Store, lines: &[Vec<u8>]) -> Ingested {
        ingest(store, lines.concat().as_slice(), &BATCH).unwrap()
    }

    fn checked(session: &Session<'_>, lines: Vec<Vec<u8>>) -> Vec<Arc<SignedReport>> {
        let lines = (1..)
            .zip(lines.into_iter().map(EnvelopeLine::Whole))
            .collect();
        let checked = check::check(session, FLEET, lines, false).unwrap();
        checked.into_iter().map(|(_, one)| one.unwrap()).collect()
    }

    /// Records lines; how many of them wait to be written together at the end.
    fn waiting(store: &mut Store, lines: Vec<Vec<u8>>) -> usize {
        let recorded = store.write(|session| {
            let checked = checked(session, lines);
            let mut known = BatchStore::around(session, &BATCH, checked.iter())?;
            for report in &checked {
                record_report(&mut known, report, &mut BTreeSet::new())?.unwrap();
            }
            let waiting = known.waiting.len();
            known.write()?;
            Ok::<_, StoreError>(waiting)
        });
        recorded.unwrap()
    }

    #[test]
    fn reports_of_a_key_that_changed_are_written_together_and_the_first_of_them_is_known() {
        let mut site = Site::new("a", "dev", "drone");
        let mut store = store_with(&[&site]);
        take(&mut store, &[site.active(1, NEW)]);
        site.key = SigningKey::generate().unwrap();
        let request = enrol::check(&site.request(), FLEET).unwrap();
        store
            .write(|session| enrol::approve(session, &request, true, 20))
            .unwrap();
        let second = site.active(2, NEW);
        let third = site.active(3, NEW);
        let rest = (4..=6).map(|number| site.active(number, NEW)).collect();
        // The newest came first: the other is before what was the first of this key.
        for (line, first) in [(third, 3), (second, 2)] {
            assert_eq!(waiting(&mut store, vec![line]), 1);
            let epoch = (site.name.clone(), site.epoch.clone());
            let known = store
                .read(|session| session.known_epochs(std::slice::from_ref(&epoch)))
                .unwrap();
            let known = known[&epoch].as_ref().unwrap();
            assert_eq!((known.key_generation, known.rekeyed_at), (2, Some(first)));
        }
        assert_eq!(waiting(&mut store, rest), 3);
    }

    #[test]
    fn of_what_is_on_record_only_the_site_is_asked_for() {
        let (mut old, mut new) = (
            Site::new("a", "dev", "drone"),
            Site::new("b", "dev", "drone"),
        );
        let mut store = store_with(&[&old, &new]);
        let on_record = old.active(1, NEW);
        take(&mut store, std::slice::from_ref(&on_record));
        let lines = vec![on_record, new.active(1, NEW)];
        let looked = store.read(|session| {
            let checked = checked(session, lines);
            let known = BatchStore::around(session, &BATCH, checked.iter())?;
            let of = |names: BTreeSet<&String>| names.into_iter().cloned().collect::<Vec<_>>();
            assert_eq!(of(known.sites.keys().collect()), ["a", "b"]);
            for asked in [
                known.epochs.keys().map(|(site, _)| site).collect(),
                known.removed.keys().map(|(site, _)| site).collect(),
                known.reports.keys().map(|at| &at.site).collect(),
            ] {
                assert_eq!(of(asked), ["b"]);
            }
            Ok::<_, StoreError>(())
        });
        looked.unwrap();
    }
}
