//! Webhooks over HTTP: events of Flux and Argo CD about sites on which no agent runs.
//!
//! What comes in: a bounded body with a proof of the site's secret. What goes out: what became of the event. The proof is checked before
//! anything of the body is read; a site that is not known and a proof that does not hold get one answer, so that nobody learns names.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use outhaul_bundle::hub_api::{ErrorAnswer, MAX_WEBHOOK_BYTES, WebhookAnswer, path};
use outhaul_bundle::report::{ObjectStatus, WebhookSender};
use outhaul_listen::Peer;
use outhaul_signer::key::SigningKey;
use outhaul_webhooks::{Claim, RULES, WebhookError, parse, proof_header};

use super::body;
use super::problem::{Answers, Nothing, Params, Problem};
use super::refusal::refused;
use super::shared::Shared;
use super::shown::sorted;
use crate::store::{Store, StoreError, WebhookSite};
use crate::time;

/// The rules that what is sent breaks before it is an event.
const PROOF: &str = "webhook-proof";
const MALFORMED: &str = "webhook-malformed";
const RATE: &str = "webhook-rate";
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
    let Some((sender, known, key, is_revoked)) =
        proven(&shared, (sender, site), &headers, &bytes).await?
    else {
        let status = StatusCode::UNAUTHORIZED;
        let text = NO_PROOF.to_owned();
        return refused(&shared, status, (PROOF, None), text, now_ms).await;
    };
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    let of_site = known.site.clone();
    let of_site = Some(of_site.as_str());
    let parsed = parse(sender, &bytes);
    let rates = &shared.webhook_rates;
    let rate = match &parsed {
        Ok(event) if !outhaul_webhooks::is_registered(&known, &event.object) => &rates.others,
        Ok(event) if event.status == ObjectStatus::Failed => &rates.failures,
        Ok(_) => &rates.registered,
        Err(_) => &rates.others,
    };
    if let Err(problem) = rate.spend(&known.site, now_ms) {
        let text = rate.exceeded(&known.site);
        shared.refuse((RATE, of_site), text, now_ms).await?;
        return Err(problem);
    }
    let event = match parsed {
        Ok(event) => event,
        Err(why) => {
            let text = format!("site `{}`: {why}", known.site);
            return refused(&shared, unprocessable, (MALFORMED, of_site), text, now_ms).await;
        }
    };
    let event = match outhaul_webhooks::check(&known.site, event, now_ms) {
        Ok(event) => event,
        Err(refusal) => {
            let rule = format!("{RULES}{}", refusal.rule);
            let text = format!("site `{}`: {}", known.site, refusal.reason);
            return refused(&shared, unprocessable, (&rule, of_site), text, now_ms).await;
        }
    };
    if is_revoked {
        let text = format!("site `{}` is revoked", known.site);
        return refused(
            &shared,
            unprocessable,
            ("webhook-report", of_site),
            text,
            now_ms,
        )
        .await;
    }
    let record = shared.webhooks.records.after(&known, &event, now_ms).await;
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
                shared.counters.add(ingested);
            }
            Ok(sorted(&received.answer).into_response())
        }
        Err(error) => {
            let rule = match &error {
                WebhookError::Refused(refusal) => format!("{RULES}{}", refusal.rule),
                _ => "webhook-registration".to_owned(),
            };
            let text = format!("site `{name}`: {error}");
            refused(&shared, unprocessable, (&rule, of_site), text, now_ms).await
        }
    }
}

/// The site whose secret the request shows, with who sends, the key of its reports, and whether it was revoked.
async fn proven(
    shared: &Arc<Shared>,
    (sender, site): (String, String),
    headers: &HeaderMap,
    bytes: &[u8],
) -> Result<Option<(WebhookSender, WebhookSite, SigningKey, bool)>, Problem> {
    let Ok(sender) = sender.parse::<WebhookSender>() else {
        return Ok(None);
    };
    let asked = site.clone();
    let look = move |store: &mut Store, _: &str| {
        Ok(store.read(|session| {
            Ok::<_, StoreError>((session.webhook_site(&asked)?, session.site(&asked)?))
        })?)
    };
    let (known, registered) = shared.look(look).await?;
    let shown = headers.get(proof_header(sender));
    let shown = shown.and_then(|value| value.to_str().ok());
    let Some(secrets) = &shared.webhooks.secrets else {
        return Ok(None);
    };
    let claim = Claim {
        fleet: &shared.fleet,
        site: &site,
        sender,
        shown: shown.unwrap_or_default(),
        body: bytes,
    };
    let holds = claim.is_proven(secrets, known.as_ref());
    let Some(known) = known.filter(|_| holds) else {
        return Ok(None);
    };
    let key = secrets.report_key(&shared.fleet, &known.site, &known.salt);
    let is_revoked = registered.is_some_and(|site| site.revoked_ms.is_some());
    Ok(Some((sender, known, key, is_revoked)))
}
