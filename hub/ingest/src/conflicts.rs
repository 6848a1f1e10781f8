//! Whether a report shows that two machines report with one site's key.
//!
//! What comes in: a report that the site's present key signed, and the store. What goes out: an entry in the record of
//! contradicting reports, which keeps the site from counting at a gate until someone chose. It refuses nothing and
//! chooses nothing: a machine that was restored from a copy looks the same, and only a person can look at both.

use outhaul_bundle::Report;
use outhaul_gate::conflict;

use crate::Batch;
use crate::chain::Contradiction;
use crate::known::BatchStore;
use crate::signed::SignedReport;
use outhaul_store::{NewConflict, Registration, StoreError};

/// A report that the site's present key signed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verified<'a> {
    /// The report.
    pub report: &'a Report,
    /// Digest of its bytes, as text.
    pub digest: &'a str,
    /// The signed envelope, as it came.
    pub envelope: &'a [u8],
}

impl<'a> Verified<'a> {
    /// Of a report that was checked.
    pub fn of(checked: &'a SignedReport) -> Self {
        Self {
            report: checked.report(),
            digest: checked.digest(),
            envelope: checked.line(),
        }
    }
}

/// The entry for a report that contradicts what is on record.
pub(crate) fn found<'a>(
    batch: &Batch<'a>,
    verified: Verified<'a>,
    contradiction: &'a Contradiction,
) -> NewConflict<'a> {
    NewConflict {
        report: verified.report,
        digest: verified.digest,
        on_record: &contradiction.on_record,
        reason: &contradiction.reason,
        envelope: verified.envelope,
        via: batch.via,
        received_ms: batch.received_ms,
    }
}

/// Looks whether a new report shows two machines, though it fits its own numbering: an earlier numbering goes on after a
/// later one began, a numbering begins that nobody expects after someone chose, or one goes on that someone set aside.
pub(crate) fn look(
    known: &mut BatchStore<'_, '_>,
    verified: Verified<'_>,
    (site, begins): (&Registration, bool),
) -> Result<(), StoreError> {
    let report = verified.report;
    let epoch = known.epoch(report)?;
    let set_aside_ms = epoch.as_ref().and_then(|epoch| epoch.set_aside_ms);
    if let Some(chosen_ms) = set_aside_ms.filter(|ms| report.at.wall_ms > *ms) {
        return not_chosen(known, verified, site, chosen_ms);
    }
    let is_alone = epoch.as_ref().is_some_and(|epoch| epoch.is_only);
    let is_last = epoch.is_some_and(|epoch| epoch.is_last);
    // As most reports are: of the newest numbering, which began before.
    if is_last && !begins && (is_alone || report.number != 1) {
        return Ok(());
    }
    let batch = known.batch();
    let session = known.of_site(report.site.as_str())?;
    let add = |on_record: String, reason: String| {
        let contradiction = Contradiction { on_record, reason };
        session.add_conflict(&found(batch, verified, &contradiction))
    };
    for later in session.later_epochs(report)? {
        if report.at.wall_ms > later.began_ms {
            let reason = format!(
                "report {} of numbering `{}` was made after numbering `{}` had begun, which takes its place",
                report.number, report.epoch, later.epoch
            );
            return add(later.first, reason);
        }
    }
    // The same the other way round: the older numbering was reported first.
    if report.number == 1
        && let Some(older) = session.earlier_epoch_goes_on(report)?
    {
        let reason = format!(
            "report {} of numbering `{}` was made after numbering `{}` had begun, which takes its place",
            older.number, older.epoch, report.epoch
        );
        return add(older.digest, reason);
    }
    if !begins {
        return Ok(());
    }
    let Some(choice) = session.choice_of(&site.site, site.enrolled_ms)? else {
        return Ok(());
    };
    let starts = session.epoch_starts(&site.site)?;
    let begun = |(epoch, ms): (&String, &i64)| {
        *ms > choice.at_ms && epoch.as_str() != report.epoch.as_str()
    };
    // The machine that was chosen by a refused report begins a new numbering.
    if choice.epoch.is_none() && !starts.iter().any(begun) {
        return Ok(());
    }
    let reason = format!(
        "report {} begins numbering `{}` after {} chose the machine of report {}",
        report.number,
        report.epoch,
        choice.by,
        conflict::short_digest(choice.chosen.as_deref().unwrap_or_default())
    );
    add(choice.chosen.unwrap_or_default(), reason)
}

/// The entry for a report of a machine that was not chosen, made since: it still runs, and the one that was chosen may not.
fn not_chosen(
    known: &mut BatchStore<'_, '_>,
    verified: Verified<'_>,
    site: &Registration,
    chosen_ms: i64,
) -> Result<(), StoreError> {
    let batch = known.batch();
    let session = known.of_site(&site.site)?;
    let choice = session.choice_of(&site.site, site.enrolled_ms)?;
    let Some(choice) = choice.filter(|choice| choice.at_ms == chosen_ms) else {
        return Ok(());
    };
    let chosen = choice.chosen.unwrap_or_default();
    let contradiction = Contradiction {
        reason: format!(
            "report {} of numbering `{}` was made after {} chose the machine of report {}, which is another one and has not reported \
             since",
            verified.report.number,
            verified.report.epoch,
            choice.by,
            conflict::short_digest(&chosen)
        ),
        on_record: chosen,
    };
    session.add_conflict(&found(batch, verified, &contradiction))
}
