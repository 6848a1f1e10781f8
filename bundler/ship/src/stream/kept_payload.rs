//! Whether what a kept assignment needs can be had once more.
//!
//! What comes in: an assignment as it was shipped last. What goes out: that its payload is there, that it is gone for good, or that it cannot
//! be had now, which takes nothing from a site. It writes nothing.

use super::ProduceError;
use crate::collect::{self, CollectError, Collector};
use outhaul_git::source::SourceError;
use outhaul_record::record::ShippedAssignment;

/// Whether the payload of a kept assignment can be had.
pub(super) enum PayloadState {
    Yes,
    /// It is gone: why.
    No(String),
    /// A server does not answer now, which takes nothing from a site.
    Unreached(String),
    /// It can be had, and an image or repository that it needs cannot.
    Lacking(String),
}

/// Looks for it, as it was shipped.
///
/// # Errors
/// [`ProduceError`] when nothing can be looked for.
pub(super) fn still_there(
    collector: &mut Collector<'_>,
    name: &str,
    before: &ShippedAssignment,
) -> Result<PayloadState, ProduceError> {
    let commit = before.payload_commit.as_ref();
    let rendered = &before.rendered;
    let looked = match commit {
        None => Ok(()),
        Some(_) => collector.look(name, rendered, commit).map(drop),
    };
    match looked {
        Ok(()) => match collector.look_served(name, rendered, commit) {
            Ok(()) => Ok(PayloadState::Yes),
            Err(error) => Ok(PayloadState::Lacking(collect::finding(&error).message)),
        },
        // A damaged copy here takes nothing from a site either.
        Err(CollectError::Source { source, .. })
            if matches!(*source, SourceError::Damaged { .. }) =>
        {
            Ok(PayloadState::Unreached(source.to_string()))
        }
        Err(CollectError::Source { source, .. }) if source.is_input() => Ok(PayloadState::No(
            format!("the payload of its last good output is not available any more: {source}"),
        )),
        Err(CollectError::Source { source, .. }) => Ok(PayloadState::Unreached(source.to_string())),
        Err(CollectError::Gone { .. }) => Ok(PayloadState::No(
            "the folder with the payload of its last good output was changed".to_owned(),
        )),
        Err(error @ CollectError::Spool(_)) => Err(error.into()),
        // A check that an earlier version of this program had not, of one assignment alone.
        Err(error) => Ok(PayloadState::No(collect::finding(&error).message)),
    }
}
