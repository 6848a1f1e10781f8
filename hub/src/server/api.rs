//! The HTTP API: what is asked, what is answered.
//!
//! What comes in: requests. What goes out: JSON, and for reports the signed acknowledgements. The
//! calls that write take only what is signed; who sends it does not matter, and nothing is stored of what
//! does not hold but a bounded note that it was refused. Bodies are bounded, the store is used off the event loop, and no answer
//! holds a path of this machine.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use outhaul_bundle::hub_api::{ErrorAnswer, RecordedBundle, ReportsAnswer, RequestAnswer, path};
use outhaul_bundle::report::{MAX_ENROLMENT_REQUEST_BYTES, MAX_REPORTS_AT_ONCE_BYTES};
use outhaul_kit::text::chain;
use outhaul_listen::Peer;
use serde::Serialize;
use serde_json::Value;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body;
use super::openapi::{self, Described};
use super::problem::{Answers, GONE, Nothing, Params, Problem};
use super::refusal::refused;
use super::shared::Shared;
use super::shown::{Json, sorted};
use super::{
    access, acts, advisories, bundles as on_record, checks, explanations, faults, gates, kalypso,
    lists, login, metrics, pages, people, records, removals, reported, values, webhooks,
};
use crate::desired::{self, DesiredError};
use crate::enrol::{self, EnrolError};
use crate::error::HubError;
use crate::ingest::{Batch, Intake};
use crate::state::StateError;
use crate::store::{NETWORK, RequestOrigin};
use crate::time;

/// How much of a bundle is read: an index of the largest size and its metadata.
const MAX_BUNDLE_BYTES: usize = 72 * 1024 * 1024;
/// Reports recorded in one go: others write in between.
const LINES_AT_ONCE: usize = 256;
/// Bad signatures of one batch that are looked at.
const MAX_BAD_SIGNATURES: usize = 256;

/// Each call once: what answers it, and how the document describes it.
fn calls() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(health))
        .routes(routes!(metrics::answer))
        .routes(routes!(lists::sites))
        .routes(routes!(lists::assignments))
        .routes(routes!(lists::refusals))
        .routes(routes!(explanations::all, explanations::take))
        .routes(routes!(checks::take))
        .routes(routes!(explanations::of_pair))
        .routes(routes!(explanations::platform))
        .routes(routes!(faults::of_site))
        .routes(routes!(removals::answer))
        .routes(routes!(advisories::all, advisories::take))
        .routes(routes!(advisories::of_advisory))
        .routes(routes!(values::of_site))
        .routes(routes!(webhooks::take))
        .routes(routes!(gates::gate))
        .routes(routes!(records::decisions))
        .routes(routes!(records::decision))
        .routes(routes!(records::acts))
        .routes(routes!(records::access))
        .routes(routes!(kalypso::deployment_state))
        .routes(routes!(reported::of_site, reports))
        .routes(routes!(on_record::listed, bundles))
        .routes(routes!(lists::waiting, requests))
}

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let (calls, document) = calls().split_for_parts();
    let document = openapi::text(&document);
    calls
        .merge(pages::router())
        .merge(login::router())
        .merge(people::router())
        .merge(acts::router())
        .route(path::OPENAPI, get(async || openapi::answer(document)))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "nothing is here"))
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(Arc::clone(&shared), access::guard))
        .with_state(shared)
}

async fn other_method(method: Method, uri: Uri) -> Problem {
    let text = format!("{} does not take {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, text)
}

/// Whether the hub works.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Health {
    /// `ok`, or `degraded` when something beside says why.
    status: &'static str,
    /// What is wrong with the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<String>,
    /// Why nothing can be taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
}

#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operate",
    security(()),
    summary = "Does this hub work",
    responses(
        (status = 200, description = "It answers and accepts reports", body = Health),
        (status = 503, description = "It answers, and accepts no reports", body = Health),
    )
)]
async fn health(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let looked = match shared.alive().await {
        Ok(()) => shared.clock().await,
        Err(error) => Err(error),
    };
    shared.note_damage(&looked);
    let clock = match looked {
        Err(error) if error.is_damage() => None,
        looked => looked?,
    };
    let unwritable = match shared.in_place() {
        true => shared.unwritable().await?,
        false => Some(GONE.to_owned()),
    };
    let status = match &unwritable {
        // It answers questions; what it does not do is take reports in.
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
        None => StatusCode::OK,
    };
    let is_plausible = clock.as_ref().is_none_or(|odd| !odd.is_implausible);
    let is_well = is_plausible && unwritable.is_none();
    let answer = Health {
        status: if is_well { "ok" } else { "degraded" },
        clock: clock.map(|odd| odd.text),
        store: unwritable,
    };
    Ok((status, sorted(&answer)).into_response())
}

#[utoipa::path(
    post,
    path = path::REPORTS,
    tag = "send",
    security(()),
    summary = "Take in reports",
    request_body(
        content((Option<String> = "application/jsonl"), (Option<String> = "text/plain")),
        description = "Signed envelopes of reports, one on each line; 16 MiB at most. Each line is accepted, known already, or refused with its rule"
    ),
    responses(
        (status = 200, description = "What became of each line, and signed acknowledgements", body = ReportsAnswer),
        (status = 408, description = "The body stopped; send it again", body = ErrorAnswer),
        (status = 413, description = "The body is too large", body = ErrorAnswer),
        Answers,
    )
)]
async fn reports(
    State(shared): State<Arc<Shared>>,
    Params(Nothing {}): Params<Nothing>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let fewer = "send fewer reports at once";
    let bytes = body::whole(
        &shared.reports,
        peer,
        body,
        MAX_REPORTS_AT_ONCE_BYTES,
        fewer,
    )
    .await?;
    let now_ms = time::now_ms();
    let mut intake = Intake::new(Some(MAX_BAD_SIGNATURES));
    let mut lines = std::io::Cursor::new(bytes);
    let last = loop {
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
        let is_last = lines.position() == lines.get_ref().len() as u64;
        let Some(checked) = checked else { break None };
        if is_last {
            // Recorded together with what ends the batch: one commit for what most sites send.
            break Some(checked);
        }
        intake = shared
            .change(move |hub| {
                let fleet = hub.fleet().to_owned();
                let batch = batch(&fleet, now_ms);
                hub.store
                    .write(|session| intake.record(session, &batch, checked))?;
                Ok(intake)
            })
            .await?;
    };
    let counted = Arc::clone(&shared);
    let answer = shared
        .change(move |hub| {
            let fleet = hub.fleet().to_owned();
            let batch = batch(&fleet, now_ms);
            let done = hub.store.write(|session| {
                if let Some(checked) = last {
                    intake.record(session, &batch, checked)?;
                }
                intake.finish(session)
            })?;
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

#[utoipa::path(
    post,
    path = path::REQUESTS,
    tag = "send",
    security(()),
    summary = "Take in an enrolment request",
    request_body(content = String, content_type = "application/json", description = "A signed envelope of a request; 64 KiB at most"),
    responses(
        (status = 200, description = "It waits, or is registered", body = RequestAnswer),
        (status = 422, description = "It breaks a rule, which is named", body = ErrorAnswer),
        (status = 429, description = "Too many wait", body = ErrorAnswer),
        (status = 408, description = "The body stopped; send it again", body = ErrorAnswer),
        (status = 413, description = "The body is too large", body = ErrorAnswer),
        Answers,
    )
)]
async fn requests(
    State(shared): State<Arc<Shared>>,
    Params(Nothing {}): Params<Nothing>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Result<Response, Problem> {
    let other = "this is not an enrolment request";
    let bytes = body::whole(
        &shared.requests,
        peer,
        body,
        MAX_ENROLMENT_REQUEST_BYTES,
        other,
    )
    .await?;
    let now_ms = time::now_ms();
    let checked = enrol::check(bytes.trim_ascii(), &shared.fleet);
    let received = match checked {
        Err(error) => Err(error),
        Ok(checked) => {
            let fingerprint = checked.key.id();
            let result = shared
                .change(move |hub| {
                    let address = peer.network().to_string();
                    let origin = RequestOrigin {
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
            refused(&shared, status, (error.rule(), None), chain(&error), now_ms).await
        }
    }
}

#[utoipa::path(
    post,
    path = path::BUNDLES,
    tag = "send",
    security(()),
    summary = "Take in what a bundle should change",
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "A signed bundle; what comes after its index is not read"),
    responses(
        (status = 200, description = "The bundle, and whether it is new", body = RecordedBundle),
        (status = 422, description = "It breaks a rule, which is named", body = ErrorAnswer),
        (status = 408, description = "The body stopped; send it again", body = ErrorAnswer),
        Answers,
    )
)]
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
            refused(
                &shared,
                status,
                (error.rule(), None),
                error.to_string(),
                now_ms,
            )
            .await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_name_of_its_own() {
        let made: serde_json::Value =
            serde_json::from_str(&openapi::text(&calls().split_for_parts().1)).unwrap();
        let paths = made["paths"].as_object().unwrap().values();
        let mut names: Vec<&str> = paths
            .flat_map(|path| path.as_object().unwrap().values())
            .map(|call| call["operationId"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        assert!(names.len() > 15, "{names:?}");
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
    }

    /// `OUTHAUL_WRITE_OPENAPI=1` writes it again.
    #[test]
    fn the_document_that_is_checked_in_is_that_of_these_calls() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
        let made = openapi::text(&calls().split_for_parts().1);
        if std::env::var_os("OUTHAUL_WRITE_OPENAPI").is_some() {
            std::fs::write(&file, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap();
        assert!(
            made == kept,
            "docs/openapi.json is not current: run this test with OUTHAUL_WRITE_OPENAPI=1"
        );
    }
}
