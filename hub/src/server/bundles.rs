//! Bundles over HTTP: which are on record, how large each is, and where its sites stand.
//!
//! What comes in: which part of the list. What goes out: JSON or CSV, with a `Link` to the next part. It reads the store and changes nothing:
//! bundles are taken in by the call of the same path.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use outhaul_bundle::hub_api::{BundleRow, escaped, path};
use serde::Deserialize;

use super::lists::{Format, Part};
use super::problem::{Answers, Guarded, Params, Problem, Question};
use super::shared::Shared;
use crate::store::StoreError;
use crate::view;

/// Which part of the list, and of which streams.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct BundlesPart(Part);

impl Question for BundlesPart {
    const NAMES: &[&str] = &["limit", "offset", "environment", "cluster_type", "format"];
}

/// The bundles on record.
#[utoipa::path(
    get,
    path = path::BUNDLES,
    operation_id = "bundles_on_record",
    tag = "read",
    summary = "The bundles on record: how large each is, and where the sites that it is for stand with it",
    params(
        ("limit" = Option<u32>, Query, description = "Rows in one answer; 10,000 without it", minimum = 1, maximum = 10_000),
        ("offset" = Option<i64>, Query, description = "Rows to leave out, in the list's order", minimum = 0, maximum = 2_147_483_647),
        ("environment" = Option<String>, Query, description = "Only bundles of this environment; one that nothing has is refused"),
        ("cluster_type" = Option<String>, Query, description = "Only bundles of this cluster type; one that nothing has is refused"),
        ("format" = inline(Option<Format>), Query, description = "Without it, CSV where `Accept` begins with `text/csv`, else JSON"),
    ),
    responses(
        (status = 200, description = "The bundles by environment and cluster type, the newest first of each; a `Link` with `rel=\"next\"` leads to the next ones, where there are more", content((Vec<BundleRow> = "application/json"), (String = "text/csv; charset=utf-8"))),
        Guarded,
        Answers,
    )
)]
pub(super) async fn listed(
    State(shared): State<Arc<Shared>>,
    Params(BundlesPart(part)): Params<BundlesPart>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = part.form(&headers);
    let (limit, offset, streams) = (part.limit()?, part.offset()?, part.streams()?);
    let answer = shared.look(move |store, _| {
        let streams = (streams.0.as_str(), streams.1.as_str());
        let found = store.read(|session| match view::unknown_name(session, streams)? {
            Some(unknown) => Ok::<_, StoreError>(Err(unknown)),
            None => view::bundle_rows(session, streams, (offset, limit)).map(Ok),
        })?;
        let (rows, is_more) = match found {
            Ok(found) => found,
            Err(unknown) => return Ok(Err(Problem::of_unknown(&unknown))),
        };
        let next = is_more.then(|| {
            let mut next = format!("limit={limit}&offset={}", offset.saturating_add(rows.len()));
            for (name, value) in [("environment", streams.0), ("cluster_type", streams.1)] {
                if !value.is_empty() {
                    next.push_str(&format!("&{name}={}", escaped(value)));
                }
            }
            next
        });
        Ok(Ok(form.answer(path::BUNDLES, next, &rows)?))
    });
    answer.await?
}
