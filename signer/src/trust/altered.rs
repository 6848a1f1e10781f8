//! Files that no digest pins: the root chain and the timestamp. A changed byte in them is refused, too.
//!
//! What comes in: what a source brings, and the root metadata that was trusted before. What goes out:
//! nothing, or the refusal. TUF ignores old root versions, surplus signatures and the spelling of
//! hexadecimal digits; on a stick a byte that changed is a finding all the same, because who carries it
//! should know that it is damaged. It accepts nothing that the walk did not accept.

use serde_json::Value;

use super::walk::{MAX_ROOT_BYTES, Walk};
use super::{MetadataSource, SourceError, TrustError};
use crate::canonical;

/// Old root versions that are looked at: years of rotations, few enough to ask a server for.
const LOOK_BACK: u64 = 8;

/// Refuses root files, up to the trusted version, that are not those that the fleet published.
pub(super) fn refuse_altered_roots(
    source: &dyn MetadataSource,
    version: u64,
    trusted: &[u8],
) -> Result<(), TrustError> {
    let mut next = trusted.to_vec();
    for number in (version.saturating_sub(LOOK_BACK).max(1)..=version).rev() {
        let file = format!("{number}.root.json");
        let Some(bytes) = fetch(source, &file)? else {
            return Ok(());
        };
        let altered = |problem: &str| TrustError::RootChain {
            file: file.clone(),
            problem: problem.to_owned(),
        };
        if number == version {
            if bytes != next {
                return Err(altered("it differs from the one that this site trusts"));
            }
            continue;
        }
        refuse_other_spelling(&file, &bytes)?;
        let mut walk =
            Walk::from_root(&bytes).map_err(|_| altered("its own keys did not sign it"))?;
        let follows =
            std::collections::BTreeMap::from([(format!("{}.root.json", number + 1), next)]);
        walk.update_root(&follows, &mut |_| {})
            .map_err(|_| altered("the version after it does not follow from it"))?;
        next = bytes;
    }
    Ok(())
}

/// Refuses a timestamp of which the bytes are not the ones that were written.
pub(super) fn refuse_altered_timestamp(source: &dyn MetadataSource) -> Result<(), TrustError> {
    match fetch(source, "timestamp.json")? {
        Some(bytes) => refuse_other_spelling("timestamp.json", &bytes),
        None => Ok(()),
    }
}

fn fetch(source: &dyn MetadataSource, file: &str) -> Result<Option<Vec<u8>>, TrustError> {
    source
        .fetch(file, MAX_ROOT_BYTES)
        .map_err(|source: SourceError| TrustError::Source { source })
}

/// We sign and ship canonical JSON with lower-case digits: there is one spelling.
fn refuse_other_spelling(file: &str, bytes: &[u8]) -> Result<(), TrustError> {
    let malformed = |problem: String| TrustError::Malformed {
        file: file.to_owned(),
        problem,
    };
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
    let written = canonical::to_bytes(&value).map_err(|error| malformed(error.to_string()))?;
    let one_spelling = bytes.strip_suffix(b"\n").unwrap_or(bytes) == written;
    let signatures = value["signatures"].as_array().into_iter().flatten();
    let lower = signatures
        .flat_map(|signature| [&signature["sig"], &signature["keyid"]])
        .all(|text| {
            text.as_str()
                .is_some_and(|t| !t.contains(|c: char| c.is_ascii_uppercase()))
        });
    if one_spelling && lower {
        return Ok(());
    }
    Err(malformed(
        "its bytes are not the ones that were signed and shipped".to_owned(),
    ))
}
