//! Webhooks over HTTP: events of Flux and Argo CD about sites on which no agent runs.
//!
//! What comes in: a bounded body with a proof of the site's secret. What goes out: what became of the event. The proof is checked before
//! anything of the body is read; a site that is not known and a proof that does not hold get one answer, so that nobody learns names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outhaul_bundle::hub_api::{ErrorAnswer, MAX_WEBHOOK_BYTES, WebhookAnswer, path};
use outhaul_bundle::report::WebhookSender;
use outhaul_listen::Peer;
use outhaul_signer::key::SigningKey;
use outhaul_webhooks::{
    KnownRecord, SIGNATURE_HEADER, WebhookError, WebhookEvent, WebhookSettings, fetch, is_proven,
    needed, parse,
};
use tokio::sync::{OnceCell, Semaphore};

use super::body;
use super::problem::{Answers, Nothing, Params, Problem};
use super::refusal::refused;
use super::shared::{Shared, off_the_loop};
use super::shown::sorted;
use crate::error::HubError;
use crate::store::WebhookSite;
use crate::time;

/// The rules that what is sent breaks before it is an event.
const PROOF: &str = "webhook-proof";
const MALFORMED: &str = "webhook-malformed";
/// Records that are fetched at once, of all sites.
const FETCHED_AT_ONCE: usize = 8;
const NO_PROOF: &str = "no site reports here with this secret: compare the address and the secret with those that `outhaul-hub site \
                        webhook` printed";

/// An event of a site on which no agent runs.
#[utoipa::path(
    post,
    path = path::WEBHOOK,
    operation_id = "webhook",
    tag = "send",
    security(()),
    summary = "Take in an event of Flux or Argo CD about a site without an agent",
    params(
        ("sender" = String, Path, description = "`flux` or `argocd`"),
        ("site" = String, Path, description = "The site", max_length = 253),
        ("x-signature" = Option<String>, Header, description = "Of Flux: `sha256=` and the HMAC of the body with the site's secret"),
        ("authorization" = Option<String>, Header, description = "Of Argo CD: `Bearer` and the site's secret"),
    ),
    request_body(content = String, content_type = "application/json", description = "What Flux's provider `generic-hmac` or the documented template of Argo CD sends; 256 KiB at most"),
    responses(
        (status = 200, description = "It is on record, known already, or about an object that the site was not registered with", body = WebhookAnswer),
        (status = 401, description = "No site of this name reports here with this secret", body = ErrorAnswer),
        (status = 408, description = "The body stopped; send it again", body = ErrorAnswer),
        (status = 413, description = "The body is too large", body = ErrorAnswer),
        (status = 422, description = "It breaks a rule, which is named", body = ErrorAnswer),
        (status = 429, description = "The site sends too many", body = ErrorAnswer),
        Answers,
    )
)]
pub(super) async fn take(
    State(shared): State<Arc<Shared>>,
    Path((sender, site)): Path<(String, String)>,
    Params(Nothing {}): Params<Nothing>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let smaller = "no event is of that size";
    let bytes = body::whole(&shared.requests, peer, body, MAX_WEBHOOK_BYTES, smaller).await?;
    let now_ms = time::now_ms();
    let Some((sender, known, key)) = proven(&shared, (sender, site), &headers, &bytes).await?
    else {
        let status = StatusCode::UNAUTHORIZED;
        return refused(&shared, status, PROOF, NO_PROOF.to_owned(), now_ms).await;
    };
    shared.webhooks.rate.spend(&known.site, now_ms)?;
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    let event = match parse(sender, &bytes) {
        Ok(event) => event,
        Err(why) => {
            let text = format!("site `{}`: {why}", known.site);
            return refused(&shared, unprocessable, MALFORMED, text, now_ms).await;
        }
    };
    // Before the forge is asked: what is of no use does not keep it busy.
    if let Err(refusal) = outhaul_webhooks::check(&known.site, &event, now_ms) {
        let rule = format!("webhook-{}", refusal.rule);
        let text = format!("site `{}`: {}", known.site, refusal.reason);
        return refused(&shared, unprocessable, &rule, text, now_ms).await;
    }
    if is_revoked(&shared, &known.site).await? {
        let text = format!("site `{0}`: site `{0}` is revoked", known.site);
        return refused(&shared, unprocessable, "webhook-report", text, now_ms).await;
    }
    let record = record(&shared, &known, &event).await?;
    let counted = Arc::clone(&shared);
    let name = known.site.clone();
    let done = shared
        .change(move |hub| {
            let fleet = hub.fleet().to_owned();
            let done = hub.store.write(|session| {
                let by = (fleet.as_str(), &key);
                outhaul_webhooks::receive(session, by, &known, &event, record, now_ms)
            });
            match done {
                Err(WebhookError::Store(error)) => Err(error.into()),
                other => Ok(other),
            }
        })
        .await?;
    match done {
        Ok(received) => {
            if let Some(ingested) = &received.ingested {
                counted.counters.add(ingested);
            }
            Ok(sorted(&received.answer).into_response())
        }
        Err(error) => {
            let rule = match &error {
                WebhookError::Refused(refusal) => format!("webhook-{}", refusal.rule),
                _ => "webhook-registration".to_owned(),
            };
            let text = format!("site `{name}`: {error}");
            refused(&shared, unprocessable, &rule, text, now_ms).await
        }
    }
}

/// The site whose secret the request shows, with who sends and the key of its reports.
async fn proven(
    shared: &Arc<Shared>,
    (sender, site): (String, String),
    headers: &HeaderMap,
    bytes: &[u8],
) -> Result<Option<(WebhookSender, WebhookSite, SigningKey)>, Problem> {
    let Ok(sender) = sender.parse::<WebhookSender>() else {
        return Ok(None);
    };
    let known = shared
        .look(move |store, _| Ok(store.read(|session| session.webhook_site(&site))?))
        .await?;
    let header = match sender {
        WebhookSender::Flux => SIGNATURE_HEADER,
        WebhookSender::Argocd => header::AUTHORIZATION.as_str(),
    };
    let shown = headers.get(header).and_then(|value| value.to_str().ok());
    let (Some(known), Some(shown), Some(secrets)) = (known, shown, &shared.webhooks.secrets) else {
        return Ok(None);
    };
    let secret = secrets.secret(&shared.fleet, &known.site, &known.salt);
    let holds = known.sender == sender.as_str() && is_proven(sender, &secret, shown, bytes);
    Ok(holds.then(|| {
        let key = secrets.report_key(&shared.fleet, &known.site, &known.salt);
        (sender, known, key)
    }))
}

/// Whether nothing of a site is taken any more.
async fn is_revoked(shared: &Arc<Shared>, site: &str) -> Result<bool, Problem> {
    let site = site.to_owned();
    let known = shared.look(move |store, _| Ok(store.read(|session| session.site(&site))?));
    Ok(known.await?.is_some_and(|known| known.revoked_ms.is_some()))
}

/// The record of the commit that the site shows after the event, or why it cannot be read; `None` where none is needed.
async fn record(
    shared: &Shared,
    known: &WebhookSite,
    event: &WebhookEvent,
) -> Result<Option<Result<outhaul_webhooks::KnownRecord, String>>, Problem> {
    let Ok((settings, shown)) = outhaul_webhooks::read(known) else {
        // What is wrong with it is said where the event is put on record.
        return Ok(None);
    };
    let Some(commit) = needed(&shown, &settings, event) else {
        return Ok(None);
    };
    Ok(Some(shared.webhooks.records.of(settings, commit).await?))
}

/// A record, or why it cannot be read.
type Fetched = Result<KnownRecord, String>;

/// Fetching of records: of each one at a time, and few in all, so that a slow forge holds few threads.
#[derive(Debug)]
pub(super) struct Records {
    permits: Arc<Semaphore>,
    /// Those that are being fetched, by all that they depend on.
    running: Mutex<BTreeMap<String, Weak<OnceCell<Fetched>>>>,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(FETCHED_AT_ONCE)),
            running: Mutex::default(),
        }
    }
}

impl Records {
    /// The record of a commit. Who asks for one that is being fetched gets the same.
    async fn of(&self, settings: WebhookSettings, commit: String) -> Result<Fetched, Problem> {
        let of = (
            &settings.record,
            &settings.ca,
            &settings.stream.cluster_type,
        );
        let key = format!("{of:?} {commit}");
        let cell = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.retain(|_, cell| cell.strong_count() > 0);
            let found = running.get(&key).and_then(Weak::upgrade);
            found.unwrap_or_else(|| {
                let made = Arc::default();
                running.insert(key, Arc::downgrade(&made));
                made
            })
        };
        let fetched = cell.get_or_try_init(|| async {
            let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
                let text = format!("{FETCHED_AT_ONCE} other records are being fetched: it is read with the next event");
                return Ok::<_, HubError>(Err(text));
            };
            off_the_loop(move || {
                let fetched = fetch(&settings, &commit);
                // Held as long as the thread is, also where nobody waits any more.
                drop(permit);
                Ok(fetched)
            })
            .await
        });
        Ok(fetched.await?.clone())
    }
}
