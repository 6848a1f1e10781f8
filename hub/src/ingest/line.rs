//! One line of a batch: checked against its site's keys, then recorded where it fits.
//!
//! What comes in: an envelope of unknown origin. What goes out: a report on record, or the rule that refused
//! it. Checking only reads the store, so that it can happen beside it; recording looks the site up again.

use outhaul_bundle::report::{Event, PAYLOAD_TYPE, Report};
use outhaul_bundle::{Digest, name::Name};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::PublicKey;
use serde::Deserialize;

use super::Batch;
use crate::orders;
use crate::store::{NewReport, Place, Registration, Session, StoreError};

/// The largest report number: beyond it JSON readers disagree about integers.
const MAX_NUMBER: u64 = (1 << 53) - 1;
/// The rule of a signature that does not hold.
pub(super) const SIGNATURE: &str = "signature";

/// A report on record.
#[derive(Debug)]
pub(super) struct Taken {
    pub site: String,
    pub epoch: String,
    pub new: bool,
}

#[derive(Debug)]
pub(super) struct Refused {
    pub site: Option<String>,
    pub rule: &'static str,
    pub reason: String,
}

impl Refused {
    pub fn new(rule: &'static str, reason: impl Into<String>) -> Self {
        Self {
            site: None,
            rule,
            reason: reason.into(),
        }
    }
}

/// A report that its site's key signed, or that is on record already.
#[derive(Debug)]
pub(super) struct SignedReport {
    report: Report,
    digest: String,
    line: Vec<u8>,
    /// Generation of the key that signed it; `None` when the very payload is on record.
    generation: Option<i64>,
}

/// Checks one line; only reads the store.
pub(super) fn check_line(
    session: &Session<'_>,
    batch: &Batch<'_>,
    line: Vec<u8>,
) -> Result<Result<SignedReport, Refused>, StoreError> {
    let envelope = match Envelope::from_json(&line) {
        Ok(envelope) => envelope,
        Err(error) => return Ok(Err(Refused::new("malformed", error.to_string()))),
    };
    let Ok(claim) = serde_json::from_slice::<Claim>(envelope.unverified_payload()) else {
        return Ok(Err(Refused::new("malformed", "the payload names no site")));
    };
    let checked = check_claimed(session, batch, &envelope, &claim)?;
    Ok(match checked {
        Ok((report, digest, generation)) => Ok(SignedReport {
            report,
            digest,
            line,
            generation,
        }),
        Err(refused) => Err(Refused {
            site: Some(claim.site.to_string()),
            ..refused
        }),
    })
}

/// Read before anything is verified, only to know whose key to ask for.
#[derive(Deserialize)]
struct Claim {
    site: Name,
}

/// The site's registration, or why nothing of it is taken.
fn registered(
    session: &Session<'_>,
    site: &Name,
) -> Result<Result<Registration, Refused>, StoreError> {
    let Some(known) = session.site(site.as_str())? else {
        let help = "register it with `outhaul-hub site add` and import again";
        let text = format!("site `{site}` is not registered; {help}");
        return Ok(Err(Refused::new("unknown-site", text)));
    };
    if known.revoked_ms.is_some() {
        let text = format!("site `{site}` is revoked");
        return Ok(Err(Refused::new("revoked", text)));
    }
    Ok(Ok(known))
}

fn check_claimed(
    session: &Session<'_>,
    batch: &Batch<'_>,
    envelope: &Envelope,
    claim: &Claim,
) -> Result<Result<(Report, String, Option<i64>), Refused>, StoreError> {
    let refuse = |rule, reason: String| Ok(Err(Refused::new(rule, reason)));
    let site = match registered(session, &claim.site)? {
        Ok(site) => site,
        Err(refused) => return Ok(Err(refused)),
    };
    // What is on record, byte for byte, was verified when it came first.
    let digest = Digest::of(envelope.unverified_payload()).to_string();
    if let Ok(report) = Report::from_bytes(envelope.unverified_payload())
        && report.site == claim.site
        && let Some(stored) = session.stored_report(&place(&report, report.number))?
        && stored.digest == digest
    {
        return Ok(Ok((report, digest, None)));
    }
    // Newest key first; an older one may still sign what its own epochs had left to tell.
    let (mut signed, mut problem) = (None, None);
    for stored in session.site_keys(&site.site)? {
        let what = || StoreError::Corrupt {
            what: format!("key of site `{}`", site.site),
        };
        let key = PublicKey::from_pem(&stored.public_key).map_err(|_| what())?;
        match envelope.verify(PAYLOAD_TYPE, std::slice::from_ref(&key)) {
            Ok(payload) => {
                signed = Some((payload, stored.generation));
                break;
            }
            Err(error) => {
                problem.get_or_insert(error);
            }
        }
    }
    let Some((payload, generation)) = signed else {
        let text = problem.map_or_else(|| "no key is on record".to_owned(), |e| e.to_string());
        return refuse(SIGNATURE, text);
    };
    let report = match Report::from_bytes(payload) {
        Ok(report) => report,
        Err(error) => return refuse("malformed", error.to_string()),
    };
    if report.fleet.as_str() != batch.fleet {
        let (expected, found) = (batch.fleet, &report.fleet);
        return refuse(
            "fleet",
            format!("expected fleet `{expected}`, found `{found}`"),
        );
    }
    if let Some(problem) = out_of_range(&report) {
        return refuse("malformed", problem);
    }
    Ok(Ok((report, digest, Some(generation))))
}

/// Records a checked report, in the transaction in which its site is looked up again.
pub(super) fn record_report(
    session: &Session<'_>,
    batch: &Batch<'_>,
    checked: SignedReport,
) -> Result<Result<Taken, Refused>, StoreError> {
    let report = &checked.report;
    let site = report.site.to_string();
    let refuse = |rule, reason: String| {
        Ok(Err(Refused {
            site: Some(report.site.to_string()),
            ..Refused::new(rule, reason)
        }))
    };
    let known = match registered(session, &report.site)? {
        Ok(known) => known,
        Err(refused) => return refuse(refused.rule, refused.reason),
    };
    let epoch = report.epoch.as_str();
    let Some(generation) = checked.generation else {
        let epoch = epoch.to_owned();
        return Ok(Ok(Taken {
            site,
            epoch,
            new: false,
        }));
    };
    let present = generation == known.key_generation;
    match session.epoch_key(&site, epoch)? {
        // The newest key goes on where the one before stopped; that one still signs what came before.
        Some((of_epoch, _)) if generation > of_epoch && present => {}
        Some((of_epoch, Some(first))) if generation < of_epoch && report.number < first => {}
        Some((of_epoch, _)) if of_epoch != generation => {
            let text = format!("epoch `{epoch}` is signed by another key of this site");
            return refuse("epoch-key", text);
        }
        None if !present => {
            let text = format!("a new epoch `{epoch}` signed by a key that was replaced");
            return refuse("retired-key", text);
        }
        Some(_) => {}
        None => session.start_epoch(report, generation)?,
    }
    let new = match fits(session, report, &checked.digest)? {
        Ok(new) => new,
        Err(reason) => return refuse("exchanged", reason),
    };
    if new {
        session.add_report(&NewReport {
            report,
            digest: &checked.digest,
            envelope: &checked.line,
            via: batch.via,
            received_ms: batch.received_ms,
        })?;
        if present && generation > 1 {
            session.rekey_epoch(report, generation)?;
        }
        orders::reported(session, report)?;
    }
    Ok(Ok(Taken {
        site,
        epoch: epoch.to_owned(),
        new,
    }))
}

fn place(report: &Report, number: u64) -> Place {
    Place {
        site: report.site.to_string(),
        epoch: report.epoch.to_string(),
        number,
    }
}

fn out_of_range(report: &Report) -> Option<String> {
    if report.number > MAX_NUMBER {
        return Some(format!("report number {} is out of range", report.number));
    }
    match &report.event {
        Event::Gap { from, to, .. } if *from == 0 || from > to || *to >= report.number => Some(
            format!("report {} declares {from} to {to} lost", report.number),
        ),
        Event::Generation(event) | Event::Observation(event) if event.number > MAX_NUMBER => {
            Some(format!("bundle number {} is out of range", event.number))
        }
        Event::FreshnessSlip { number, .. } if *number > MAX_NUMBER => {
            Some(format!("bundle number {number} is out of range"))
        }
        Event::OrderDone { number, .. } | Event::OrderRefused { number, .. }
            if *number > MAX_NUMBER =>
        {
            Some(format!("order number {number} is out of range"))
        }
        _ => None,
    }
}

/// Whether the report is new, or why it contradicts what is on record around its place.
fn fits(
    session: &Session<'_>,
    report: &Report,
    digest: &str,
) -> Result<Result<bool, String>, StoreError> {
    let at = |number| place(report, number);
    let number = report.number;
    if let Some(stored) = session.stored_report(&at(number))? {
        if stored.digest == digest {
            return Ok(Ok(false));
        }
        return Ok(Err(format!(
            "report {number} is on record with other content (expected {}, found {digest}): the \
             site's store was restored from a copy, or two machines use one key",
            stored.digest
        )));
    }
    if number > 1
        && let Some(before) = session.stored_report(&at(number - 1))?
    {
        let claimed = report
            .previous
            .map(|digest| digest.to_string())
            .unwrap_or_default();
        if claimed != before.digest {
            return Ok(Err(format!(
                "report {number} follows another report {} than the one on record (expected {}, \
                 found {claimed})",
                number - 1,
                before.digest
            )));
        }
    }
    if let Some(after) = session.stored_report(&at(number + 1))?
        && after.previous.as_deref() != Some(digest)
    {
        return Ok(Err(format!(
            "report {} on record follows another report {number} than this one (expected {}, found \
             {digest})",
            number + 1,
            after.previous.unwrap_or_default()
        )));
    }
    Ok(Ok(true))
}
