//! The HTTP API and the page's address: what is asked, what is answered.
//!
//! What comes in: requests. What goes out: JSON, HTML, and for reports the signed acknowledgements. The
//! calls that write take only what is signed; who sends it does not matter, and nothing is stored of what
//! does not hold but a bounded note that it was refused. A gate's decision is put on record for callers
//! with a token only. Bodies and lists are bounded, the store is used off the event loop, and no answer
//! holds a path of this machine.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{
    ErrorAnswer, GateAnswer, GateQuery, MAX_AGE_HOURS, QUORUM_PERCENT, ReportsAnswer,
    RequestAnswer, path,
};
use outhaul_kit::text::chain;
use outhaul_listen::Peer;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body;
use super::problem::Problem;
use super::shared::Shared;
use super::shown::Json;
use crate::desired::{self, DesiredError};
use crate::enrol::{self, EnrolError};
use crate::error::HubError;
use crate::gate::{self, DEFAULT_MAX_AGE_HOURS, GateQuestion, keep};
use crate::ingest::{Batch, Intake};
use crate::pages;
use crate::state::StateError;
use crate::store::{NETWORK, Origin, SitePage, StoreError};
use crate::time::{self, HOUR_MS};
use crate::view::{Reading, request_rows};

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
/// Rows of a list in one answer.
const MAX_ROWS: usize = 10_000;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(health))
        .route(path::SITES, get(sites))
        .route(path::ASSIGNMENTS, get(assignments))
        .route(path::GATE, get(gate))
        .route(path::REPORTS, post(reports))
        .route(path::BUNDLES, post(bundles))
        .route(path::REQUESTS, get(waiting).post(requests))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "nothing is here"))
        .with_state(shared)
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

async fn health(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Problem> {
    shared.alive().await?;
    let clock = shared.clock().await?;
    Ok(Json(match clock {
        None => json!({ "status": "ok" }),
        // It serves; what it does not do is sign.
        Some(problem) => json!({ "status": "degraded", "clock": problem.to_string() }),
    }))
}

/// Which part of a list.
#[derive(Debug, Default, Deserialize)]
struct Part {
    /// Rows in one answer, at most 10,000, which is the default.
    limit: Option<usize>,
    /// Rows to leave out, in the list's order.
    #[serde(default)]
    offset: usize,
}

impl Part {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(MAX_ROWS).clamp(1, MAX_ROWS)
    }
}

/// The rows of one answer as JSON, with a `Link` to the next ones.
fn rows<T: Serialize>(path: &str, part: &Part, all: &[T]) -> Response {
    let from = part.offset.min(all.len());
    let to = from.saturating_add(part.limit()).min(all.len());
    some_rows(path, part, &all[from..to], all.len() - to)
}

/// The same of rows that were read alone, with `more` after them.
fn some_rows<T: Serialize>(path: &str, part: &Part, shown: &[T], more: usize) -> Response {
    let answer = Json(json!(shown)).into_response();
    if more == 0 {
        return answer;
    }
    let (limit, next) = (part.limit(), part.offset.saturating_add(shown.len()));
    let next = format!("<{path}?limit={limit}&offset={next}>; rel=\"next\"");
    ([(header::LINK, next)], answer).into_response()
}

async fn sites(
    State(shared): State<Arc<Shared>>,
    Query(part): Query<Part>,
) -> Result<Response, Problem> {
    let page = SitePage {
        limit: part.limit() as u64,
        offset: part.offset as u64,
    };
    let answer = shared.sites(page, move |reading, count, now_ms| {
        let sites = reading.site_rows(now_ms);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let more = count.saturating_sub(part.offset.saturating_add(sites.len()));
        Ok(some_rows(path::SITES, &part, &sites, more))
    });
    Ok(answer.await?)
}

async fn assignments(
    State(shared): State<Arc<Shared>>,
    Query(part): Query<Part>,
) -> Result<Response, Problem> {
    let answer = shared.sites(SitePage::ALL, move |reading, _, _| {
        Ok(rows(path::ASSIGNMENTS, &part, &reading.assignment_rows()))
    });
    Ok(answer.await?)
}

/// The requests that wait, with the fingerprints that a person compares.
async fn waiting(
    State(shared): State<Arc<Shared>>,
    Query(part): Query<Part>,
) -> Result<Response, Problem> {
    let answer = shared.look(move |store, _| {
        let shown = store.read(|session| {
            let pending = session.pending_requests(u32::MAX)?;
            Ok::<_, StoreError>(request_rows(&pending, &session.site_states()?))
        })?;
        Ok(rows(path::REQUESTS, &part, &shown))
    });
    Ok(answer.await?)
}

async fn gate(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<GateQuery>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    let now_ms = time::now_ms();
    let hours = query.max_age_hours.unwrap_or(DEFAULT_MAX_AGE_HOURS);
    let quorum_percent = query.quorum_percent.unwrap_or(100);
    if !MAX_AGE_HOURS.contains(&hours) || !QUORUM_PERCENT.contains(&quorum_percent.into()) {
        let text = "max_age_hours is 1 to 87600, quorum_percent 1 to 100";
        return Err(Problem::new(StatusCode::BAD_REQUEST, text));
    }
    gate::commit(&query.commit).map_err(|text| Problem::new(StatusCode::BAD_REQUEST, text))?;
    let caller = caller(&shared, &headers).await?;
    let question = GateQuestion {
        environment: query.environment,
        commit: query.commit,
        now_ms,
        max_age_ms: i64::from(hours) * HOUR_MS,
        quorum_percent,
    };
    let (decision, known) = shared
        .look(move |store, _| {
            let reading = store.read(|session| Reading::take(session, now_ms))?;
            let known = reading.knows_commit(&question.environment, &question.commit);
            Ok((reading.gate(&question), known))
        })
        .await?;
    // Only for a caller with a token, and of commits that a signed bundle names: nobody else writes what
    // somebody may later take for evidence.
    let recorded = caller.is_some() && known;
    let answer = sorted(&GateAnswer {
        decision: decision.clone(),
        recorded,
    });
    if let Some(caller) = caller.filter(|_| known) {
        shared
            .change(move |hub| {
                Ok(hub
                    .store
                    .write(|session| keep(session, &decision, &caller, now_ms))?)
            })
            .await?;
    }
    Ok(answer)
}

/// The answer with its keys sorted.
fn sorted<T: Serialize>(answer: &T) -> Json<Value> {
    Json(json!(answer))
}

/// Who asks, by the token in `Authorization: Bearer`; `None` for anybody.
async fn caller(shared: &Arc<Shared>, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let wrong = || {
        let text = "this token is not known; `outhaul-hub caller add` makes one";
        Problem::new(StatusCode::UNAUTHORIZED, text)
    };
    let text = value.to_str().map_err(|_| wrong())?;
    let token = text.strip_prefix("Bearer ").ok_or_else(wrong)?;
    // The digest is looked up, so that no comparison of the token itself can be timed.
    let digest = Digest::of(token.trim().as_bytes()).hex();
    let found = shared
        .look(move |store, _| Ok(store.read(|session| session.caller(&digest))?))
        .await?;
    found.map(Some).ok_or_else(wrong)
}

async fn reports(
    State(shared): State<Arc<Shared>>,
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
    let answer = shared
        .change(move |hub| {
            let done = hub.store.write(|session| intake.finish(session))?;
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
