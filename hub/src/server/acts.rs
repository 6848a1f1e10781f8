//! Forms in which people approve, hold, waive, defer and withdraw, and the page that shows what it would reach.
//!
//! What comes in: what is to be decided, from a session that may approve. What goes out: one entry on the record that the
//! command line writes to as well, under the name of the token or of the person. What is decided is shown first with the sites that it
//! concerns; when these changed in the meantime, nothing is recorded and the page is shown again.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use outhaul_access::Scope;
use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::escaped;
use outhaul_listen::Peer;
use serde::Deserialize;

use super::access::{NothingToRecord, Visitor};
use super::forms::Fields;
use super::login::away;
use super::pages::{Page, PageQuestion, Wrong, html_of};
use super::problem::{Params, Question};
use super::shared::Shared;
use crate::acting;
use crate::error::HubError;
use crate::gate;
use crate::pages;
use crate::store::{Act, ActKind, Session};
use crate::time;
use crate::view::{ActView, Board};

/// Longest reason, in characters.
const LONGEST_REASON: usize = 1_000;

pub(super) fn router() -> Router<Arc<Shared>> {
    Router::new().route("/act", get(form).post(record))
}

/// What is to be decided.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ActQuestion {
    kind: String,
    environment: String,
    commit: String,
    site: String,
    number: Option<i64>,
}

impl Question for ActQuestion {
    const NAMES: &[&str] = &["kind", "environment", "commit", "site", "number"];
}

fn wrong(text: impl Into<String>) -> Wrong {
    Wrong::new(StatusCode::BAD_REQUEST, text)
}

/// The entry that these words describe, without who and why.
fn act(asked: &ActQuestion, now_ms: i64) -> Result<Act, Wrong> {
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let kinds = [
        ActKind::Approve,
        ActKind::Hold,
        ActKind::Waive,
        ActKind::Defer,
        ActKind::Withdraw,
    ];
    let Some(kind) = kinds.into_iter().find(|kind| kind.as_str() == asked.kind) else {
        return Err(wrong(
            "`kind` is approve, hold, waive, defer or withdraw: use the links of a page",
        ));
    };
    let mut act = Act::new(kind, "", "", now_ms);
    let missing = match kind {
        ActKind::Approve | ActKind::Hold => {
            act.environment = given(&asked.environment);
            act.commit = given(&asked.commit);
            if let Some(commit) = &act.commit {
                gate::commit(commit).map_err(wrong)?;
            }
            act.environment.is_none() || (kind == ActKind::Approve && act.commit.is_none())
        }
        ActKind::Withdraw => {
            act.withdraws = asked.number;
            act.withdraws.is_none()
        }
        _ => {
            act.site = given(&asked.site);
            act.site.is_none()
        }
    };
    match missing {
        true => Err(wrong(
            "this address does not name what is to be decided: use the links of a page",
        )),
        false => Ok(act),
    }
}

/// What it is about, and which sites it concerns.
fn view(session: &Session<'_>, act: &Act, now_ms: i64) -> Result<ActView, HubError> {
    acting::check(session, act)?;
    let withdrawn = match act.withdraws {
        Some(id) => session.act(id)?.map(|(found, _)| found),
        None => None,
    };
    let about = withdrawn.as_ref().unwrap_or(act);
    let environment = match (&about.environment, &about.site) {
        (Some(environment), _) => Some(environment.clone()),
        (None, Some(site)) => session.site(site)?.map(|site| site.environment),
        (None, None) => None,
    };
    let board = match &environment {
        Some(environment) => Board::of(session, environment, now_ms)?,
        None => None,
    };
    let reaches: Vec<_> = board
        .iter()
        .flat_map(|board| &board.steps)
        .filter_map(|step| step.reach.clone())
        .collect();
    let seen = serde_json::json!([environment, reaches, withdrawn]).to_string();
    Ok(ActView {
        sentence: act.sentence(),
        withdrawn: withdrawn.as_ref().map(Act::sentence),
        act: act.clone(),
        environment,
        board,
        seen: Digest::of(seen.as_bytes()).hex(),
        read_at: time::rfc3339(now_ms),
    })
}

/// Refuses who may not decide, on record.
async fn needs_approve(
    shared: &Arc<Shared>,
    visitor: &Visitor,
    kind: &str,
    write: Option<&str>,
) -> Result<(), Wrong> {
    if visitor.may(Scope::Approve) && visitor.secret.is_some() {
        return Ok(());
    }
    if visitor.name.is_some() {
        let call = write.unwrap_or("GET /act");
        let entry = visitor.entry(&cut(kind, 20), format!("{call}: may not decide"), false);
        let write = write.map(str::to_owned);
        shared
            .turned_away(entry, StatusCode::FORBIDDEN, write)
            .await;
    }
    let text = "Deciding needs a login with scope `approve`: `outhaul-hub token create NAME --scope approve` on the hub's machine \
                makes a token with it, and the settings of the identity provider give it to people. Log out first where you are \
                logged in with another. Nothing was changed.";
    Err(Wrong::new(StatusCode::FORBIDDEN, text))
}

async fn form(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    asked: PageQuestion<ActQuestion>,
) -> Page {
    let Params(asked) = asked?;
    let now_ms = time::now_ms();
    let act = act(&asked, now_ms)?;
    needs_approve(&shared, &visitor, act.kind.as_str(), None).await?;
    shown(&shared, &visitor, (act, Filled::default()), now_ms).await
}

/// What someone wrote before the page is shown again.
#[derive(Debug, Default)]
struct Filled {
    reason: String,
    until: String,
    problem: Option<String>,
}

async fn shown(
    shared: &Arc<Shared>,
    visitor: &Visitor,
    (act, filled): (Act, Filled),
    now_ms: i64,
) -> Page {
    let found = shared
        .look(
            move |store, _| match store.read(|session| view(session, &act, now_ms)) {
                Err(HubError::Usage { problem, help }) => Ok(Err(format!("{problem}; {help}"))),
                other => other.map(Ok),
            },
        )
        .await?;
    let view = found.map_err(wrong)?;
    let is_refused = filled.problem.is_some();
    let fields = pages::ActForm {
        reason: filled.reason,
        until: filled.until,
        problem: filled.problem,
    };
    let html = pages::act(&view, &fields, &visitor.shown()).map_err(HubError::from)?;
    let mut answer = html_of(html);
    if is_refused {
        *answer.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
        answer.extensions_mut().insert(NothingToRecord);
    }
    Ok(answer)
}

async fn record(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    body: Body,
) -> Page {
    let fields = Fields::of_session(&shared, (peer, &visitor), &headers, body).await?;
    let now_ms = time::now_ms();
    let text = |name: &str| fields.text(name).to_owned();
    let asked = ActQuestion {
        kind: text("kind"),
        environment: text("environment"),
        commit: text("commit"),
        site: text("site"),
        number: fields
            .given("number")
            .and_then(|number| number.parse().ok()),
    };
    needs_approve(&shared, &visitor, &asked.kind, Some("POST /act")).await?;
    let mut act = act(&asked, now_ms)?;
    act.by = visitor.name.clone().unwrap_or_default();
    act.reason = cut(fields.text("reason"), LONGEST_REASON);
    let mut filled = Filled {
        reason: act.reason.clone(),
        until: text("until"),
        problem: None,
    };
    match ends(&act, fields.given("until"), now_ms) {
        Ok(until_ms) if !act.reason.is_empty() => act.until_ms = until_ms,
        Ok(_) => {
            filled.problem = Some("Give a reason: it is on record beside your name.".to_owned());
        }
        Err(problem) => filled.problem = Some(problem),
    }
    if filled.problem.is_none() {
        let seen = text("seen");
        let entry = visitor.entry(act.kind.as_str(), act.sentence(), true);
        let act = act.clone();
        let done = shared.change(move |hub| {
            let done = hub.store.write(|session| {
                let bare = Act {
                    until_ms: None,
                    ..act.clone()
                };
                let now = view(session, &bare, now_ms)?;
                if now.seen != seen {
                    return Ok(None);
                }
                session.add_access(&entry)?;
                acting::record(session, &act)?;
                Ok(Some(now.environment))
            });
            match done {
                Err(HubError::Usage { problem, help }) => Ok(Err(format!("{problem}; {help}"))),
                other => other.map(Ok),
            }
        });
        match done.await? {
            Ok(Some(environment)) => {
                let to = match (&asked.site, environment) {
                    (site, _) if !site.is_empty() => format!("/sites/{}", escaped(site)),
                    (_, Some(environment)) => {
                        format!("/environments/{}#acts", escaped(&environment))
                    }
                    _ => "/".to_owned(),
                };
                return Ok(away(&to, &[]));
            }
            Ok(None) => {
                filled.problem = Some(
                    "What this concerns has changed since the page was made: nothing was recorded. Look at it again, and repeat."
                        .to_owned(),
                );
            }
            Err(problem) => filled.problem = Some(problem),
        }
    }
    shown(&shared, &visitor, (act, filled), now_ms).await
}

/// When it ends: a waiver and a deferral always do, a withdrawal never.
fn ends(act: &Act, until: Option<&str>, now_ms: i64) -> Result<Option<i64>, String> {
    let (what, is_needed) = match act.kind {
        ActKind::Approve => ("an approval", false),
        ActKind::Hold => ("a hold", false),
        ActKind::Waive => ("a waiver", true),
        ActKind::Defer => ("a deferral", true),
        ActKind::Withdraw | ActKind::Check | ActKind::Choose | ActKind::Clock | ActKind::Lost => {
            return Ok(None);
        }
    };
    match until {
        None if is_needed => Err(format!("Give the time at which {what} ends.")),
        None => Ok(None),
        Some(text) => match acting::until(text, what, now_ms) {
            Ok(until_ms) => Ok(Some(until_ms)),
            Err(HubError::Usage { problem, help }) => Err(format!("{problem}; {help}")),
            Err(other) => Err(other.to_string()),
        },
    }
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}
