//! An event put on record: a report of the site, signed with the key that the hub derives for it, and taken in like any other.
//!
//! What comes in: a session that writes, a registration and the key of its reports, an event whose secret was checked, and the record that its
//! commit needs. What goes out: what became of it. State and report are written in the session's transaction, so that an event that is
//! answered with success is on record, and two at once make two reports.

use outhaul_bundle::hub_api::{WebhookAnswer, WebhookOutcome};
use outhaul_bundle::name::Name;
use outhaul_bundle::report::{ClusterEvent, FORMAT, PAYLOAD_TYPE, Report, ReportEvent, SiteTime};
use outhaul_bundle::{Digest, report};
use outhaul_ingest::{Batch, Ingested, Intake};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::SigningKey;
use outhaul_store::{Session, StoreError, WebhookSite};

use crate::cluster::without_details;
use crate::desired;
use crate::event::WebhookEvent;
use crate::record::KnownRecord;
use crate::seen::MAX_SEEN;
use crate::settings::WebhookSettings;
use crate::shown::{Change, CheckedEvent, Shown, WebhookRefusal};

/// By which transport such a report comes.
const VIA: &str = "webhook";

/// What became of an event, and of the report that was made of it.
#[derive(Debug)]
pub struct Received {
    /// The answer.
    pub answer: WebhookAnswer,
    /// What the intake counted, where a report was made.
    pub ingested: Option<Ingested>,
}

/// Why an event is not on record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// It breaks a rule.
    #[error("{}", .0.reason)]
    Refused(WebhookRefusal),
    /// The registration cannot be read.
    #[error(
        "the registration of site `{site}` cannot be read: {problem}; register it again with `outhaul-hub site webhook`"
    )]
    Registration {
        /// The site.
        site: String,
        /// What is wrong.
        problem: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The commit of which the record is needed to put an event on record; `None` where it is known, or where the objects show none
/// or several.
pub(crate) fn needed(
    shown: &Shown,
    settings: &WebhookSettings,
    event: &WebhookEvent,
    now_ms: i64,
) -> Option<String> {
    let commit = shown.commit_after(settings, event, now_ms)?;
    let known = shown.record.as_ref();
    let is_known = known.is_some_and(|record| record.is_of(&commit));
    (!is_known).then_some(commit)
}

/// Puts an event of `site` on record. `record` is what [`Records::after`](crate::Records::after) gave for it.
///
/// # Errors
/// [`WebhookError`]; nothing is written then.
pub fn receive(
    session: &Session<'_>,
    (fleet, key): (&str, &SigningKey),
    site: &WebhookSite,
    CheckedEvent(event): &CheckedEvent,
    record: Option<Result<KnownRecord, String>>,
    now_ms: i64,
) -> Result<Received, WebhookError> {
    let unreadable = |problem: String| WebhookError::Registration {
        site: site.site.clone(),
        problem,
    };
    // Read again in this transaction: another event may have come in between.
    let site = &match session.webhook_site(&site.site)? {
        Some(found) if found.salt == site.salt => found,
        _ => {
            let reason = "the site was registered again meanwhile".to_owned();
            let rule = "registered-again";
            return Err(WebhookError::Refused(WebhookRefusal { rule, reason }));
        }
    };
    let (settings, mut shown) = read(site).map_err(unreadable)?;
    let sender = site.sender.parse().map_err(unreadable)?;
    let answer = |result, state: Option<&str>, message: &str| WebhookAnswer {
        result,
        object: event.object.clone(),
        state: state.map(str::to_owned),
        message: message.to_owned(),
    };
    if !shown.has_room(event, now_ms) {
        let rule = "too-many";
        let reason = format!(
            "{MAX_SEEN} events came within an hour, and no more are remembered: have the cluster send fewer; a failure is taken in any case"
        );
        return Err(WebhookError::Refused(WebhookRefusal { rule, reason }));
    }
    let change = shown.take(&settings, event, now_ms);
    if change == Change::Known {
        let text =
            "this event, or a later one of the object, is on record already: it changes nothing";
        return Ok(Received {
            answer: answer(WebhookOutcome::Known, None, text),
            ingested: None,
        });
    }
    let text =
        |shown: &Shown| serde_json::to_string(shown).map_err(|error| unreadable(error.to_string()));
    if change == Change::Foreign {
        session.set_webhook_shown(&site.site, &text(&shown)?)?;
        let why = "the site was not registered with this object: `outhaul-hub sites` names it, and it changes nothing";
        return Ok(Received {
            answer: answer(WebhookOutcome::Foreign, None, why),
            ingested: None,
        });
    }
    let problem = match record {
        Some(Ok(fetched)) => {
            shown.record = Some(fetched);
            None
        }
        Some(Err(problem)) => Some(problem),
        None => None,
    };
    let compared = match (&problem, &mut shown.record) {
        (None, Some(record)) => Some(desired::compare(session, &site.site, &settings, record)?),
        _ => None,
    };
    let known = match &problem {
        Some(problem) => Err(problem.as_str()),
        None => Ok(shown.record.as_ref().zip(compared.as_ref())),
    };
    let cluster = shown.cluster(sender, &settings, event, known, now_ms);
    let report = report_of((fleet, site), &shown, event, cluster, now_ms).map_err(unreadable)?;
    let ReportEvent::Cluster(cluster) = &report.event else {
        return Err(unreadable("it is no report of a cluster".to_owned()));
    };
    let (state, message) = (cluster.state, cluster.message.clone());
    let ingested = take_in(session, (fleet, key), &report, now_ms)?;
    shown.number = report.number;
    shown.digest = Digest::of(&report.to_bytes()).to_string();
    session.set_webhook_shown(&site.site, &text(&shown)?)?;
    Ok(Received {
        answer: answer(WebhookOutcome::Recorded, Some(state.as_str()), &message),
        ingested: Some(ingested),
    })
}

/// The report of what a site shows, the next one of its registration.
fn report_of(
    (fleet, site): (&str, &WebhookSite),
    shown: &Shown,
    event: &WebhookEvent,
    cluster: ClusterEvent,
    now_ms: i64,
) -> Result<Report, String> {
    let name = |text: &str| text.parse::<Name>().map_err(|error| error.to_string());
    let previous = match shown.digest.as_str() {
        "" => None,
        digest => Some(
            digest
                .parse::<Digest>()
                .map_err(|error| error.to_string())?,
        ),
    };
    let mut report = Report {
        format: FORMAT.to_owned(),
        fleet: name(fleet)?,
        site: name(&site.site)?,
        epoch: name(&epoch(&site.salt))?,
        number: shown.number + 1,
        previous,
        at: SiteTime {
            wall_ms: event.at_ms,
            // What is dated ahead was not later than it came.
            lower_bound_ms: event.at_ms.min(now_ms),
            // Nobody vouches for the cluster's clock.
            trusted: false,
        },
        event: ReportEvent::Cluster(Box::new(cluster)),
    };
    if report.to_bytes().len() > report::MAX_REPORT_BYTES
        && let ReportEvent::Cluster(cluster) = &mut report.event
    {
        without_details(cluster);
    }
    Ok(report)
}

/// The numbering of the reports of one registration.
fn epoch(salt: &str) -> String {
    format!("webhook-{salt}")
}

/// What a site was registered with, and showed last.
pub(crate) fn read(site: &WebhookSite) -> Result<(WebhookSettings, Shown), String> {
    let settings = serde_json::from_str(&site.settings).map_err(|error| error.to_string())?;
    let shown = Shown::from_text(&site.shown).map_err(|error| error.to_string())?;
    Ok((settings, shown))
}

fn take_in(
    session: &Session<'_>,
    (fleet, key): (&str, &SigningKey),
    report: &Report,
    now_ms: i64,
) -> Result<Ingested, WebhookError> {
    let refused = |rule, reason: String| WebhookError::Refused(WebhookRefusal { rule, reason });
    let payload = report.to_bytes();
    if payload.len() > report::MAX_REPORT_BYTES {
        return Err(refused(
            "oversized",
            "what it shows is more than a report holds".to_owned(),
        ));
    }
    let mut line = Envelope::sign(PAYLOAD_TYPE, payload, key).to_json();
    line.push(b'\n');
    let batch = Batch {
        fleet,
        via: VIA,
        received_ms: now_ms,
    };
    let mut intake = Intake::of_webhooks();
    let mut lines = line.as_slice();
    if let Ok(Some(chunk)) = intake.chunk(&mut lines, VIA, 1) {
        let checked = intake.check(session, &batch, chunk)?;
        intake.record(session, &batch, checked)?;
    }
    let done = intake.finish(session)?;
    match (done.accepted, done.refused.first()) {
        (1, _) => Ok(done),
        (_, Some(line)) => Err(refused("report", line.reason.clone())),
        _ => Err(refused(
            "report",
            "the report that was made of it is not new".to_owned(),
        )),
    }
}
