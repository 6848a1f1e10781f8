//! Explanations of renderings, put on record.
//!
//! What comes in: a document that was checked, and who brings it. What goes out: what became of it. Nobody signs such a document: it is
//! shown with who sent it, and no gate and no site reads it.

use outhaul_bundle::hub_api::RecordedExplanation;

use outhaul_store::{
    AccessEntry, KEPT_OF_SNAPSHOT, MAX_EXPLAINED_ENVIRONMENTS, MAX_EXPLANATIONS_BYTES,
    PackedExplanation, PutExplanation, Sender, Session, Store, StoreError, StoredExplanation,
};

use super::explanation_row;

/// Who brings one with the command on the hub's own machine, as it is shown: nothing that a token can be called.
pub fn by_hand(name: &str) -> String {
    format!("{name} (command line)")
}

/// What lets it in all the same.
const WAY_OUT: &str = "a token of scope admin, or `outhaul-hub import explanation FILE --by NAME` on the hub's machine, has room always: the \
                       oldest of others gives way; `outhaul-hub explanation remove DIGEST --by NAME` removes one; what a token that was \
                       revoked sent gives way to anybody's";

/// Puts one on record; or why there is no room for it, and nothing was changed.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn put(
    packed: &PackedExplanation,
    session: &Session<'_>,
    sender: Sender<'_>,
    now_ms: i64,
) -> Result<Result<RecordedExplanation, Full>, StoreError> {
    let full = |rule, why: String| {
        let text = format!("{why}; nothing was changed; {WAY_OUT}");
        Ok(Err(Full { rule, text }))
    };
    let (new, removed) = match session.put_explanation(packed, sender, now_ms)? {
        PutExplanation::Kept { new, removed } => (new, removed),
        PutExplanation::Full => {
            let most = MAX_EXPLANATIONS_BYTES / (1024 * 1024);
            let why = format!(
                "the explanations on record have {most} MiB, which is the most that a hub keeps"
            );
            return full("full", why);
        }
        PutExplanation::FullOfEnvironments => {
            let why = format!(
                "explanations of {MAX_EXPLAINED_ENVIRONMENTS} other environments are on record, which is the most that a hub keeps"
            );
            return full("full-of-environments", why);
        }
        PutExplanation::FullOfContents(same) => {
            let same = same.iter();
            let same = same.map(|one| format!("`{}` by `{}`", one.digest, one.sent_by));
            let why = format!(
                "{KEPT_OF_SNAPSHOT} explanations of the same snapshot with other content are on record, which is the most that a hub keeps, \
                 and `{}` sent none of them: {}",
                sender.name,
                same.collect::<Vec<_>>().join(", ")
            );
            return full("full-of-contents", why);
        }
    };
    let stored = session.explanation(packed.digest())?;
    let stored = stored.ok_or_else(|| StoreError::Corrupt {
        what: "an explanation that was just written".to_owned(),
    })?;
    let same = session.contents_of(&stored.environment, &stored.snapshot_digest)?;
    let others = same.iter().filter(|one| one.id != stored.id).count();
    Ok(Ok(RecordedExplanation {
        explanation: explanation_row(&stored),
        new,
        others: others as u64,
        removed,
    }))
}

/// Why there is no room.
#[derive(Debug)]
pub struct Full {
    /// Which bound it is.
    pub rule: &'static str,
    /// A sentence for whoever sent it, with what to do.
    pub text: String,
}

/// Whether the same sender was the last that sent this document.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn is_again(
    packed: &PackedExplanation,
    session: &Session<'_>,
    by: &str,
) -> Result<bool, StoreError> {
    let known = session.explanation(packed.digest())?;
    Ok(known.is_some_and(|one| one.last_sent_by == by))
}

/// What stands in the log of who did what.
pub fn entry_of(done: &RecordedExplanation) -> String {
    let row = &done.explanation;
    let removed = match done.removed {
        0 => String::new(),
        count => format!(", in place of {count} that gave way"),
    };
    format!(
        "`{}` of `{}`, snapshot `{}`{removed}",
        row.digest, row.environment, row.snapshot
    )
}

/// Removes the one of a digest, on record; what it was.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn remove(
    store: &mut Store,
    digest: &str,
    entry: impl FnOnce(String) -> AccessEntry,
) -> Result<Option<StoredExplanation>, StoreError> {
    store.write(|session| {
        let found = session.remove_explanation(digest)?;
        if let Some(one) = &found {
            session.add_access(&entry(format!(
                "`{}` of `{}`, snapshot `{}`, sent by `{}`, last by `{}`",
                one.digest, one.environment, one.snapshot_digest, one.sent_by, one.last_sent_by
            )))?;
        }
        Ok(found)
    })
}

/// Removes those that were last received before a moment and that no bundle needs which runs or is the newest of its stream, on record; how many. A trial
/// counts them only.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn remove_old(
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
