//! The login of a person at the identity provider: the way there and the way back.
//!
//! What comes in: a browser that begins, and one that comes back with a code. What goes out: the provider's address, and the cookie
//! of a session as a token's login sets it. What ties the two is in a cookie that this browser alone holds: another browser's
//! answer, or another site's, begins nothing. The provider is asked off the event loop, and only here.
//!
//! The way there is a link and no form: browsers hold `form-action` of a page against redirects as well. The cookie of the way is
//! `SameSite=Lax`, because the provider's page leads back. The session's is `SameSite=Strict`, and goes with no request that
//! follows from that page: so a page of this hub is answered, which continues automatically.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::routing::get;
use outhaul_access::{Scope, SessionSecret, cookie, own};
use outhaul_bundle::hub_api::escaped;
use outhaul_listen::Peer;
use outhaul_oidc::{Attempt, LIFETIME_MS, LoginError, Oidc, Person, Returned};

use super::access::{SESSION, Visitor};
use super::login::{LoginQuestion, Refusal, SameSite, away, new_cookie, random, shown};
use super::pages::{Page, PageQuestion, Wrong, html_of};
use super::problem::Params;
use super::shared::{Shared, off_the_loop};
use crate::error::HubError;
use crate::pages;
use crate::store::{PersonLogin, PersonSession};
use crate::time;

pub(super) fn router() -> Router<Arc<Shared>> {
    Router::new()
        .route("/login/oidc", get(begin))
        .route(outhaul_oidc::RETURN, get(finish))
}

/// The cookie of a login on its way. Over TLS no other host of the domain can set one of this name.
fn name_of(oidc: &Oidc) -> &'static str {
    match oidc.settings.is_tls() {
        true => "__Host-outhaul_oidc",
        false => "outhaul_oidc",
    }
}

fn oidc_of(shared: &Shared) -> Result<Arc<Oidc>, Wrong> {
    shared.oidc.clone().ok_or_else(|| {
        let text = "This hub asks no identity provider: `outhaul-hub serve --oidc FILE` names one. Log in with a token.";
        Wrong::new(StatusCode::NOT_FOUND, text)
    })
}

async fn begin(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    asked: PageQuestion<LoginQuestion>,
) -> Page {
    let Params(LoginQuestion { next }) = asked?;
    let oidc = oidc_of(&shared)?;
    // Nobody is logged in because a page elsewhere leads here.
    let from = headers.get("sec-fetch-site").map(|value| value.as_bytes());
    if from == Some(b"cross-site".as_slice()) {
        return Ok(away(&format!("/login?next={}", escaped(own(&next))), &[]));
    }
    let now_ms = time::now_ms();
    let attempt = Attempt::new(random()?, now_ms, own(&next));
    let is_tls = oidc.settings.is_tls();
    let kept = new_cookie(
        (name_of(&oidc), &attempt.cookie()),
        LIFETIME_MS / 1000,
        SameSite::Lax,
        is_tls,
    );
    let next = attempt.next().to_owned();
    match off_the_loop(move || Ok(oidc.begin(&attempt, now_ms))).await? {
        Ok(to) => Ok(away(&to, &[kept])),
        Err(error) => refused(&shared, &headers, &next, &error),
    }
}

/// The login's page, with why nobody was logged in.
fn refused(shared: &Shared, headers: &HeaderMap, next: &str, error: &LoginError) -> Page {
    let should_log = |oidc: &Arc<Oidc>| oidc.should_log(time::now_ms());
    if shared.oidc.as_ref().is_some_and(should_log) {
        tracing::warn!(%error, "nobody was logged in by the identity provider");
    }
    let status = match error.is_of_the_provider() {
        true => StatusCode::BAD_GATEWAY,
        false => StatusCode::FORBIDDEN,
    };
    let problem = format!("{error}. {}", error.help());
    shown(
        shared,
        headers,
        next,
        Some(Refusal {
            status,
            problem: &problem,
        }),
    )
}

async fn finish(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    uri: Uri,
) -> Page {
    let oidc = oidc_of(&shared)?;
    let now_ms = time::now_ms();
    let network = peer.network();
    let name = name_of(&oidc);
    let cookies = headers.get_all(header::COOKIE).iter();
    let held = cookies.filter_map(|value| value.to_str().ok());
    let attempt = held
        .filter_map(|value| cookie(value, name))
        .find_map(Attempt::from_cookie);
    let came = Returned::parse(uri.query().unwrap_or_default()).and_then(|returned| {
        let attempt = attempt.ok_or(LoginError::OtherBrowser)?;
        returned.belongs_to(&attempt, now_ms)?;
        Ok((attempt, returned))
    });
    // Whoever leads a browser here from elsewhere changes nothing: neither its cookie nor how often its network may try.
    let (attempt, returned) = match came {
        Ok(came) => came,
        Err(error) => return refused(&shared, &headers, "/", &error),
    };
    let next = attempt.next().to_owned();
    shared.logins.may_try(network, now_ms)?;
    let stranger = Visitor::person(None, network.to_string());
    let done = login(&shared, &oidc, (attempt, returned), now_ms).await?;
    let (person, session) = match done {
        Ok(person) => match begun(&shared, &oidc, &person, &stranger, now_ms).await? {
            Ok(session) => (person, session),
            Err(problem) => {
                shared.logins.failed(network, now_ms);
                let status = StatusCode::FORBIDDEN;
                let problem = &problem;
                return shown(&shared, &headers, &next, Some(Refusal { status, problem }));
            }
        },
        Err(error) => {
            // What is put on record is counted as well, so that a network writes only so much of it.
            if !error.is_of_the_provider() {
                shared.logins.failed(network, now_ms);
                let entry = stranger.entry("login", error.to_string(), false);
                shared.record(entry).await?;
            }
            return refused(&shared, &headers, &next, &error);
        }
    };
    let html = pages::logged_in(&person.name, own(&next), &time::rfc3339(now_ms));
    let mut answer = html_of(html.map_err(HubError::from)?);
    let is_tls = shared.is_tls || oidc.settings.is_tls();
    let seconds = oidc.settings.session_ms() / 1000;
    let session = (SESSION, session.cookie());
    for set in [
        new_cookie(session, seconds, SameSite::Strict, is_tls),
        new_cookie((name, ""), 0, SameSite::Lax, is_tls),
    ] {
        answer.headers_mut().append(header::SET_COOKIE, set);
    }
    Ok(answer)
}

/// Who it is: each login is used once, whatever comes of it, and only when the provider can be asked for it.
async fn login(
    shared: &Arc<Shared>,
    oidc: &Arc<Oidc>,
    (attempt, returned): (Attempt, Returned),
    now_ms: i64,
) -> Result<Result<Person, LoginError>, HubError> {
    let asks = Arc::clone(oidc);
    let code = match off_the_loop(move || Ok(asks.code(&returned, now_ms))).await? {
        Ok(code) => code,
        Err(error) => return Ok(Err(error)),
    };
    let (digest, ends_ms) = (attempt.digest(), attempt.ends_ms());
    let used = shared.change(move |hub| {
        Ok(hub
            .store
            .write(|store| store.use_login(&digest, (now_ms, ends_ms)))?)
    });
    if !used.await? {
        return Ok(Err(LoginError::Used));
    }
    let asks = Arc::clone(oidc);
    off_the_loop(move || Ok(asks.person(&attempt, code, now_ms))).await
}

/// The session of a person, on record; or why they get none, on record as well.
async fn begun(
    shared: &Arc<Shared>,
    oidc: &Oidc,
    person: &Person,
    stranger: &Visitor,
    now_ms: i64,
) -> Result<Result<SessionSecret, String>, Wrong> {
    let settings = &oidc.settings;
    let scopes = person.facts.scopes(settings);
    let of = format!("subject `{}` of {}", person.subject, settings.issuer);
    let entry = |detail: String, allowed| {
        let mut entry = stranger.entry("login", detail, allowed);
        entry.who.clone_from(&person.name);
        entry
    };
    if !scopes.allow(Scope::Read) {
        shared
            .record(entry(format!("{of}: no scope"), false))
            .await?;
        return Ok(Err(format!(
            "The provider knows you as `{}`, and this hub's settings give you nothing: ask the hub's operator to grant a scope \
             to a group that you are in, or to your address.",
            person.name
        )));
    }
    shared.begun.spend(&person.name, now_ms)?;
    let secret = SessionSecret::of(random()?);
    let session = PersonSession {
        name: person.name.clone(),
        issuer: settings.issuer.clone(),
        subject: person.subject.clone(),
        client: settings.client_id.clone(),
        facts: person.facts.to_json(),
    };
    let (digest, ends_ms) = (secret.digest(), now_ms + settings.session_ms());
    let (done, taken, other) = (
        entry(format!("{of}, scopes {scopes}"), true),
        entry(format!("{of}: the name is someone else's"), false),
        entry(format!("{of}: the account has another name here"), false),
    );
    let login = shared.change(move |hub| {
        Ok(hub.store.write(|store| {
            let login = store.begin_person_session(&digest, &session, (now_ms, ends_ms))?;
            store.add_access(match &login {
                PersonLogin::Begun => &done,
                PersonLogin::NameTaken => &taken,
                PersonLogin::OtherName(_) => &other,
            })?;
            Ok::<_, crate::store::StoreError>(login)
        })?)
    });
    Ok(match login.await? {
        PersonLogin::Begun => Ok(secret),
        PersonLogin::OtherName(before) => Err(format!(
            "Your account logged in here as `{before}` before, and the provider calls it `{}` now: one account is one person here, \
             so that nobody approves as two. Whoever runs the hub frees the older name with `outhaul-hub person forget {before}`.",
            person.name
        )),
        PersonLogin::NameTaken => Err(format!(
            "The name `{}` is someone else's at this hub: the provider gave it to another account before. Whoever runs the hub \
             sees who, and frees it, with `outhaul-hub person list` and `outhaul-hub person forget {}`.",
            person.name, person.name
        )),
    })
}
