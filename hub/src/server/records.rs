//! The hub's record over HTTP: what gates decided, what people and checks put on record, who did what with which right.
//!
//! What comes in: below which number, how many, and in which form. What goes out: JSON or CSV, the newest first, with a `Link` to those
//! before. Who did what is for whoever has scope `admin`. It reads the store and changes nothing.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use outhaul_access::Scope;
use outhaul_bundle::hub_api::{AccessRow, ActRow, DecisionAnswer, DecisionRow, escaped, path};
use serde::Deserialize;

use super::access::Visitor;
use super::lists::{Form, Format, MAX_NEWEST, bounded, named};
use super::problem::{Answers, Guarded, Params, Problem, Question};
use super::shared::Shared;
use super::shown::Json;
use crate::store::StoreError;
use crate::time;
use crate::view::{on_record, unknown_name};

/// Which part of a list that grows at its beginning.
#[derive(Debug, Deserialize)]
pub(super) struct Newest {
    /// Only rows with a lower number.
    before: Option<i64>,
    limit: Option<u32>,
    format: Option<Format>,
    /// Of decisions only.
    environment: Option<String>,
    /// Of entries of people and checks only.
    #[serde(default)]
    in_force: bool,
}

impl Newest {
    /// Below which number, and how many.
    fn part(&self) -> Result<(i64, u32), Problem> {
        let wrong = |text: String| Problem::new(StatusCode::BAD_REQUEST, text);
        let limit = bounded(self.limit, MAX_NEWEST)?;
        let below = self.before.unwrap_or(i64::MAX);
        if below < 1 {
            return Err(wrong(format!(
                "before is a number of the list, 1 to {}",
                i64::MAX
            )));
        }
        Ok((below, limit))
    }
}

/// Which decisions.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct DecisionsPart(Newest);

impl Question for DecisionsPart {
    const NAMES: &[&str] = &["before", "limit", "format", "environment"];
}

/// Which entries of people and checks.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct ActsPart(Newest);

impl Question for ActsPart {
    const NAMES: &[&str] = &["before", "limit", "format", "in_force"];
}

/// Which uses of rights.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct AccessPart(Newest);

impl Question for AccessPart {
    const NAMES: &[&str] = &["before", "limit", "format"];
}

/// Which decision.
#[derive(Debug, Deserialize)]
pub(super) struct OfDecision {
    number: i64,
}

impl Question for OfDecision {
    const NAMES: &[&str] = &["number"];
}

/// One row more than is answered was read, to know whether there are more: the rows, and the question for those before.
fn cut<T>(
    mut rows: Vec<T>,
    limit: u32,
    number: impl Fn(&T) -> i64,
    more: &str,
) -> (Vec<T>, Option<String>) {
    let is_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let last = rows.last().filter(|_| is_more);
    let next = last.map(|last| format!("limit={limit}&before={}{more}", number(last)));
    (rows, next)
}

/// What gates decided.
#[utoipa::path(
    get,
    path = path::DECISIONS,
    operation_id = "decisions",
    tag = "gate",
    summary = "What gates decided, the newest first",
    params(
        ("before" = Option<i64>, Query, description = "Only decisions with a lower number", minimum = 1, maximum = 9_223_372_036_854_775_807i64),
        ("limit" = Option<u32>, Query, description = "Rows in one answer; 1,000 without it", minimum = 1, maximum = 1_000),
        ("environment" = Option<String>, Query, description = "Only decisions about this environment; one that nothing has is refused"),
        ("format" = inline(Option<Format>), Query, description = "Without it, CSV where `Accept` begins with `text/csv`, else JSON"),
    ),
    responses(
        (status = 200, description = "The decisions; of those that did not open a gate the newest 1,000 of an environment are kept, of older ones number, verdict and digest. A `Link` with `rel=\"next\"` leads to those before, where there are more", content((Vec<DecisionRow> = "application/json"), (String = "text/csv; charset=utf-8"))),
        Guarded,
        Answers,
    )
)]
pub(super) async fn decisions(
    State(shared): State<Arc<Shared>>,
    Params(DecisionsPart(asked)): Params<DecisionsPart>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = Form::of(asked.format, &headers);
    let (below, limit) = asked.part()?;
    named("environment", asked.environment.as_deref())?;
    let found = shared.look(move |store, _| {
        let (environment, at_most) = (asked.environment.as_deref(), limit + 1);
        let read = store.read(|session| {
            let rows = match environment {
                None => session.chained_decisions(below, at_most)?,
                Some(environment) => {
                    let rows = session.chained_decisions_of(environment, below, at_most)?;
                    if let (true, Some(unknown)) =
                        (rows.is_empty(), unknown_name(session, (environment, ""))?)
                    {
                        return Ok(Err(unknown));
                    }
                    rows
                }
            };
            Ok::<_, StoreError>(Ok(rows))
        })?;
        let rows = match read {
            Ok(rows) => rows.into_iter().map(on_record::decision_row).collect(),
            Err(unknown) => return Ok(Err(Problem::of_unknown(&unknown))),
        };
        let more = environment.map_or_else(String::new, |environment| {
            format!("&environment={}", escaped(environment))
        });
        let (rows, next) = cut(rows, limit, |row: &DecisionRow| row.number, &more);
        Ok(Ok(form.answer(path::DECISIONS, next, &rows)?))
    });
    found.await?
}

/// One decision.
#[utoipa::path(
    get,
    path = path::DECISION,
    operation_id = "decision",
    tag = "gate",
    summary = "One decision of a gate, with each site and the report that it rests on",
    params(("number" = i64, Query, description = "Its number")),
    responses(
        (status = 200, description = "The decision as it was recorded", body = DecisionAnswer),
        (status = 404, description = "No such decision is kept", body = outhaul_bundle::hub_api::ErrorAnswer),
        Guarded,
        Answers,
    )
)]
pub(super) async fn decision(
    State(shared): State<Arc<Shared>>,
    Params(OfDecision { number }): Params<OfDecision>,
) -> Result<Json<DecisionAnswer>, Problem> {
    let found = shared.look(move |store, _| Ok(store.read(|session| session.decision(number))?));
    let Some((record, lines)) = found.await? else {
        let text = format!(
            "no decision {number} is on record: of those that did not open a gate the last thousand of each environment are kept"
        );
        return Err(Problem::new(StatusCode::NOT_FOUND, text));
    };
    Ok(Json(on_record::decision_answer(number, record, &lines)))
}

/// What people and checks put on record.
#[utoipa::path(
    get,
    path = path::ACTS,
    operation_id = "acts",
    tag = "gate",
    summary = "Approvals, holds, waivers, deferrals, outcomes of checks and what else people put on record about gates, the newest first",
    params(
        ("before" = Option<i64>, Query, description = "Only entries with a lower number", minimum = 1, maximum = 9_223_372_036_854_775_807i64),
        ("limit" = Option<u32>, Query, description = "Rows in one answer; 1,000 without it", minimum = 1, maximum = 1_000),
        ("in_force" = Option<bool>, Query, description = "Only approvals, holds, waivers and deferrals that gates count now"),
        ("format" = inline(Option<Format>), Query, description = "Without it, CSV where `Accept` begins with `text/csv`, else JSON"),
    ),
    responses(
        (status = 200, description = "The entries; a `Link` with `rel=\"next\"` leads to those before, where there are more", content((Vec<ActRow> = "application/json"), (String = "text/csv; charset=utf-8"))),
        Guarded,
        Answers,
    )
)]
pub(super) async fn acts(
    State(shared): State<Arc<Shared>>,
    Params(ActsPart(asked)): Params<ActsPart>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = Form::of(asked.format, &headers);
    let ((below, limit), only) = (asked.part()?, asked.in_force);
    let now_ms = time::now_ms();
    let found = shared.look(move |store, _| {
        let rows =
            store.read(|session| on_record::act_rows(session, (below, limit + 1), only, now_ms))?;
        let more = if only { "&in_force=true" } else { "" };
        let (rows, next) = cut(rows, limit, |row: &ActRow| row.number, more);
        form.answer(path::ACTS, next, &rows)
    });
    Ok(found.await?)
}

/// Who did what with which right.
#[utoipa::path(
    get,
    path = path::ACCESS,
    operation_id = "access",
    tag = "operate",
    summary = "Who did what with which right, and who was refused, the newest first; for scope `admin`",
    params(
        ("before" = Option<i64>, Query, description = "Only entries with a lower number", minimum = 1, maximum = 9_223_372_036_854_775_807i64),
        ("limit" = Option<u32>, Query, description = "Rows in one answer; 1,000 without it", minimum = 1, maximum = 1_000),
        ("format" = inline(Option<Format>), Query, description = "Without it, CSV where `Accept` begins with `text/csv`, else JSON"),
    ),
    responses(
        (status = 200, description = "The entries; a `Link` with `rel=\"next\"` leads to those before, where there are more", content((Vec<AccessRow> = "application/json"), (String = "text/csv; charset=utf-8"))),
        Guarded,
        Answers,
    )
)]
pub(super) async fn access(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    Params(AccessPart(asked)): Params<AccessPart>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !visitor.may(Scope::Admin) {
        let text = "who did what is for whoever has scope admin: `outhaul-hub token create NAME --scope admin` on the hub's \
                    machine makes a token of it";
        return Err(Problem::new(StatusCode::FORBIDDEN, text));
    }
    let form = Form::of(asked.format, &headers);
    let (below, limit) = asked.part()?;
    let found = shared.look(move |store, _| {
        let log = store.read(|session| session.access_log(below, limit + 1))?;
        let rows = log.into_iter().map(on_record::access_row).collect();
        let (rows, next) = cut(rows, limit, |row: &AccessRow| row.number, "");
        form.answer(path::ACCESS, next, &rows)
    });
    Ok(found.await?)
}
