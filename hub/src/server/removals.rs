//! Which reports are no longer kept, over HTTP.
//!
//! What comes in: a site's name, or none. What goes out: JSON: the removals on record, and the numbers of the site that are gone. A
//! number in one of these ranges is no gap. It removes nothing.

use std::sync::Arc;

use axum::extract::State;
use outhaul_bundle::hub_api::path;
use serde::{Deserialize, Serialize};

use super::problem::{Answers, Guarded, Params, Problem, Question};
use super::shared::Shared;
use super::shown::Json;
use super::values::no_site;
use crate::store::{Removal, RemovedRange, StoreError};

/// Removals in one answer.
const LISTED: u32 = 1_000;

/// What is asked.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    site: Option<String>,
}

impl Question for Asked {
    const NAMES: &[&str] = &["site"];
}

/// What was removed because it is old.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Removals {
    /// The newest 1,000 removals, the newest first.
    removals: Vec<Removal>,
    /// The numbers of the site that are no longer kept, by numbering; empty where no site is asked for.
    ranges: Vec<RemovedRange>,
}

/// Which reports are no longer kept.
#[utoipa::path(
    get,
    path = path::REMOVALS,
    tag = "read",
    summary = "When old reports were removed, and which of a site are no longer kept",
    params(("site" = Option<String>, Query, description = "The site whose ranges are listed")),
    responses(
        (status = 200, description = "The removals, the newest first, and the ranges of the site. A removed report is known and not missing", body = Removals),
        Answers,
        Guarded,
    )
)]
pub(super) async fn answer(
    State(shared): State<Arc<Shared>>,
    Params(asked): Params<Asked>,
) -> Result<Json<Removals>, Problem> {
    let name = asked.site.clone().unwrap_or_default();
    let answer = shared.look(move |store, _| {
        let found = store.read(|session| {
            let ranges = match &asked.site {
                Some(site) if session.site(site)?.is_none() => return Ok(None),
                Some(site) => session.removed_ranges(site)?,
                None => Vec::new(),
            };
            let removals = session.removals(LISTED)?;
            Ok::<_, StoreError>(Some(Removals { removals, ranges }))
        })?;
        Ok(found)
    });
    answer.await?.map(Json).ok_or_else(|| no_site(&name))
}
