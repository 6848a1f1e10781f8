//! The fleet's roots that a site passed, kept in `roots/`: the apply helper follows the same chain.
//!
//! What comes in: metadata that is being verified, and an offer that was accepted. What goes out: the root
//! files that were asked for, of which those up to the accepted version are kept; and which of the kept ones are not as the fleet signed them. What
//! is kept counts for nothing here: this agent trusts what its database has.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use outhaul_signer::trust::SourceError;
use outhaul_signer::trust::walk::{MAX_ROOT_BYTES, Walk};
use outhaul_signer::{MetadataSource, TrustedMetadata};

use crate::agent::Agent;
use crate::durable;
use crate::error::AgentError;
use crate::offer::Offer;

/// Metadata of which the roots are remembered that were asked for.
pub struct Roots<'a> {
    of: &'a dyn MetadataSource,
    seen: RefCell<BTreeMap<String, Vec<u8>>>,
}

impl fmt::Debug for Roots<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roots").finish_non_exhaustive()
    }
}

impl<'a> Roots<'a> {
    pub fn of(of: &'a dyn MetadataSource) -> Self {
        Self {
            of,
            seen: RefCell::default(),
        }
    }

    /// What was asked for, by file name.
    pub fn fetched(&self) -> BTreeMap<String, Vec<u8>> {
        self.seen.take()
    }
}

impl MetadataSource for Roots<'_> {
    fn fetch(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError> {
        let found = self.of.fetch(name, max_bytes)?;
        if let Some(bytes) = found.as_ref().filter(|_| name.ends_with(".root.json")) {
            self.seen
                .borrow_mut()
                .insert(name.to_owned(), bytes.clone());
        }
        Ok(found)
    }
}

/// The version of the root in metadata that was verified.
pub fn version_of(trusted: &TrustedMetadata) -> Option<u64> {
    let root: serde_json::Value = serde_json::from_slice(trusted.0.get("root.json")?).ok()?;
    root.get("signed")?.get("version")?.as_u64()
}

/// The name under which a root of this version is kept, and carried.
pub fn file_name(version: u64) -> String {
    format!("{version}.root.json")
}

/// Keeps the roots that an accepted offer passed: the apply helper follows the same chain.
///
/// # Errors
/// [`AgentError`] of the disk.
pub fn keep(agent: &Agent, offer: &Offer) -> Result<(), AgentError> {
    if agent.rehearsal.is_some() {
        return Ok(());
    }
    let newest = offer.acceptance.versions.get("root").copied().unwrap_or(0);
    for (name, bytes) in &offer.roots {
        let version = name.split('.').next().and_then(|n| n.parse().ok());
        let path = agent.state_folder.roots().join(name);
        let is_kept = || read(&path).is_some_and(|there| there == *bytes);
        if version.is_some_and(|version: u64| version <= newest) && !is_kept() {
            durable::make_folder(&agent.state_folder.roots())?;
            if path.is_dir() {
                // This agent needs none of them: `status` names what lacks.
                tracing::warn!(
                    "the root `{name}` of the fleet is not kept: a folder is in its place in `roots`"
                );
                continue;
            }
            durable::write(&path, bytes, 0o600)?;
        }
    }
    Ok(())
}

/// What is wrong with the roots that are kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KeptRoots {
    /// Names of roots that this site passed and that are missing, or are not as the fleet signed them.
    pub bad: Vec<String>,
    /// Names of roots that this site has not passed: whoever follows the chain stops there.
    pub foreign: Vec<String>,
}

/// Looks at the roots in `folder`: those after the version `first`, as far as that is known, up to the one that is trusted now, with which
/// the chain is compared from its end on.
pub fn look(folder: &Path, first: Option<u64>, trusted: &TrustedMetadata) -> KeptRoots {
    let (Some(newest), Some(bytes)) = (version_of(trusted), trusted.0.get("root.json")) else {
        return KeptRoots::default();
    };
    let mut found = KeptRoots::default();
    let first = first.unwrap_or(newest);
    // What the next one has to be signed by.
    let mut next = None;
    for version in (first.saturating_add(1)..=newest).rev() {
        let there = read(&folder.join(file_name(version)));
        let is_good = there.as_ref().is_some_and(|there| match &next {
            None if version == newest => there == bytes,
            next => is_root(there, version, next.as_ref()),
        });
        if !is_good {
            found.bad.push(file_name(version));
        }
        next = there
            .filter(|_| is_good)
            .map(|there| (file_name(version), there));
    }
    found.bad.reverse();
    let names = durable::list(folder).unwrap_or_default();
    let names = names
        .iter()
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
    let is_later = |name: &String| {
        let version = name.strip_suffix(".root.json");
        version.is_some_and(|version| version.parse().is_ok_and(|version: u64| version > newest))
    };
    found.foreign = names.filter(is_later).collect();
    found.foreign.sort();
    found
}

/// Whether `bytes` are a root of this version that its own keys signed, and that signed the one after it.
fn is_root(bytes: &[u8], version: u64, next: Option<&(String, Vec<u8>)>) -> bool {
    let Ok(mut walk) = Walk::from_root(bytes) else {
        return false;
    };
    let mut passed = Vec::new();
    let followed = match next {
        Some(next) => walk.update_root(&BTreeMap::from([next.clone()]), &mut |root| {
            passed.push(root.version);
        }),
        None => {
            passed.push(walk.set().root().version);
            Ok(())
        }
    };
    let expected = if next.is_some() { 2 } else { 1 };
    followed.is_ok() && passed.first() == Some(&version) && passed.len() == expected
}

/// A root, where one can be read.
fn read(path: &Path) -> Option<Vec<u8>> {
    durable::read_if_present(path, MAX_ROOT_BYTES).ok()?
}
