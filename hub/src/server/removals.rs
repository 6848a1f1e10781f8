//! Which reports are no longer kept, over HTTP.
//!
//! What comes in: a site's name, or none, and which part of its ranges. What goes out: JSON: the removals on record, and the numbers of
//! the site that are gone, a bounded number of ranges with a `Link` to those after. A number in one of them is no gap. It removes
//! nothing.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use outhaul_bundle::hub_api::{escaped, path};
use serde::{Deserialize, Serialize};

use super::lists::{bounded, linked};
use super::problem::{Answers, Guarded, Params, Problem, Question};
use super::shared::Shared;
use super::shown::Json;
use super::values::no_site;
use crate::store::{Removal, RemovedRange, StoreError};

/// Removals, and ranges, in one answer.
const LISTED: u32 = 1_000;

/// What is asked.
#[derive(Debug, Deserialize)]
pub(super) struct RemovalsQuestion {
    site: Option<String>,
    limit: Option<u32>,
    after: Option<String>,
}

impl RemovalsQuestion {
    /// After which range: its numbering and first number.
    fn place(&self) -> Result<Option<(String, u64)>, Problem> {
        let Some(after) = &self.after else {
            return Ok(None);
        };
        let place = after.rsplit_once('.').and_then(|(epoch, first)| {
            let first = first.parse::<u64>().ok()?;
            Some((epoch.to_owned(), first))
        });
        match place {
            Some(place) if self.site.is_some() => Ok(Some(place)),
            _ => Err(bad(
                "after is a numbering of the site and a first number, such as `e1.42`: follow the `Link` of the answer",
            )),
        }
    }
}

fn bad(text: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, text)
}

impl Question for RemovalsQuestion {
    const NAMES: &[&str] = &["site", "limit", "after"];
}

/// What was removed because it is old.
#[expect(
    clippy::struct_field_names,
    reason = "they are the names in the answer"
)]
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Removals {
    /// The newest 1,000 removals, the newest first.
    removals: Vec<Removal>,
    /// Whether there are older removals than these.
    older: bool,
    /// Numbers of the site that are no longer kept, by numbering; empty where no site is asked for.
    ranges: Vec<RemovedRange>,
    /// The path and query of the next ranges, as the `Link` has them; `null` where these are the last.
    next: Option<String>,
}

/// Which reports are no longer kept.
#[utoipa::path(
    get,
    path = path::REMOVALS,
    operation_id = "removals",
    tag = "read",
    summary = "When old reports were removed, and which of a site are no longer kept",
    params(
        ("site" = Option<String>, Query, description = "The site whose ranges are listed"),
        ("limit" = Option<u32>, Query, description = "Ranges in one answer; 1,000 without it", minimum = 1, maximum = 1_000),
        ("after" = Option<String>, Query, description = "Ranges after this one: its numbering, a dot and its first number"),
    ),
    responses(
        (status = 200, description = "The removals, the newest first, and ranges of the site; a `Link` with `rel=\"next\"` leads to the next ranges, where there are more. A removed report is known and not missing", body = Removals),
        Answers,
        Guarded,
    )
)]
pub(super) async fn answer(
    State(shared): State<Arc<Shared>>,
    Params(asked): Params<RemovalsQuestion>,
) -> Result<Response, Problem> {
    let (limit, place) = (bounded(asked.limit, LISTED)?, asked.place()?);
    let site = asked.site;
    let name = site.clone().unwrap_or_default();
    let answer = shared.look(move |store, _| {
        let found = store.read(|session| {
            let mut ranges = match &site {
                Some(site) if session.site(site)?.is_none() => return Ok(None),
                Some(site) => {
                    let after = place
                        .as_ref()
                        .map(|(epoch, first)| (epoch.as_str(), *first));
                    session.removed_ranges(site, after, limit.saturating_add(1))?
                }
                None => Vec::new(),
            };
            let shown = usize::try_from(limit).unwrap_or(usize::MAX);
            let is_more = ranges.len() > shown;
            ranges.truncate(shown);
            let mut removals = session.removals(LISTED + 1)?;
            let older = removals.len() > LISTED as usize;
            removals.truncate(LISTED as usize);
            let answer = Removals {
                removals,
                older,
                ranges,
                next: None,
            };
            Ok::<_, StoreError>(Some((answer, is_more)))
        })?;
        Ok(found)
    });
    let (mut answer, is_more) = answer.await?.ok_or_else(|| no_site(&name))?;
    let last = answer.ranges.last().filter(|_| is_more);
    let next = last.map(|last| {
        let after = escaped(&format!("{}.{}", last.epoch, last.first));
        format!("site={}&limit={limit}&after={after}", escaped(&name))
    });
    answer.next = next
        .as_ref()
        .map(|next| format!("{}?{next}", path::REMOVALS));
    Ok(linked(path::REMOVALS, next, Json(answer).into_response()))
}
