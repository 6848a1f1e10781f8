//! One line of a batch: checked against its site's keys, then recorded where it fits.
//!
//! What comes in: an envelope of unknown origin. What goes out: a report on record, or the rule that refused
//! it. Checking only reads the store, so that it can happen beside it; recording looks the site up again.

use std::collections::BTreeSet;
use std::sync::Arc;

use outhaul_bundle::report::{PAYLOAD_TYPE, Report, ReportEvent};
use outhaul_bundle::{Digest, name::Name};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::PublicKey;
use serde::Deserialize;

use crate::chain::{fits, is_covered, out_of_range};
use crate::conflicts::{self, Verified};
use crate::known::BatchStore;
use crate::signed::{Signed, SignedReport, place};
use outhaul_enrol::orders;
use outhaul_store::{KnownEpoch, Registration, SiteKey, StoreError};

/// The rule of a signature that does not hold.
pub(crate) const SIGNATURE: &str = "signature";
/// The rule of a key that was replaced and may not have signed this.
pub(crate) const RETIRED_KEY: &str = "retired-key";

/// A report on record.
#[derive(Debug)]
pub(crate) struct RecordedReport {
    pub site: String,
    pub epoch: String,
    pub new: bool,
    /// It was on record once, and its number is known; its content is not.
    pub no_longer_kept: bool,
    /// It was on record, and its text, which was lost, is there again.
    pub restored: bool,
}

#[derive(Debug)]
pub(crate) struct LineRefusal {
    pub site: Option<String>,
    pub rule: &'static str,
    pub reason: String,
    /// A report that no key signed that may, but that the one after it could confirm.
    pub held: Option<Arc<SignedReport>>,
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

/// A line that claims to be of a site: read, and nothing of it verified.
#[derive(Debug)]
pub(crate) struct ClaimedLine {
    line: Vec<u8>,
    envelope: Envelope,
    site: Name,
    digest: String,
    /// What it reports, or what is wrong with that.
    report: Result<Report, String>,
}

/// What the store has to verify a line by.
#[derive(Debug)]
pub(crate) enum LineProof {
    /// What is on record, byte for byte, was verified when it came first.
    OnRecord,
    /// What is on record has another envelope, this one; the site's keys tell which of the two holds.
    Otherwise(Arc<Vec<SiteKey>>, Vec<u8>),
    /// It is on record by its digest, and its text there is lost.
    Lost(Arc<Vec<SiteKey>>),
    /// Its keys, the newest first: an older one may still sign what its own epochs had left to report.
    ByKeys(Arc<Vec<SiteKey>>),
}

/// Reads a line, which takes long and needs no store.
pub(crate) fn read_line(line: Vec<u8>) -> Result<ClaimedLine, LineRefusal> {
    let envelope = Envelope::from_json(&line)
        .map_err(|error| LineRefusal::new("malformed", error.to_string()))?;
    let payload = envelope.unverified_payload();
    let report = Report::from_bytes(payload).map_err(|error| error.to_string());
    let site = match &report {
        Ok(report) => report.site.clone(),
        Err(_) => match serde_json::from_slice::<Claim>(payload) {
            Ok(claim) => claim.site,
            Err(_) => return Err(LineRefusal::new("malformed", "the payload names no site")),
        },
    };
    Ok(ClaimedLine {
        digest: Digest::of(payload).to_string(),
        line,
        site,
        report,
        envelope,
    })
}

impl ClaimedLine {
    /// The site that it claims to be of.
    pub fn site(&self) -> &Name {
        &self.site
    }

    /// What it reports, where that can be read.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref().ok()
    }

    /// Its digest.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Verifies it, for the hub of `fleet`.
    pub fn verify(
        self,
        proof: &LineProof,
        fleet: &str,
    ) -> Result<Result<SignedReport, LineRefusal>, StoreError> {
        let signed = match proof {
            LineProof::OnRecord => Ok(Signed::OnRecord),
            LineProof::Otherwise(keys, stored) => {
                self.compare(&keys_of(self.site.as_str(), keys)?, stored)
            }
            LineProof::Lost(keys) => match self.check(&keys_of(self.site.as_str(), keys)?, fleet) {
                Ok(Signed::By(_)) => Ok(Signed::Restored),
                other => other,
            },
            LineProof::ByKeys(keys) => self.check(&keys_of(self.site.as_str(), keys)?, fleet),
        };
        let site = self.site.to_string();
        let signed_report = |report, signed| SignedReport {
            report,
            digest: self.digest,
            line: self.line,
            signed,
        };
        Ok(match (signed, self.report) {
            (Ok(Signed::ByNobody(problem)), Ok(report)) => Err(LineRefusal {
                site: Some(site),
                held: Some(Arc::new(signed_report(
                    report,
                    Signed::ByNobody(problem.clone()),
                ))),
                ..LineRefusal::new(SIGNATURE, problem)
            }),
            (Ok(signed), Ok(report)) => Ok(signed_report(report, signed)),
            (Ok(_), Err(problem)) => Err(LineRefusal {
                site: Some(site),
                ..LineRefusal::new("malformed", problem)
            }),
            (Err(refused), _) => Err(LineRefusal {
                site: Some(site),
                ..refused
            }),
        })
    }

    /// Whether it is these bytes.
    pub fn is_written(&self, bytes: &[u8]) -> bool {
        self.line.trim_ascii() == bytes.trim_ascii()
    }

    /// Which holds: this envelope, or the one on record of the same report. That the report is known makes no false signature good.
    fn compare(&self, keys: &[(PublicKey, i64)], stored: &[u8]) -> Result<Signed, LineRefusal> {
        let holds = |envelope: &Envelope| {
            let mut keys = keys.iter().map(|(key, _)| std::slice::from_ref(key));
            keys.any(|key| envelope.verify(PAYLOAD_TYPE, key).is_ok())
        };
        if !holds(&self.envelope) {
            let text =
                "the report is on record, and the signature of this copy of it does not hold";
            return Err(LineRefusal::new(SIGNATURE, text));
        }
        Ok(
            match Envelope::from_json(stored).is_ok_and(|stored| holds(&stored)) {
                true => Signed::OnRecord,
                false => Signed::Better,
            },
        )
    }

    fn check(&self, keys: &[(PublicKey, i64)], fleet: &str) -> Result<Signed, LineRefusal> {
        let refuse = |rule, reason: String| Err(LineRefusal::new(rule, reason));
        let (mut signed, mut problem) = (None, None);
        for (key, generation) in keys {
            match self
                .envelope
                .verify(PAYLOAD_TYPE, std::slice::from_ref(key))
            {
                Ok(_) => {
                    signed = Some(*generation);
                    break;
                }
                Err(error) => {
                    problem.get_or_insert(error);
                }
            }
        }
        let Some(generation) = signed else {
            let text = problem.map_or_else(|| "no key is on record".to_owned(), |e| e.to_string());
            return match &self.report {
                Ok(report) if report.fleet.as_str() == fleet && out_of_range(report).is_none() => {
                    Ok(Signed::ByNobody(text))
                }
                _ => refuse(SIGNATURE, text),
            };
        };
        let report = match &self.report {
            Ok(report) => report,
            Err(problem) => return refuse("malformed", problem.clone()),
        };
        if report.fleet.as_str() != fleet {
            let (expected, found) = (fleet, &report.fleet);
            return refuse(
                "fleet",
                format!("expected fleet `{expected}`, found `{found}`"),
            );
        }
        if let Some(problem) = out_of_range(report) {
            return refuse("malformed", problem);
        }
        Ok(Signed::By(generation))
    }
}

fn keys_of(site: &str, stored: &[SiteKey]) -> Result<Vec<(PublicKey, i64)>, StoreError> {
    let key = |stored: &SiteKey| {
        let key = PublicKey::from_pem(&stored.public_key).map_err(|_| StoreError::Corrupt {
            what: format!("key of site `{site}`"),
        })?;
        Ok((key, stored.generation))
    };
    stored.iter().map(key).collect()
}

/// Read before anything is verified, only to know whose key to ask for.
#[derive(Debug, Deserialize)]
struct Claim {
    site: Name,
}

/// The site's registration, or why nothing of it is taken.
pub(crate) fn registered(
    known: Option<Registration>,
    site: &Name,
) -> Result<Registration, LineRefusal> {
    let Some(known) = known else {
        let help = "register it with `outhaul-hub site add` and import again";
        let text = format!("site `{site}` is not registered; {help}");
        return Err(LineRefusal::new("unknown-site", text));
    };
    if known.revoked_ms.is_some() {
        let text = format!("site `{site}` is revoked");
        return Err(LineRefusal::new("revoked", text));
    }
    Ok(known)
}

/// Why the hub alone reports for a site. That goes for an older key, too, which may still go on with its own numbering elsewhere: nothing
/// shows when it signed.
fn of_webhook_site(site: &str, is_older: bool) -> (&'static str, String) {
    let rule = match is_older {
        true => RETIRED_KEY,
        false => "webhook-site",
    };
    let text = format!(
        "site `{site}` is registered to report by webhook, and the hub alone makes its reports: what others sign for it is not accepted"
    );
    (rule, text)
}

/// Records a checked report, in the transaction in which its site is looked up again. `before_gone` has the digests that reports
/// which are no longer kept name as the ones before them: what is on record confirms none of these any more.
pub(crate) fn record_report(
    known: &mut BatchStore<'_, '_>,
    checked: &Arc<SignedReport>,
    before_gone: &mut BTreeSet<String>,
) -> Result<Result<RecordedReport, LineRefusal>, StoreError> {
    let report = &checked.report;
    let site = report.site.to_string();
    let refuse = |rule, reason: String| {
        Ok(Err(LineRefusal {
            site: Some(report.site.to_string()),
            ..LineRefusal::new(rule, reason)
        }))
    };
    let registration = match registered(known.site(&site)?, &report.site) {
        Ok(registration) => registration,
        Err(refused) => return refuse(refused.rule, refused.reason),
    };
    let epoch = report.epoch.as_str();
    let is_on_record = checked.signed.is_on_record();
    let no_longer_kept = !is_on_record
        && known.is_removed(&place(report, report.number))?
        && (matches!(checked.signed, Signed::By(_))
            || before_gone.contains(&checked.digest)
            || is_covered(known, report, &checked.digest)?);
    if no_longer_kept {
        before_gone.extend(checked.previous());
    }
    let is_better = matches!(checked.signed, Signed::Better | Signed::Restored);
    let restored = is_better && known.replace(checked)?;
    if is_on_record || no_longer_kept {
        return Ok(Ok(RecordedReport {
            site,
            epoch: epoch.to_owned(),
            new: false,
            no_longer_kept,
            restored,
        }));
    }
    let generation = checked.signed.generation();
    if known.comes_another_way(report) {
        let is_older = generation.is_some_and(|signed| signed < registration.key_generation);
        let (rule, text) = of_webhook_site(&site, is_older);
        return refuse(rule, text);
    }
    let mut begins = false;
    let present = generation == Some(registration.key_generation);
    match (generation, known.epoch(report)?) {
        // The newest key goes on where the one before stopped; that one still signs what came before.
        (Some(generation), Some(of_epoch)) if generation > of_epoch.key_generation && present => {}
        (
            Some(generation),
            Some(KnownEpoch {
                key_generation,
                rekeyed_at: Some(first),
                ..
            }),
        ) if generation < key_generation && report.number < first => {}
        (Some(generation), Some(of_epoch)) if of_epoch.key_generation == generation => {}
        (Some(generation), None) if present => {
            known.start_epoch(report, generation)?;
            begins = true;
        }
        _ if is_covered(known, report, &checked.digest)? => {}
        (Some(_), Some(_)) => {
            let text = format!("epoch `{epoch}` is signed by another key of this site");
            return refuse("epoch-key", text);
        }
        (Some(_), None) => {
            let text = format!("a new epoch `{epoch}` signed by a key that was replaced");
            return refuse(RETIRED_KEY, text);
        }
        (None, _) => {
            let Signed::ByNobody(problem) = &checked.signed else {
                return refuse(SIGNATURE, String::new());
            };
            return refuse(SIGNATURE, problem.clone());
        }
    }
    let new = match fits(known, report, &checked.digest)? {
        Ok(new) => new,
        Err(contradiction) => {
            if present {
                let conflict =
                    conflicts::found(known.batch(), Verified::of(checked), &contradiction);
                known.of_site(&site)?.add_conflict(&conflict)?;
            }
            let reason = contradiction.reason;
            return Ok(Err(LineRefusal {
                site: Some(site.clone()),
                exchanged: generation.map(|_| (site, epoch.to_owned())),
                ..LineRefusal::new("exchanged", reason)
            }));
        }
    };
    let restored = !new && known.replace(checked)?;
    if new {
        add(known, checked, (&registration, begins))?;
    }
    Ok(Ok(RecordedReport {
        site,
        epoch: epoch.to_owned(),
        new,
        no_longer_kept: false,
        restored,
    }))
}

/// Puts a report on record, and what follows from it.
fn add(
    known: &mut BatchStore<'_, '_>,
    checked: &Arc<SignedReport>,
    (site, begins): (&Registration, bool),
) -> Result<(), StoreError> {
    let report = &checked.report;
    known.add(checked);
    if let Signed::By(generation) = checked.signed
        && generation == site.key_generation
    {
        known.rekey_epoch(report, generation)?;
        conflicts::look(known, Verified::of(checked), (site, begins))?;
    }
    if matches!(report.event, ReportEvent::OrderDone { .. }) {
        orders::reported(known.of_site(&site.site)?, report)?;
        known.forget_site(&site.site);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
