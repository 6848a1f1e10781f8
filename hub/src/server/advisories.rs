//! Advisories over HTTP: which are on record, which sites one is about, and a new one.
//!
//! What comes in: the name of an advisory, and which of the sites; or a document, from whoever may bring one. What goes out: JSON, and
//! the document on record under the name of the token. It removes nothing: that is done on the hub's own machine.

use outhaul_affected::{MAX_ADVISORY_BYTES, MAX_ADVISORY_NAME_BYTES};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use outhaul_access::Scope;
use outhaul_affected::VulnerabilityDocument;
use outhaul_bundle::hub_api::{
    AdvisoryRow, AffectedSites, AffectedVerdict, ErrorAnswer, ImportedDocument, path,
};
use outhaul_listen::Peer;
use serde::Deserialize;

use super::access::Visitor;
use super::body;
use super::lists::bounded;
use super::problem::{Answers, Guarded, Nothing, Params, Problem, Question};
use super::shared::Shared;
use super::shown::Json;
use crate::advisories;
use crate::store::StoreError;
use crate::time;
use crate::view::affected::{self, SitesAsked};

/// Sites in one answer.
const MAX_SITES: usize = 10_000;

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

/// A document that is brought.
#[utoipa::path(
    post,
    path = path::ADVISORIES,
    tag = "send",
    summary = "Put an advisory, or statements about exploitability, on record; with a token of scope admin",
    request_body(content = String, content_type = "application/json", description = "An advisory in the form of OSV, or a document in the form of OpenVEX; 16 MiB at most"),
    responses(
        (status = 200, description = "What it is, what became of it, and what of it can match nothing here", body = ImportedDocument),
        (status = 408, description = "The body stopped; send it again", body = ErrorAnswer),
        (status = 413, description = "The body is too large", body = ErrorAnswer),
        (status = 422, description = "It is neither of the two, or cannot be taken; it says why", body = ErrorAnswer),
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
) -> Result<Json<ImportedDocument>, Problem> {
    let what = ("advisory import", "brings an advisory");
    let by = visitor
        .writes_by_token(&shared, Scope::Admin, what, path::ADVISORIES)
        .await?;
    let bytes = body::whole(
        &shared.bundles,
        peer,
        body,
        MAX_ADVISORY_BYTES,
        VulnerabilityDocument::EXPECTED,
    )
    .await?;
    let now_ms = time::now_ms();
    let document = VulnerabilityDocument::read(bytes, now_ms).map_err(|why| {
        let text = format!(
            "this was not accepted: {why}; {}",
            VulnerabilityDocument::EXPECTED
        );
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
    })?;
    let done = shared
        .change(move |hub| {
            Ok(hub.store.write(|session| {
                let done = advisories::put(&document, session, &by, now_ms)?;
                if done.new {
                    let entry = visitor.entry("advisory import", format!("`{}`", done.name), true);
                    session.add_access(&entry)?;
                }
                Ok::<_, StoreError>(done)
            })?)
        })
        .await?;
    Ok(Json(done))
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
    if !(1..=MAX_ADVISORY_NAME_BYTES).contains(&name.len()) {
        return wrong(format!("advisory has 1 to {MAX_ADVISORY_NAME_BYTES} bytes"));
    }
    let limit = bounded(asked.limit, MAX_SITES)?;
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
