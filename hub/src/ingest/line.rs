//! One line of a batch: checked against its site's keys, then recorded where it fits.
//!
//! What comes in: an envelope of unknown origin. What goes out: a report on record, or the rule that refused
//! it. Checking only reads the store, so that it can happen beside it; recording looks the site up again.

use std::collections::BTreeSet;

use outhaul_bundle::report::{PAYLOAD_TYPE, Report};
use outhaul_bundle::{Digest, name::Name};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::PublicKey;
use serde::Deserialize;

use super::Batch;
use super::chain::{fits, is_covered, out_of_range, place};
use super::conflicts::{self, Verified};
use crate::enrol::orders;
use crate::store::{NewReport, Registration, Session, StoreError};

/// The rule of a signature that does not hold.
pub(super) const SIGNATURE: &str = "signature";

/// A report on record.
#[derive(Debug)]
pub(super) struct Taken {
    pub site: String,
    pub epoch: String,
    pub new: bool,
    /// It was on record once, and its number is known; its content is not.
    pub no_longer_kept: bool,
}

#[derive(Debug)]
pub(super) struct LineRefusal {
    pub site: Option<String>,
    pub rule: &'static str,
    pub reason: String,
    /// A report that no key signed that may, but that the one after it could confirm.
    pub held: Option<Box<SignedReport>>,
    /// The site and epoch of a rightly signed report that contradicts what is on record.
    pub exchanged: Option<(String, String)>,
}

impl LineRefusal {
    pub fn new(rule: &'static str, reason: impl Into<String>) -> Self {
        Self {
            site: None,
            rule,
            reason: reason.into(),
            held: None,
            exchanged: None,
        }
    }
}

/// Why a report may be accepted.
#[derive(Debug, Clone)]
enum Signed {
    /// The very payload is on record.
    OnRecord,
    /// By the site's key of this generation.
    By(i64),
    /// By no key of the site; why. Only the report after it can confirm it.
    ByNobody(String),
}

/// A report that its site's key signed, that is on record already, or that another may confirm.
#[derive(Debug)]
pub(super) struct SignedReport {
    report: Report,
    digest: String,
    line: Vec<u8>,
    signed: Signed,
}

impl SignedReport {
    fn verified(&self) -> Verified<'_> {
        Verified {
            report: &self.report,
            digest: &self.digest,
            envelope: &self.line,
        }
    }

    /// Its number in its chain.
    pub fn number(&self) -> u64 {
        self.report.number
    }

    /// Its digest.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether the report after it is on record and names it.
    pub fn is_named_on_record(&self, session: &Session<'_>) -> Result<bool, StoreError> {
        is_covered(session, &self.report, &self.digest)
    }

    /// The digest of the report before it, as it says.
    pub fn previous(&self) -> Option<String> {
        self.report.previous.map(|digest| digest.to_string())
    }
}

/// A line as far as the store is needed to check it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives for one report")]
pub(super) enum OpenedLine {
    /// What becomes of it is known.
    Decided(Result<SignedReport, LineRefusal>),
    /// Its signature is to be verified, which takes long and needs no store.
    Claimed(Box<ClaimedLine>),
}

/// A line that claims to be of a site, and the keys that may have signed it.
#[derive(Debug)]
pub(super) struct ClaimedLine {
    line: Vec<u8>,
    envelope: Envelope,
    claim: Claim,
    digest: String,
    /// Each with its generation, the newest first: an older one may still sign what its own epochs had left to report.
    keys: Vec<(PublicKey, i64)>,
}

/// Reads what the store knows of a line's site.
pub(super) fn open_line(session: &Session<'_>, line: Vec<u8>) -> Result<OpenedLine, StoreError> {
    let refuse = |refusal| Ok(OpenedLine::Decided(Err(refusal)));
    let envelope = match Envelope::from_json(&line) {
        Ok(envelope) => envelope,
        Err(error) => return refuse(LineRefusal::new("malformed", error.to_string())),
    };
    let Ok(claim) = serde_json::from_slice::<Claim>(envelope.unverified_payload()) else {
        return refuse(LineRefusal::new("malformed", "the payload names no site"));
    };
    let site = match registered(session, &claim.site)? {
        Ok(site) => site,
        Err(refused) => {
            return refuse(LineRefusal {
                site: Some(claim.site.to_string()),
                ..refused
            });
        }
    };
    // What is on record, byte for byte, was verified when it came first.
    let digest = Digest::of(envelope.unverified_payload()).to_string();
    if let Ok(report) = Report::from_bytes(envelope.unverified_payload())
        && report.site == claim.site
        && let Some(stored) = session.stored_report(&place(&report, report.number))?
        && stored.digest == digest
    {
        return Ok(OpenedLine::Decided(Ok(SignedReport {
            report,
            digest,
            line,
            signed: Signed::OnRecord,
        })));
    }
    let mut keys = Vec::new();
    for stored in session.site_keys(&site.site)? {
        let what = || StoreError::Corrupt {
            what: format!("key of site `{}`", site.site),
        };
        let key = PublicKey::from_pem(&stored.public_key).map_err(|_| what())?;
        keys.push((key, stored.generation));
    }
    Ok(OpenedLine::Claimed(Box::new(ClaimedLine {
        line,
        envelope,
        claim,
        digest,
        keys,
    })))
}

impl OpenedLine {
    /// Verifies it, for the hub of `fleet`.
    pub fn verify(self, fleet: &str) -> Result<SignedReport, LineRefusal> {
        match self {
            Self::Decided(outcome) => outcome,
            Self::Claimed(claimed) => claimed.verify(fleet),
        }
    }
}

impl ClaimedLine {
    fn verify(self, fleet: &str) -> Result<SignedReport, LineRefusal> {
        let site = self.claim.site.to_string();
        let checked = self.check(fleet);
        let Self { line, digest, .. } = self;
        match checked {
            Ok((report, Signed::ByNobody(problem))) => Err(LineRefusal {
                site: Some(site),
                held: Some(Box::new(SignedReport {
                    report,
                    digest,
                    line,
                    signed: Signed::ByNobody(problem.clone()),
                })),
                ..LineRefusal::new(SIGNATURE, problem)
            }),
            Ok((report, signed)) => Ok(SignedReport {
                report,
                digest,
                line,
                signed,
            }),
            Err(refused) => Err(LineRefusal {
                site: Some(site),
                ..refused
            }),
        }
    }

    fn check(&self, fleet: &str) -> Result<(Report, Signed), LineRefusal> {
        let refuse = |rule, reason: String| Err(LineRefusal::new(rule, reason));
        let (envelope, claim) = (&self.envelope, &self.claim);
        let (mut signed, mut problem) = (None, None);
        for (key, generation) in &self.keys {
            match envelope.verify(PAYLOAD_TYPE, std::slice::from_ref(key)) {
                Ok(payload) => {
                    signed = Some((payload, *generation));
                    break;
                }
                Err(error) => {
                    problem.get_or_insert(error);
                }
            }
        }
        let Some((payload, generation)) = signed else {
            let text = problem.map_or_else(|| "no key is on record".to_owned(), |e| e.to_string());
            let report = Report::from_bytes(envelope.unverified_payload());
            return match report {
                Ok(report)
                    if report.fleet.as_str() == fleet
                        && report.site == claim.site
                        && out_of_range(&report).is_none() =>
                {
                    Ok((report, Signed::ByNobody(text)))
                }
                _ => refuse(SIGNATURE, text),
            };
        };
        let report = match Report::from_bytes(payload) {
            Ok(report) => report,
            Err(error) => return refuse("malformed", error.to_string()),
        };
        if report.fleet.as_str() != fleet {
            let (expected, found) = (fleet, &report.fleet);
            return refuse(
                "fleet",
                format!("expected fleet `{expected}`, found `{found}`"),
            );
        }
        if let Some(problem) = out_of_range(&report) {
            return refuse("malformed", problem);
        }
        Ok((report, Signed::By(generation)))
    }
}

/// Read before anything is verified, only to know whose key to ask for.
#[derive(Debug, Deserialize)]
struct Claim {
    site: Name,
}

/// The site's registration, or why nothing of it is taken.
fn registered(
    session: &Session<'_>,
    site: &Name,
) -> Result<Result<Registration, LineRefusal>, StoreError> {
    let Some(known) = session.site(site.as_str())? else {
        let help = "register it with `outhaul-hub site add` and import again";
        let text = format!("site `{site}` is not registered; {help}");
        return Ok(Err(LineRefusal::new("unknown-site", text)));
    };
    if known.revoked_ms.is_some() {
        let text = format!("site `{site}` is revoked");
        return Ok(Err(LineRefusal::new("revoked", text)));
    }
    Ok(Ok(known))
}

/// Records a checked report, in the transaction in which its site is looked up again. `before_gone` has the digests that reports
/// which are no longer kept name as the ones before them: what is on record confirms none of these any more.
pub(super) fn record_report(
    session: &Session<'_>,
    batch: &Batch<'_>,
    checked: &SignedReport,
    before_gone: &mut BTreeSet<String>,
) -> Result<Result<Taken, LineRefusal>, StoreError> {
    let report = &checked.report;
    let site = report.site.to_string();
    let refuse = |rule, reason: String| {
        Ok(Err(LineRefusal {
            site: Some(report.site.to_string()),
            ..LineRefusal::new(rule, reason)
        }))
    };
    let known = match registered(session, &report.site)? {
        Ok(known) => known,
        Err(refused) => return refuse(refused.rule, refused.reason),
    };
    let epoch = report.epoch.as_str();
    let is_on_record = matches!(checked.signed, Signed::OnRecord);
    let no_longer_kept = !is_on_record
        && session.is_removed(&place(report, report.number))?
        && (matches!(checked.signed, Signed::By(_))
            || before_gone.contains(&checked.digest)
            || is_covered(session, report, &checked.digest)?);
    if no_longer_kept {
        before_gone.extend(checked.previous());
    }
    if is_on_record || no_longer_kept {
        return Ok(Ok(Taken {
            site,
            epoch: epoch.to_owned(),
            new: false,
            no_longer_kept,
        }));
    }
    let generation = match checked.signed {
        Signed::By(generation) => Some(generation),
        Signed::OnRecord | Signed::ByNobody(_) => None,
    };
    let mut begins = false;
    let present = generation == Some(known.key_generation);
    match (generation, session.epoch_key(&site, epoch)?) {
        // The newest key goes on where the one before stopped; that one still signs what came before.
        (Some(generation), Some((of_epoch, _))) if generation > of_epoch && present => {}
        (Some(generation), Some((of_epoch, Some(first))))
            if generation < of_epoch && report.number < first => {}
        (Some(generation), Some((of_epoch, _))) if of_epoch == generation => {}
        (Some(generation), None) if present => {
            session.start_epoch(report, generation)?;
            begins = true;
        }
        _ if is_covered(session, report, &checked.digest)? => {}
        (Some(_), Some(_)) => {
            let text = format!("epoch `{epoch}` is signed by another key of this site");
            return refuse("epoch-key", text);
        }
        (Some(_), None) => {
            let text = format!("a new epoch `{epoch}` signed by a key that was replaced");
            return refuse("retired-key", text);
        }
        (None, _) => {
            let Signed::ByNobody(problem) = &checked.signed else {
                return refuse(SIGNATURE, String::new());
            };
            return refuse(SIGNATURE, problem.clone());
        }
    }
    let new = match fits(session, report, &checked.digest)? {
        Ok(new) => new,
        Err(contradiction) => {
            if present {
                let conflict = conflicts::found(batch, checked.verified(), &contradiction);
                session.add_conflict(&conflict)?;
            }
            let reason = contradiction.reason;
            return Ok(Err(LineRefusal {
                site: Some(site.clone()),
                exchanged: generation.map(|_| (site, epoch.to_owned())),
                ..LineRefusal::new("exchanged", reason)
            }));
        }
    };
    if new {
        session.add_report(&NewReport {
            report,
            digest: &checked.digest,
            envelope: &checked.line,
            via: batch.via,
            received_ms: batch.received_ms,
        })?;
        if let Some(generation) = generation.filter(|generation| present && *generation > 1) {
            session.rekey_epoch(report, generation)?;
        }
        if present {
            conflicts::look(session, batch, checked.verified(), (&known, begins))?;
        }
        orders::reported(session, report)?;
    }
    Ok(Ok(Taken {
        site,
        epoch: epoch.to_owned(),
        new,
        no_longer_kept: false,
    }))
}
