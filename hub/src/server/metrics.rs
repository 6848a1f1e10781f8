//! Metrics: how the fleet stands and how the hub is, for Prometheus's scrapes and for pushes by OTLP.
//!
//! What comes in: the store, and what was counted since the start. What goes out: one list of metrics, and the answer to a scrape.
//! A scrape waits for the numbers of the fleet for a moment only and is then answered with the ones before, which say when they were
//! read.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use outhaul_kit::durable;
use outhaul_listen::lanes::Lane;
use outhaul_telemetry::{CONTENT_TYPE, Metric, Operation, Process, metrics, text};

use super::meter::Numbers;
use super::problem::{Answers, Guarded, Problem};
use super::shared::{Shared, off_the_loop};
use crate::error::HubError;
use crate::time;

/// How long a scrape waits for numbers of now, where there are some of before.
const PATIENCE: Duration = Duration::from_millis(100);

fn lane(name: &'static str, of: &Lane) -> outhaul_telemetry::Lane {
    let load = of.load();
    outhaul_telemetry::Lane {
        name,
        bodies: load.bodies,
        bytes: load.bytes,
        max_bodies: load.max_bodies,
        max_bytes: load.max_bytes,
    }
}

impl Shared {
    /// Every metric at this moment, with `numbers` of the fleet.
    pub(super) fn metrics(&self, numbers: &Numbers) -> Vec<Metric> {
        let operation = Operation {
            now_ms: time::now_ms(),
            started_ms: self.meter.started_ms(),
            read_took_ms: u64::try_from(numbers.took_ms).unwrap_or(0),
            version: env!("CARGO_PKG_VERSION"),
            reports: self.counters.reports().to_vec(),
            refused: self.counters.refused_by_rule(),
            lanes: vec![
                lane("reports", &self.reports),
                lane("requests", &self.requests),
                lane("bundles", &self.bundles),
                lane("forms", &self.forms),
            ],
            writable: self.is_writable(),
            free_bytes: durable::free_bytes(self.state()).ok(),
            clock_plausible: numbers.clock_plausible,
            process: Process::read(),
            pushes: self.meter.pushes(),
        };
        metrics(&numbers.fleet, &operation)
    }

    /// The numbers of the fleet for a scrape: of now, or of before where that takes too long.
    async fn numbers(self: &Arc<Self>) -> Result<Arc<Numbers>, HubError> {
        let shared = Arc::clone(self);
        let read = off_the_loop(move || shared.meter.read());
        let mut read = std::pin::pin!(read);
        match tokio::time::timeout(PATIENCE, &mut read).await {
            Ok(done) => done,
            // What was begun goes on, and the next scrape has it.
            Err(_) => match self.meter.last(time::now_ms()) {
                Some(last) => Ok(last),
                None => read.await,
            },
        }
    }
}

#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "operate",
    summary = "Metrics in Prometheus's text form",
    responses(
        (status = 200, description = "The metrics", body = String, content_type = "text/plain; version=0.0.4; charset=utf-8"),
        Guarded,
        Answers,
    )
)]
pub(super) async fn answer(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let numbers = shared.numbers().await?;
    let all = shared.metrics(&numbers);
    let kind = [(header::CONTENT_TYPE, CONTENT_TYPE)];
    Ok((kind, text(&all)).into_response())
}
