//! The login of a browser, and its end.
//!
//! What comes in: a token, in a form that this hub made. What goes out: the cookie of a session, which no script of any page
//! can read and which no other site's page makes the browser send. Who fails often waits. Both ways it is on record. How people
//! log in at an identity provider is in [`super::people`].

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use outhaul_access::{Scope, SessionSecret, own};
use outhaul_bundle::Digest;
use outhaul_listen::Peer;
use serde::Deserialize;

use super::access::{self, SESSION, Visitor, cookie_of, of_token};
use super::forms::Fields;
use super::pages::{Page, PageQuestion, Wrong, html_of};
use super::problem::{Params, Question};
use super::shared::Shared;
use crate::error::HubError;
use crate::pages::{self, LoginForm};
use crate::state::StateError;
use crate::time;

/// The cookie of a login that has not happened yet: what ties its form to this browser.
const LOGIN: &str = "outhaul_login";
/// How long a session lasts, whatever is done in it, in milliseconds.
const SESSION_MS: i64 = 12 * 60 * 60 * 1000;
/// How long the form of the login holds, in seconds.
const FORM_SECONDS: i64 = 60 * 60;

pub(super) fn router() -> Router<Arc<Shared>> {
    Router::new()
        .route("/login", get(form).post(login))
        .route("/logout", post(logout))
}

/// Where to go after the login.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LoginQuestion {
    pub(super) next: String,
}

impl Question for LoginQuestion {
    const NAMES: &[&str] = &["next"];
}

async fn form(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    asked: PageQuestion<LoginQuestion>,
) -> Page {
    let Params(LoginQuestion { next }) = asked?;
    shown(&shared, &headers, &next, None)
}

/// Why the page with the form is shown again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal<'a> {
    pub(super) status: StatusCode,
    pub(super) problem: &'a str,
}

impl<'a> Refusal<'a> {
    fn of(problem: &'a str) -> Self {
        let status = StatusCode::FORBIDDEN;
        Self { status, problem }
    }
}

/// The page with the form.
pub(super) fn shown(
    shared: &Shared,
    headers: &HeaderMap,
    next: &str,
    refusal: Option<Refusal<'_>>,
) -> Page {
    let secret = match cookie_of(headers, LOGIN) {
        Some(secret) => secret,
        None => SessionSecret::of(random()?),
    };
    let now = time::rfc3339(time::now_ms());
    let html = pages::login(&LoginForm {
        next: own(next),
        form: &secret.form_token(),
        problem: refusal.map(|refusal| refusal.problem),
        provider: shared.oidc.as_ref().map(|oidc| oidc.settings.shown_label()),
        read_at: &now,
    });
    let mut answer = html_of(html.map_err(HubError::from)?);
    let pair = (LOGIN, secret.cookie());
    let kept = new_cookie(pair, FORM_SECONDS, SameSite::Strict, shared.is_tls);
    answer.headers_mut().append(header::SET_COOKIE, kept);
    if let Some(refusal) = refusal {
        *answer.status_mut() = refusal.status;
    }
    Ok(answer)
}

async fn login(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Page {
    let now_ms = time::now_ms();
    let network = peer.network();
    shared.tokens.may_try(network, now_ms)?;
    let made_by = cookie_of(&headers, LOGIN);
    let who = Visitor::stranger(network.to_string());
    let fields = Fields::read(&shared, (peer, &who), &headers, body, made_by.as_ref()).await?;
    let (token, next) = (fields.text("token").to_owned(), fields.text("next"));
    let found = access::token_of(&shared, &token, now_ms).await?;
    let secret = SessionSecret::of(random()?);
    let Some(found) = found else {
        shared.tokens.failed(network, now_ms);
        let detail = "a token that is not known, has expired, or was revoked".to_owned();
        shared.record(who.entry("login", detail, false)).await?;
        let problem = "This token is not known, has expired, or was revoked.";
        return shown(&shared, &headers, next, Some(Refusal::of(problem)));
    };
    let visitor = of_token(&found, Some(secret.clone()), network.to_string());
    if !visitor.may(Scope::Read) {
        let entry = visitor.entry("login", format!("scopes {}", found.scopes), false);
        shared.record(entry).await?;
        let problem = "This token is for programs: it may not read.";
        return shown(&shared, &headers, next, Some(Refusal::of(problem)));
    }
    shared.begun.spend(&found.name, now_ms)?;
    let entry = visitor.entry("login", format!("scopes {}", found.scopes), true);
    let (session, of) = (secret.digest(), Digest::of(token.as_bytes()).hex());
    let ends_ms = found
        .expires_ms
        .unwrap_or(i64::MAX)
        .min(now_ms + SESSION_MS);
    shared
        .change(move |hub| {
            Ok(hub.store.write(|store| {
                store.add_access(&entry)?;
                store.begin_session(&session, &of, (now_ms, ends_ms))
            })?)
        })
        .await?;
    let seconds = (ends_ms - now_ms) / 1000;
    Ok(away(
        own(next),
        &[
            new_cookie(
                (SESSION, secret.cookie()),
                seconds,
                SameSite::Strict,
                shared.is_tls,
            ),
            new_cookie((LOGIN, ""), 0, SameSite::Strict, shared.is_tls),
        ],
    ))
}

async fn logout(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    body: Body,
) -> Page {
    Fields::of_session(&shared, (peer, &visitor), &headers, body).await?;
    let entry = visitor.entry("logout", String::new(), true);
    let session = visitor.secret.map(|secret| secret.digest());
    shared
        .change(move |hub| {
            Ok(hub.store.write(|store| {
                store.add_access(&entry)?;
                session.map_or(Ok(()), |session| store.end_session(&session))
            })?)
        })
        .await?;
    let ended = new_cookie((SESSION, ""), 0, SameSite::Strict, shared.is_tls);
    Ok(away("/login", &[ended]))
}

/// Random bytes of a secret.
pub(super) fn random() -> Result<[u8; 32], Wrong> {
    let mut bytes = [0; 32];
    outhaul_signer::key::random(&mut bytes)
        .map_err(|error| HubError::from(StateError::from(error)))?;
    Ok(bytes)
}

/// With which requests a browser sends a cookie.
#[derive(Debug, Clone, Copy)]
pub(super) enum SameSite {
    /// None that another site's page causes.
    Strict,
    /// Also when another site's page leads here.
    Lax,
}

/// A cookie that no script reads: its name and value, and for how many seconds.
pub(super) fn new_cookie(
    (name, value): (&str, &str),
    seconds: i64,
    same_site: SameSite,
    is_tls: bool,
) -> header::HeaderValue {
    let secure = if is_tls { "; Secure" } else { "" };
    let text = format!(
        "{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site:?}{secure}"
    );
    // Names and values are of letters, digits, `-`, `_` and `.`.
    header::HeaderValue::try_from(text).unwrap_or(header::HeaderValue::from_static(""))
}

/// The answer to a form that was done: another page, so that a reload repeats nothing.
pub(super) fn away(to: &str, cookies: &[header::HeaderValue]) -> Response {
    let mut answer = (StatusCode::SEE_OTHER, [(header::LOCATION, to.to_owned())]).into_response();
    for cookie in cookies {
        answer
            .headers_mut()
            .append(header::SET_COOKIE, cookie.clone());
    }
    answer
}
