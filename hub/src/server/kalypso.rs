//! The question that Kalypso's pipelines ask its hub: how many subscribers of a place have a commit.
//!
//! What comes in: a pattern of places of manifests, and a commit. What goes out: counts, and those that failed, with the names that
//! Kalypso's own answer has. It reads only.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use outhaul_bundle::hub_api::ErrorAnswer;
use outhaul_bundle::json_object;
use outhaul_listen::Peer;
use serde::{Deserialize, Serialize};

use super::body;
use super::problem::{Answers, Guarded, Nothing, Params, Problem};
use super::shared::Shared;
use super::shown::Json;

/// Largest question, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// Which subscribers, and what they should have.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeploymentStateQuery {
    /// The place of the manifests: `repo/branch/path`, or `outhaul/ENVIRONMENT/CLUSTER-TYPE/ASSIGNMENT` of sites of this fleet; `%` stands
    /// for any letters, `_` for one.
    manifests_endpoint: String,
    /// The commit there; of sites of this fleet the digest of the bundle's index, as hexadecimal digits.
    commit_id: String,
}

/// How many have it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[expect(clippy::struct_field_names, reason = "Kalypso's names")]
pub(super) struct DeploymentStateAnswer {
    /// Reconcilers that follow the places.
    total_subscribers: u64,
    /// Those that have the commit and are healthy.
    total_succeeded_subscribers: u64,
    /// Those on which it failed.
    total_failed_subscribers: u64,
    /// Those that are at work on it.
    total_in_progress_subscribers: u64,
    /// Those on which it failed, at most a thousand.
    failed_subscribers: Vec<Subscriber>,
}

/// A reconciler on which a commit failed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Subscriber {
    /// Its name; of a site of this fleet `SITE.ASSIGNMENT`.
    name: String,
    /// What it said.
    status_message: String,
}

#[utoipa::path(
    post,
    path = "/deployment_state",
    tag = "gate",
    summary = "How many subscribers have a commit",
    description = "As Kalypso's observability hub answers it, over what was imported from there and the sites of this fleet. A pipeline of Outhaul asks the gate instead, which is closed where no answer comes.",
    request_body(content = DeploymentStateQuery, content_type = "application/json", description = "16 KiB at most"),
    responses(
        (status = 200, description = "The counts", body = DeploymentStateAnswer),
        (status = 408, description = "The body stopped; send it again", body = ErrorAnswer),
        (status = 413, description = "The body is too large", body = ErrorAnswer),
        (status = 422, description = "It is not such a question", body = ErrorAnswer),
        Answers,
        Guarded,
    )
)]
pub(super) async fn deployment_state(
    State(shared): State<Arc<Shared>>,
    Params(Nothing {}): Params<Nothing>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Result<Json<DeploymentStateAnswer>, Problem> {
    let bytes = body::whole(
        &shared.requests,
        peer,
        body,
        MAX_BYTES,
        "ask with a shorter pattern",
    )
    .await?;
    let asked: DeploymentStateQuery = json_object::read(&bytes).map_err(|error| {
        let text = format!("this is not `manifests_endpoint` and `commit_id` in JSON: {error}");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
    })?;
    if asked.manifests_endpoint.contains('\0') || asked.commit_id.contains('\0') {
        let text = "a NUL is in no place and in no commit";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text));
    }
    let state = shared
        .look(move |store, _| {
            Ok(store.read(|session| {
                session.deployment_state(&asked.manifests_endpoint, &asked.commit_id)
            })?)
        })
        .await?;
    Ok(Json(DeploymentStateAnswer {
        total_subscribers: state.total,
        total_succeeded_subscribers: state.succeeded,
        total_failed_subscribers: state.failed,
        total_in_progress_subscribers: state.in_progress,
        failed_subscribers: state
            .failures
            .into_iter()
            .map(|(name, status_message)| Subscriber {
                name,
                status_message,
            })
            .collect(),
    }))
}
