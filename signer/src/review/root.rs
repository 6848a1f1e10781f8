//! The review of a new root: each key of each role, what becomes of it, and how many must sign.
//!
//! What comes in: the root to sign, the co-signer's root and the newest one that follows from it. What goes
//! out: a [`RootReview`], or a refusal. One step may not take so many root keys away that the rest could
//! not undo it: keys are replaced one after another, never all at once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::{KnownRoots, ReviewError, parsed_whole, refuse, refuse_past};
use crate::key::PublicKey;
use crate::metadata::{Holder, Holders, Key, RoleKeys, Root, SPEC_VERSION, is_label};
use crate::request::{SigningRequest, short};

/// The four roles of a root, in the order in which people care.
const ROLES: [&str; 4] = ["root", "targets", "snapshot", "timestamp"];

/// What the signature on a new root would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RootReview {
    /// The fleet's id.
    pub fleet: String,
    /// The version to sign.
    pub version: u64,
    /// The version of the root that the co-signer has: what all below is compared with.
    pub own_version: u64,
    /// The newest version that follows from it.
    pub published_version: u64,
    /// When the co-signer's root expires.
    pub expires_before: Timestamp,
    /// When the new one expires.
    pub expires: Timestamp,
    /// Each role, root first.
    pub roles: Vec<RoleLine>,
    /// SHA-256 of the bytes to sign.
    pub digest: String,
}

/// One role of a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoleLine {
    /// Its name.
    pub role: String,
    /// How many must sign by the co-signer's root.
    pub threshold_before: usize,
    /// How many must sign by the new one.
    pub threshold: usize,
    /// How many keys it has in the new one.
    pub count: usize,
    /// Every key of it, removed ones included.
    pub keys: Vec<KeyLine>,
}

/// One key of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyLine {
    /// Its id.
    pub id: String,
    /// Its name as the new root has it (for a removed one: as the co-signer's root has it).
    pub name: String,
    /// Who holds it, likewise.
    pub holder: String,
    /// Name and holder in the co-signer's root, when they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_before: Option<Holder>,
    /// What becomes of it.
    pub fate: Fate,
    /// Whether it is the key that is to sign.
    pub yours: bool,
}

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It counts before and after.
    Kept,
    /// It is new.
    Added,
    /// It counts no more.
    Removed,
}

pub(super) fn review(
    request: &SigningRequest,
    known: &KnownRoots,
    signer: Option<&PublicKey>,
    now: Timestamp,
) -> Result<RootReview, ReviewError> {
    let new: Root = parsed_whole(request)?;
    let (own, newest) = (&known.own, &known.newest);
    if new.version != newest.version.saturating_add(1) {
        return refuse(format!(
            "it is root version {}, and {} follows from your root",
            new.version,
            newest.version.saturating_add(1)
        ));
    }
    refuse_unsound(&new)?;
    refuse_past("the new root", new.expires, now)?;
    refuse_too_few_kept(newest, &new)?;
    refuse_too_few_kept(own, &new)?;
    refuse_other_keys(request, newest, &new)?;
    let yours = signer.map(PublicKey::id);
    if let Some(id) = &yours
        && !request.keys.contains_key(id)
    {
        return refuse(format!("your key {} is not asked for", short(id)));
    }
    let roles = ROLES.map(|role| role_line(role, own, &new, yours.as_deref()));
    Ok(RootReview {
        fleet: request.fleet.clone(),
        version: new.version,
        own_version: own.version,
        published_version: newest.version,
        expires_before: own.expires,
        expires: new.expires,
        roles: roles.into(),
        digest: request.digest()?,
    })
}

fn role_line(role: &str, own: &Root, new: &Root, yours: Option<&str>) -> RoleLine {
    let none = RoleKeys {
        keyids: Vec::new(),
        threshold: 0,
    };
    let before = own.roles.get(role).unwrap_or(&none);
    let after = new.roles.get(role).unwrap_or(&none);
    let ids: BTreeSet<&String> = before.keyids.iter().chain(&after.keyids).collect();
    let called = |root: &Root, id: &String| root.holders.get(id).cloned().unwrap_or_default();
    let line = |id: &String| {
        let fate = match (before.keyids.contains(id), after.keyids.contains(id)) {
            (true, true) => Fate::Kept,
            (true, false) => Fate::Removed,
            _ => Fate::Added,
        };
        let was = called(own, id);
        let is = if fate == Fate::Removed {
            was.clone()
        } else {
            called(new, id)
        };
        KeyLine {
            id: id.clone(),
            called_before: (fate == Fate::Kept && was != is).then_some(was),
            name: is.name,
            holder: is.holder,
            fate,
            yours: yours == Some(id),
        }
    };
    let mut keys: Vec<_> = ids.into_iter().map(line).collect();
    keys.sort_by_key(|key| key.fate);
    RoleLine {
        role: role.to_owned(),
        threshold_before: before.threshold,
        threshold: after.threshold,
        count: after.keyids.len(),
        keys,
    }
}

/// What no root of a fleet looks like: it could show one thing and count another.
fn refuse_unsound(root: &Root) -> Result<(), ReviewError> {
    if root.spec_version != SPEC_VERSION || !root.consistent_snapshot || root.kind != "root" {
        return refuse("it is not root metadata as a fleet of this version has it");
    }
    if !root.is_complete() || root.roles.len() != ROLES.len() {
        return refuse("it does not have the four roles of a root");
    }
    let mut used = BTreeSet::new();
    for (name, role) in &root.roles {
        let ids: BTreeSet<&String> = role.keyids.iter().collect();
        if ids.len() != role.keyids.len() || !(1..=ids.len()).contains(&role.threshold) {
            return refuse(format!(
                "role `{name}` has {} keys, wants {} signatures, or lists one twice",
                role.keyids.len(),
                role.threshold
            ));
        }
        used.extend(ids);
    }
    if used != root.keys.keys().collect() {
        return refuse("its keys are not those of its roles");
    }
    refuse_odd_holders(&root.holders, &root.keys)?;
    root.keys
        .iter()
        .try_for_each(|(id, key)| refuse_odd_key(id, key))
}

/// Names must be of keys that are there, and printable.
pub(super) fn refuse_odd_holders(
    holders: &Holders,
    keys: &BTreeMap<String, Key>,
) -> Result<(), ReviewError> {
    for (id, Holder { name, holder }) in holders {
        let odd = |label: &String| !label.is_empty() && !is_label(label);
        if odd(name) || odd(holder) || !keys.contains_key(id) {
            return refuse(format!("the name of key {} cannot be shown", short(id)));
        }
    }
    Ok(())
}

/// A key must match its id, spelled in the one way.
pub(super) fn refuse_odd_key(id: &str, key: &Key) -> Result<(), ReviewError> {
    let public = key.keyval.get("public").map_or("", String::as_str);
    let sound = PublicKey::from_hex(public)
        .is_ok_and(|parsed| parsed.id() == id && Key::new(&parsed) == *key);
    if sound {
        return Ok(());
    }
    refuse(format!("key {} does not match its id", short(id)))
}

/// So many root keys must stay that they could undo the change by themselves.
fn refuse_too_few_kept(before: &Root, new: &Root) -> Result<(), ReviewError> {
    let Some(message) = too_few_kept(before, new) else {
        return Ok(());
    };
    Err(ReviewError::DoesNotFollow {
        problem: message,
        help: "do not sign, and ask the other root keys' holders; an honest change replaces root keys one \
               after another. If years of such changes lie between your root and this one, have the newest \
               root brought to you over a trusted channel and compare it with the other holders",
    })
}

/// What is wrong when fewer of the root keys of `before` stay than must sign.
pub(crate) fn too_few_kept(before: &Root, new: &Root) -> Option<String> {
    let (old, next) = (before.roles.get("root")?, new.roles.get("root")?);
    let kept = old
        .keyids
        .iter()
        .filter(|id| next.keyids.contains(id))
        .count();
    (kept < old.threshold).then(|| {
        format!(
            "it keeps {kept} of the {} root keys of version {}, of which {} must sign: those who hold the \
             fleet today could not undo it",
            old.keyids.len(),
            before.version,
            old.threshold
        )
    })
}

/// The keys that a request asks must be root keys before or after, and be what they are there.
fn refuse_other_keys(
    request: &SigningRequest,
    newest: &Root,
    new: &Root,
) -> Result<(), ReviewError> {
    for (id, key) in &request.keys {
        let counts = [newest, new].into_iter().any(|root| {
            root.roles["root"].keyids.contains(id)
                && root
                    .keys
                    .get(id)
                    .is_some_and(|there| there.keyval == key.keyval)
        });
        if !counts {
            return refuse(format!(
                "it asks key {} to sign, which is not a root key",
                short(id)
            ));
        }
    }
    Ok(())
}
