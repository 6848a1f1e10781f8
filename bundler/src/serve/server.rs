//! What the service answers over HTTP: `/hook`, `/status`, `/healthz`.
//!
//! What comes in: requests, and what the worker last wrote into [`Board`]. What goes out: answers, and a
//! wake-up for the worker when a webhook shows that it knows the secret. Nothing else can be done from
//! here. Bodies and times are bounded.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::Timestamp;
use outhaul_bundle::Digest;
use serde::Serialize;

use super::hook::HookSecret;
use super::state;

/// Largest body of a webhook in bytes.
const MAX_BODY: usize = 1024 * 1024;
/// How long a request may take.
const WITHIN: Duration = Duration::from_secs(10);

/// What `/status` shows.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct ServiceStatus {
    /// Rounds since this process began.
    pub rounds: u64,
    /// Whether one is under way.
    pub running: bool,
    /// When the next one begins by itself.
    pub next_run: Option<Timestamp>,
    /// What keeps the chain from being followed.
    pub promotion: Option<String>,
    /// By name.
    pub environments: BTreeMap<String, EnvironmentStatus>,
}

/// What `/status` shows of one environment.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct EnvironmentStatus {
    pub last_snapshot: Option<Digest>,
    pub last_success: Option<Timestamp>,
    pub last_error: Option<state::LastFailure>,
    /// What stays as it was or is left out, and why.
    pub broken: Vec<String>,
    pub next_run: Option<Timestamp>,
}

/// What worker and server share.
#[derive(Debug, Default)]
pub(super) struct Board(Mutex<ServiceStatus>);

impl Board {
    pub fn change(&self, change: impl FnOnce(&mut ServiceStatus)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn now(&self) -> ServiceStatus {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clone()
    }
}

/// What a request may reach.
pub(super) struct Shared {
    pub board: Arc<Board>,
    pub secret: Option<HookSecret>,
    pub wake: SyncSender<()>,
}

/// The routes.
pub(super) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/hook", post(hook))
        .route("/status", get(status))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(in_time))
        .with_state(Arc::new(shared))
}

async fn in_time(request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(WITHIN, next.run(request)).await;
    answer.unwrap_or_else(|_| StatusCode::REQUEST_TIMEOUT.into_response())
}

async fn status(State(shared): State<Arc<Shared>>) -> Json<ServiceStatus> {
    Json(shared.board.now())
}

async fn hook(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let Some(secret) = &shared.secret else {
        let off = "the hook is off: `webhook_secret_file` is not set\n";
        return (StatusCode::NOT_FOUND, off);
    };
    if !secret.knows(&headers, &body) {
        tracing::warn!("a webhook without the right signature was refused");
        return (
            StatusCode::UNAUTHORIZED,
            "the signature is missing or wrong\n",
        );
    }
    // Full: a round is waiting to begin already, and will see what this one is about.
    let _ = shared.wake.try_send(());
    (StatusCode::ACCEPTED, "a round begins\n")
}
