//! Thresholds that mean what they say: so many different keys, and at least one.
//!
//! What comes in: roles as verified metadata lists them. What goes out: a refusal where one key could count
//! twice or none would do. The core counts key ids, and reads a key in several spellings (hexadecimal in
//! either case, blanks around it, PEM); this counts the keys that those spellings are of.

use std::collections::{BTreeMap, BTreeSet};

use sigstore_tuf::Key;
use sigstore_tuf::metadata::{Root, Targets};

use super::{TrustError, malformed};
use crate::key::PublicKey;

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
            .is_some_and(|key| !seen.insert(value(&key.keyval.public)))
        {
            return Err(malformed(
                file,
                &format!("role `{role}` lists one key under two ids"),
            ));
        }
    }
    Ok(())
}

/// The key itself, however it is spelled: the 32 bytes of an Ed25519 key, the DER of another one in PEM,
/// and for what is neither its text without blanks and case.
fn value(spelled: &str) -> Vec<u8> {
    let text = spelled.trim();
    if let Ok(raw) = hex::decode(text) {
        return raw;
    }
    if let Ok(key) = PublicKey::from_pem(text) {
        return hex::decode(key.to_hex()).unwrap_or_default();
    }
    if let Ok((_, der)) = pkcs8::der::Document::from_pem(text) {
        return der.as_bytes().to_vec();
    }
    let solid = text.split_whitespace().collect::<String>();
    solid.to_ascii_lowercase().into_bytes()
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

/// Why a root cannot be met by any signature: the keys of a role are of kinds that are not verified here. Fleets
/// use Ed25519 alone; RSA is an optional kind of TUF, and its absence is reported instead of "no signature holds".
pub(super) fn unsupported_keys(file: &str, bytes: &[u8]) -> Option<TrustError> {
    let root: serde_json::Value = crate::metadata::parse_own(bytes).ok()?;
    let kind = |id: &serde_json::Value| {
        let key = &root["keys"][id.as_str().unwrap_or_default()];
        let text = |name: &str| key[name].as_str().unwrap_or("?").to_owned();
        (text("keytype"), text("scheme"))
    };
    let verified = |scheme: &str| {
        scheme == "ed25519" || cfg!(feature = "p256") && scheme == "ecdsa-sha2-nistp256"
    };
    let role = &root["roles"]["root"];
    let ids = role["keyids"].as_array()?;
    let others: BTreeSet<_> = ids
        .iter()
        .map(kind)
        .filter(|(_, scheme)| !verified(scheme))
        .collect();
    let good = ids.iter().filter(|id| verified(&kind(id).1)).count();
    let threshold = role["threshold"].as_u64()?;
    if others.is_empty() || good as u64 >= threshold {
        return None;
    }
    let plain = |text: &str| -> String {
        let shown = text.chars().filter(char::is_ascii_graphic);
        shown.take(40).collect()
    };
    let named: Vec<_> = others
        .iter()
        .map(|(kind, scheme)| format!("`{}` with `{}`", plain(kind), plain(scheme)))
        .collect();
    Some(malformed(
        file,
        &format!(
            "role `root` needs {threshold} signatures, and {good} of its keys are of a kind that this program \
             verifies (Ed25519); {} is not supported",
            named.join(", ")
        ),
    ))
}
