//! What the service remembers: `serve.json` in its state folder.
//!
//! What comes in: what was done and what is wrong. What goes out: one JSON file, replaced whole, that a
//! restart goes on from. Losing it loses nothing else: the next round then finds that nothing changed.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use outhaul_bundle::Digest;
use outhaul_signer::durable;
use serde::{Deserialize, Serialize};

use super::ServeError;

/// Its name.
const FILE: &str = "serve.json";
/// Its largest size in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The file that says that a service has this folder.
const LOCK: &str = "serve.lock";

/// What is known of every environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServeState {
    /// By name.
    pub environments: BTreeMap<String, EnvironmentMemory>,
}

/// What is known of one environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentMemory {
    /// What was done last.
    pub done: Option<LastRun>,
    /// When that was.
    pub last_success: Option<Timestamp>,
    /// What keeps it from being done again.
    pub trouble: Option<LastFailure>,
}

/// What was bundled and published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastRun {
    /// Digest of everything that it depends on: sources, payloads, configuration, program.
    pub key: Digest,
    /// Digest of the snapshot.
    pub snapshot: Digest,
    /// What stays as it was, or is left out, because it is broken, and why: one line each.
    pub broken: Vec<String>,
    /// Digest of how what was written lies there; absent where nothing was written yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Digest>,
}

/// Why an environment could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastFailure {
    /// Since when it is this.
    pub since: Timestamp,
    /// What it is, for people.
    pub text: String,
}

impl ServeState {
    /// What `folder` remembers; nothing in a new one, which is made.
    pub(super) fn read(folder: &Path) -> Result<Self, ServeError> {
        let path = folder.join(FILE);
        let Some(bytes) = durable::read_if_present(&path, MAX_BYTES)? else {
            return Ok(Self::default());
        };
        serde_json::from_slice(&bytes).map_err(|error| ServeError::State {
            path,
            problem: error.to_string(),
        })
    }

    /// Puts it there, durably.
    pub(super) fn write(&self, folder: &Path) -> Result<(), ServeError> {
        let path = folder.join(FILE);
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| ServeError::State {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        Ok(durable::write(&path, &bytes, durable::PUBLIC_MODE)?)
    }
}

/// Takes `folder` for this process, for as long as the returned value is there.
pub(super) fn lock(folder: &Path) -> Result<outhaul_kit::lock::Held, ServeError> {
    durable::create_folder(folder)?;
    let path = folder.join(LOCK);
    let failed = |source| ServeError::System {
        doing: format!("lock `{}`", path.display()),
        source,
    };
    outhaul_kit::lock::take(&path)
        .map_err(failed)?
        .ok_or_else(|| ServeError::Locked {
            folder: folder.to_owned(),
        })
}
