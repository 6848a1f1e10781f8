//! The core's refusals in this crate's words, each under the rule that a report names.
//!
//! What comes in: the file at hand and the error of `sigstore-tuf`. What goes out: a [`TrustError`] with
//! what was expected and found. Nothing is softened: every error stays a refusal.

use sigstore_tuf::Error;

use crate::trust::TrustError;

/// The core's refusal in this crate's words.
pub(super) fn refusal(file: &str, error: Error) -> TrustError {
    let file = file.to_owned();
    match error {
        Error::Expired { role, expires } => TrustError::Expired {
            file: format!("{role}.json"),
            expires,
        },
        Error::IntegrityMismatch(problem) => TrustError::MixAndMatch { file, problem },
        Error::Rollback { role, trusted, new } => {
            // The core prints `x (via y)` when y pins an older x.
            let role = role.split(' ').next().unwrap_or(&role);
            let file = format!("{}.json", role.trim_end_matches(".json"));
            TrustError::Rollback {
                file,
                expected: trusted,
                found: new,
            }
        }
        Error::ThresholdNotMet { found: 0, .. } => TrustError::Signature { file },
        Error::ThresholdNotMet {
            found, threshold, ..
        } => TrustError::Threshold {
            file,
            expected: threshold,
            found,
        },
        Error::DuplicateSignature { key_id, .. } => TrustError::Malformed {
            file,
            problem: format!(
                "key {} signs twice",
                key_id.chars().take(12).collect::<String>()
            ),
        },
        Error::Json(error) => TrustError::Malformed {
            file,
            problem: error.to_string(),
        },
        other => TrustError::Malformed {
            file,
            problem: other.to_string(),
        },
    }
}
