//! What reports say of a generation.
//!
//! What comes in: a row, and each assignment's result. What goes out: the event of a report, and what runs, reported
//! again to a hub that does not know it. It changes no generation.

use outhaul_bundle::report::{AssignmentResult, GenerationEvent, ReportEvent};
use outhaul_reconcilers::shortened;
use rusqlite::Connection;

use super::generations::{self, Generation};
use super::outbox::{self, Author};
use super::{StateError, key, meta, set_meta};

/// What a report says of a generation.
pub fn generation_event(
    generation: &Generation,
    results: &[AssignmentResult],
    message: &str,
) -> GenerationEvent {
    GenerationEvent {
        stream: generation.stream.clone(),
        number: generation.number,
        index: generation.index,
        snapshot: generation.snapshot.clone(),
        state: generation.state.reported(),
        assignments: results.to_vec(),
        message: shortened(message),
        reverted_from: None,
    }
}

/// Queues what runs, as it was last known: for a hub that does not know it.
///
/// # Errors
/// [`StateError`]
pub fn repeat_state(db: &Connection, author: &Author<'_>) -> Result<(), StateError> {
    let Some(active) = generations::active(db)? else {
        return Ok(());
    };
    let results: Option<Vec<AssignmentResult>> = meta(db, key::RESULTS)?;
    let results = match results {
        Some(results) => results,
        None => generations::results(db, &format!("apply {active}"))?,
    };
    if let Some(generation) = generations::one(db, active)? {
        let event = generation_event(
            &generation,
            &results,
            "reported again: the hub does not know it",
        );
        outbox::queue(db, author, ReportEvent::Observation(event))?;
    }
    // What the next look finds is news after this, whatever was reported before.
    set_meta::<()>(db, key::REPORTED, None)
}
