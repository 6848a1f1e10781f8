//! Lists over HTTP: sites, assignments, requests that wait, refusals.
//!
//! What comes in: which part of a list, and in which form. What goes out: JSON or CSV. Lists are bounded and
//! read from the store part by part, with a `Link` to the next one; no list reads the whole fleet.

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outhaul_bundle::hub_api::{escaped, path};
use serde::Deserialize;
use serde_json::json;

use super::problem::{Answers, Guarded, Params, Problem, Question};
use super::shared::Shared;
use super::shown::Json;
use crate::error::HubError;
use crate::store::{IngestRefusal, SitePage, StoreError};
use crate::time;
use crate::view::table::{Columns, csv};
use crate::view::{AssignmentRow, Reading, RequestRow, SiteRow, request_rows};

/// Rows in one answer, of a list that is read as it grows.
pub(super) const MAX_NEWEST: u32 = 1_000;
/// Rows of a list in one answer.
const MAX_ROWS: usize = 10_000;
/// Sites whose assignments are read at once.
const SITES_AT_ONCE: u64 = 500;

/// Which part of a list.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Part {
    /// Rows in one answer, at most 10,000, which is the default.
    limit: Option<usize>,
    /// Rows to leave out, in the list's order.
    #[serde(default)]
    offset: u32,
    /// Rows of sites after this name; of lists by site only.
    #[serde(default)]
    after: String,
    /// JSON where neither this nor `Accept` asks for CSV.
    format: Option<Format>,
    /// Rows of this environment; of bundles only.
    environment: Option<String>,
    /// Rows of this cluster type; of bundles only.
    cluster_type: Option<String>,
}

/// The form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// Comma-separated values, RFC 4180.
    Csv,
    /// JSON.
    Json,
}

/// In which form a list is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    is_csv: bool,
    /// Whether the address says so, and those of the next parts have to.
    is_named: bool,
}

impl Form {
    /// What `format` says, or else `Accept`.
    pub(super) fn of(format: Option<Format>, headers: &HeaderMap) -> Self {
        let is_csv = match format {
            Some(format) => format == Format::Csv,
            None => headers
                .get(header::ACCEPT)
                .and_then(|value| value.to_str().ok())
                .is_some_and(|value| value.trim().starts_with("text/csv")),
        };
        Self {
            is_csv,
            is_named: format.is_some() && is_csv,
        }
    }

    /// The rows, with a `Link` to the next ones, where there are more.
    ///
    /// # Errors
    /// [`HubError`] for rows that cannot be written.
    pub(super) fn answer<T: Columns>(
        self,
        path: &str,
        more: Option<String>,
        rows: &[T],
    ) -> Result<Response, HubError> {
        let answer = if self.is_csv {
            let kind = [(header::CONTENT_TYPE, "text/csv; charset=utf-8")];
            (kind, csv(rows)?).into_response()
        } else {
            Json(json!(rows)).into_response()
        };
        let form = if self.is_named { "&format=csv" } else { "" };
        Ok(linked(path, more.map(|query| query + form), answer))
    }
}

/// Which part of the list of sites.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct SitesPart(Part);

impl Question for SitesPart {
    const NAMES: &[&str] = &["limit", "offset", "after", "format"];
}

/// Which part of the list of assignments.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct AssignmentsPart(Part);

impl Question for AssignmentsPart {
    const NAMES: &[&str] = &["limit", "offset", "after", "format"];
}

/// Which part of any other list.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct ListPart(Part);

impl Question for ListPart {
    const NAMES: &[&str] = &["limit", "offset", "format"];
}

impl Part {
    /// How many rows are wanted.
    ///
    /// # Errors
    /// [`Problem`] for too few or too many.
    pub(super) fn limit(&self) -> Result<usize, Problem> {
        bounded(self.limit, MAX_ROWS)
    }

    /// How many rows are left out.
    ///
    /// # Errors
    /// [`Problem`] for too many.
    pub(super) fn offset(&self) -> Result<usize, Problem> {
        match i32::try_from(self.offset) {
            Ok(_) => Ok(self.offset as usize),
            Err(_) => Err(Problem::new(
                StatusCode::BAD_REQUEST,
                format!("offset is {} at most, not {}", i32::MAX, self.offset),
            )),
        }
    }

    /// Environment and cluster type of the rows; empty where none is asked for.
    ///
    /// # Errors
    /// [`Problem`] where one is asked for without a name: an empty variable of a script would list everything.
    pub(super) fn streams(&self) -> Result<(String, String), Problem> {
        let environment = named("environment", self.environment.as_deref())?;
        let cluster_type = named("cluster_type", self.cluster_type.as_deref())?;
        Ok((
            environment.unwrap_or_default().to_owned(),
            cluster_type.unwrap_or_default().to_owned(),
        ))
    }

    /// The form that is asked for.
    pub(super) fn form(&self, headers: &HeaderMap) -> Form {
        Form::of(self.format, headers)
    }
}

/// How many rows are wanted of a list that answers `most` at once; so many where nobody says.
///
/// # Errors
/// [`Problem`] for too few or too many.
pub(super) fn bounded<N>(limit: Option<N>, most: N) -> Result<N, Problem>
where
    N: Copy + PartialOrd + From<u8> + fmt::Display,
{
    let limit = limit.unwrap_or(most);
    match (N::from(1)..=most).contains(&limit) {
        true => Ok(limit),
        false => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            format!("limit is 1 to {most}, not {limit}"),
        )),
    }
}

/// The name that is asked for, where one is.
///
/// # Errors
/// [`Problem`] for an empty one.
pub(super) fn named<'a>(
    parameter: &str,
    name: Option<&'a str>,
) -> Result<Option<&'a str>, Problem> {
    if name == Some("") {
        let text = format!("{parameter} is empty: name one, or leave it out");
        return Err(Problem::new(StatusCode::BAD_REQUEST, text));
    }
    Ok(name)
}

/// The rows of one answer, of all that there are.
fn rows<T: Columns>(
    form: Form,
    path: &str,
    (offset, limit): (usize, usize),
    all: &[T],
) -> Result<Response, HubError> {
    let from = offset.min(all.len());
    let to = from.saturating_add(limit).min(all.len());
    let more = (to < all.len()).then(|| format!("limit={limit}&offset={to}"));
    form.answer(path, more, &all[from..to])
}

/// The answer with a `Link` to the next rows, where there are more.
pub(super) fn linked(path: &str, more: Option<String>, answer: Response) -> Response {
    match more {
        None => answer,
        Some(query) => {
            let next = format!("<{path}?{query}>; rel=\"next\"");
            ([(header::LINK, next)], answer).into_response()
        }
    }
}

#[utoipa::path(
    get,
    path = path::SITES,
    tag = "read",
    summary = "What each site should run, does run, and when it last reported",
    params(
        ("limit" = Option<u32>, Query, description = "Rows in one answer; 10,000 without it", minimum = 1, maximum = 10_000),
        ("offset" = Option<i64>, Query, description = "Rows to leave out, in the list's order", minimum = 0, maximum = 2_147_483_647),
        ("after" = Option<String>, Query, description = "Rows of sites after this name"),
        ("format" = inline(Option<Format>), Query, description = "Without it, CSV where `Accept` begins with `text/csv`, else JSON"),
    ),
    responses(
        (
            status = 200,
            description = "The sites by name; a `Link` with `rel=\"next\"` leads to the next ones, where there are more",
            content((Vec<SiteRow> = "application/json"), (String = "text/csv; charset=utf-8"))
        ),
        Guarded,
        Answers,
    )
)]
pub(super) async fn sites(
    State(shared): State<Arc<Shared>>,
    Params(SitesPart(part)): Params<SitesPart>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = part.form(&headers);
    let (limit, offset) = (part.limit()?, part.offset()?);
    let now_ms = time::now_ms();
    let answer = shared.look(move |store, _| {
        let page = SitePage {
            after: &part.after,
            // One more, to know whether there are any.
            limit: limit as u64 + 1,
            offset: offset as u64,
            ..SitePage::ALL
        };
        let reading = store.read(|session| Reading::of(session, page, now_ms))?;
        let mut rows = reading.site_rows(now_ms);
        let more = (rows.len() > limit).then(|| {
            rows.truncate(limit);
            let next = offset.saturating_add(rows.len());
            let after = escaped(&part.after);
            match after.is_empty() {
                true => format!("limit={limit}&offset={next}"),
                false => format!("limit={limit}&offset={next}&after={after}"),
            }
        });
        form.answer(path::SITES, more, &rows)
    });
    Ok(answer.await?)
}

/// Assignments by site, read some sites at a time.
#[utoipa::path(
    get,
    path = path::ASSIGNMENTS,
    tag = "read",
    summary = "What each assignment should be on each site, and is",
    params(
        ("limit" = Option<u32>, Query, description = "Rows in one answer; 10,000 without it", minimum = 1, maximum = 10_000),
        ("offset" = Option<i64>, Query, description = "Rows to leave out, in the list's order", minimum = 0, maximum = 2_147_483_647),
        ("after" = Option<String>, Query, description = "Rows of sites after this name"),
        ("format" = inline(Option<Format>), Query, description = "Without it, CSV where `Accept` begins with `text/csv`, else JSON"),
    ),
    responses(
        (status = 200, description = "The assignments by site; a `Link` with `rel=\"next\"` leads to the next ones, where there are more", content((Vec<AssignmentRow> = "application/json"), (String = "text/csv; charset=utf-8"))),
        Guarded,
        Answers,
    )
)]
pub(super) async fn assignments(
    State(shared): State<Arc<Shared>>,
    Params(AssignmentsPart(part)): Params<AssignmentsPart>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = part.form(&headers);
    let (limit, offset) = (part.limit()?, part.offset()?);
    let now_ms = time::now_ms();
    let answer = shared.look(move |store, _| {
        let mut skip = offset;
        let mut shown: Vec<AssignmentRow> = Vec::new();
        let mut after = part.after.clone();
        let more = loop {
            let page = SitePage {
                after: &after,
                limit: SITES_AT_ONCE,
                ..SitePage::ALL
            };
            let reading = store.read(|session| Reading::of(session, page, now_ms))?;
            let Some(last) = reading.sites.last().map(|site| site.site.clone()) else {
                break false;
            };
            let mut rows = reading.assignment_rows();
            rows.sort_by(|a, b| (&a.site, &a.assignment).cmp(&(&b.site, &b.assignment)));
            let left_out = skip.min(rows.len());
            skip -= left_out;
            shown.extend(rows.into_iter().skip(left_out));
            if shown.len() > limit {
                break true;
            }
            after = last;
        };
        shown.truncate(limit);
        let next = more.then(|| {
            // The next answer begins with a site that this one has in part, if it has one in part.
            let last = shown.last().map(|row| row.site.clone()).unwrap_or_default();
            let in_part = shown
                .iter()
                .rev()
                .take_while(|row| row.site == last)
                .count();
            let before = shown.iter().rev().nth(in_part).map(|row| row.site.clone());
            match before {
                Some(before) => {
                    let before = escaped(&before);
                    format!("limit={limit}&after={before}&offset={in_part}")
                }
                None if part.after.is_empty() => {
                    format!("limit={limit}&offset={}", offset + shown.len())
                }
                None => format!(
                    "limit={limit}&after={}&offset={}",
                    escaped(&part.after),
                    offset + shown.len()
                ),
            }
        });
        form.answer(path::ASSIGNMENTS, next, &shown)
    });
    Ok(answer.await?)
}

/// The requests that wait, with the fingerprints that a person compares.
#[utoipa::path(
    get,
    path = path::REQUESTS,
    tag = "read",
    summary = "Enrolment requests that wait for a person",
    params(
        ("limit" = Option<u32>, Query, description = "Rows in one answer; 10,000 without it", minimum = 1, maximum = 10_000),
        ("offset" = Option<i64>, Query, description = "Rows to leave out, in the list's order", minimum = 0, maximum = 2_147_483_647),
        ("format" = inline(Option<Format>), Query, description = "Without it, CSV where `Accept` begins with `text/csv`, else JSON"),
    ),
    responses(
        (status = 200, description = "The requests; a `Link` with `rel=\"next\"` leads to the next ones, where there are more", content((Vec<RequestRow> = "application/json"), (String = "text/csv; charset=utf-8"))),
        Guarded,
        Answers,
    )
)]
pub(super) async fn waiting(
    State(shared): State<Arc<Shared>>,
    Params(ListPart(part)): Params<ListPart>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = part.form(&headers);
    let part = (part.offset()?, part.limit()?);
    let answer = shared.look(move |store, _| {
        let shown = store.read(|session| {
            let pending = session.pending_requests(u32::MAX)?;
            Ok::<_, StoreError>(request_rows(&pending, &session.site_states()?))
        })?;
        rows(form, path::REQUESTS, part, &shown)
    });
    Ok(answer.await?)
}

/// What was refused, one row per transport, site and rule.
#[utoipa::path(
    get,
    path = path::REFUSALS,
    tag = "read",
    summary = "What was refused",
    params(
        ("limit" = Option<u32>, Query, description = "Rows in one answer; 10,000 without it", minimum = 1, maximum = 10_000),
        ("offset" = Option<i64>, Query, description = "Rows to leave out, in the list's order", minimum = 0, maximum = 2_147_483_647),
        ("format" = inline(Option<Format>), Query, description = "Without it, CSV where `Accept` begins with `text/csv`, else JSON"),
    ),
    responses(
        (status = 200, description = "The refusals, one per transport, site and rule; a `Link` with `rel=\"next\"` leads to the next ones, where there are more", content((Vec<IngestRefusal> = "application/json"), (String = "text/csv; charset=utf-8"))),
        Guarded,
        Answers,
    )
)]
pub(super) async fn refusals(
    State(shared): State<Arc<Shared>>,
    Params(ListPart(part)): Params<ListPart>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = part.form(&headers);
    let part = (part.offset()?, part.limit()?);
    let answer = shared.look(move |store, _| {
        let shown = store.read(|session| session.refusals(u32::MAX))?;
        rows(form, path::REFUSALS, part, &shown)
    });
    Ok(answer.await?)
}
