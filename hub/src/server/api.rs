//! The HTTP API and the page's address: what is asked, what is answered.
//!
//! What comes in: requests. What goes out: JSON, HTML, and for reports the signed acknowledgements. The
//! two calls that write take only what is signed; who sends it does not matter. Bodies are bounded,
//! the store is used off the event loop, and no answer holds a path of this machine.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::desired;
use crate::enrol::{self, EnrolError};
use crate::error::{HubError, chain};
use crate::gate::{DEFAULT_MAX_AGE_HOURS, Question, keep};
use crate::ingest::{self, Batch};
use crate::moment::{self, HOUR_MS};
use crate::pages;
use crate::state::Hub;
use crate::store::{Refusal, Store, StoreError};
use crate::view::{Fleet, Reading};

/// Largest body of reports, in bytes.
const MAX_REPORTS_BYTES: usize = 16 * 1024 * 1024;
/// Largest enrolment request, in bytes.
const MAX_REQUEST_BYTES: usize = 256 * 1024;
/// How much of a bundle is read: an index of the largest size and its metadata.
const MAX_BUNDLE_BYTES: usize = 72 * 1024 * 1024;
/// Bodies of bundles held at once.
const BUNDLES_AT_ONCE: usize = 2;
/// Bodies of reports held at once.
const REPORTS_AT_ONCE: usize = 8;
/// Time for a body to come in.
const BODY_WITHIN: Duration = Duration::from_secs(120);

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    hub: Mutex<Hub>,
    /// A second connection, so that looking never waits for writing.
    reader: Mutex<Store>,
    fleet: String,
    reports: Semaphore,
    bundles: Semaphore,
}

impl Shared {
    pub(super) fn new(hub: Hub, state: &Path) -> Result<Self, HubError> {
        Ok(Self {
            reader: Mutex::new(Store::open(state)?),
            fleet: hub.fleet().to_owned(),
            hub: Mutex::new(hub),
            reports: Semaphore::new(REPORTS_AT_ONCE),
            bundles: Semaphore::new(BUNDLES_AT_ONCE),
        })
    }

    /// Whether the store answers.
    pub(super) async fn alive(self: &Arc<Self>) -> Result<(), HubError> {
        self.look(|store, _| Ok(store.read(|session| session.setting("fleet")).map(drop)?))
            .await
    }

    async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Store, &str) -> Result<T, HubError> + Send + 'static,
    ) -> Result<T, HubError> {
        let shared = Arc::clone(self);
        off_the_loop(move || {
            let mut store = shared.reader.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut store, &shared.fleet)
        })
        .await
    }

    async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Hub) -> Result<T, HubError> + Send + 'static,
    ) -> Result<T, HubError> {
        let shared = Arc::clone(self);
        off_the_loop(move || work(&mut shared.hub.lock().unwrap_or_else(PoisonError::into_inner)))
            .await
    }

    async fn fleet(self: &Arc<Self>) -> Result<Fleet, HubError> {
        let now_ms = moment::now_ms();
        self.look(move |store, fleet| {
            Ok(store
                .read(|session| Reading::take(session, now_ms))?
                .view(fleet, now_ms))
        })
        .await
    }
}

async fn off_the_loop<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HubError> + Send + 'static,
) -> Result<T, HubError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            let source = std::io::Error::other(error);
            Err(HubError::Serve {
                doing: "finish a request".to_owned(),
                source,
            })
        })
}

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(health))
        .route("/api/v1/sites", get(sites))
        .route("/api/v1/assignments", get(assignments))
        .route("/api/v1/gate", get(gate))
        .route("/api/v1/reports", post(reports))
        .route("/api/v1/bundles", post(bundles))
        .route("/api/v1/requests", post(requests))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "nothing is here"))
        .with_state(shared)
}

async fn page(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let html = pages::render(&shared.fleet().await?).map_err(HubError::from)?;
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
    Ok(Json(json!({ "status": "ok" })))
}

async fn sites(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Problem> {
    Ok(Json(json!(shared.fleet().await?.sites)))
}

async fn assignments(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Problem> {
    Ok(Json(json!(shared.fleet().await?.assignments)))
}

#[derive(Debug, Deserialize)]
struct GateQuery {
    environment: String,
    commit: String,
    max_age_hours: Option<u32>,
    quorum_percent: Option<u8>,
}

async fn gate(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<GateQuery>,
) -> Result<Json<Value>, Problem> {
    let now_ms = moment::now_ms();
    let hours = query.max_age_hours.unwrap_or(DEFAULT_MAX_AGE_HOURS);
    let quorum_percent = query.quorum_percent.unwrap_or(100);
    if !(1..=87_600).contains(&hours) || !(1..=100).contains(&quorum_percent) {
        let text = "max_age_hours is 1 to 87600, quorum_percent 1 to 100";
        return Err(Problem::new(StatusCode::BAD_REQUEST, text));
    }
    let question = Question {
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
    let answer = json!(decision);
    if known {
        // Only of commits that a signed bundle names: strangers cannot fill the store with questions.
        shared
            .change(move |hub| {
                Ok(hub
                    .store
                    .write(|session| keep(session, &decision, now_ms))?)
            })
            .await?;
    }
    Ok(Json(answer))
}

async fn reports(State(shared): State<Arc<Shared>>, body: Body) -> Result<Json<Value>, Problem> {
    let _slot = shared.reports.acquire().await;
    let (bytes, whole) = read_body(body, MAX_REPORTS_BYTES).await?;
    if !whole {
        let text = format!("more than {MAX_REPORTS_BYTES} bytes: send fewer reports at once");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    let now_ms = moment::now_ms();
    let answer = shared
        .change(move |hub| {
            let fleet = hub.fleet().to_owned();
            let batch = Batch {
                fleet: &fleet,
                via: "http",
                received_ms: now_ms,
            };
            let done = ingest::ingest(&mut hub.store, bytes.as_slice(), &batch)?;
            let mut acks = Vec::new();
            for complete in &done.complete {
                let envelope = hub.acknowledge(complete, now_ms)?.to_json();
                acks.push(serde_json::from_slice::<Value>(&envelope).unwrap_or_default());
            }
            Ok(json!({
                "acks": acks,
                "accepted": done.accepted,
                "duplicates": done.duplicates,
                "refused": done.refused,
                "refused_lines": done.refused_lines,
            }))
        })
        .await?;
    Ok(Json(answer))
}

async fn requests(State(shared): State<Arc<Shared>>, body: Body) -> Result<Response, Problem> {
    let _slot = shared.reports.acquire().await;
    let (bytes, whole) = read_body(body, MAX_REQUEST_BYTES).await?;
    if !whole {
        let text = format!("more than {MAX_REQUEST_BYTES} bytes: this is no enrolment request");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    let now_ms = moment::now_ms();
    let outcome = shared
        .change(move |hub| {
            let fleet = hub.fleet().to_owned();
            let received = enrol::check(bytes.trim_ascii(), &fleet).and_then(|checked| {
                hub.store
                    .write(|session| enrol::receive(session, &checked, now_ms))
            });
            match received {
                Ok(enrolled) => Ok(Ok(json!({ "result": enrolled }))),
                Err(EnrolError::Store(error)) => Err(error.into()),
                Err(error) => {
                    let refusal = Refusal {
                        at_ms: now_ms,
                        source: "http".to_owned(),
                        site: None,
                        rule: error.rule().to_owned(),
                        message: chain(&error),
                    };
                    hub.store.write(|session| session.add_refusal(&refusal))?;
                    Ok(Err(
                        json!({ "error": refusal.message, "rule": refusal.rule }),
                    ))
                }
            }
        })
        .await?;
    Ok(match outcome {
        Ok(answer) => Json(answer).into_response(),
        Err(refused) => (StatusCode::UNPROCESSABLE_ENTITY, Json(refused)).into_response(),
    })
}

async fn bundles(State(shared): State<Arc<Shared>>, body: Body) -> Result<Response, Problem> {
    let _slot = shared.bundles.acquire().await;
    // A whole bundle may be sent: what comes after the index is not even read.
    let (bytes, _) = read_body(body, MAX_BUNDLE_BYTES).await?;
    let now_ms = moment::now_ms();
    let outcome = shared
        .change(move |hub| {
            let fleet = hub.fleet().to_owned();
            match desired::record(&mut hub.store, bytes.as_slice(), &fleet, now_ms) {
                Ok(recorded) => Ok(Ok(recorded)),
                Err(desired::DesiredError::Store(error)) => Err(error.into()),
                Err(error) => {
                    let (rule, message) = (error.rule().to_owned(), error.to_string());
                    let refusal = Refusal {
                        at_ms: now_ms,
                        source: "http".to_owned(),
                        site: None,
                        rule: rule.clone(),
                        message: message.clone(),
                    };
                    hub.store.write(|session| session.add_refusal(&refusal))?;
                    Ok(Err(json!({ "error": message, "rule": rule })))
                }
            }
        })
        .await?;
    Ok(match outcome {
        Ok(recorded) => Json(recorded).into_response(),
        Err(refused) => (StatusCode::UNPROCESSABLE_ENTITY, Json(refused)).into_response(),
    })
}

/// Reads at most `max` bytes; says whether that was all.
async fn read_body(body: Body, max: usize) -> Result<(Vec<u8>, bool), Problem> {
    use std::pin::Pin;

    let mut body = body;
    let mut bytes = Vec::new();
    let reading = async {
        loop {
            let frame = std::future::poll_fn(|context| {
                hyper::body::Body::poll_frame(Pin::new(&mut body), context)
            });
            match frame.await {
                None => return Ok((bytes, true)),
                Some(Err(error)) => {
                    let text = format!("the body cannot be read: {error}");
                    return Err(Problem::new(StatusCode::BAD_REQUEST, text));
                }
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };
                    if bytes.len() + data.len() > max {
                        bytes.extend_from_slice(&data[..max - bytes.len()]);
                        return Ok((bytes, false));
                    }
                    bytes.extend_from_slice(&data);
                }
            }
        }
    };
    match tokio::time::timeout(BODY_WITHIN, reading).await {
        Ok(read) => read,
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body took too long",
        )),
    }
}

/// An answer that says what went wrong.
#[derive(Debug)]
struct Problem {
    status: StatusCode,
    message: String,
}

impl Problem {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }
}

impl From<HubError> for Problem {
    fn from(error: HubError) -> Self {
        // The whole chain goes to the journal; the peer is told only that this hub has a problem.
        tracing::error!(error = chain(&error), "a request failed");
        let full = matches!(&error, HubError::Store(StoreError::Sql { .. }));
        let message = if full {
            "the hub's store failed; send again later"
        } else {
            "the hub failed"
        };
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.message }))).into_response()
    }
}
