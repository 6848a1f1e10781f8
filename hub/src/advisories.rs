//! Documents about vulnerabilities: advisories and statements about exploitability, as somebody brings them.
//!
//! What comes in: bytes that nobody has looked at, and who brings them. What goes out: what they are, and whether they are new on record;
//! or why they cannot be taken. What they mean for a site is not decided here.

use outhaul_affected::{Advisory, Unmatched};
use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{ImportNote, ImportedDocument};
use outhaul_vex::Statement;

use crate::store::{Session, StoreError};
use crate::time;

/// Largest document, in bytes.
pub(crate) const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Notes about one document: enough to see what is wrong with it.
const MAX_NOTES: usize = 100;
/// What is expected, for whoever brought something else.
pub(crate) const EXPECTED: &str = "expected advisories in the form of OSV (`id`, `modified`, `affected`) or documents in the form of \
                                   OpenVEX, one a file";

/// A document that was read.
#[derive(Debug)]
pub(crate) enum Document {
    Advisory(Box<Advisory>, String),
    Statements(Vec<Statement>, String),
}

impl Document {
    /// Reads one, whichever of the two it is; or says why it cannot be taken now.
    pub(crate) fn read(bytes: Vec<u8>, now_ms: i64) -> Result<Self, String> {
        let Ok(body) = String::from_utf8(bytes) else {
            return Err("it is not UTF-8 text".to_owned());
        };
        if outhaul_vex::is_vex(body.as_bytes()) {
            let read = outhaul_vex::read_until(body.as_bytes(), now_ms);
            let statements = read.map_err(|error| error.to_string())?;
            return Ok(Self::Statements(statements, body));
        }
        let advisory = Advisory::read(body.as_bytes()).map_err(|error| error.to_string())?;
        // What was changed last counts: nothing could take the place of one of next year, and nothing withdraw it.
        if advisory.modified_ms() > Some(now_ms.saturating_add(time::DAY_MS)) {
            let modified = &advisory.modified;
            return Err(format!(
                "it was changed at {modified} by what it says, which is in the future"
            ));
        }
        // Until then it holds.
        if advisory.withdrawn_ms > Some(now_ms.saturating_add(time::DAY_MS)) {
            return Err("it is withdrawn at a time that is in the future".to_owned());
        }
        Ok(Self::Advisory(Box::new(advisory), body))
    }

    /// Puts it on record.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(crate) fn put(
        &self,
        session: &Session<'_>,
        by: &str,
        now_ms: i64,
    ) -> Result<ImportedDocument, StoreError> {
        let (kind, name, outcome) = match self {
            Self::Advisory(advisory, body) => (
                "advisory",
                advisory.id.clone(),
                session.put_advisory(advisory, body, by, now_ms)?,
            ),
            Self::Statements(statements, body) => (
                "statements",
                Digest::of(body.as_bytes()).to_string(),
                session.put_statements(statements, body, by, now_ms)?,
            ),
        };
        Ok(ImportedDocument {
            kind: kind.to_owned(),
            name,
            new: outcome.is_put(),
            outcome,
            notes: self.notes(),
        })
    }

    /// What of it can match nothing here.
    fn notes(&self) -> Vec<ImportNote> {
        let unmatched = match self {
            Self::Advisory(advisory, _) => advisory.unmatched().clone(),
            Self::Statements(statements, _) => outhaul_affected::unmatched(statements),
        };
        let note = |one: Unmatched| ImportNote {
            product: one.product,
            why: one.why,
        };
        unmatched.into_iter().take(MAX_NOTES).map(note).collect()
    }
}
