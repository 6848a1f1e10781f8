//! Floors: the highest version of each role that a site ever accepted, and when one may fall.
//!
//! What comes in: the floors, the roots that the chain passed, and the versions found. What goes out: the
//! new floors, or the refusal of an older version. A floor falls only when a key was taken away from its
//! role since the floor was set: the fleet's way back from versions that a stolen key drove up. Adding
//! a key lowers nothing.

use std::collections::{BTreeMap, BTreeSet};

use sigstore_tuf::metadata::{Root, Targets};

use super::TrustError;

/// The public keys of each role, as texts.
type RoleKeys = BTreeMap<String, BTreeSet<String>>;

/// Floors, with what is needed to know whether they still count.
#[derive(Debug)]
pub(super) struct Floors<'a> {
    versions: &'a BTreeMap<String, u64>,
    /// Keys as they were when the floors were set: at the root version of the root's own floor.
    then: RoleKeys,
    /// Keys as they are now.
    now: RoleKeys,
}

impl<'a> Floors<'a> {
    pub(super) fn new(versions: &'a BTreeMap<String, u64>) -> Self {
        Self {
            versions,
            then: RoleKeys::new(),
            now: RoleKeys::new(),
        }
    }

    /// A root that the chain passes, in order; the first is the stored one.
    pub(super) fn pass(&mut self, root: &Root) {
        self.now = top_level_keys(root);
        // A store that was rolled back walks through roots that the floors know already: rotations up
        // to there are old news and free no floor.
        if self.then.is_empty() || root.version <= self.of("root") {
            self.then = self.now.clone();
        }
    }

    /// What the stored targets metadata, if any, states of the stream's keys.
    pub(super) fn set_stream_then(&mut self, role: &str, targets: Option<&Targets>) {
        if let Some(keys) = targets.and_then(|t| delegated_keys(t, role)) {
            self.then.insert(role.to_owned(), keys);
        }
    }

    /// What the new targets metadata states of the stream's keys.
    pub(super) fn set_stream_now(&mut self, role: &str, targets: &Targets) {
        if let Some(keys) = delegated_keys(targets, role) {
            self.now.insert(role.to_owned(), keys);
        }
    }

    /// Refuses `version` of `role` below its floor.
    pub(super) fn check(&self, role: &str, version: u64) -> Result<(), TrustError> {
        let floor = self.of(role);
        if version >= floor || self.has_fallen(role) {
            return Ok(());
        }
        Err(TrustError::Rollback {
            file: format!("{role}.json"),
            expected: floor,
            found: version,
        })
    }

    /// The floors after `found` was accepted.
    pub(super) fn raised(&self, found: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut versions = self.versions.clone();
        for (role, version) in found {
            versions.insert(role.clone(), *version);
        }
        versions
    }

    fn of(&self, role: &str) -> u64 {
        self.versions.get(role).copied().unwrap_or(0)
    }

    /// Whether a key was taken away from `role` since its floor was set.
    pub(super) fn has_fallen(&self, role: &str) -> bool {
        // The root's own floor never falls: its chain only grows.
        let (Some(then), Some(now)) = (self.then.get(role), self.now.get(role)) else {
            return false;
        };
        role != "root" && !then.is_subset(now)
    }
}

fn top_level_keys(root: &Root) -> RoleKeys {
    let public = |id: &String| root.keys.get(id).map(|key| key.keyval.public.clone());
    let keys = |role: &str| {
        root.role(role)
            .map(|r| r.keyids.iter().filter_map(public).collect())
    };
    ["timestamp", "snapshot", "targets"]
        .into_iter()
        .filter_map(|role| Some((role.to_owned(), keys(role)?)))
        .collect()
}

fn delegated_keys(targets: &Targets, role: &str) -> Option<BTreeSet<String>> {
    let delegations = targets.delegations.as_ref()?;
    let role = delegations.roles.iter().find(|r| r.name == role)?;
    let public = |id: &String| {
        delegations
            .keys
            .get(id)
            .map(|key| key.keyval.public.clone())
    };
    Some(role.keyids.iter().filter_map(public).collect())
}
