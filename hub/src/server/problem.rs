//! An answer that says what went wrong, without telling untrusted parties more than they need.
//!
//! What comes in: a status and a sentence, or an error of the hub. What goes out: JSON with `error`. The
//! whole chain of an error goes to the journal only.

use std::collections::BTreeSet;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use outhaul_bundle::hub_api::{ErrorAnswer, GateQuery, path};
use outhaul_kit::text::chain;
use serde::de::DeserializeOwned;

use super::shown::Json;
use crate::error::HubError;
use crate::state::StateError;
use crate::store::StoreError;
use crate::view::UnknownName;

/// Names that are listed where one is not known.
const NAMES_SHOWN: usize = 50;

/// An answer that says what went wrong.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    message: String,
    /// After how many seconds it may be tried again.
    after: Option<i64>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            after: None,
        }
    }

    /// That something was done too often, and may be again after so many milliseconds.
    pub(super) fn wait(wait_ms: i64, text: impl FnOnce(i64) -> String) -> Self {
        let seconds = wait_ms.div_euclid(1000) + 1;
        Self {
            after: Some(seconds),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, text(seconds))
        }
    }

    /// That a list is asked for by a name that nothing has: an empty answer would look like the truth about it.
    pub(super) fn of_unknown(unknown: &UnknownName) -> Self {
        let UnknownName { what, name, known } = unknown;
        let name: String = name.chars().take(100).collect();
        let listed: Vec<String> = (known.iter().take(NAMES_SHOWN))
            .map(|name| format!("`{name}`"))
            .collect();
        let known = match (listed.is_empty(), known.len() - listed.len()) {
            (true, _) => "it knows none yet".to_owned(),
            (false, 0) => format!("it knows {}", listed.join(", ")),
            (false, more) => format!("it knows {} and {more} more", listed.join(", ")),
        };
        let text = format!("this hub knows no {what} `{name}`; {known}");
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// Its status and sentence, for an answer in another form.
    pub(super) fn parts(self) -> (StatusCode, String) {
        (self.status, self.message)
    }
}

/// What every call may answer besides what it is for.
#[derive(utoipa::IntoResponses)]
#[expect(
    dead_code,
    reason = "a description: problems are answered as `Problem`"
)]
pub(super) enum Answers {
    /// A parameter is not known, or not within its bounds.
    #[response(status = 400)]
    BadRequest(ErrorAnswer),
    /// The store failed; the hub's journal has the reason.
    #[response(status = 500)]
    Failed(ErrorAnswer),
    /// Nothing can be taken in or read now; send it again later.
    #[response(status = 503)]
    Unavailable(ErrorAnswer),
}

/// What a call may answer besides that needs a token.
#[derive(utoipa::IntoResponses)]
#[expect(
    dead_code,
    reason = "a description: problems are answered as `Problem`"
)]
pub(super) enum Guarded {
    /// There is no token, or one that does not hold.
    #[response(status = 401)]
    NoToken(ErrorAnswer),
    /// The token is for something else.
    #[response(status = 403)]
    OtherScope(ErrorAnswer),
    /// Too many tokens that do not hold came from this network, or this token put too many answers of gates on record, or sent too many explanations
    /// or outcomes of checks, within a minute; `Retry-After` has the seconds to wait.
    #[response(status = 429)]
    TooMany(ErrorAnswer),
}

/// The parameters of one question.
pub(super) trait Question: DeserializeOwned {
    /// Their names: a question with another one is refused, because what is misspelled would count as left out.
    const NAMES: &[&str];
}

impl Question for GateQuery {
    const NAMES: &[&str] = &[
        "environment",
        "commit",
        "max_age_hours",
        "quorum_percent",
        "to",
        "rules",
    ];
}

/// What is answered when the database is no longer where it was.
pub(super) const GONE: &str = "the hub's database was removed or replaced: nothing is accepted or acknowledged; keep \
                               what you have and send it again later";
/// What is answered when the database is damaged.
pub(super) const DAMAGED: &str = "the hub's database is damaged: it is only read, nothing is accepted or acknowledged, and every gate is \
                                  closed; keep what you have, and have the hub brought back from a backup";
/// What is answered when the database's server does not.
const NO_SERVER: &str = "the hub's database server does not answer: nothing is accepted or acknowledged; keep what you \
                         have and send it again later";
/// A question without parameters.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Nothing {}

impl Question for Nothing {
    const NAMES: &[&str] = &[];
}

/// What a request asks for after its `?`. What cannot be read is answered in JSON, with what is expected.
#[derive(Debug)]
pub(super) struct Params<T>(pub T);

/// Which parameters of the address are not among `names`, as one sentence.
fn unknown(uri: &Uri, names: &[&str]) -> Option<String> {
    let Query(given) = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
    let unknown: BTreeSet<String> = given
        .iter()
        .filter(|(name, _)| !names.contains(&name.as_str()))
        .map(|(name, _)| format!("`{}`", name.chars().take(100).collect::<String>()))
        .collect();
    if unknown.is_empty() {
        return None;
    }
    let unknown = Vec::from_iter(unknown).join(", ");
    Some(match names {
        [] => format!("{} takes no parameters, found {unknown}", uri.path()),
        names => format!(
            "{} does not know {unknown}; it knows {}",
            uri.path(),
            names.join(", ")
        ),
    })
}

impl<T: Question, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        if let Some(text) = unknown(&parts.uri, T::NAMES) {
            return Err(Problem::new(StatusCode::BAD_REQUEST, text));
        }
        Query::<T>::try_from_uri(&parts.uri)
            .map(|Query(value)| Self(value))
            .map_err(|error| {
                // What is wrong with which parameter is said by the innermost error.
                let mut cause: &dyn std::error::Error = &error;
                while let Some(next) = cause.source() {
                    cause = next;
                }
                let mut text = format!("the question cannot be read: {cause}");
                if parts.uri.path() == path::GATE {
                    text.push_str(&format!(
                        "; ask such as {}?environment=dev&commit=SHA, where SHA is the full id of the base commit",
                        path::GATE
                    ));
                }
                Problem::new(StatusCode::BAD_REQUEST, text)
            })
    }
}

impl From<HubError> for Problem {
    fn from(error: HubError) -> Self {
        // The whole chain goes to the journal; the peer learns only that this hub has a problem.
        tracing::error!(error = chain(&error), "a request failed");
        if matches!(
            &error,
            HubError::State(StateError::Replaced { .. })
                | HubError::Store(StoreError::Replaced { .. })
        ) {
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, GONE);
        }
        if error.is_damage() {
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, DAMAGED);
        }
        if error.is_gone() {
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, NO_SERVER);
        }
        let message = match &error {
            HubError::Store(StoreError::Sql { .. }) => "the hub's store failed; send again later",
            HubError::Store(StoreError::Corrupt { .. }) => {
                "the hub cannot read something that is on record; its log names it"
            }
            _ => "the hub failed",
        };
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let answer = Json(ErrorAnswer {
            error: self.message,
            rule: None,
        });
        if self.status == StatusCode::REQUEST_TIMEOUT
            || self.status == StatusCode::SERVICE_UNAVAILABLE
        {
            // The rest of the body is not waited for.
            return (self.status, [(header::CONNECTION, "close")], answer).into_response();
        }
        let after = self.after.map(|seconds| [(header::RETRY_AFTER, seconds)]);
        (self.status, after, answer).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nothing_has_is_said_with_a_bounded_number_of_those_that_exist() {
        let said = |known: Vec<String>| {
            let (what, name) = ("environment", "x".repeat(5_000));
            Problem::of_unknown(&UnknownName { what, name, known }).message
        };
        assert!(said(Vec::new()).ends_with("; it knows none yet"));
        assert!(said(vec!["dev".to_owned()]).ends_with("; it knows `dev`"));
        let many = said((0..200).map(|at| format!("e{at}")).collect());
        assert!(many.ends_with("`e49` and 150 more"), "{many}");
        assert!(many.len() < 1_000, "{many}");
    }
}
