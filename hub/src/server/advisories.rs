//! Advisories over HTTP: which are on record, and which sites one is about.
//!
//! What comes in: the name of an advisory, and which of the sites. What goes out: JSON. It reads the store and changes nothing:
//! advisories are imported on the hub's own machine.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use outhaul_bundle::hub_api::{AdvisoryRow, AffectedSites, AffectedVerdict, path};
use serde::Deserialize;

use super::problem::{Answers, Guarded, Nothing, Params, Problem, Question};
use super::shared::Shared;
use super::shown::Json;
use crate::time;
use crate::view::affected::{self, SitesAsked};

/// Sites in one answer.
const MAX_SITES: usize = 10_000;
/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Which advisory, and which of the sites.
#[derive(Debug, Deserialize)]
pub(super) struct AffectedQuestion {
    advisory: String,
    verdict: Option<AskedVerdict>,
    limit: Option<usize>,
    #[serde(default)]
    offset: u32,
}

/// A verdict that can be asked for.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AskedVerdict {
    /// Sites that are affected.
    Affected,
    /// Sites of which it is not known.
    Unknown,
    /// Sites that are not affected.
    NotAffected,
}

impl From<AskedVerdict> for AffectedVerdict {
    fn from(asked: AskedVerdict) -> Self {
        match asked {
            AskedVerdict::Affected => Self::Affected,
            AskedVerdict::Unknown => Self::Unknown,
            AskedVerdict::NotAffected => Self::NotAffected,
        }
    }
}

impl Question for AffectedQuestion {
    const NAMES: &[&str] = &["advisory", "verdict", "limit", "offset"];
}

/// The advisories on record.
#[utoipa::path(
    get,
    path = path::ADVISORIES,
    operation_id = "advisories",
    tag = "read",
    summary = "The advisories on record, the one that was imported last first",
    responses(
        (status = 200, description = "The advisories", body = Vec<AdvisoryRow>),
        Answers,
        Guarded,
    )
)]
pub(super) async fn all(
    State(shared): State<Arc<Shared>>,
    Params(Nothing {}): Params<Nothing>,
) -> Result<Json<Vec<AdvisoryRow>>, Problem> {
    let found = shared.look(|store, _| Ok(store.read(affected::advisories)?));
    Ok(Json(found.await?))
}

/// Which sites an advisory is about.
#[utoipa::path(
    get,
    path = path::AFFECTED,
    operation_id = "affected",
    tag = "read",
    summary = "Which sites an advisory is about, which not, and of which it is not known",
    params(
        ("advisory" = String, Query, description = "The advisory's name, or one that it has elsewhere", min_length = 1, max_length = 128),
        ("verdict" = inline(Option<AskedVerdict>), Query, description = "Only sites of this verdict"),
        ("limit" = Option<usize>, Query, description = "Sites in one answer, which is also the default", minimum = 1, maximum = 10_000),
        ("offset" = Option<u32>, Query, description = "Sites to leave out, in the list's order", maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "Counts of all sites, what it means for each bundle, and the sites that were asked for", body = AffectedSites),
        Answers,
        Guarded,
    )
)]
pub(super) async fn of_advisory(
    State(shared): State<Arc<Shared>>,
    Params(asked): Params<AffectedQuestion>,
) -> Result<Json<AffectedSites>, Problem> {
    let wrong = |text: String| Err(Problem::new(StatusCode::BAD_REQUEST, text));
    let name = asked.advisory;
    if !(1..=MAX_NAME_BYTES).contains(&name.len()) {
        return wrong(format!("advisory has 1 to {MAX_NAME_BYTES} bytes"));
    }
    let limit = asked.limit.unwrap_or(MAX_SITES);
    if !(1..=MAX_SITES).contains(&limit) {
        return wrong(format!("limit is 1 to {MAX_SITES}, not {limit}"));
    }
    if i32::try_from(asked.offset).is_err() {
        return wrong(format!(
            "offset is {} at most, not {}",
            i32::MAX,
            asked.offset
        ));
    }
    let sites = SitesAsked {
        verdict: asked.verdict.map(AffectedVerdict::from),
        offset: asked.offset as usize,
        limit,
    };
    let now_ms = time::now_ms();
    let found = shared.look({
        let name = name.clone();
        move |store, _| {
            Ok(store.read(|session| affected::of_advisory(session, &name, &sites, now_ms))?)
        }
    });
    match found.await? {
        Some(found) => Ok(Json(found)),
        None => wrong(format!("no advisory `{name}` is on record")),
    }
}
