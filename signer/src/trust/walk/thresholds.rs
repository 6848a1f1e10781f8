//! Thresholds that mean what they say: so many different keys, and at least one.
//!
//! What comes in: roles as verified metadata lists them. What goes out: a refusal where one key could count
//! twice or none would do. The core counts key ids; this makes an id stand for a key.

use std::collections::{BTreeMap, BTreeSet};

use sigstore_tuf::Key;
use sigstore_tuf::metadata::{Root, Targets};

use super::{TrustError, malformed};

/// A threshold counts keys, not names of keys: a role that lists one key under two ids could be
/// satisfied by one person, so such metadata is refused whole.
fn refuse_repeated_keys<'a>(
    file: &str,
    role: &str,
    threshold: usize,
    keyids: impl Iterator<Item = &'a String>,
    keys: &BTreeMap<String, Key>,
) -> Result<(), TrustError> {
    if threshold == 0 {
        return Err(malformed(
            file,
            &format!("role `{role}` needs no signature at all"),
        ));
    }
    let mut seen = BTreeSet::new();
    for id in keyids.collect::<BTreeSet<_>>() {
        if keys
            .get(id)
            .is_some_and(|key| !seen.insert(key.keyval.public.to_ascii_lowercase()))
        {
            return Err(malformed(
                file,
                &format!("role `{role}` lists one key under two ids"),
            ));
        }
    }
    Ok(())
}

pub(super) fn refuse_repeated_root_keys(file: &str, root: &Root) -> Result<(), TrustError> {
    root.roles.iter().try_for_each(|(name, role)| {
        refuse_repeated_keys(file, name, role.threshold, role.keyids.iter(), &root.keys)
    })
}

pub(super) fn refuse_repeated_delegation_keys(
    file: &str,
    targets: &Targets,
) -> Result<(), TrustError> {
    let Some(delegations) = &targets.delegations else {
        return Ok(());
    };
    delegations.roles.iter().try_for_each(|role| {
        let ids = role.keyids.iter();
        refuse_repeated_keys(file, &role.name, role.threshold, ids, &delegations.keys)
    })
}
