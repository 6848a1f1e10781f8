//! The HTTP API and the page's address: what is asked, what is answered.
//!
//! What comes in: requests. What goes out: JSON, HTML, and for reports the signed acknowledgements. The
//! calls that write take only what is signed; who sends it does not matter, and nothing is stored of what
//! does not hold but a bounded note that it was refused. Bodies are bounded, the store is used off the event loop, and no answer
//! holds a path of this machine.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderName, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use outhaul_bundle::hub_api::{ErrorAnswer, ReportsAnswer, RequestAnswer, path};
use outhaul_kit::text::chain;
use outhaul_listen::Peer;
use serde_json::{Value, json};

use super::body;
use super::problem::{GONE, Nothing, Params, Problem};
use super::shared::Shared;
use super::shown::{Json, sorted};
use super::{gates, lists, metrics};
use crate::desired::{self, DesiredError};
use crate::enrol::{self, EnrolError};
use crate::error::HubError;
use crate::ingest::{Batch, Intake};
use crate::pages;
use crate::state::StateError;
use crate::store::{NETWORK, Origin};
use crate::time;

/// Largest body of reports, in bytes.
const MAX_REPORTS_BYTES: usize = 16 * 1024 * 1024;
/// Largest enrolment request, in bytes.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// How much of a bundle is read: an index of the largest size and its metadata.
const MAX_BUNDLE_BYTES: usize = 72 * 1024 * 1024;
/// Reports recorded in one go: others write in between.
const LINES_AT_ONCE: usize = 256;
/// Bad signatures of one batch that are looked at.
const MAX_BAD_SIGNATURES: usize = 256;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics::answer))
        .route(path::SITES, get(lists::sites))
        .route(path::ASSIGNMENTS, get(lists::assignments))
        .route(path::REFUSALS, get(lists::refusals))
        .route(path::GATE, get(gates::gate))
        .route(path::REPORTS, post(reports))
        .route(path::BUNDLES, post(bundles))
        .route(path::REQUESTS, get(lists::waiting).post(requests))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "nothing is here"))
        .method_not_allowed_fallback(other_method)
        .with_state(shared)
}

async fn other_method(method: Method, uri: Uri) -> Problem {
    let text = format!("{} does not take {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, text)
}

async fn page(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let html = shared.fleet(|fleet| Ok(pages::render(&fleet)?)).await?;
    let headers: [(HeaderName, &str); 4] = [
        // Nothing is loaded and nothing runs: even a text that escaped escaping could do nothing.
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Html(html)).into_response())
}

async fn health(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    shared.alive().await?;
    let clock = shared.clock().await?.map(|problem| problem.to_string());
    let unwritable = match shared.in_place() {
        true => shared.unwritable().await?,
        false => Some(GONE.to_owned()),
    };
    let status = match unwritable {
        // It answers questions; what it does not do is take reports in.
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
        None => StatusCode::OK,
    };
    let mut answer = json!({ "status": "ok" });
    for (name, problem) in [("clock", clock), ("store", unwritable)] {
        if let Some(problem) = problem {
            answer["status"] = "degraded".into();
            answer[name] = problem.into();
        }
    }
    Ok((status, Json(answer)).into_response())
}

async fn reports(
    State(shared): State<Arc<Shared>>,
    Params(Nothing {}): Params<Nothing>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let fewer = "send fewer reports at once";
    let bytes = body::whole(&shared.reports, peer, body, MAX_REPORTS_BYTES, fewer).await?;
    let now_ms = time::now_ms();
    let mut intake = Intake::new(Some(MAX_BAD_SIGNATURES));
    let mut lines = std::io::Cursor::new(bytes);
    loop {
        // Piece by piece: batches take turns, and between pieces anybody can write.
        let checked;
        (intake, lines, checked) = shared
            .check(move |store, fleet| {
                let Some(chunk) = intake.chunk(&mut lines, NETWORK, LINES_AT_ONCE)? else {
                    return Ok((intake, lines, None));
                };
                let batch = batch(fleet, now_ms);
                let checked = store.read(|session| intake.check(session, &batch, chunk))?;
                Ok((intake, lines, Some(checked)))
            })
            .await?;
        let Some(checked) = checked else { break };
        intake = shared
            .change(move |hub| {
                let fleet = hub.fleet().to_owned();
                let batch = batch(&fleet, now_ms);
                hub.store
                    .write(|session| intake.record(session, &batch, checked))?;
                Ok(intake)
            })
            .await?;
    }
    let counted = Arc::clone(&shared);
    let answer = shared
        .change(move |hub| {
            let done = hub.store.write(|session| intake.finish(session))?;
            counted.counters.add(&done);
            let (signed, clock) = match hub.acknowledge(&done.complete, now_ms) {
                Err(error @ StateError::Clock { .. }) => {
                    // The reports are in; the sites send them again until the clock is right.
                    let text = error.to_string();
                    tracing::error!(error = text, "acknowledgements are not signed");
                    (Vec::new(), Some(text))
                }
                signed => (signed?, None),
            };
            let acks: Vec<Value> = signed
                .iter()
                .map(|ack| serde_json::from_slice(&ack.to_json()).unwrap_or_default())
                .collect();
            Ok(ReportsAnswer {
                acks,
                clock,
                accepted: done.accepted,
                duplicates: done.duplicates,
                refused: done.refused,
                refused_lines: done.refused_lines,
                refused_groups: done.refused_groups,
            })
        })
        .await?;
    Ok(sorted(&answer))
}

fn batch(fleet: &str, now_ms: i64) -> Batch<'_> {
    Batch {
        fleet,
        via: NETWORK,
        received_ms: now_ms,
    }
}

async fn requests(
    State(shared): State<Arc<Shared>>,
    Params(Nothing {}): Params<Nothing>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Result<Response, Problem> {
    let other = "this is not an enrolment request";
    let bytes = body::whole(&shared.requests, peer, body, MAX_REQUEST_BYTES, other).await?;
    let now_ms = time::now_ms();
    let checked = enrol::check(bytes.trim_ascii(), &shared.fleet);
    let received = match checked {
        Err(error) => Err(error),
        Ok(checked) => {
            let fingerprint = checked.key.id();
            let result = shared
                .change(move |hub| {
                    let address = peer.network().to_string();
                    let origin = Origin {
                        lane: "network",
                        peer: &address,
                    };
                    let received = hub
                        .store
                        .write(|session| enrol::receive(session, &checked, origin, now_ms));
                    match received {
                        Err(EnrolError::Store(error)) => Err(error.into()),
                        other => Ok(other),
                    }
                })
                .await?;
            result.map(|result| RequestAnswer {
                result,
                fingerprint,
            })
        }
    };
    match received {
        Ok(answer) => Ok(sorted(&answer).into_response()),
        Err(error) => {
            let status = match error {
                EnrolError::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            };
            refused(&shared, status, error.rule(), chain(&error), now_ms).await
        }
    }
}

async fn bundles(
    State(shared): State<Arc<Shared>>,
    Params(Nothing {}): Params<Nothing>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Result<Response, Problem> {
    // A whole bundle may be sent: what comes after the index is not even read.
    let (bytes, _) = body::read(&shared.bundles, peer, body, MAX_BUNDLE_BYTES).await?;
    let now_ms = time::now_ms();
    // First beside the store: what does not hold keeps nobody from writing.
    let (bytes, checked) = shared
        .check(move |store, fleet| {
            let checked = desired::check_only(store, bytes.as_slice(), fleet, now_ms);
            Ok((bytes, checked))
        })
        .await?;
    let outcome = match checked {
        Err(error) => Err(error),
        Ok(()) => {
            shared
                .change(move |hub| {
                    let fleet = hub.fleet().to_owned();
                    Ok(desired::record(
                        &mut hub.store,
                        bytes.as_slice(),
                        &fleet,
                        now_ms,
                    ))
                })
                .await?
        }
    };
    match outcome {
        Ok(recorded) => Ok(Json(recorded).into_response()),
        Err(DesiredError::Store(error)) => Err(HubError::from(error).into()),
        Err(error) => {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            refused(&shared, status, error.rule(), error.to_string(), now_ms).await
        }
    }
}

/// The answer to what was refused, and a bounded note of it.
async fn refused(
    shared: &Arc<Shared>,
    status: StatusCode,
    rule: &str,
    message: String,
    now_ms: i64,
) -> Result<Response, Problem> {
    shared.refuse(rule, message.clone(), now_ms).await?;
    let answer = ErrorAnswer {
        error: message,
        rule: Some(rule.to_owned()),
    };
    Ok((status, Json(answer)).into_response())
}
