//! The TUF client workflow over bytes: root chain, timestamp, snapshot, targets, delegated roles.
//!
//! What comes in: metadata trusted before, a source. What goes out:
//! verified roles, and with [`Walk::trusted`] the bytes to keep, role by role as each was accepted.
//! Signatures, thresholds, versions and pins are verified by the core of `sigstore-tuf`; here is the order
//! of the steps, what each may cost, and the words for a refusal. It never writes anything.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use outhaul_kit::percent;
use sigstore_tuf::metadata::{DelegatedRole, Root, TargetFile, Targets};
use sigstore_tuf::{Error, TrustedMetadataSet};

use super::{MAX_ROOT_ROTATIONS, MetadataSource, SourceError, TrustError, TrustedMetadata};

mod refusal;
mod thresholds;

use refusal::refusal;
use thresholds::{refuse_repeated_delegation_keys, refuse_repeated_root_keys, unsupported_keys};

/// Largest root metadata in bytes; python-tuf's bound.
pub const MAX_ROOT_BYTES: u64 = 512_000;
/// Largest timestamp metadata in bytes; python-tuf's bound.
pub const MAX_TIMESTAMP_BYTES: u64 = 16_384;
/// Largest snapshot metadata in bytes; python-tuf's bound.
pub const MAX_SNAPSHOT_BYTES: u64 = 2_000_000;
/// Largest targets metadata in bytes, delegated ones included; python-tuf's bound.
pub const MAX_TARGETS_BYTES: u64 = 5_000_000;
/// Most roles visited in search of one target; python-tuf's bound.
pub const MAX_DELEGATIONS: usize = 32;

/// The walk refuses no role for its date: callers read the dates of the accepted roles.
const NO_DATE: Timestamp = Timestamp::MIN;

/// A walk through one source's metadata.
#[derive(Debug)]
pub struct Walk {
    set: TrustedMetadataSet,
    files: BTreeMap<String, Vec<u8>>,
}

impl Walk {
    /// A walk that starts at root metadata alone.
    ///
    /// # Errors
    /// [`TrustError`] when it is malformed or not signed by its own keys.
    pub fn from_root(bytes: &[u8]) -> Result<Self, TrustError> {
        outhaul_algorithms::install();
        let file = "root.json";
        let set = TrustedMetadataSet::from_root(bytes)
            .map_err(|e| unsupported_keys(file, bytes).unwrap_or_else(|| refusal(file, e)))?;
        refuse_repeated_root_keys(file, set.root())?;
        let files = BTreeMap::from([(file.to_owned(), bytes.to_vec())]);
        Ok(Self { set, files })
    }

    /// A walk that starts at what was trusted before. Its lower roles are taken up after the root
    /// chain, by [`Walk::refresh`]: only then is it known which signatures count.
    ///
    /// # Errors
    /// [`TrustError::DamagedStore`] when the stored root metadata does not hold.
    pub fn resume(trusted: &TrustedMetadata) -> Result<Self, TrustError> {
        let damaged = |problem: String| TrustError::DamagedStore { problem };
        let root = trusted.0.get("root.json");
        let root = root.ok_or_else(|| damaged("there is no root metadata".to_owned()))?;
        let mut walk = Self::from_root(root).map_err(|error| damaged(error.to_string()))?;
        walk.files = trusted.0.clone();
        Ok(walk)
    }

    /// All that is trusted now, by name without a version.
    pub fn trusted(&self) -> TrustedMetadata {
        TrustedMetadata(self.files.clone())
    }

    /// All that a site of the stream `role` needs to remember, without other roles' files.
    pub(super) fn trusted_for(&self, role: &str) -> TrustedMetadata {
        let own = format!("{role}.json");
        let keep = |name: &str| {
            let stem = name.strip_suffix(".json").unwrap_or(name);
            name == own || is_top_level(stem)
        };
        let kept = self.files.iter().filter(|(name, _)| keep(name));
        TrustedMetadata(
            kept.map(|(name, bytes)| (name.clone(), bytes.clone()))
                .collect(),
        )
    }

    /// Checks that all that was trusted before still holds by itself, signed by its own root's keys.
    /// A store that does not is not "no floor": it is refused.
    pub(super) fn check_stored(&mut self) -> Result<(), TrustError> {
        let damaged = |file: &str, error: Error| TrustError::DamagedStore {
            problem: refusal(file, error).to_string(),
        };
        if let Some(bytes) = self.files.get("timestamp.json") {
            self.set
                .update_timestamp(bytes, Timestamp::MIN)
                .map_err(|e| damaged("timestamp.json", e))?;
        }
        if let Some(bytes) = self.files.get("snapshot.json") {
            self.set
                .update_snapshot(bytes, Timestamp::MIN)
                .map_err(|e| damaged("snapshot.json", e))?;
        }
        if let Some(bytes) = self.files.get("targets.json") {
            self.set
                .update_targets(bytes, Timestamp::MIN)
                .map_err(|e| damaged("targets.json", e))?;
        }
        Ok(())
    }

    /// The verified roles.
    pub fn set(&self) -> &TrustedMetadataSet {
        &self.set
    }

    /// Whether the newest root's keys signed these bytes as a timestamp, whatever its version and dates are.
    pub(crate) fn has_signed_timestamp(mut self, bytes: &[u8]) -> bool {
        self.set.update_timestamp(bytes, NO_DATE).is_ok()
    }

    /// Follows the chain of root metadata to its end. `each` sees every root that became trusted.
    ///
    /// # Errors
    /// [`TrustError`] when a link does not hold.
    pub fn update_root(
        &mut self,
        source: &dyn MetadataSource,
        each: &mut dyn FnMut(&Root),
    ) -> Result<(), TrustError> {
        each(self.set.root());
        for _ in 0..MAX_ROOT_ROTATIONS {
            let Some(next) = self.set.root().version.checked_add(1) else {
                return Ok(());
            };
            let file = format!("{next}.root.json");
            let Some(bytes) = fetch(source, &file, MAX_ROOT_BYTES)? else {
                return Ok(());
            };
            self.set.update_root(&bytes).map_err(|error| {
                unsupported_keys(&file, &bytes).unwrap_or_else(|| match error {
                    Error::Json(_) | Error::Malformed(_) => refusal(&file, error),
                    other => TrustError::RootChain {
                        file: file.clone(),
                        problem: other.to_string(),
                    },
                })
            })?;
            refuse_repeated_root_keys(&file, self.set.root())?;
            self.files.insert("root.json".to_owned(), bytes);
            each(self.set.root());
        }
        Err(TrustError::RootChain {
            file: format!("{}.root.json", self.set.root().version.saturating_add(1)),
            problem: format!("more than {MAX_ROOT_ROTATIONS} rotations at once"),
        })
    }

    /// Takes up what was trusted before, as the floor for what comes; then timestamp, snapshot and
    /// top-level targets from `source`. Call after [`Walk::update_root`].
    ///
    /// What was trusted before and is not signed by the newest root's keys is dropped: rotating keys
    /// is how a fleet recovers from versions that a stolen key drove up.
    ///
    /// # Errors
    /// [`TrustError`]; what was accepted before the failing step is in [`Walk::trusted`].
    pub fn refresh(&mut self, source: &dyn MetadataSource) -> Result<(), TrustError> {
        self.set
            .check_root_expired(NO_DATE)
            .map_err(|e| refusal("root.json", e))?;
        self.take_up_trusted();
        self.update_timestamp(source)?;
        self.update_snapshot(source)?;
        self.update_targets(source)
    }

    fn take_up_trusted(&mut self) {
        // Dates are not verified here: an expired role still is a floor.
        if let Some(bytes) = self.files.get("timestamp.json") {
            drop(self.set.update_timestamp(bytes, Timestamp::MIN));
        }
        if let Some(bytes) = self.files.get("snapshot.json") {
            drop(self.set.update_snapshot(bytes, Timestamp::MIN));
        }
        if let Some(bytes) = self.files.get("targets.json") {
            drop(self.set.update_targets(bytes, Timestamp::MIN));
        }
    }

    fn update_timestamp(&mut self, source: &dyn MetadataSource) -> Result<(), TrustError> {
        let file = "timestamp.json";
        let bytes = required(source, file, MAX_TIMESTAMP_BYTES)?;
        match self.set.update_timestamp(&bytes, NO_DATE) {
            Ok(()) => {
                self.files.insert(file.to_owned(), bytes);
            }
            // The version that is trusted already: by the specification the trusted copy stays.
            Err(Error::EqualVersion { .. }) => {}
            Err(error) => return Err(refusal(file, error)),
        }
        self.set
            .check_timestamp_expired(NO_DATE)
            .map_err(|e| refusal(file, e))
    }

    fn update_snapshot(&mut self, source: &dyn MetadataSource) -> Result<(), TrustError> {
        let plain = "snapshot.json";
        let pinned = self
            .set
            .timestamp()
            .and_then(|t| t.snapshot_meta())
            .map(|pin| pin.version);
        let version = pinned.ok_or_else(|| malformed("timestamp.json", "it pins no snapshot"))?;
        if self.set.snapshot().is_some_and(|s| s.version == version) {
            return Ok(());
        }
        let file = self.versioned(version, plain);
        let bytes = required(source, &file, MAX_SNAPSHOT_BYTES)?;
        self.set
            .update_snapshot(&bytes, NO_DATE)
            .map_err(|e| refusal(&file, e))?;
        self.files.insert(plain.to_owned(), bytes);
        Ok(())
    }

    fn update_targets(&mut self, source: &dyn MetadataSource) -> Result<(), TrustError> {
        self.set
            .check_snapshot_expired(NO_DATE)
            .map_err(|e| refusal("snapshot.json", e))?;
        let version = self.pinned_version("targets")?;
        let trusted = self.set.targets_role("targets");
        if trusted.is_some_and(|t| t.version == version) {
            return Ok(());
        }
        let file = self.versioned(version, "targets.json");
        let bytes = required(source, &file, MAX_TARGETS_BYTES)?;
        let targets = self
            .set
            .update_targets(&bytes, NO_DATE)
            .map_err(|e| refusal(&file, e))?;
        refuse_repeated_delegation_keys(&file, targets)?;
        self.files.insert("targets.json".to_owned(), bytes);
        Ok(())
    }

    /// Takes up the delegated `role`, from what was trusted before or from `source`, verified against
    /// what `delegator` states of it.
    ///
    /// # Errors
    /// [`TrustError`] when it is missing or does not hold.
    pub fn delegated(
        &mut self,
        source: &dyn MetadataSource,
        role: &str,
        delegator: &str,
    ) -> Result<&Targets, TrustError> {
        let plain = format!("{}.json", percent_encoded(role));
        let version = self.pinned_version(role)?;
        if self.set.targets_role(role).is_some() {
            // Loaded in this walk by way of another delegator: it must satisfy this one as well.
            self.set
                .verify_delegated_targets(role, delegator, NO_DATE)
                .map_err(|e| refusal(&plain, e))?;
        } else {
            let stored = self.files.get(&plain).is_some_and(|bytes| {
                let now = NO_DATE;
                self.set
                    .update_delegated_targets(bytes, role, delegator, now)
                    .is_ok()
            });
            if !stored {
                let file = self.versioned(version, &plain);
                let bytes = required(source, &file, MAX_TARGETS_BYTES)?;
                let targets = self
                    .set
                    .update_delegated_targets(&bytes, role, delegator, NO_DATE)
                    .map_err(|e| refusal(&file, e))?;
                refuse_repeated_delegation_keys(&file, targets)?;
                self.files.insert(plain.clone(), bytes);
            }
        }
        self.set
            .targets_role(role)
            .ok_or(TrustError::Missing { file: plain })
    }

    /// Finds a target by the specification's search: pre-order, depth first, stopped by a terminating
    /// delegation. Roles are loaded only when the search reaches them. Call after [`Walk::refresh`].
    ///
    /// # Errors
    /// [`TrustError`] when a role on the way does not hold.
    pub fn target(
        &mut self,
        source: &dyn MetadataSource,
        path: &str,
    ) -> Result<Option<TargetFile>, TrustError> {
        let mut open = vec![("targets".to_owned(), String::new())];
        let mut visited = BTreeSet::new();
        while let Some((role, delegator)) = open.pop() {
            if visited.len() >= MAX_DELEGATIONS || visited.contains(&role) {
                continue;
            }
            if role != "targets" {
                if self.pinned_version(&role).is_err() {
                    // A role that the snapshot does not know is not a role of this repository.
                    continue;
                }
                self.delegated(source, &role, &delegator)?;
            }
            let file = format!("{role}.json");
            let Some(targets) = self.set.targets_role(&role) else {
                return Err(TrustError::Missing { file });
            };
            if let Some(found) = targets.target(path) {
                return Ok(Some(found.clone()));
            }
            let mut children = Vec::new();
            let mut terminated = false;
            for child in targets.delegations.iter().flat_map(|d| &d.roles) {
                if is_top_level(&child.name) || !matches(&file, child, path)? {
                    continue;
                }
                children.push((child.name.clone(), role.clone()));
                if child.terminating {
                    terminated = true;
                    break;
                }
            }
            visited.insert(role);
            if terminated {
                open.clear();
            }
            // A stack: the first child must be the next one popped.
            open.extend(children.into_iter().rev());
        }
        Ok(None)
    }

    fn pinned_version(&self, role: &str) -> Result<u64, TrustError> {
        let pins = self.set.snapshot().map(|snapshot| &snapshot.meta);
        let pin = pins.and_then(|meta| meta.get(&format!("{role}.json")));
        pin.map(|pin| pin.version)
            .ok_or_else(|| malformed("snapshot.json", &format!("it does not list `{role}.json`")))
    }

    fn versioned(&self, version: u64, plain: &str) -> String {
        if self.set.root().consistent_snapshot {
            format!("{version}.{plain}")
        } else {
            plain.to_owned()
        }
    }
}

/// Whether a delegation covers `path`.
pub(super) fn matches(file: &str, role: &DelegatedRole, path: &str) -> Result<bool, TrustError> {
    role.matches_path(path)
        .map_err(|error| refusal(file, error))
}

fn is_top_level(role: &str) -> bool {
    matches!(role, "root" | "snapshot" | "targets" | "timestamp")
}

/// File names carry a role's name percent-encoded, so that no name leaves the metadata folder.
fn percent_encoded(role: &str) -> impl std::fmt::Display {
    percent::encoded(role)
}

fn fetch(
    source: &dyn MetadataSource,
    file: &str,
    max_bytes: u64,
) -> Result<Option<Vec<u8>>, TrustError> {
    let oversized = || TrustError::Oversized {
        file: file.to_owned(),
        max_bytes,
    };
    match source.fetch(file, max_bytes) {
        // A source that does not keep the bound is not relied on.
        Ok(Some(bytes)) if bytes.len() as u64 > max_bytes => Err(oversized()),
        Ok(found) => Ok(found),
        Err(SourceError::TooLarge { .. }) => Err(oversized()),
        Err(source) => Err(TrustError::Source { source }),
    }
}

fn required(
    source: &dyn MetadataSource,
    file: &str,
    max_bytes: u64,
) -> Result<Vec<u8>, TrustError> {
    let missing = || TrustError::Missing {
        file: file.to_owned(),
    };
    fetch(source, file, max_bytes)?.ok_or_else(missing)
}

fn malformed(file: &str, problem: &str) -> TrustError {
    TrustError::Malformed {
        file: file.to_owned(),
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_role_leaves_the_metadata_folder() {
        let file = |role| percent_encoded(role).to_string();
        assert_eq!(file("../root"), "..%2Froot");
        assert_eq!(file("a b\u{e9}~-_.Z9"), "a%20b%C3%A9~-_.Z9");
    }
}
