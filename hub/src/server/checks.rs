//! Outcomes of checks over HTTP: a pipeline, a scanner or a hook states what came of a check of a commit.
//!
//! What comes in: a bounded JSON document from whoever has a token for that. What goes out: one entry more on record under the
//! name of the token, and its number. Nothing is signed but by the hub in an export; a gate counts it where a rule asks for it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use outhaul_access::Scope;
use outhaul_bundle::hub_api::{CheckAnswer, CheckRequest, ErrorAnswer, MAX_CHECK_BYTES, path};
use outhaul_bundle::json_object;
use outhaul_kit::text::is_hidden;
use outhaul_listen::Peer;

use super::access::Visitor;
use super::body;
use super::problem::{Answers, Guarded, Nothing, Params, Problem};
use super::shared::Shared;
use super::shown::Json;
use crate::acting;
use crate::error::HubError;
use crate::gate;
use crate::store::Act;
use crate::time;

/// The rule that a document breaks which is not taken.
const RULE: &str = "check";

/// The outcome of a check.
#[utoipa::path(
    post,
    path = path::CHECKS,
    operation_id = "check",
    tag = "gate",
    summary = "Put the outcome of a check of a commit on record; with a token of scope check or admin",
    request_body = CheckRequest,
    responses(
        (status = 200, description = "It is on record", body = CheckAnswer),
        (status = 408, description = "The body stopped; send it again", body = ErrorAnswer),
        (status = 413, description = "The body is too large", body = ErrorAnswer),
        (status = 422, description = "It is not an outcome, or of an environment that is not known", body = ErrorAnswer),
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
    let what = ("check", "states the outcome of a check");
    let by = visitor
        .writes_by_token(&shared, Scope::Check, what, path::CHECKS)
        .await?;
    let now_ms = time::now_ms();
    shared.checked.spend(&by, now_ms)?;
    let smaller = "a hub keeps no outcome of that size";
    let bytes = body::whole(&shared.requests, peer, body, MAX_CHECK_BYTES, smaller).await?;
    let sent = match read(&bytes) {
        Ok(sent) => sent,
        Err(why) => {
            return Ok(visitor
                .refused(&shared, (RULE, RULE), why, path::CHECKS)
                .await);
        }
    };
    let now_ms = time::now_ms();
    let act = Act::of_check(&sent, &by, now_ms);
    let entry = visitor.entry(RULE, act.sentence(), true);
    let done = shared
        .change(move |hub| {
            let done = hub.store.write(|session| {
                let (id, note) = acting::record(session, &act)?;
                // That of the entry that was there, where the same is stated again.
                let at_ms = session.act(id)?.map_or(act.at_ms, |(act, _)| act.at_ms);
                session.add_access(&entry)?;
                Ok::<_, HubError>((id, at_ms, note))
            });
            match done {
                Err(HubError::Usage { problem, help }) => Ok(Err(format!("{problem}; {help}"))),
                other => other.map(Ok),
            }
        })
        .await?;
    match done {
        Ok((id, at_ms, note)) => Ok(Json(CheckAnswer {
            id,
            by,
            at: time::rfc3339(at_ms),
            note,
        })
        .into_response()),
        Err(why) => Ok(visitor
            .refused(&shared, (RULE, RULE), why, path::CHECKS)
            .await),
    }
}

fn read(bytes: &[u8]) -> Result<CheckRequest, String> {
    let sent: CheckRequest = json_object::read(bytes)?;
    sent.check()?;
    gate::commit(&sent.commit)?;
    if sent.detail.chars().any(is_hidden) {
        return Err("`detail` has characters that are acted on instead of shown".to_owned());
    }
    Ok(sent)
}
