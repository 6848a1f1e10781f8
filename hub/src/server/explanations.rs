//! Explanations over HTTP: which are on record, what they say of a pair and of a platform, and a new one.
//!
//! What comes in: names; or a document, from whoever has a token for that. What goes out: JSON, and the document on record under the name of
//! the token. Nothing of it is signed, and no gate reads it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use outhaul_access::Scope;
use outhaul_bundle::hub_api::{
    ErrorAnswer, ExplanationAnswer, ExplanationRow, MAX_EXPLANATION_BYTES,
    MAX_EXPLANATION_NAME_BYTES as MAX_NAME_BYTES, PlatformAnswer, PlatformExplanation,
    RecordedExplanation, path,
};
use outhaul_listen::Peer;
use serde::Deserialize;

use super::access::Visitor;
use super::body;
use super::lists::bounded;
use super::problem::{Answers, Guarded, Nothing, Params, Problem, Question};
use super::shared::Shared;
use super::shown::Json;
use crate::explanations;
use crate::store::{Sender, StoreError};
use crate::time;
use crate::view::explained::{self, ExplainAsked, ExplainUnknown, PlatformAsked};

/// Assignments in one answer.
const MAX_ASSIGNMENTS: usize = 10_000;

/// Why there is no answer.
const NONE: &str = "no explanation of this environment is on record: `outhaul explain --whole --send --hub URL` at the centre sends one";
const NO_DIGEST: &str = "no explanation of this digest is on record of this environment, and others are: \
                         GET /api/v1/explanations?environment=NAME lists them";

/// Whose explanations.
#[derive(Debug, Deserialize)]
pub(super) struct ExplanationsQuestion {
    environment: Option<String>,
}

impl Question for ExplanationsQuestion {
    const NAMES: &[&str] = &["environment"];
}

/// Which pair.
#[derive(Debug, Deserialize)]
pub(super) struct PairQuestion {
    environment: String,
    cluster_type: String,
    target: String,
    #[serde(default)]
    site: String,
    #[serde(default)]
    digest: String,
}

impl Question for PairQuestion {
    const NAMES: &[&str] = &["environment", "cluster_type", "target", "site", "digest"];
}

/// Which platform.
#[derive(Debug, Deserialize)]
pub(super) struct PlatformQuestion {
    environment: String,
    #[serde(default)]
    digest: String,
    limit: Option<usize>,
    #[serde(default)]
    offset: u32,
}

impl Question for PlatformQuestion {
    const NAMES: &[&str] = &["environment", "digest", "limit", "offset"];
}

fn wrong(text: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, text)
}

pub(super) fn within(names: &[&String]) -> Result<(), Problem> {
    match names.iter().all(|name| name.len() <= MAX_NAME_BYTES) {
        true => Ok(()),
        false => Err(wrong(format!("a name has {MAX_NAME_BYTES} bytes at most"))),
    }
}

/// The explanations on record.
#[utoipa::path(
    get,
    path = path::EXPLANATIONS,
    operation_id = "explanations",
    tag = "read",
    summary = "The explanations on record, by environment, the one that was sent last first",
    params(("environment" = Option<String>, Query, description = "Only those of this environment", max_length = 512)),
    responses(
        (status = 200, description = "The explanations", body = Vec<ExplanationRow>),
        Answers,
        Guarded,
    )
)]
pub(super) async fn all(
    State(shared): State<Arc<Shared>>,
    Params(asked): Params<ExplanationsQuestion>,
) -> Result<Json<Vec<ExplanationRow>>, Problem> {
    within(&asked.environment.iter().collect::<Vec<_>>())?;
    let found = shared.look(move |store, _| {
        let environment = asked.environment.as_deref();
        Ok(store.read(|session| explained::explanation_rows(session, environment))?)
    });
    Ok(Json(found.await?))
}

/// A document that is sent.
#[utoipa::path(
    post,
    path = path::EXPLANATIONS,
    operation_id = "explain",
    tag = "send",
    summary = "Put on record what a rendering was made of; with a token of scope ingest or admin",
    request_body(content = String, content_type = "application/json", description = "What `outhaul explain --whole --output json` writes; 32 MiB at most. It is not signed"),
    responses(
        (status = 200, description = "It is on record, new or known", body = RecordedExplanation),
        (status = 408, description = "The body stopped; send it again", body = ErrorAnswer),
        (status = 413, description = "The body is too large", body = ErrorAnswer),
        (status = 422, description = "It breaks a rule, which is named", body = ErrorAnswer),
        (status = 507, description = "There is no room for another one; which bound it is, is named", body = ErrorAnswer),
        Answers,
        Guarded,
    )
)]
pub(super) async fn take(
    State(shared): State<Arc<Shared>>,
    Params(Nothing {}): Params<Nothing>,
    Extension(visitor): Extension<Visitor>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Result<Response, Problem> {
    let what = ("explanation", "sends an explanation");
    let by = visitor
        .writes_by_token(&shared, Scope::Ingest, what, path::EXPLANATIONS)
        .await?;
    let now_ms = time::now_ms();
    shared.explained.spend(&by, now_ms)?;
    let smaller = "a hub keeps no explanation of that size";
    let bytes = body::whole(&shared.bundles, peer, body, MAX_EXPLANATION_BYTES, smaller).await?;
    let now_ms = time::now_ms();
    // Beside the store: what takes long keeps nobody from writing.
    let checked = shared
        .check_explanation(move || {
            let packed = match PlatformExplanation::read(&bytes) {
                Err(error) => Err(error),
                Ok(document) => explained::packed(&document)?,
            };
            Ok(packed.map_err(|error| (error.rule(), error.to_string())))
        })
        .await?;
    let packed = match checked {
        Ok(packed) => packed,
        Err((rule, why)) => {
            let kind = ("explanation", rule);
            return Ok(visitor
                .refused(&shared, kind, why, path::EXPLANATIONS)
                .await);
        }
    };
    let done = shared
        .change(move |hub| {
            Ok(hub.store.write(|session| {
                let is_again = explanations::is_again(&packed, session, &by)?;
                let sender = Sender {
                    name: &by,
                    is_admin: visitor.may(Scope::Admin),
                };
                let done = explanations::put(&packed, session, sender, now_ms)?;
                // What changes nothing but a time is on record already.
                if let Ok(done) = &done
                    && !is_again
                {
                    let detail = explanations::entry_of(done);
                    session.add_access(&visitor.entry("explanation", detail, true))?;
                }
                Ok::<_, StoreError>(done)
            })?)
        })
        .await?;
    match done {
        Ok(done) => Ok(Json(done).into_response()),
        Err(full) => {
            let answer = ErrorAnswer {
                error: full.text,
                rule: Some(full.rule.to_owned()),
            };
            Ok((StatusCode::INSUFFICIENT_STORAGE, Json(answer)).into_response())
        }
    }
}

/// What one explanation says of a pair.
#[utoipa::path(
    get,
    path = path::EXPLANATION,
    operation_id = "explanation",
    tag = "read",
    summary = "Why a deployment target is on a cluster type or is not, and who set the values of its config",
    params(
        ("environment" = String, Query, description = "The environment", min_length = 1, max_length = 512),
        ("cluster_type" = String, Query, description = "The cluster type", min_length = 1, max_length = 512),
        ("target" = String, Query, description = "The deployment target's full name", min_length = 1, max_length = 512),
        ("site" = Option<String>, Query, description = "The values at this site", max_length = 512),
        ("digest" = Option<String>, Query, description = "The explanation; without it the one that was sent last", max_length = 512),
    ),
    responses(
        (status = 200, description = "The explanation, which is not signed", body = ExplanationAnswer),
        (status = 404, description = "No such explanation is on record, or it knows no such pair, or no such site is known", body = ErrorAnswer),
        Answers,
        Guarded,
    )
)]
pub(super) async fn of_pair(
    State(shared): State<Arc<Shared>>,
    Params(asked): Params<PairQuestion>,
) -> Result<Json<ExplanationAnswer>, Problem> {
    within(&[
        &asked.environment,
        &asked.cluster_type,
        &asked.target,
        &asked.site,
        &asked.digest,
    ])?;
    let found = shared.look(move |store, _| {
        let asked = ExplainAsked {
            environment: &asked.environment,
            cluster_type: &asked.cluster_type,
            target: &asked.target,
            site: &asked.site,
            digest: &asked.digest,
        };
        Ok(store.read(|session| explained::explanation_answer(session, &asked))?)
    });
    found.await?.map(Json).map_err(|unknown| {
        let text = match unknown {
            ExplainUnknown::Site => {
                "no site of this name is of this environment and cluster type: GET /api/v1/sites lists those that are known".to_owned()
            }
            ExplainUnknown::Digest => NO_DIGEST.to_owned(),
            ExplainUnknown::Pair(why) => {
                format!("the explanation on record does not have this pair: {why}")
            }
            ExplainUnknown::Environment | ExplainUnknown::Explanation => NONE.to_owned(),
        };
        Problem::new(StatusCode::NOT_FOUND, text)
    })
}

/// A platform as it was read.
#[utoipa::path(
    get,
    path = path::PLATFORM,
    operation_id = "platform",
    tag = "read",
    summary = "The entities of a control plane as they were read, and what is assigned",
    params(
        ("environment" = String, Query, description = "The environment", min_length = 1, max_length = 512),
        ("digest" = Option<String>, Query, description = "The explanation; without it the one that was sent last", max_length = 512),
        ("limit" = Option<usize>, Query, description = "Assignments in one answer, which is also the default", minimum = 1, maximum = 10_000),
        ("offset" = Option<u32>, Query, description = "Assignments to leave out, in the list's order; with 1 or more the entities are left out, too", maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "The platform, which is not signed", body = PlatformAnswer),
        (status = 404, description = "No such explanation is on record", body = ErrorAnswer),
        Answers,
        Guarded,
    )
)]
pub(super) async fn platform(
    State(shared): State<Arc<Shared>>,
    Params(asked): Params<PlatformQuestion>,
) -> Result<Json<PlatformAnswer>, Problem> {
    within(&[&asked.environment, &asked.digest])?;
    let limit = bounded(asked.limit, MAX_ASSIGNMENTS)?;
    if i32::try_from(asked.offset).is_err() {
        return Err(wrong(format!(
            "offset is {} at most, not {}",
            i32::MAX,
            asked.offset
        )));
    }
    let part = (asked.offset as usize, limit);
    let found = shared.look(move |store, _| {
        let asked = PlatformAsked {
            environment: &asked.environment,
            digest: &asked.digest,
            after: "",
        };
        Ok(store.read(|session| {
            let is_known = !session.explanations(asked.environment, 1)?.is_empty();
            let answer = explained::platform_answer(session, &asked, part)?;
            Ok::<_, StoreError>(answer.ok_or(if is_known { NO_DIGEST } else { NONE }))
        })?)
    });
    (found.await?.map(Json)).map_err(|text| Problem::new(StatusCode::NOT_FOUND, text))
}
