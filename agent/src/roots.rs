//! The fleet's roots that a site passed, kept in `roots/`: the apply helper follows the same chain.
//!
//! What comes in: metadata that is being verified, and an offer that was accepted. What goes out: the root
//! files that were asked for, of which those up to the accepted version are kept. It verifies nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;

use outhaul_signer::trust::SourceError;
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

impl<'a> Roots<'a> {
    pub fn of(of: &'a dyn MetadataSource) -> Self {
        Self {
            of,
            seen: RefCell::default(),
        }
    }

    /// What was asked for, by file name.
    pub fn taken(&self) -> BTreeMap<String, Vec<u8>> {
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
pub(crate) fn version_of(trusted: &TrustedMetadata) -> Option<u64> {
    let root: serde_json::Value = serde_json::from_slice(trusted.0.get("root.json")?).ok()?;
    root.get("signed")?.get("version")?.as_u64()
}

/// The name under which a root of this version is kept, and carried.
pub(crate) fn file_name(version: u64) -> String {
    format!("{version}.root.json")
}

/// Keeps the roots that an accepted offer passed: the apply helper follows the same chain.
pub(crate) fn keep(agent: &Agent, offer: &Offer) -> Result<(), AgentError> {
    if agent.rehearsal.is_some() {
        return Ok(());
    }
    let newest = offer.acceptance.versions.get("root").copied().unwrap_or(0);
    for (name, bytes) in &offer.roots {
        let version = name.split('.').next().and_then(|n| n.parse().ok());
        let path = agent.state_folder.roots().join(name);
        if version.is_some_and(|version: u64| version <= newest) && !path.exists() {
            durable::make_folder(&agent.state_folder.roots())?;
            durable::write(&path, bytes, 0o600)?;
        }
    }
    Ok(())
}
