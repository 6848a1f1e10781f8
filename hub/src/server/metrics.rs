//! Metrics in Prometheus's text form: how the fleet stands, what came in, what gates said.
//!
//! What comes in: the store, read some sites at a time, and what was counted since the start. What goes out: text. No
//! site has a separate series: a hundred thousand of them would drown whoever collects them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::counters::Counters;
use super::problem::{Answers, Guarded, Problem};
use super::shared::Shared;
use crate::store::{Store, StoreError};
use crate::time;
use crate::view::Reading;

/// Decisions in which the newest of each environment is looked for.
const DECISIONS: u32 = 1_000;

/// What the store says.
#[derive(Debug, Default)]
struct Counted {
    /// By environment and verdict.
    sites: BTreeMap<(String, &'static str), u64>,
    /// When the newest report of each environment was received, milliseconds since 1970.
    newest: BTreeMap<String, i64>,
    /// The newest decision on record of each environment: whether it is open.
    gates: BTreeMap<String, bool>,
    waiting: u64,
    /// Deliveries of alerts, by state.
    alerts: BTreeMap<String, u64>,
}

fn count(store: &mut Store, now_ms: i64) -> Result<Counted, StoreError> {
    let mut found = Counted::default();
    Reading::in_parts(store, now_ms, |reading| {
        for row in reading.site_rows(now_ms) {
            *found
                .sites
                .entry((row.environment, row.verdict))
                .or_default() += 1;
        }
        for site in reading
            .sites
            .iter()
            .filter(|site| site.revoked_ms.is_none())
        {
            if let Some(newest) = &site.newest {
                let known = found.newest.entry(site.environment.clone());
                let known = known.or_insert(newest.received_ms);
                *known = (*known).max(newest.received_ms);
            }
        }
    })?;
    let (decisions, waiting, alerts) = store.read(|session| {
        let decisions = session.decisions(DECISIONS)?;
        Ok::<_, StoreError>((
            decisions,
            session.count_requests()?,
            session.alert_counts()?,
        ))
    })?;
    found.alerts = alerts;
    found.waiting = waiting;
    for decision in decisions {
        let is_open = decision.verdict == "open";
        found.gates.entry(decision.environment).or_insert(is_open);
    }
    Ok(found)
}

#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operate",
    summary = "Metrics in Prometheus's text form",
    responses(
        (status = 200, description = "The metrics", body = String, content_type = "text/plain; version=0.0.4; charset=utf-8"),
        Guarded,
        Answers,
    )
)]
pub(super) async fn answer(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let now_ms = time::now_ms();
    let counted = shared
        .look(move |store, _| Ok(count(store, now_ms)?))
        .await?;
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    Ok((kind, text(&counted, &shared.counters, now_ms)).into_response())
}

fn text(counted: &Counted, counters: &Counters, now_ms: i64) -> String {
    let mut out = String::new();
    let head = |out: &mut String, name: &str, kind: &str, help: &str| {
        // Writing to a text cannot fail, here and below.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    };
    let sites = "outhaul_hub_sites";
    head(
        &mut out,
        sites,
        "gauge",
        "Registered sites by environment and state.",
    );
    for ((environment, state), count) in &counted.sites {
        let environment = label(environment);
        let _ = writeln!(
            out,
            "{sites}{{environment=\"{environment}\",state=\"{state}\"}} {count}"
        );
    }
    let age = "outhaul_hub_last_report_age_seconds";
    head(
        &mut out,
        age,
        "gauge",
        "Seconds since the newest report of an environment was received.",
    );
    for (environment, received_ms) in &counted.newest {
        let seconds = now_ms.saturating_sub(*received_ms).max(0) / 1000;
        let _ = writeln!(
            out,
            "{age}{{environment=\"{}\"}} {seconds}",
            label(environment)
        );
    }
    let reports = "outhaul_hub_reports_total";
    head(
        &mut out,
        reports,
        "counter",
        "Reports received over HTTP since the start, by result.",
    );
    for (result, count) in counters.reports() {
        let _ = writeln!(out, "{reports}{{result=\"{result}\"}} {count}");
    }
    let gate = "outhaul_hub_gate_open";
    head(
        &mut out,
        gate,
        "gauge",
        "Whether the newest decision on record opened the gate of an environment.",
    );
    for (environment, is_open) in &counted.gates {
        let _ = writeln!(
            out,
            "{gate}{{environment=\"{}\"}} {}",
            label(environment),
            u8::from(*is_open)
        );
    }
    let waiting = "outhaul_hub_enrolment_requests";
    head(
        &mut out,
        waiting,
        "gauge",
        "Enrolment requests that wait for approval.",
    );
    let _ = writeln!(out, "{waiting} {}", counted.waiting);
    let alerts = "outhaul_hub_alert_deliveries";
    head(
        &mut out,
        alerts,
        "gauge",
        "Deliveries of alerts by state: waiting, sent, given-up.",
    );
    for (state, count) in &counted.alerts {
        let _ = writeln!(out, "{alerts}{{state=\"{}\"}} {count}", label(state));
    }
    out
}

/// Text as the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
