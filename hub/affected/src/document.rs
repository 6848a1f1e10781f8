//! Documents about vulnerabilities: advisories and statements about exploitability, as someone brings them.
//!
//! What comes in: bytes that nobody has looked at, and the time. What goes out: what they are, and what of them can match nothing; or why
//! they cannot be taken. It puts nothing on record, and says of no site what they mean.

use std::collections::BTreeSet;

use outhaul_vex::Statement;

use crate::advisory::{Advisory, Unmatched};
use crate::release::Distribution;
use crate::unmatched::{unmatched, unmatched_releases};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Notes about one document: enough to see what is wrong with it.
const MAX_NOTES: usize = 100;

/// A document that was read, with its text.
#[derive(Debug)]
pub enum VulnerabilityDocument {
    /// An advisory.
    Advisory(Box<Advisory>, String),
    /// Statements about exploitability.
    Statements(Vec<Statement>, String),
}

impl VulnerabilityDocument {
    /// What is expected, for whoever brought something else.
    pub const EXPECTED: &str = "expected advisories in the form of OSV (`id`, `modified`, `affected`) or documents in the form of \
                                OpenVEX, one a file";

    /// Reads one, whichever of the two it is.
    ///
    /// # Errors
    /// Why it cannot be taken now.
    pub fn read(bytes: Vec<u8>, now_ms: i64) -> Result<Self, String> {
        let Ok(body) = String::from_utf8(bytes) else {
            return Err("it is not UTF-8 text".to_owned());
        };
        // Editors of some systems begin a text with a mark of its byte order.
        let body = match body.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => body,
        };
        if outhaul_vex::is_vex(body.as_bytes()) {
            let read = outhaul_vex::read_until(body.as_bytes(), now_ms);
            let statements = read.map_err(|error| error.to_string())?;
            return Ok(Self::Statements(statements, body));
        }
        let advisory = Advisory::read(body.as_bytes()).map_err(|error| error.to_string())?;
        let limit_ms = now_ms.saturating_add(DAY_MS);
        // What was changed last counts: nothing could take the place of one of next year, and nothing withdraw it.
        if advisory.modified_ms() > Some(limit_ms) {
            let modified = &advisory.modified;
            return Err(format!("its `modified` time, {modified}, is in the future"));
        }
        // Until then it holds.
        if advisory.withdrawn_ms > Some(limit_ms) {
            return Err("it is withdrawn at a time that is in the future".to_owned());
        }
        Ok(Self::Advisory(Box::new(advisory), body))
    }

    /// What of it can match nothing; where that is much, its beginning, and how much is left out. `on_record`: the releases
    /// of which a package is on record.
    pub fn unmatched(&self, on_record: &BTreeSet<Distribution>) -> Vec<Unmatched> {
        let found = match self {
            Self::Advisory(advisory, _) => {
                let mut found = unmatched_releases(&advisory.subjects, on_record);
                found.extend(advisory.unmatched().iter().cloned());
                found
            }
            Self::Statements(statements, _) => unmatched(statements, on_record),
        };
        let left_out = found.len().saturating_sub(MAX_NOTES);
        let mut shown: Vec<Unmatched> = found.into_iter().take(MAX_NOTES).collect();
        if left_out > 0 {
            shown.push(Unmatched {
                product: String::new(),
                why: format!("{left_out} more of this kind are left out here"),
            });
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_of_the_notes_is_counted() {
        let products: Vec<_> = (0..250).map(|at| format!("\"p{at}\"")).collect();
        let text = format!(
            r#"{{"@context":"https://openvex.dev/ns","author":"A","timestamp":"2026-11-01T00:00:00Z","statements":[
                {{"vulnerability":"CVE-1","products":[{}],"status":"fixed"}}]}}"#,
            products.join(",")
        );
        let document = VulnerabilityDocument::read(text.into_bytes(), i64::MAX).unwrap();
        let notes = document.unmatched(&BTreeSet::new());
        assert_eq!(notes.len(), MAX_NOTES + 1);
        assert!(notes[MAX_NOTES].why.starts_with("150 more"));
    }

    #[test]
    fn a_document_that_begins_with_a_byte_order_mark_is_the_same_without_it() {
        let text = r#"{"id":"A-1","modified":"2026-11-20T00:00:00Z","affected":[]}"#;
        let marked =
            VulnerabilityDocument::read(format!("\u{feff}{text}").into_bytes(), i64::MAX).unwrap();
        assert!(matches!(marked, VulnerabilityDocument::Advisory(_, body) if body == text));
    }

    #[test]
    fn a_document_of_another_context_is_no_advisory() {
        let text = r#"{"@context":"https://example.org/vex","author":"A","timestamp":"2026-11-01T00:00:00Z","statements":[]}"#;
        let problem = VulnerabilityDocument::read(text.as_bytes().to_vec(), i64::MAX).unwrap_err();
        assert!(problem.starts_with("its `@context` is `https://example.org/vex`"));
    }
}
