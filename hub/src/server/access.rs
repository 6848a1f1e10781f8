//! Who asks, and what they may: every request passes here before anything answers it.
//!
//! What comes in: a request with a token, with the cookie of a session (of a token or of a person), or with neither. What goes out: the answer of
//! whoever is to answer, or a refusal. What is not listed as open needs a login to be read, so that a new page is closed
//! until someone opens it. Each answer leaves with headers that let a browser run and frame nothing.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use outhaul_access::{Scope, Scopes, SessionSecret, bearer, cookie, headers};
use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{ErrorAnswer, escaped, path};
use outhaul_listen::Peer;
use outhaul_oidc::Facts;

use super::problem::Problem;
use super::shared::Shared;
use super::shown::Json;
use crate::error::HubError;
use crate::pages::Shown;
use crate::store::{AccessEntry, PersonSession, StoreError, Token};
use crate::time;

/// The cookie of a session.
pub(super) const SESSION: &str = "outhaul_session";
/// Longest address that one comes back to after the login, in bytes.
const LONGEST_ADDRESS: usize = 2_000;

/// Whoever asks.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    /// The name of their token, or under which the identity provider knows them; `None` for anybody.
    pub(super) name: Option<String>,
    /// What they may.
    scopes: Scopes,
    /// The secret of their session, where they came with one.
    pub(super) secret: Option<SessionSecret>,
    /// The network that they come from.
    peer: String,
    /// Whether the identity provider says who they are.
    is_person: bool,
}

impl Visitor {
    /// Anybody, of this network.
    pub(super) fn stranger(peer: String) -> Self {
        Self {
            name: None,
            scopes: Scopes::default(),
            secret: None,
            peer,
            is_person: false,
        }
    }

    /// Someone whom the identity provider names; with a session, what it allows and its secret.
    pub(super) fn person(session: Option<(String, Scopes, SessionSecret)>, peer: String) -> Self {
        let mut visitor = Self::stranger(peer);
        visitor.is_person = true;
        if let Some((name, scopes, secret)) = session {
            visitor.name = Some(name);
            visitor.scopes = scopes;
            visitor.secret = Some(secret);
        }
        visitor
    }

    /// Whether they may do what needs `scope`.
    pub(super) fn may(&self, scope: Scope) -> bool {
        self.scopes.allow(scope)
    }

    /// What a page says of them.
    pub(super) fn shown(&self) -> Shown {
        Shown {
            name: self.name.clone(),
            form: self.secret.as_ref().map(SessionSecret::form_token),
            may_approve: self.may(Scope::Approve) && self.secret.is_some(),
            is_admin: self.may(Scope::Admin),
        }
    }

    /// The name of a token that may write by `path`: as whom something is put on record. `act` is the action, and `doing` what it is in a sentence.
    ///
    /// # Errors
    /// [`Problem`] 403 for anybody else: a browser's session is no token, since what another page has it send changes nothing.
    pub(super) async fn writes_by_token(
        &self,
        shared: &Arc<Shared>,
        scope: Scope,
        (act, doing): (&str, &str),
        path: &str,
    ) -> Result<String, Problem> {
        let by = self.name.clone().filter(|_| self.secret.is_none());
        if let Some(by) = by.filter(|_| self.may(scope)) {
            return Ok(by);
        }
        // Of anybody, where reading is open, no entry is made: there would be no end of them.
        if self.name.is_some() {
            let entry = self.entry(act, format!("no scope {scope}"), false);
            let write = Some(path.to_owned());
            shared
                .turned_away(entry, StatusCode::FORBIDDEN, write)
                .await;
        }
        let or_admin = if scope == Scope::Admin {
            ""
        } else {
            " or admin"
        };
        // `outhaul promote` states outcomes and asks the gate with one token, and `check` alone asks none.
        let and_record = match scope {
            Scope::Check => {
                "; for `outhaul promote`, which asks the gate with the same token, `--scope record --scope check`"
            }
            _ => "",
        };
        let text = format!(
            "who {doing} needs a token of scope {scope}{or_admin}: `outhaul-hub token create NAME --scope {scope}` on the hub's machine makes \
             one{and_record}"
        );
        Err(Problem::new(StatusCode::FORBIDDEN, text))
    }

    /// The answer to a document that breaks a rule; that someone sent it is on record. `kind` is what it is, `rule` the rule.
    pub(super) async fn refused(
        &self,
        shared: &Arc<Shared>,
        (kind, rule): (&str, &str),
        why: String,
        path: &str,
    ) -> Response {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let detail = match kind == rule {
            true => why.clone(),
            false => format!("{rule}: {why}"),
        };
        let entry = self.entry(kind, detail, false);
        let write = Some(path.to_owned());
        shared.turned_away(entry, status, write).await;
        let answer = ErrorAnswer {
            error: format!("this was not accepted: {why}"),
            rule: Some(rule.to_owned()),
        };
        (status, Extension(NothingToRecord), Json(answer)).into_response()
    }

    /// The record of what they did, or tried.
    pub(super) fn entry(&self, action: &str, detail: String, allowed: bool) -> AccessEntry {
        let how = match &self.secret {
            _ if self.is_person => "oidc",
            Some(_) => "page",
            None => "token",
        };
        AccessEntry {
            id: 0,
            at_ms: time::now_ms(),
            who: self.name.clone().unwrap_or_default(),
            how: how.to_owned(),
            peer: self.peer.clone(),
            action: action.to_owned(),
            detail,
            allowed,
        }
    }
}

/// What answers without a login: whether the hub works, how it is asked, what only takes in what is signed, and the login.
fn is_open(method: &Method, at: &str) -> bool {
    match *method {
        // An event shows the secret of its site: that is looked at where it is taken.
        Method::POST if below(path::WEBHOOKS, at) => true,
        Method::POST => [path::REPORTS, path::BUNDLES, path::REQUESTS, "/login"].contains(&at),
        _ => [
            "/healthz",
            path::OPENAPI,
            "/login",
            "/login/oidc",
            outhaul_oidc::RETURN,
        ]
        .contains(&at),
    }
}

/// Whether `at` lies below a folder of addresses.
fn below(folder: &str, at: &str) -> bool {
    at.strip_prefix(folder)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// What is needed to be answered at all. Whoever sends what nobody signed need not be able to read.
fn needed(method: &Method, at: &str) -> Scope {
    match *method {
        Method::POST if at == path::EXPLANATIONS => Scope::Ingest,
        Method::POST if at == path::CHECKS => Scope::Check,
        _ => Scope::Read,
    }
}

/// Whether a person sees the answer: what programs ask is answered in JSON.
fn is_page(at: &str) -> bool {
    !at.starts_with("/api/") && !["/metrics", "/deployment_state"].contains(&at)
}

/// Lets through who may.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let at = request.uri().path().to_owned();
    let call: String = format!("{} {at}", request.method())
        .chars()
        .take(200)
        .collect();
    let is_write = ![Method::GET, Method::HEAD].contains(request.method());
    let network = peer.network().to_string();
    let answer = if is_open(request.method(), &at) {
        let answer = next.run(request).await;
        let stranger = Visitor::stranger(network);
        with_refusal_on_record(&shared, &stranger, (is_write, call), answer).await
    } else {
        match visitor(&shared, peer, request.headers()).await {
            Err(problem) => {
                let answer = problem.into_response();
                let status = answer.status();
                if matches!(
                    status,
                    StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS
                ) {
                    let detail =
                        format!("{call}: a token that is not known, has expired, or was revoked");
                    let entry = Visitor::stranger(network).entry("token", detail, false);
                    // Kept out or refused: one group.
                    let write = is_write.then_some(call);
                    shared
                        .turned_away(entry, StatusCode::UNAUTHORIZED, write)
                        .await;
                }
                answer
            }
            Ok(visitor)
                if visitor.may(Scope::Read) || visitor.may(needed(request.method(), &at)) =>
            {
                request.extensions_mut().insert(visitor.clone());
                let answer = next.run(request).await;
                with_refusal_on_record(&shared, &visitor, (is_write, call), answer).await
            }
            Ok(visitor) => {
                let wanted = wanted(&request);
                refused(&shared, &visitor, (is_write, call), (&at, &wanted)).await
            }
        }
    };
    with_headers(answer, shared.is_tls)
}

/// Of an answer: what was refused is on record already, or is a form that is shown to a person again.
#[derive(Debug, Clone, Copy)]
pub(super) struct NothingToRecord;

/// Puts on record that what someone sent was too large, or not what is taken there, unless whoever answered did.
async fn with_refusal_on_record(
    shared: &Arc<Shared>,
    visitor: &Visitor,
    (is_write, call): (bool, String),
    answer: Response,
) -> Response {
    let status = answer.status();
    let is_login = call.contains(" /login");
    let (action, why) = match status {
        StatusCode::PAYLOAD_TOO_LARGE => ("send", "it is too large"),
        StatusCode::UNPROCESSABLE_ENTITY => ("send", "it is not what is taken there"),
        StatusCode::TOO_MANY_REQUESTS if is_login => ("login", "too many failed or began of late"),
        _ => return answer,
    };
    if (is_write || is_login) && answer.extensions().get::<NothingToRecord>().is_none() {
        let entry = visitor.entry(action, format!("{call}: {}: {why}", status.as_u16()), false);
        shared.turned_away(entry, status, Some(call)).await;
    }
    answer
}

/// Who asks: by a token, by a session, or anybody.
async fn visitor(
    shared: &Arc<Shared>,
    peer: Peer,
    headers: &HeaderMap,
) -> Result<Visitor, Problem> {
    let now_ms = time::now_ms();
    let network = peer.network();
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let text = value.to_str().unwrap_or_default();
        let token = bearer(text);
        if let Some(found) = token_of(shared, token, now_ms).await? {
            return Ok(of_token(&found, None, network.to_string()));
        }
        // A token that holds is never kept out by those that do not.
        shared.bearers.may_try(network, now_ms)?;
        shared.bearers.failed(network, now_ms);
        let text = "this token is not known, has expired, or was revoked; `outhaul-hub token create` makes one";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, text));
    }
    let secret = cookie_of(headers, SESSION);
    if let Some(secret) = secret {
        match session_of(shared, &secret, now_ms).await? {
            (Some(token), _) => return Ok(of_token(&token, Some(secret), network.to_string())),
            (_, Some(person)) => {
                let scopes = scopes_of(shared, &person);
                // Whoever the settings give nothing any more is anybody.
                if scopes.allow(Scope::Read) {
                    let session = Some((person.name, scopes, secret));
                    return Ok(Visitor::person(session, network.to_string()));
                }
            }
            (None, None) => {}
        }
    }
    Ok(Visitor {
        name: None,
        scopes: match shared.open_reading {
            true => Scopes::of([Scope::Read]),
            false => Scopes::default(),
        },
        secret: None,
        peer: network.to_string(),
        is_person: false,
    })
}

/// The token that a session was begun with, or the person.
async fn session_of(
    shared: &Arc<Shared>,
    secret: &SessionSecret,
    now_ms: i64,
) -> Result<(Option<Token>, Option<PersonSession>), HubError> {
    let digest = secret.digest();
    let longest_ms = shared.oidc.as_ref().map(|oidc| oidc.settings.session_ms());
    shared
        .look(move |store, _| {
            Ok(store.read(|session| {
                let token = session.token_of_session(&digest, now_ms)?;
                let person = match longest_ms {
                    Some(longest_ms) if token.is_none() => {
                        session.person_of_session(&digest, (now_ms, longest_ms))?
                    }
                    _ => None,
                };
                Ok::<_, StoreError>((token, person))
            })?)
        })
        .await
}

/// What a person may do now: by the settings that were read at the start, not by those of the login.
fn scopes_of(shared: &Shared, person: &PersonSession) -> Scopes {
    match &shared.oidc {
        Some(oidc)
            if oidc.settings.issuer == person.issuer
                && oidc.settings.client_id == person.client =>
        {
            Facts::from_json(&person.facts).scopes(&oidc.settings)
        }
        _ => Scopes::default(),
    }
}

/// The token of this text, if it holds. Its digest is looked up, so that no comparison of the token itself can be timed.
pub(super) async fn token_of(
    shared: &Arc<Shared>,
    token: &str,
    now_ms: i64,
) -> Result<Option<Token>, HubError> {
    let digest = Digest::of(token.trim().as_bytes()).hex();
    let find = move |store: &mut crate::store::Store, _: &str| {
        Ok(store.read(|session| session.token(&digest, now_ms))?)
    };
    shared.look(find).await
}

pub(super) fn of_token(token: &Token, secret: Option<SessionSecret>, peer: String) -> Visitor {
    Visitor {
        name: Some(token.name.clone()),
        // Scopes of a newer program allow nothing here.
        scopes: token.scopes.parse().unwrap_or_default(),
        secret,
        peer,
        is_person: false,
    }
}

/// The secret in a cookie of this name.
pub(super) fn cookie_of(headers: &HeaderMap, name: &str) -> Option<SessionSecret> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .find_map(|value| SessionSecret::from_cookie(cookie(value, name)?))
}

/// The address that one comes back to after the login.
fn wanted(request: &Request) -> String {
    let uri = request.uri();
    let wanted = uri.path_and_query().map_or("/", |it| it.as_str());
    match request.method() == Method::GET && wanted.len() <= LONGEST_ADDRESS {
        true => wanted.to_owned(),
        false => "/".to_owned(),
    }
}

/// The answer to who may not read: a page leads to the login, a program learns what to send.
async fn refused(
    shared: &Arc<Shared>,
    visitor: &Visitor,
    (is_write, call): (bool, String),
    (at, wanted): (&str, &str),
) -> Response {
    if visitor.name.is_some() {
        let action = if is_write { "send" } else { "read" };
        let entry = visitor.entry(action, call.clone(), false);
        let write = is_write.then_some(call);
        shared
            .turned_away(entry, StatusCode::FORBIDDEN, write)
            .await;
        let text = "this token may not read: its scopes are for something else; `outhaul-hub token list` shows them";
        return Problem::new(StatusCode::FORBIDDEN, text).into_response();
    }
    if is_page(at) {
        let to = format!("/login?next={}", escaped(wanted));
        return (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response();
    }
    let (doing, scope) = match at {
        path::EXPLANATIONS if is_write => ("sending an explanation to", Scope::Ingest),
        path::CHECKS if is_write => ("stating the outcome of a check at", Scope::Check),
        _ => ("reading", Scope::Read),
    };
    let text = format!(
        "{doing} this hub needs a token: send `Authorization: Bearer TOKEN` (for `outhaul`: the file that \
         `$OUTHAUL_HUB_TOKEN_FILE` names); `outhaul-hub token create NAME --scope {scope}` on the hub's machine makes one"
    );
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (
        challenge,
        Problem::new(StatusCode::UNAUTHORIZED, text).into_response(),
    )
        .into_response()
}

/// The headers of every answer, where it has none of its own.
fn with_headers(mut answer: Response, is_tls: bool) -> Response {
    let headers = answer.headers_mut();
    for (name, value) in headers::of_answers(is_tls) {
        headers
            .entry(HeaderName::from_static(name))
            .or_insert(HeaderValue::from_static(value));
    }
    answer
}
