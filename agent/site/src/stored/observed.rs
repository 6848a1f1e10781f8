//! Whether a look at what runs has to be reported: what it found is new, or the last report of it is old.
//!
//! What comes in: what was found, and what was reported last. What goes out: yes or no. It drops nothing that differs in a
//! bundle, a state, an assignment's result or a sentence, and never the first look after something else was reported of a bundle.

use outhaul_bundle::Digest;
use outhaul_bundle::report::AssignmentResult;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::Transition;
use crate::machine::Action;
use crate::state::outbox::Author;
use crate::state::{self, StateError, key};

/// What was reported last of the generation that runs.
#[derive(Debug, Serialize, Deserialize)]
struct Reported {
    /// Digest of what it said.
    said: Digest,
    /// When, milliseconds since 1970 by the wall clock.
    at_ms: i64,
}

fn digest_of(action: Action, note: &str, results: &[AssignmentResult]) -> Digest {
    let said = (format!("{action:?}"), note, results);
    // Results are read from JSON and written as such: this cannot fail.
    Digest::of(&serde_json::to_vec(&said).unwrap_or_default())
}

/// Whether this look says what the last report said, and that one is not old.
///
/// # Errors
/// [`StateError`]
pub(super) fn is_unchanged(
    db: &Connection,
    author: &Author<'_>,
    action: Action,
    transition: &Transition,
) -> Result<bool, StateError> {
    let Some(last) = state::meta::<Reported>(db, key::REPORTED)? else {
        return Ok(false);
    };
    let age_ms = author.reading.wall_ms().saturating_sub(last.at_ms);
    // A time in the future is of another clock.
    let is_young = u64::try_from(age_ms).is_ok_and(|age_ms| age_ms < transition.unchanged_ms);
    Ok(is_young && last.said == digest_of(action, &transition.note, &transition.results))
}

/// Remembers what is reported of a generation.
///
/// # Errors
/// [`StateError`]
pub(super) fn keep(
    db: &Connection,
    author: &Author<'_>,
    action: Action,
    transition: &Transition,
) -> Result<(), StateError> {
    let reported = Reported {
        said: digest_of(action, &transition.note, &transition.results),
        at_ms: author.reading.wall_ms(),
    };
    state::set_meta(db, key::REPORTED, Some(&reported))
}
