//! One version, one publication: another of the same version is refused, not taken for a known one.
//!
//! What comes in: the metadata that a source offers, and what the verifier accepted. The verifier goes on with
//! what is trusted already when a version is equal, as The Update Framework says, so that another bundle of
//! the same version would be called known without a look at it. A centre that was restored from a backup
//! signs such a one, and so do two centres with one fleet's keys. What goes out: nothing, or a refusal. It
//! changes nothing.

use outhaul_signer::trust::walk::MAX_TIMESTAMP_BYTES;
use outhaul_signer::{Acceptance, MetadataSource};
use serde_json::Value;

use super::refusals::PUBLISHED_TWICE;
use crate::error::AgentError;

const FILE: &str = "timestamp.json";

/// Refuses a publication whose version this site knows with other contents.
///
/// # Errors
/// A refusal.
pub fn refuse_second(
    name: &str,
    offered: &dyn MetadataSource,
    accepted: &Acceptance,
) -> Result<(), AgentError> {
    let offered = offered.fetch(FILE, MAX_TIMESTAMP_BYTES).ok().flatten();
    let (Some(offered), Some(trusted)) = (offered, accepted.trusted.0.get(FILE)) else {
        return Ok(());
    };
    let (one, other) = (signed(&offered), signed(trusted));
    let version = one["version"].as_u64();
    if version != other["version"].as_u64() || one == other {
        return Ok(());
    }
    let message = format!(
        "its `{FILE}` is version {}, and this site has accepted another one of that version",
        version.unwrap_or_default()
    );
    Err(AgentError::refused(name, PUBLISHED_TWICE, message))
}

/// The signed part.
fn signed(bytes: &[u8]) -> Value {
    let whole: Value = serde_json::from_slice(bytes).unwrap_or_default();
    whole.get("signed").cloned().unwrap_or_default()
}
