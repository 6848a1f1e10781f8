//! Getting reports home: to a stick, or to the hub over HTTPS, in any mix.
//!
//! What comes in: the outbox. What goes out: files under `reports/`, or a POST whose signed answer is the
//! only thing that lets a row leave the outbox. A lost stick or a torn connection costs nothing: what was
//! not acknowledged goes again, and the hub counts each once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{ReportsAnswer, RequestAnswer, path};
use outhaul_bundle::name::Name;
use outhaul_bundle::report::{MAX_ENROLMENT_REQUEST_BYTES, MAX_REPORTS_AT_ONCE_BYTES};
use outhaul_kit::media::Media;
use outhaul_signer::Envelope;

use crate::acks;
use crate::agent::Agent;
use crate::durable;
use crate::error::AgentError;
use crate::orders;
use crate::runner::tidy;
use crate::state::outbox::{self, WaitingReports};
use crate::state::{self, StateError, key};

pub mod former;
pub mod refusal;

use outhaul_site::state::refusal::HubRefusal;

/// Most bytes in one POST or file: half of what the hub takes at once.
const MAX_BATCH_BYTES: usize = MAX_REPORTS_AT_ONCE_BYTES / 2;
/// Largest answer, in bytes. 1 MiB: acknowledgements of one site's epochs and 200 refused lines.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024;
/// A medium is an untrusted folder: ordinary permissions, so that the next machine can read it.
const MODE: u32 = 0o644;
/// Most batches in one go.
const MAX_BATCHES: usize = 1_000;

/// What was written to a medium.
#[derive(Debug, Default)]
pub struct Exported {
    /// How many reports.
    pub reports: u64,
    /// How many reports of former databases beside these.
    pub former: u64,
    /// Reports of former databases that cannot be read, and why.
    pub unread: Vec<String>,
    /// Into which files.
    pub files: Vec<PathBuf>,
    /// The enrolment request, while the hub or the centre has not shown that it knows this site's key.
    pub request: Option<PathBuf>,
}

/// What this process wrote to a medium that has stayed in its place since.
#[derive(Debug, Clone, Default)]
pub struct OnMedium {
    /// The last report that is on it, and the numbering that it belongs to.
    last: Option<(Name, u64)>,
    /// How many reports were written to it.
    written: u64,
    /// The file with that report, relative to the medium.
    newest: Option<PathBuf>,
    /// The enrolment request that is on it: its file and its content.
    request: Option<(PathBuf, Digest)>,
    /// Files with reports of former databases that are on it, or cannot be read, relative to the medium.
    former: BTreeSet<PathBuf>,
}

impl OnMedium {
    /// The last report that is on it; 0 when there is none.
    pub fn last(&self) -> u64 {
        self.last.as_ref().map_or(0, |(_, number)| *number)
    }

    /// How many reports were written to it.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// After which report the next file begins.
    fn after(&self, epoch: &Name) -> u64 {
        let same = self.last.as_ref().filter(|(of, _)| of == epoch);
        same.map_or(0, |(_, number)| *number)
    }

    /// Forgets everything when what was written last is not there: someone put another medium into this place.
    fn forget_if_exchanged(&mut self, media: &Media) {
        let request = self.request.as_ref().map(|(file, _)| file);
        let mut written = self.newest.iter().chain(request).chain(&self.former);
        if written.any(|file| media.marks(file).is_none()) {
            *self = Self::default();
        }
    }
}

/// What came of sending.
#[expect(
    clippy::struct_field_names,
    reason = "how many were sent is what the word says"
)]
#[derive(Debug, Default)]
pub struct Sent {
    /// How many reports were sent.
    pub sent: u64,
    /// How many reports of former databases were sent beside these.
    pub former: u64,
    /// How many of these the hub acknowledged with its signature.
    pub former_acknowledged: u64,
    /// How many of this site's own numbering the hub acknowledged.
    pub acknowledged: u64,
    /// What the hub said to the enrolment request, while it is not approved.
    pub request: Option<String>,
    /// Reports of former databases that cannot be read, and why.
    pub unread: Vec<String>,
    /// What the hub refused, in its words.
    pub refused: Vec<String>,
    /// Why it takes nothing of this site, if so.
    pub of_site: Option<HubRefusal>,
}

/// Writes all waiting reports below `folder`, durably. They stay in the outbox until acknowledged.
///
/// # Errors
/// [`AgentError::Export`] for a full or read-only medium; nothing is lost.
pub fn export(agent: &mut Agent, folder: &Path) -> Result<Exported, AgentError> {
    export_newer(agent, folder, &mut OnMedium::default())
}

/// The same, without what is `there` already. What was written before a failure counts as written.
///
/// # Errors
/// As [`export`].
pub fn export_newer(
    agent: &mut Agent,
    folder: &Path,
    there: &mut OnMedium,
) -> Result<Exported, AgentError> {
    write_reports(agent, folder, there).map_err(|error| match error {
        AgentError::File(error) => AgentError::Export(error),
        other => other,
    })
}

/// Whether something is to be written that is not `there`.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn has_newer(agent: &Agent, media: &Media, there: &mut OnMedium) -> Result<bool, AgentError> {
    there.forget_if_exchanged(media);
    let after = there.after(&agent.site.epoch);
    if former::has_newer(agent, there) || !outbox::waiting(agent.store.read(), after, 1)?.is_empty()
    {
        return Ok(true);
    }
    let request = wanted_request(agent, orders::request_travels(agent)?)?;
    let known = there.request.as_ref().map(|(_, digest)| *digest);
    Ok(request.is_some_and(|bytes| known != Some(Digest::of(&bytes))))
}

fn write_reports(
    agent: &mut Agent,
    folder: &Path,
    there: &mut OnMedium,
) -> Result<Exported, AgentError> {
    let media = Media::open(folder)?;
    there.forget_if_exchanged(&media);
    let mut exported = Exported::default();
    let request = agent.state_folder.request(agent.site.name.as_str());
    if let Some(bytes) = wanted_request(agent, orders::request_travels(agent)?)? {
        let to = Path::new("requests").join(request.file_name().unwrap_or_default());
        media.write(&to, &bytes, MODE)?;
        exported.request = Some(folder.join(&to));
        there.request = Some((to, Digest::of(&bytes)));
    }
    former::export(agent, (&media, folder), there, &mut exported)?;
    let mut after = there.after(&agent.site.epoch);
    for _ in 0..MAX_BATCHES {
        let batch = outbox::waiting(agent.store.read(), after, MAX_BATCH_BYTES)?;
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
            break;
        };
        // What leaves this site is known here before it does, also when the database is exchanged for an older copy.
        tidy::keep_identity(agent)?;
        let name = outbox::file_name(&agent.site, first.number, last.number);
        let to = Path::new("reports").join(name);
        media.write(&to, &lines(&batch), MODE)?;
        agent.heartbeat.beat();
        after = last.number;
        there.last = Some((agent.site.epoch.clone(), after));
        exported.reports += batch.len() as u64;
        there.written += batch.len() as u64;
        exported.files.push(folder.join(&to));
        there.newest = Some(to);
    }
    media.sync()?;
    Ok(exported)
}

/// The enrolment request, while it is `wanted`.
fn wanted_request(agent: &Agent, wanted: bool) -> Result<Option<Vec<u8>>, AgentError> {
    if !wanted {
        return Ok(None);
    }
    let path = agent.state_folder.request(agent.site.name.as_str());
    Ok(durable::read_if_present(
        &path,
        MAX_ENROLMENT_REQUEST_BYTES as u64,
    )?)
}

/// Sends the enrolment request while it is not answered, and all waiting reports, to the hub.
///
/// # Errors
/// [`AgentError::NoAnswer`] and [`AgentError::Network`]; what was not acknowledged stays in the outbox.
pub fn send(agent: &mut Agent) -> Result<Sent, AgentError> {
    let url = hub_url(agent).ok_or_else(|| AgentError::Usage {
        message: "this site knows no hub".into(),
        help: "set `hub.url` in agent.toml, or use `outhaul-agent export FOLDER`".into(),
    })?;
    let ca = agent.config.hub.ca.as_deref();
    let client = agent.facilities.server(&url, ca, &agent.site.hub_ca)?;
    tidy::keep_identity(agent)?;
    let mut sent = Sent::default();
    if let Some(request) = wanted_request(agent, orders::request_waits(agent.store.read())?)? {
        // A hub that does not take it says so; the reports are tried all the same.
        match client.post(path::REQUESTS, &request, MAX_ANSWER_BYTES) {
            Ok(answer) => {
                let answer: Option<RequestAnswer> = serde_json::from_slice(&answer).ok();
                // A newer hub may know more words.
                let unclear = || "unclear".to_owned();
                sent.request =
                    Some(answer.map_or_else(unclear, |answer| answer.result.to_string()));
            }
            // Nobody is there for the reports either: another minute is not waited.
            Err(error @ AgentError::NoAnswer { .. }) => return Err(error),
            Err(error) => sent.refused.push(error.to_string()),
        }
    }
    former::send(agent, &*client, &mut sent)?;
    let mut after = 0;
    let mut refused = Vec::new();
    for _ in 0..MAX_BATCHES {
        let batch = outbox::waiting(agent.store.read(), after, MAX_BATCH_BYTES)?;
        let Some(last) = batch.last() else { break };
        tidy::keep_identity(agent)?;
        agent.heartbeat.beat();
        let answer = client.post(path::REPORTS, &lines(&batch), MAX_ANSWER_BYTES)?;
        let answer: ReportsAnswer = serde_json::from_slice(&answer).map_err(|error| {
            let problem = format!("the hub's answer cannot be read: {error}");
            AgentError::Network {
                url: client.url(path::REPORTS),
                problem,
            }
        })?;
        let envelopes = envelopes(&answer);
        let epoch = agent.site.epoch.clone();
        after = last.number;
        sent.sent += batch.len() as u64;
        let accepted = acks::accept(agent, &envelopes)?;
        sent.acknowledged += accepted.gone;
        // It was signed a moment ago.
        if let Some(hub_time_ms) = accepted.hub_time_ms {
            note_hub_clock(agent, hub_time_ms)?;
        }
        if agent.site.epoch != epoch {
            // Renumbered: all of it goes again.
            after = 0;
        }
        sent.refused.extend(
            answer
                .refused
                .iter()
                .map(|line| outhaul_reconcilers::shortened(&serde_json::json!(line).to_string())),
        );
        refused.extend(answer.refused);
    }
    if sent.sent > 0 {
        sent.of_site = refusal::note(agent, &url, &refused)?;
    }
    Ok(sent)
}

/// The signed acknowledgements of an answer.
fn envelopes(answer: &ReportsAnswer) -> Vec<Envelope> {
    let values = answer.acks.iter();
    values
        .filter_map(|value| Envelope::from_json(value.to_string().as_bytes()).ok())
        .collect()
}

/// How far the clocks of the hub and of this machine may be apart, milliseconds, before it is named.
const CLOCKS_AGREE_MS: i64 = 60_000;

/// Remembers how far the hub's clock is from this machine's, for `status`.
fn note_hub_clock(agent: &mut Agent, hub_time_ms: i64) -> Result<(), AgentError> {
    agent.commit(|db, author| {
        let ahead_ms = hub_time_ms.saturating_sub(author.reading.wall_ms());
        let named = ahead_ms.saturating_abs() > CLOCKS_AGREE_MS;
        let before: Option<i64> = state::meta(db, key::HUB_CLOCK)?;
        if named || before.is_some() {
            state::set_meta(db, key::HUB_CLOCK, Some(&ahead_ms).filter(|_| named))?;
        }
        Ok::<_, AgentError>(())
    })
}

/// The hub's URL: the owner's, or the kit's.
pub fn hub_url(agent: &Agent) -> Option<String> {
    let kit = Some(agent.site.hub_url.clone()).filter(|url| !url.is_empty());
    agent.config.hub.url.clone().or(kit)
}

/// Queues an event that is not about a bundle's way: a start, a person's decision.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn queue(
    agent: &mut Agent,
    event: outhaul_bundle::report::ReportEvent,
) -> Result<u64, AgentError> {
    agent
        .commit(|db, author| outbox::queue(db, author, event))
        .map_err(|error: StateError| error.into())
}

fn lines(batch: &[WaitingReports]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in batch {
        bytes.extend_from_slice(&row.envelope);
        bytes.push(b'\n');
    }
    bytes
}
