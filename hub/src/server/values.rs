//! The values that one site set itself, over HTTP.
//!
//! What comes in: a site's name. What goes out: JSON, one row per value. It reads one report.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use outhaul_bundle::hub_api::path;
use serde::Deserialize;
use serde_json::{Value, json};

use super::problem::{Answers, Guarded, Params, Problem, Question};
use super::shared::Shared;
use super::shown::Json;
use crate::store::StoreError;
use crate::view::values;
use outhaul_bundle::hub_api::SiteValueRow;

/// Which site.
#[derive(Debug, Deserialize)]
pub(super) struct OfSite {
    pub(super) site: String,
}

impl Question for OfSite {
    const NAMES: &[&str] = &["site"];
}

/// What a site set itself.
#[utoipa::path(
    get,
    path = path::SITE_VALUES,
    operation_id = "site_values",
    tag = "read",
    summary = "The values that a site set itself, within what the centre opens",
    params(("site" = String, Query, description = "The site's name")),
    responses(
        (status = 200, description = "The values as the site reported them last, by assignment and key", body = Vec<SiteValueRow>),
        Answers,
        Guarded,
    )
)]
pub(super) async fn of_site(
    State(shared): State<Arc<Shared>>,
    Params(asked): Params<OfSite>,
) -> Result<Json<Value>, Problem> {
    let name = asked.site.clone();
    let answer = shared.look(move |store, _| {
        let rows = store.read(|session| {
            let known = session.site(&asked.site)?.is_some();
            let rows = values::of_site(session, &asked.site)?;
            Ok::<_, StoreError>(known.then_some(rows))
        })?;
        Ok(rows)
    });
    match answer.await? {
        Some(rows) => Ok(Json(json!(rows))),
        None => Err(no_site(&name)),
    }
}

/// That a question is about a site which this hub does not know.
pub(super) fn no_site(name: &str) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        format!("no site `{name}` is registered"),
    )
}
