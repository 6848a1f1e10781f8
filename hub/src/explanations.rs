//! Explanations of renderings, put on record.
//!
//! What comes in: a document that was checked, and who brings it. What goes out: what became of it. Nobody signs such a document: it is
//! shown with who sent it, and no gate and no site reads it.

use outhaul_bundle::hub_api::{ExplanationRow, RecordedExplanation};

use crate::store::{
    AccessEntry, KEPT_OF_SNAPSHOT, MAX_EXPLAINED_ENVIRONMENTS, MAX_EXPLANATIONS_BYTES,
    PackedExplanation, PutExplanation, Session, Store, StoreError,
};
use crate::view::explained;

/// Puts one on record; or why there is no room for it, and nothing was changed.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub(crate) fn put(
    packed: &PackedExplanation,
    session: &Session<'_>,
    by: &str,
    now_ms: i64,
) -> Result<Result<RecordedExplanation, String>, StoreError> {
    let (new, removed) = match session.put_explanation(packed, by, now_ms)? {
        PutExplanation::Kept { new, removed } => (new, removed),
        PutExplanation::Full => {
            return Ok(Err(format!(
                "the explanations on record have {} MiB already, which is the most that a hub keeps: `outhaul-hub prune` removes old ones",
                MAX_EXPLANATIONS_BYTES / (1024 * 1024)
            )));
        }
        PutExplanation::FullOfEnvironments => {
            return Ok(Err(format!(
                "explanations of {MAX_EXPLAINED_ENVIRONMENTS} other environments are on record, which is the most that a hub keeps: \
                 `outhaul-hub prune` removes old ones"
            )));
        }
        PutExplanation::FullOfContents => {
            return Ok(Err(format!(
                "{KEPT_OF_SNAPSHOT} explanations of the same snapshot with other content are on record, which is the most that a hub keeps, \
                 and `{by}` sent none of them that could give way: look at who sent them, and `outhaul-hub prune` removes old ones"
            )));
        }
    };
    let stored = session.explanation(packed.digest())?;
    let stored = stored.ok_or_else(|| StoreError::Corrupt {
        what: "an explanation that was just written".to_owned(),
    })?;
    let same = session.contents_of(&stored.environment, &stored.snapshot_digest)?;
    let others = same.iter().filter(|one| one.id != stored.id).count();
    Ok(Ok(RecordedExplanation {
        explanation: explained::explanation_row(&stored),
        new,
        others: others as u64,
        removed,
    }))
}

/// Whether the same sender was the last that sent this document.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub(crate) fn is_again(
    packed: &PackedExplanation,
    session: &Session<'_>,
    by: &str,
) -> Result<bool, StoreError> {
    let known = session.explanation(packed.digest())?;
    Ok(known.is_some_and(|one| one.last_sent_by == by))
}

/// What stands in the log of who did what.
pub(crate) fn entry_of(row: &ExplanationRow) -> String {
    format!(
        "`{}` of `{}`, snapshot `{}`",
        row.digest, row.environment, row.snapshot
    )
}

/// Removes those that were last received before a moment and that no bundle needs which runs or is the newest of its stream, on record; how many. A trial
/// counts them only.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub(crate) fn remove_old(
    store: &mut Store,
    before_ms: i64,
    entry: &AccessEntry,
    is_trial: bool,
) -> Result<u64, StoreError> {
    if is_trial {
        return store.read(|session| session.old_explanations(before_ms, false));
    }
    store.write(|session| {
        let gone = session.old_explanations(before_ms, true)?;
        if gone > 0 {
            session.add_access(entry)?;
        }
        Ok(gone)
    })
}
