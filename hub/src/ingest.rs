//! Ingest: signed reports in any order, any number of times, by any road, counted once each.
//!
//! What comes in: lines, one envelope each, from a file or a request. What goes out: rows in the store,
//! what was refused with the reason, and how far each chain is complete. A report is taken when its
//! site's own key signed it, it is of this fleet, and it fits the reports before and after it. A
//! refused line is recorded and shown, and does not stop the rest. It never replaces what is on record.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read as _};

use outhaul_bundle::report::{Event, PAYLOAD_TYPE, Report};
use outhaul_bundle::{Digest, name::Name};
use outhaul_signer::envelope::{Envelope, MAX_ENVELOPE_BYTES};
use outhaul_signer::key::PublicKey;
use serde::{Deserialize, Serialize};

use crate::orders;
use crate::store::{NewReport, Place, Refusal, Session, Store, StoreError};

/// The largest report number: beyond it JSON readers disagree about integers.
const MAX_NUMBER: u64 = (1 << 53) - 1;
/// Lines of one transaction: enough to share its disk flush, few enough for others to write between.
const LINES_AT_ONCE: usize = 2000;
/// Refused lines listed one by one; the rest is counted.
const MAX_LISTED: usize = 200;
/// Refused lines of one batch that are recorded: a flood must not push out what came before it.
const MAX_RECORDED: u64 = 20;

/// What became of a batch.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Ingested {
    /// Reports that are new.
    pub accepted: u64,
    /// Reports that were on record already.
    pub duplicates: u64,
    /// Lines refused.
    pub refused_lines: u64,
    /// The first 200 of them, with the reason.
    pub refused: Vec<RefusedLine>,
    /// How far each chain that the batch touched is complete now.
    pub complete: Vec<Complete>,
}

/// A line that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedLine {
    /// Its number, from 1.
    pub line: u64,
    /// The site that it claims to be from, where it claims one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The rule.
    pub rule: &'static str,
    /// What was expected and found.
    pub reason: String,
}

/// Everything of a chain up to a number is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Complete {
    /// The site.
    pub site: String,
    /// The epoch.
    pub epoch: String,
    /// The number; 0 when the first is missing.
    pub number: u64,
}

/// Why a batch stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The file or request could not be read.
    #[error("`{source_name}` cannot be read")]
    Read {
        /// Its name.
        source_name: String,
        /// What the system says.
        source: io::Error,
    },
    /// The store failed; nothing of the batch since the last good transaction is kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where a batch came from and when.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The fleet that this hub serves.
    pub fleet: &'a str,
    /// The file's name, or `https`.
    pub via: &'a str,
    /// When, milliseconds since 1970.
    pub received_ms: i64,
}

/// Takes in every line of `lines`.
///
/// # Errors
/// [`IngestError`] when reading or the store fails. A refused line is no error.
pub fn ingest(
    store: &mut Store,
    mut lines: impl BufRead,
    batch: &Batch<'_>,
) -> Result<Ingested, IngestError> {
    let mut done = Ingested::default();
    let mut touched = BTreeSet::new();
    let mut at = 0;
    loop {
        let mut waiting = Vec::new();
        while waiting.len() < LINES_AT_ONCE {
            let read = read_line(&mut lines).map_err(|source| IngestError::Read {
                source_name: batch.via.to_owned(),
                source,
            })?;
            let Some(line) = read else { break };
            at += 1;
            if !matches!(&line, Line::Whole(bytes) if bytes.trim_ascii().is_empty()) {
                waiting.push((at, line));
            }
        }
        if waiting.is_empty() {
            break;
        }
        store.write(|session| -> Result<(), StoreError> {
            for (number, line) in &waiting {
                take_line(session, batch, *number, line, &mut done, &mut touched)?;
            }
            Ok(())
        })?;
    }
    done.complete = store.write(|session| {
        let chain = |(site, epoch): (String, String)| {
            let number = session.advance_ack(&site, &epoch)?;
            Ok::<_, StoreError>(Complete {
                site,
                epoch,
                number,
            })
        };
        touched
            .into_iter()
            .map(chain)
            .collect::<Result<Vec<_>, _>>()
    })?;
    Ok(done)
}

enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// The next line without its end, never holding more than an envelope may have.
fn read_line(lines: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    let most = MAX_ENVELOPE_BYTES as u64 + 1;
    if lines.by_ref().take(most).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        return Ok(Some(Line::Whole(bytes)));
    }
    if (bytes.len() as u64) < most {
        return Ok(Some(Line::Whole(bytes)));
    }
    lines.skip_until(b'\n')?;
    Ok(Some(Line::TooLong))
}

fn take_line(
    session: &Session<'_>,
    batch: &Batch<'_>,
    number: u64,
    line: &Line,
    done: &mut Ingested,
    touched: &mut BTreeSet<(String, String)>,
) -> Result<(), StoreError> {
    let outcome = match line {
        Line::TooLong => Err(Refused::new(
            "oversized",
            format!("a line of more than {MAX_ENVELOPE_BYTES} bytes"),
        )),
        Line::Whole(bytes) => take_report(session, batch, bytes)?,
    };
    match outcome {
        Ok(taken) => {
            done.accepted += u64::from(taken.new);
            done.duplicates += u64::from(!taken.new);
            touched.insert((taken.site, taken.epoch));
        }
        Err(refused) => {
            done.refused_lines += 1;
            if done.refused_lines <= MAX_RECORDED {
                session.add_refusal(&Refusal {
                    at_ms: batch.received_ms,
                    source: batch.via.to_owned(),
                    site: refused.site.clone(),
                    rule: refused.rule.to_owned(),
                    message: refused.reason.clone(),
                })?;
            }
            if done.refused.len() < MAX_LISTED {
                let Refused { site, rule, reason } = refused;
                done.refused.push(RefusedLine {
                    line: number,
                    site,
                    rule,
                    reason,
                });
            }
        }
    }
    Ok(())
}

struct Taken {
    site: String,
    epoch: String,
    new: bool,
}

struct Refused {
    site: Option<String>,
    rule: &'static str,
    reason: String,
}

impl Refused {
    fn new(rule: &'static str, reason: impl Into<String>) -> Self {
        Self {
            site: None,
            rule,
            reason: reason.into(),
        }
    }
}

fn take_report(
    session: &Session<'_>,
    batch: &Batch<'_>,
    line: &[u8],
) -> Result<Result<Taken, Refused>, StoreError> {
    let envelope = match Envelope::from_json(line) {
        Ok(envelope) => envelope,
        Err(error) => return Ok(Err(Refused::new("malformed", error.to_string()))),
    };
    let Ok(claim) = serde_json::from_slice::<Claim>(envelope.unverified_payload()) else {
        return Ok(Err(Refused::new("malformed", "the payload names no site")));
    };
    let taken = take_claimed(session, batch, line, &envelope, &claim)?;
    Ok(taken.map_err(|refused| Refused {
        site: Some(claim.site.to_string()),
        ..refused
    }))
}

/// Read before anything is verified, only to know whose key to ask for.
#[derive(Deserialize)]
struct Claim {
    site: Name,
}

fn take_claimed(
    session: &Session<'_>,
    batch: &Batch<'_>,
    line: &[u8],
    envelope: &Envelope,
    claim: &Claim,
) -> Result<Result<Taken, Refused>, StoreError> {
    let refuse = |rule, reason: String| Ok(Err(Refused::new(rule, reason)));
    let Some(site) = session.site(claim.site.as_str())? else {
        let help = "register it with `outhaul-hub site add` and import again";
        return refuse(
            "unknown-site",
            format!("site `{}` is not registered; {help}", claim.site),
        );
    };
    if site.revoked_ms.is_some() {
        return refuse("revoked", format!("site `{}` is revoked", claim.site));
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
        return refuse("signature", text);
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
    let epoch = report.epoch.as_str();
    let present = generation == site.key_generation;
    match session.epoch_key(&site.site, epoch)? {
        // The newest key goes on where the one before stopped; that one still signs what came before.
        Some((of_epoch, _)) if generation > of_epoch && present => {}
        Some((of_epoch, Some(first))) if generation < of_epoch && report.number < first => {}
        Some((of_epoch, _)) if of_epoch != generation => {
            let text = format!("epoch `{epoch}` is signed by another key of this site");
            return refuse("epoch-key", text);
        }
        None if generation != site.key_generation => {
            let text = format!("a new epoch `{epoch}` signed by a key that was replaced");
            return refuse("retired-key", text);
        }
        Some(_) => {}
        None => session.start_epoch(&report, generation)?,
    }
    let digest = Digest::of(payload).to_string();
    let new = match fits(session, &report, &digest)? {
        Ok(new) => new,
        Err(reason) => return refuse("exchanged", reason),
    };
    if new {
        session.add_report(&NewReport {
            report: &report,
            digest: &digest,
            envelope: line,
            via: batch.via,
            received_ms: batch.received_ms,
        })?;
        if present && generation > 1 {
            session.rekey_epoch(&report, generation)?;
        }
        orders::reported(session, &report)?;
    }
    Ok(Ok(Taken {
        site: site.site,
        epoch: epoch.to_owned(),
        new,
    }))
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
    let at = |number| Place {
        site: report.site.to_string(),
        epoch: report.epoch.to_string(),
        number,
    };
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
