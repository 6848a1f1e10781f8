//! The pages' addresses: what a browser asks for, and the HTML that it gets.
//!
//! What comes in: addresses with names and parameters that anybody may write. What goes out: HTML with headers that let
//! it load and run nothing. It writes nothing, and reads a bounded part of the store for each page but the fleet's.

mod advisories;
mod bundles;
mod explained;

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use outhaul_access::Scope;
use outhaul_kit::text::chain;
use serde::Deserialize;

use super::access::Visitor;
use super::problem::{Nothing, Params, Problem, Question};
use super::shared::Shared;
use crate::error::HubError;
use crate::pages::{self, DecisionList};
use crate::store::StoreError;
use crate::time;
use crate::view::{
    Board, Environments, STATES, SiteList, SiteSearch, SiteView, TimelineBefore, unknown_name,
};

/// Decisions on one page.
const DECISIONS_SHOWN: usize = 50;
/// Longest text that sites are looked for by, in characters.
const LONGEST: usize = 100;

pub(super) fn router() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(fleet))
        .route("/sites", get(sites))
        .route("/sites/{name}", get(site))
        .route(
            "/sites/{name}/assignments/{assignment}",
            get(bundles::assignment),
        )
        .route("/bundles", get(bundles::all))
        .route(
            "/bundles/{environment}/{cluster_type}/{number}",
            get(bundles::one),
        )
        .route("/compare", get(bundles::compare))
        .route("/environments", get(environments))
        .route("/environments/{name}", get(environment))
        .route("/decisions", get(decisions))
        .route("/advisories", get(advisories::all))
        .route("/advisories/{name}", get(advisories::one))
        .route(
            "/explain/{environment}/{cluster_type}/{target}",
            get(explained::pair),
        )
        .route("/platform", get(explained::platforms))
        .route("/platform/{environment}", get(explained::platform))
        .route("/platform/{environment}/{kind}", get(explained::kind))
        .route(
            "/platform/{environment}/{kind}/{name}",
            get(explained::entity),
        )
        .route("/access", get(access))
}

/// What a browser is answered that cannot be shown what it asks for.
pub(super) struct Wrong {
    status: StatusCode,
    text: String,
}

impl Wrong {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { status, text }
    }
}

impl From<Problem> for Wrong {
    fn from(problem: Problem) -> Self {
        let (status, text) = problem.parts();
        Self { status, text }
    }
}

impl From<HubError> for Wrong {
    fn from(error: HubError) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let title = match self.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::BAD_REQUEST => "This address cannot be read",
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => "This is not allowed",
            status if status.is_client_error() => "This cannot be done",
            _ => "The hub cannot answer now",
        };
        match pages::problem(title, &self.text, &time::rfc3339(time::now_ms())) {
            Ok(html) => (self.status, html_of(html)).into_response(),
            Err(error) => {
                tracing::error!(error = chain(&error), "a page failed");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

pub(super) fn html_of(html: String) -> Response {
    let headers: [(HeaderName, &str); 5] = [
        // Nothing is loaded and nothing runs: even a text that escaped escaping could do nothing.
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; frame-ancestors 'none'; \
             base-uri 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, Html(html)).into_response()
}

pub(super) type Page = Result<Response, Wrong>;
/// A question of a page, or why it cannot be read.
pub(super) type PageQuestion<T> = Result<Params<T>, Problem>;
/// A name in an address, or why it is not one.
type Named = Result<Path<String>, PathRejection>;

fn name_of(name: Named) -> Result<String, Wrong> {
    let wrong = |_| {
        Wrong::new(
            StatusCode::BAD_REQUEST,
            "the name in this URL is not UTF-8 text",
        )
    };
    name.map(|Path(name)| name).map_err(wrong)
}

/// Which sites.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SitesQuestion {
    q: String,
    environment: String,
    cluster_type: String,
    state: String,
    after: String,
}

impl Question for SitesQuestion {
    const NAMES: &[&str] = &["q", "environment", "cluster_type", "state", "after"];
}

/// From which place on.
#[derive(Debug, Deserialize)]
struct ReportsQuestion {
    before: Option<String>,
}

impl Question for ReportsQuestion {
    const NAMES: &[&str] = &["before"];
}

/// From which number on.
#[derive(Debug, Deserialize)]
struct DecisionsQuestion {
    before: Option<i64>,
}

impl Question for DecisionsQuestion {
    const NAMES: &[&str] = &["before"];
}

async fn fleet(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    asked: PageQuestion<Nothing>,
) -> Page {
    asked?;
    let html = shared
        .fleet(move |fleet| Ok(pages::render(&fleet, &visitor.shown())?))
        .await?;
    Ok(html_of(html))
}

async fn sites(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    asked: PageQuestion<SitesQuestion>,
) -> Page {
    let Params(asked) = asked?;
    let wanted = SiteSearch {
        q: asked.q.trim().to_owned(),
        environment: asked.environment,
        cluster_type: asked.cluster_type,
        state: asked.state,
        after: asked.after,
    };
    if !wanted.state.is_empty() && !STATES.contains(&wanted.state.as_str()) {
        let text = format!("`state` is one of {}", STATES.join(", "));
        return Err(Wrong::new(StatusCode::BAD_REQUEST, text));
    }
    let texts = [
        &wanted.q,
        &wanted.environment,
        &wanted.cluster_type,
        &wanted.after,
    ];
    if texts.iter().any(|text| text.chars().count() > LONGEST) {
        let text = format!("sites are looked for by {LONGEST} characters at most");
        return Err(Wrong::new(StatusCode::BAD_REQUEST, text));
    }
    let now_ms = time::now_ms();
    let html = shared.look(move |store, _| {
        let found = store.read(|session| {
            let names = (wanted.environment.as_str(), wanted.cluster_type.as_str());
            match unknown_name(session, names)? {
                Some(unknown) => Ok::<_, StoreError>(Err(unknown)),
                None => SiteList::of(session, wanted, now_ms).map(Ok),
            }
        })?;
        Ok(match found {
            Ok(list) => Ok(pages::sites(&list, &visitor.shown())?),
            Err(unknown) => Err(Problem::of_unknown(&unknown)),
        })
    });
    Ok(html_of(html.await??))
}

async fn site(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    name: Named,
    asked: PageQuestion<ReportsQuestion>,
) -> Page {
    let name = name_of(name)?;
    let Params(asked) = asked?;
    let before = match asked.before {
        None => None,
        Some(text) => {
            let place = text.parse::<TimelineBefore>();
            Some(place.map_err(|text| Wrong::new(StatusCode::BAD_REQUEST, text))?)
        }
    };
    let now_ms = time::now_ms();
    let found = shared.look({
        let name = name.clone();
        move |store, _| {
            store.read(
                |session| match SiteView::of(session, &name, before, now_ms)? {
                    Some(view) => {
                        let not_taken = match session.webhook_site(&name)? {
                            Some(site) => outhaul_webhooks::not_taken(session, &site)?,
                            None => Vec::new(),
                        };
                        let html = pages::site(&view, &not_taken, &visitor.shown())?;
                        Ok::<_, HubError>(Ok(html))
                    }
                    None => Ok(Err(session.requests_of(&name)?.len())),
                },
            )
        }
    });
    match found.await? {
        Ok(html) => Ok(html_of(html)),
        Err(waiting) => {
            let requests = match waiting {
                0 => String::new(),
                _ => "; a request for this name waits: the fleet's page shows its fingerprint"
                    .to_owned(),
            };
            let text = format!("No site `{}` is registered{requests}.", cut(&name));
            Err(Wrong::new(StatusCode::NOT_FOUND, text))
        }
    }
}

async fn environments(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    asked: PageQuestion<Nothing>,
) -> Page {
    asked?;
    let now_ms = time::now_ms();
    let html = shared.look(move |store, _| {
        let all = store.read(|session| Environments::take(session, now_ms))?;
        Ok(pages::environments(&all, &visitor.shown())?)
    });
    Ok(html_of(html.await?))
}

async fn environment(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    name: Named,
    asked: PageQuestion<Nothing>,
) -> Page {
    let name = name_of(name)?;
    asked?;
    let now_ms = time::now_ms();
    let html = shared.look({
        let name = name.clone();
        move |store, _| {
            let board = store.read(|session| Board::of(session, &name, now_ms))?;
            Ok(board
                .map(|board| pages::board(&board, &visitor.shown()))
                .transpose()?)
        }
    });
    match html.await? {
        Some(html) => Ok(html_of(html)),
        None => {
            let text = format!(
                "No site and no bundle of an environment `{}` is known to this hub.",
                cut(&name)
            );
            Err(Wrong::new(StatusCode::NOT_FOUND, text))
        }
    }
}

async fn decisions(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    asked: PageQuestion<DecisionsQuestion>,
) -> Page {
    let Params(DecisionsQuestion { before }) = asked?;
    let now_ms = time::now_ms();
    let html = shared.look(move |store, _| {
        let at_most = u32::try_from(DECISIONS_SHOWN + 1).unwrap_or(u32::MAX);
        let mut rows = store.read(|session| {
            let below = before.unwrap_or(i64::MAX);
            session.chained_decisions(below, at_most)
        })?;
        let is_more = rows.len() > DECISIONS_SHOWN;
        rows.truncate(DECISIONS_SHOWN);
        let list = DecisionList {
            next: rows.last().filter(|_| is_more).map(|last| last.id),
            rows,
            before,
            read_at: time::rfc3339(now_ms),
        };
        Ok(pages::decisions(&list, &visitor.shown())?)
    });
    Ok(html_of(html.await?))
}

async fn access(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    asked: PageQuestion<DecisionsQuestion>,
) -> Page {
    let Params(DecisionsQuestion { before }) = asked?;
    if !visitor.may(Scope::Admin) {
        let text = "Who did what is for whoever has scope `admin`.";
        return Err(Wrong::new(StatusCode::FORBIDDEN, text));
    }
    let now_ms = time::now_ms();
    let html = shared.look(move |store, _| {
        let below = before.unwrap_or(i64::MAX);
        let at_most = u32::try_from(DECISIONS_SHOWN + 1).unwrap_or(u32::MAX);
        let (tokens, people, mut log) = store.read(|session| {
            let (tokens, people) = (session.tokens()?, session.people(now_ms)?);
            Ok::<_, StoreError>((tokens, people, session.access_log(below, at_most)?))
        })?;
        let is_more = log.len() > DECISIONS_SHOWN;
        log.truncate(DECISIONS_SHOWN);
        let next = log.last().filter(|_| is_more).map(|last| last.id);
        let read_at = time::rfc3339(now_ms);
        Ok(pages::access(
            (&tokens, &people),
            &log,
            (before, next),
            (now_ms, &read_at),
            &visitor.shown(),
        )?)
    });
    Ok(html_of(html.await?))
}

/// A name as someone wrote it in an address, cut where it is not one.
fn cut(name: &str) -> String {
    name.chars().take(LONGEST).collect()
}
