//! Lines of a batch, checked: read and verified on every processor, with what the store knows of all of them asked for at once.
//!
//! What comes in: lines of unknown origin, and the store. What goes out: of each, a report that may be recorded, or why not. It
//! writes nothing: what it read of the store is looked up again before anything is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use crate::chain::is_covered;
use crate::known::BatchStore;
use crate::line::{ClaimedLine, LineProof, LineRefusal, read_line, registered};
use crate::signed::{SignedReport, place};
use crate::{Batch, not_read};
use outhaul_signer::envelope::{EnvelopeLine, MAX_ENVELOPE_BYTES};
use outhaul_store::{ReportPosition, Session, SiteKey, StoreError};

/// A line with its number, as far as it was checked.
pub(crate) type Numbered<T> = (u64, Result<T, LineRefusal>);

/// Checks lines; none is looked at where the batch `is_tired` of bad ones.
pub(crate) fn check(
    session: &Session<'_>,
    fleet: &str,
    lines: Vec<(u64, EnvelopeLine)>,
    is_tired: bool,
) -> Result<Vec<Numbered<Arc<SignedReport>>>, StoreError> {
    let read = |(number, line)| {
        let read = match line {
            EnvelopeLine::TooLong => Err(LineRefusal::new(
                "oversized",
                format!("a line of more than {MAX_ENVELOPE_BYTES} bytes"),
            )),
            EnvelopeLine::Whole(_) if is_tired => Err(not_read()),
            EnvelopeLine::Whole(bytes) => read_line(bytes),
        };
        (number, read)
    };
    let claimed: Vec<Numbered<ClaimedLine>> = lines.into_par_iter().map(read).collect();
    let verify = |(number, line): Numbered<(ClaimedLine, LineProof)>| {
        let verified = match line {
            Ok((line, proof)) => line.verify(&proof, fleet)?.map(Arc::new),
            Err(refused) => Err(refused),
        };
        Ok((number, verified))
    };
    with_proofs(session, claimed)?
        .into_par_iter()
        .map(verify)
        .collect()
}

/// Each line with what the store has to verify it by.
fn with_proofs(
    session: &Session<'_>,
    claimed: Vec<Numbered<ClaimedLine>>,
) -> Result<Vec<Numbered<(ClaimedLine, LineProof)>>, StoreError> {
    let whole = || claimed.iter().filter_map(|(_, line)| line.as_ref().ok());
    let names: BTreeSet<&str> = whole().map(|line| line.site().as_str()).collect();
    let places: BTreeSet<ReportPosition> = whole()
        .filter_map(ClaimedLine::report)
        .map(|report| place(report, report.number))
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    let places: Vec<ReportPosition> = places.into_iter().collect();
    let sites = session.sites_named(&names)?;
    let keys: BTreeMap<String, Arc<Vec<SiteKey>>> = session
        .keys_of_sites(&names)?
        .into_iter()
        .map(|(site, keys)| (site, Arc::new(keys)))
        .collect();
    let stored = session.stored_reports(&places)?;
    let is_of = |line: &ClaimedLine, place: &ReportPosition| {
        let on_record = stored.get(place).and_then(Option::as_ref);
        on_record.is_some_and(|stored| stored.digest == line.digest())
    };
    let again: Vec<ReportPosition> = whole()
        .filter_map(|line| Some((line, line.report().map(|one| place(one, one.number))?)))
        .filter_map(|(line, place)| is_of(line, &place).then_some(place))
        .collect();
    let envelopes = session.envelopes_at(&again)?;
    let with_proof = |line: ClaimedLine| {
        let site = line.site();
        let known = sites.get(site.as_str()).cloned().flatten();
        if let Err(refused) = registered(known, site) {
            return Err(LineRefusal {
                site: Some(site.to_string()),
                ..refused
            });
        }
        let of_site = || keys.get(site.as_str()).cloned().unwrap_or_default();
        let at = line.report().map(|report| place(report, report.number));
        let proof = match at.filter(|place| is_of(&line, place)) {
            None => LineProof::ByKeys(of_site()),
            Some(place) => match envelopes.get(&place) {
                Some(stored) if !line.is_written(stored) => {
                    LineProof::Otherwise(of_site(), stored.clone())
                }
                Some(_) => LineProof::OnRecord,
                None => LineProof::Lost(of_site()),
            },
        };
        Ok((line, proof))
    };
    let numbered = |(number, line): Numbered<ClaimedLine>| (number, line.and_then(with_proof));
    Ok(claimed.into_iter().map(numbered).collect())
}

/// Turns refusals into reports to be recorded where the report after them confirms them: one of the same
/// lines that a key signed, or one on record.
pub(crate) fn take_covered(
    session: &Session<'_>,
    batch: &Batch<'_>,
    checked: &mut [Numbered<Arc<SignedReport>>],
) -> Result<(), StoreError> {
    let held_of = |outcome: &Result<Arc<SignedReport>, LineRefusal>| {
        let held = outcome.as_ref().err().and_then(|r| r.held.as_ref());
        held.map(Arc::clone)
    };
    let held: Vec<_> = checked
        .iter()
        .filter_map(|(_, outcome)| held_of(outcome))
        .collect();
    if held.is_empty() {
        return Ok(());
    }
    let known = BatchStore::around(session, batch, held.iter())?;
    let mut named: BTreeSet<String> = checked
        .iter()
        .filter_map(|(_, outcome)| outcome.as_ref().ok()?.previous())
        .collect();
    let number = |outcome: &Result<Arc<SignedReport>, LineRefusal>| {
        held_of(outcome).map(|held| held.number())
    };
    let mut order: Vec<usize> = (0..checked.len())
        .filter(|at| number(&checked[*at].1).is_some())
        .collect();
    order.sort_by_key(|at| std::cmp::Reverse(number(&checked[*at].1)));
    for at in order {
        let Err(refused) = &mut checked[at].1 else {
            continue;
        };
        let Some(held) = refused.held.take() else {
            continue;
        };
        if named.contains(held.digest()) || is_covered(&known, held.report(), held.digest())? {
            named.extend(held.previous());
            checked[at].1 = Ok(held);
        }
    }
    Ok(())
}
