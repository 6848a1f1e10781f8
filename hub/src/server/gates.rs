//! The gate over HTTP: what a pipeline asks, and the verdict with every rule.
//!
//! What comes in: an environment, a commit, and perhaps rules. What goes out: the decision as JSON. It is put on record
//! for tokens of scope `record` only, with the digests of its evidence and the rules. It reads one environment's sites.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use outhaul_access::Scope;
use outhaul_bundle::hub_api::{GateAnswer, GateQuery, path};
use serde_json::Value;

use super::access::Visitor;
use super::lists::named;
use super::problem::{Answers, Guarded, Params, Problem};
use super::shared::Shared;
use super::shown::{Json, sorted};
use crate::gate;
use crate::gate::record::{AskError, EnvironmentRecord, GateRequest, keep};
use crate::store::StoreError;
use crate::time;
use outhaul_view::steps::RecordedSteps;

fn bad(text: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, text)
}

/// The question as it was asked, every bound checked.
fn asked(query: GateQuery) -> Result<GateRequest, Problem> {
    named("environment", Some(&query.environment))?;
    named("to", query.to.as_deref())?;
    GateRequest::of_query(query).map_err(bad)
}

#[utoipa::path(
    get,
    path = path::GATE,
    tag = "gate",
    summary = "May a commit be promoted",
    params(GateQuery),
    responses(
        (status = 200, description = "The decision; on record when the token is of scope `record` and a signed bundle names the commit", body = GateAnswer),
        Guarded,
        Answers,
    )
)]
pub(super) async fn gate(
    State(shared): State<Arc<Shared>>,
    Params(query): Params<GateQuery>,
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<Value>, Problem> {
    let now_ms = time::now_ms();
    let mut asked = asked(query)?;
    let caller = match visitor.may(Scope::Record) {
        true => visitor.name,
        false => None,
    };
    let asked_by = caller.clone();
    let unread = asked.clone();
    let decided = shared
        .look(move |store, _| {
            store.read(|session| {
                match asked.check_names(session, false) {
                    Ok(()) => {}
                    Err(AskError::Store(error)) => return Err(error.into()),
                    Err(problem) => return Ok(Err(format!("{problem}; {}", problem.help()))),
                }
                let recorded = RecordedSteps::read(session, &asked.environment)?;
                let kept = asked.keep_to_record(&recorded, asked_by.as_deref(), now_ms);
                let question = match asked.question(session, now_ms) {
                    Ok(question) => question,
                    Err(AskError::Store(error)) => return Err(error.into()),
                    Err(problem) => return Ok(Err(problem.to_string())),
                };
                let known = EnvironmentRecord::read(session, &question)?;
                let decision = known.decide(&question);
                let is_known = known.knows_commit(&question);
                Ok(Ok((question, decision, is_known, kept)))
            })
        })
        .await;
    // What was found to be damaged before is no evidence either, also where this question did not come upon it.
    if shared.is_damaged() {
        return Ok(sorted(&GateAnswer {
            decision: unread.damaged(now_ms),
            recorded: false,
            rules_on_record: None,
            what_if: false,
        }));
    }
    let decided = decided?;
    let (question, decision, known, kept_rules) = decided.map_err(bad)?;
    // Only for a caller with a token, and of commits that a signed bundle names: nobody else writes what
    // someone may later take for evidence.
    let recorded = caller.is_some() && known;
    let step_to = question.to.as_deref();
    let less = &kept_rules.less;
    let looser = gate::looser(less, &question.environment, &question.commit, step_to);
    let step = kept_rules.step;
    let answer = GateAnswer {
        decision,
        recorded,
        rules_on_record: match (looser, kept_rules.note) {
            (Some(looser), Some(note)) => Some(format!("{looser}; {note}")),
            (looser, note) => looser.or(note),
        },
        what_if: false,
    };
    let json = sorted(&answer);
    if let Some(caller) = caller.filter(|_| known) {
        let (decision, rate) = (answer.decision, Arc::clone(&shared));
        let kept = shared.change(move |hub| {
            // What says the same as the one before is no new answer, and always given.
            let kept = hub.store.write(|session| {
                let decided = (&question, &decision);
                let is_new = keep(session, decided, step.as_ref(), &caller, now_ms)?;
                match is_new {
                    true => rate.recorded.may(&caller, now_ms).map_err(NotKept::Wait)?,
                    false => return Ok(false),
                }
                Ok(true)
            });
            match kept {
                Err(NotKept::Store(error)) => return Err(error.into()),
                Err(NotKept::Wait(problem)) => return Ok(Err(problem)),
                Ok(true) => rate.recorded.did(&caller, now_ms),
                Ok(false) => {}
            }
            Ok(Ok(()))
        });
        kept.await??;
    }
    Ok(json)
}

/// Why an answer is not put on record.
enum NotKept {
    Store(StoreError),
    Wait(Problem),
}

impl From<StoreError> for NotKept {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
