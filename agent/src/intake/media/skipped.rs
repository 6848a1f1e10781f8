//! What of a medium was not taken: for someone else, older, refused, or not to be looked at.
//!
//! What comes in: an entry and the error that it met. What goes out: the findings, with that error where it belongs. It opens nothing.

use outhaul_kit::durable::FileError;
use outhaul_kit::{media, text};

use super::Findings;
use crate::error::AgentError;

/// Keeps what was not opened: what is no regular file is nobody's bundle, and of the rest nobody knows what it is.
pub(super) fn not_opened(error: FileError, findings: &mut Findings) {
    findings.skipped.push(unusable(&error));
    let is_known = error.source.get_ref();
    if is_known.is_none_or(|source| !source.is::<media::Unexpected>()) {
        let path = error.path.clone();
        let error = AgentError::File(error).while_reading(&path);
        findings.failed.push(error);
    }
}

/// What lies there and cannot be used: the entry, and why.
pub(super) fn unusable(error: &FileError) -> String {
    format!("`{}`: {}", text::path(&error.path), error.source)
}

/// Sorts what was not taken: for someone else or older, or refused, which is reported later.
pub(super) fn pass_over(
    name: &str,
    error: AgentError,
    findings: &mut Findings,
) -> Result<(), AgentError> {
    match error {
        // A stick carries bundles for many sites: those of other streams are not findings.
        AgentError::Refused {
            source_name,
            rule,
            message,
            ..
        } if rule == "stream" || rule == "rollback" => {
            let older = if rule == "rollback" {
                "it is older than what this site has accepted: "
            } else {
                ""
            };
            findings
                .skipped
                .push(format!("`{source_name}`: {older}{message}"));
        }
        refused @ AgentError::Refused { .. } => findings.refused.push(refused),
        // The memory cannot be used: no other file will do better.
        error @ AgentError::State(_) => return Err(error),
        // It names the file itself.
        error @ AgentError::Usage { .. } => findings.skipped.push(error.to_string()),
        other => {
            findings.skipped.push(format!("`{name}`: {other}"));
            findings.failed.push(other);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_looked_at_is_kept_beside_what_is_said_and_a_refusal_is_not() {
        let mut findings = Findings::default();
        let unreadable = AgentError::Unreadable {
            source_name: "a.outhaul".to_owned(),
            problem: "Input/output error".to_owned(),
        };
        pass_over("a.outhaul", unreadable, &mut findings).unwrap();
        let refused = AgentError::refused("b.outhaul", "signature", String::new());
        pass_over("b.outhaul", refused, &mut findings).unwrap();
        let denied = |source| FileError {
            doing: "open",
            path: "/media/stick/c.outhaul".into(),
            source,
        };
        not_opened(
            denied(std::io::ErrorKind::PermissionDenied.into()),
            &mut findings,
        );
        let fifo = media::Unexpected {
            found: "a FIFO",
            expected: "a regular file",
        };
        not_opened(denied(std::io::Error::other(fifo)), &mut findings);
        assert!(matches!(findings.failed[1], AgentError::NotReadable(_)));
        let found = [
            findings.failed.len(),
            findings.skipped.len(),
            findings.refused.len(),
        ];
        assert_eq!(found, [2, 3, 1]);
    }
}
