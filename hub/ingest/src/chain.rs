//! Where a report belongs in its chain: whether its numbers can be, and what is on record around it.
//!
//! What comes in: a report and what is known around it. What goes out: whether it is new, why it contradicts its
//! neighbours, or whether the one after it confirms it. It writes nothing.

use outhaul_bundle::report::{Report, ReportEvent};

use crate::known::BatchStore;
use crate::signed::place;
use outhaul_store::StoreError;

/// Dates in answers and on pages end with the year 9999.
const LAST_MS: i64 = 253_402_300_799_999;

/// Why a report's own numbers cannot be.
pub(crate) fn out_of_range(report: &Report) -> Option<String> {
    for (what, ms) in [
        ("the site's clock", report.at.wall_ms),
        ("the lower bound of its time", report.at.lower_bound_ms),
    ] {
        if !(0..=LAST_MS).contains(&ms) {
            return Some(format!(
                "report {} has {ms} ms as {what}, which is not between 1970 and 9999",
                report.number
            ));
        }
    }
    match &report.event {
        ReportEvent::Gap { from, to, .. } if *from == 0 || from > to || *to >= report.number => {
            Some(format!(
                "report {} declares {from} to {to} lost",
                report.number
            ))
        }
        _ => None,
    }
}

/// Whether the report after this one is on record and names this very one as the one before: then the key
/// that signed that one confirms this one, whoever signed it. So the reports of a site that changed its
/// key on the way, or was enrolled again, are complete.
pub(crate) fn is_covered(
    known: &BatchStore<'_, '_>,
    report: &Report,
    digest: &str,
) -> Result<bool, StoreError> {
    let after = known.stored(&place(report, report.number.saturating_add(1)))?;
    Ok(after.is_some_and(|after| after.previous.as_deref() == Some(digest)))
}

/// What a report contradicts.
#[derive(Debug)]
pub(crate) struct Contradiction {
    /// Digest of the report on record.
    pub on_record: String,
    /// What was expected and found.
    pub reason: String,
}

/// Whether the report is new, or why it contradicts what is on record around its place.
pub(crate) fn fits(
    known: &BatchStore<'_, '_>,
    report: &Report,
    digest: &str,
) -> Result<Result<bool, Contradiction>, StoreError> {
    let other = |on_record: &str, reason: String| {
        let on_record = on_record.to_owned();
        Ok(Err(Contradiction { on_record, reason }))
    };
    let at = |number| place(report, number);
    let number = report.number;
    if let Some(stored) = known.stored(&at(number))? {
        if stored.digest == digest {
            return Ok(Ok(false));
        }
        let reason = format!(
            "report {number} is on record with other content (expected {}, found {digest}): the \
             site's store was restored from a copy, or two machines use one key",
            stored.digest
        );
        return other(&stored.digest, reason);
    }
    if number > 1
        && let Some(before) = known.stored(&at(number - 1))?
    {
        let claimed = report
            .previous
            .map(|digest| digest.to_string())
            .unwrap_or_default();
        if claimed != before.digest {
            let reason = format!(
                "report {number} follows another report {} than the one on record (expected {}, \
                 found {claimed})",
                number - 1,
                before.digest
            );
            return other(&before.digest, reason);
        }
    }
    if let Some(after) = known.stored(&at(number + 1))?
        && after.previous.as_deref() != Some(digest)
    {
        let reason = format!(
            "report {} on record follows another report {number} than this one (expected {}, found \
             {digest})",
            number + 1,
            after.previous.unwrap_or_default()
        );
        return other(&after.digest, reason);
    }
    Ok(Ok(true))
}
