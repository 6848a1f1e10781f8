//! What renderings were made of, as the centre explained them: one pair of cluster type and target, or the platform as a whole.
//!
//! What comes in: a document that was checked, to be kept in parts; and the store, with what is asked for. What goes out: what to keep, and
//! plain values for pages and API, each with who sent it and when. Nobody signs an explanation: what of it can be compared with a signed
//! bundle (the version of a config) is compared, and the rest is shown as what it is. It decides nothing.

mod asked;
pub mod kept;
mod of_bundles;
mod of_pair;
mod pack;
mod pair;
mod platform;
mod shown;
mod uses;

use outhaul_bundle::hub_api::ExplanationRow;
use outhaul_gate::time::rfc3339;
use outhaul_store::{Session, StoreError, StoredExplanation};

pub use asked::ExplainAsked;
pub use pack::packed;
pub use pair::{
    ExplainUnknown, ExplainView, ExplainedBundle, ShownExplanation, explanation_answer,
};
pub use platform::{
    EntityView, KindView, PlatformAsked, PlatformList, PlatformView, kind_of, platform_answer,
};
pub use shown::{AssignedShown, PolicyShown, ValueShown};

/// Explanations that a page or an answer lists of one environment.
pub const EXPLANATIONS_LISTED: usize = 200;

/// A document on record, as it is listed.
pub fn explanation_row(stored: &StoredExplanation) -> ExplanationRow {
    ExplanationRow {
        digest: stored.digest.clone(),
        environment: stored.environment.clone(),
        snapshot: stored.snapshot_digest.clone(),
        base_commit: stored.base_commit.clone(),
        environment_commit: stored.environment_commit.clone(),
        assignments: stored.assignments,
        sent_by: stored.sent_by.clone(),
        received_at: rfc3339(stored.received_ms),
        last_sent_by: stored.last_sent_by.clone(),
        last_received_at: rfc3339(stored.last_received_ms),
        bytes: stored.bytes,
        kept_bytes: stored.kept_bytes,
    }
}

/// The documents on record of an environment, or of all, the one that was sent last first.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn explanation_rows(
    session: &Session<'_>,
    environment: Option<&str>,
) -> Result<Vec<ExplanationRow>, StoreError> {
    let environments = match environment {
        Some(environment) => vec![environment.to_owned()],
        None => session.explained_environments()?,
    };
    let mut found = Vec::new();
    for environment in environments {
        let rows = session.explanations(&environment, EXPLANATIONS_LISTED)?;
        found.extend(rows.iter().map(explanation_row));
        if found.len() >= 10 * EXPLANATIONS_LISTED {
            break;
        }
    }
    Ok(found)
}

/// The document of a digest where it is of this environment, or the one of the environment that was sent last.
fn asked_for(
    session: &Session<'_>,
    environment: &str,
    digest: &str,
) -> Result<Option<StoredExplanation>, StoreError> {
    if digest.is_empty() {
        return Ok(session.explanations(environment, 1)?.pop());
    }
    let found = session.explanation(digest)?;
    Ok(found.filter(|one| one.environment == environment))
}

/// Documents of the same snapshot with other content.
fn others_of(
    session: &Session<'_>,
    one: &StoredExplanation,
) -> Result<Vec<ExplanationRow>, StoreError> {
    let same = session.contents_of(&one.environment, &one.snapshot_digest)?;
    let same = same.iter().filter(|other| other.id != one.id);
    Ok(same.map(explanation_row).collect())
}

/// A text that is kept, typed.
fn read<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(text).map_err(|_| StoreError::Corrupt {
        what: "an explanation".to_owned(),
    })
}
