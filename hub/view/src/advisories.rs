//! Documents about vulnerabilities, put on record.
//!
//! What comes in: a document that was read, and who brings it. What goes out: whether it is new on record, and what of it can match nothing
//! here. What it means for a site is not decided here.

use outhaul_affected::{Unmatched, VulnerabilityDocument};
use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{ImportNote, ImportedDocument};

use outhaul_store::{Session, StoreError};

/// Puts one on record.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn put(
    document: &VulnerabilityDocument,
    session: &Session<'_>,
    by: &str,
    now_ms: i64,
) -> Result<ImportedDocument, StoreError> {
    let (kind, name, outcome) = match document {
        VulnerabilityDocument::Advisory(advisory, body) => (
            "advisory",
            advisory.id.clone(),
            session.put_advisory(advisory, body, by, now_ms)?,
        ),
        VulnerabilityDocument::Statements(statements, body) => (
            "statements",
            Digest::of(body.as_bytes()).to_string(),
            session.put_statements(statements, body, by, now_ms)?,
        ),
    };
    let note = |one: Unmatched| ImportNote {
        product: one.product,
        why: one.why,
    };
    let notes = document
        .unmatched(&session.releases_on_record()?)
        .into_iter();
    Ok(ImportedDocument {
        kind: kind.to_owned(),
        name,
        new: outcome.is_put(),
        outcome,
        notes: notes.map(note).collect(),
    })
}
