//! The answer to what breaks a rule, of whoever sends it.
//!
//! What comes in: a status, the rule and why. What goes out: JSON with both, and a bounded note of it on record. It decides nothing.

use std::sync::Arc;

use axum::extract::Extension;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use outhaul_bundle::hub_api::ErrorAnswer;

use super::access::NothingToRecord;
use super::problem::Problem;
use super::shared::Shared;
use super::shown::Json;

/// The answer to what was refused, and a bounded note of it; `site` where it is known who sent it.
pub(super) async fn refused(
    shared: &Arc<Shared>,
    status: StatusCode,
    (rule, site): (&str, Option<&str>),
    message: String,
    now_ms: i64,
) -> Result<Response, Problem> {
    let text = message.clone();
    shared.refuse((rule, site), text, now_ms).await?;
    let answer = ErrorAnswer {
        error: message,
        rule: Some(rule.to_owned()),
    };
    Ok((status, Extension(NothingToRecord), Json(answer)).into_response())
}
