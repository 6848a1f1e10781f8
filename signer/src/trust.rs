//! What a site may accept: metadata of a fleet, checked against what the site accepted before.
//!
//! What comes in: the metadata accepted last, the floors (highest versions ever accepted), a source of
//! bytes (a bundle's members or a folder behind HTTPS), the site's role, and what is known of the time.
//! What goes out: an [`Acceptance`] with the new state to keep, all or nothing, or a [`TrustError`] that
//! names the rule. Pure over bytes: it stores nothing, so a refusal changes nothing. An expired date is a
//! verdict of the acceptance and no refusal: it blocks new installs, never what runs, and never the floors.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::clock::TimePolicy;

mod altered;
mod delegated;
mod error;
mod floors;
mod remembered;
mod stream;
pub mod walk;

pub use error::{SourceError, TrustError};
pub use remembered::{remembered, remembered_with};

/// Most root rotations that one check follows: years of missed sticks.
pub const MAX_ROOT_ROTATIONS: u64 = 1024;
/// The largest version of any metadata, 2^53 - 1, as for all numbers that cross the gap: the largest integer
/// that every JSON reader and every database holds exactly.
pub const MAX_VERSION: u64 = (1 << 53) - 1;

/// Metadata that was accepted, by its name without a version: `root.json`, `timestamp.json`,
/// `snapshot.json`, `targets.json`, `<role>.json`. The bytes are kept as they were signed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TrustedMetadata(pub BTreeMap<String, Vec<u8>>);

/// Names and sizes: the bytes themselves would fill a log.
impl fmt::Debug for TrustedMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.0.iter().map(|(name, bytes)| (name, bytes.len())))
            .finish()
    }
}

impl TrustedMetadata {
    /// The beginning of trust: root metadata that came by a transport which the operator trusts.
    ///
    /// # Errors
    /// [`TrustError`] when the root metadata is malformed or not signed by its own keys.
    pub fn enrol(root_bytes: &[u8]) -> Result<Self, TrustError> {
        walk::Walk::from_root(root_bytes)?;
        Ok(Self(BTreeMap::from([(
            "root.json".to_owned(),
            root_bytes.to_vec(),
        )])))
    }
}

/// Where metadata comes from: a bundle's members, or a folder behind HTTPS.
pub trait MetadataSource {
    /// The bytes called `name` (`2.root.json`, `timestamp.json`, `7.snapshot.json` …), or `None` when
    /// there is no such file. Never more than `max_bytes`.
    ///
    /// # Errors
    /// [`SourceError`] when it exists but cannot be read or is larger.
    fn fetch(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError>;
}

/// A bundle's metadata members, by file name.
impl MetadataSource for BTreeMap<String, Vec<u8>> {
    fn fetch(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError> {
        match self.get(name) {
            Some(bytes) if bytes.len() as u64 > max_bytes => Err(SourceError::TooLarge {
                name: name.to_owned(),
                max_bytes,
            }),
            found => Ok(found.cloned()),
        }
    }
}

/// What was accepted, and what to keep of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// The new state, to be stored in one step in place of the old one.
    pub trusted: TrustedMetadata,
    /// Size of the stream's `index.json` in bytes.
    pub index_length: u64,
    /// SHA-256 of the stream's `index.json`.
    pub index_sha256: [u8; 32],
    /// Size in bytes and SHA-256 of its compressed form, where the metadata lists one.
    pub index_compressed: Option<(u64, [u8; 32])>,
    /// The bundle's number in its stream.
    pub number: u64,
    /// When the bundle was issued, as signed.
    pub issued: Timestamp,
    /// The newest signed time in the metadata, at or after `issued`: what may raise the lower bound,
    /// and, over HTTPS, what [`TimePolicy::is_stale`] is asked about.
    pub signed_at: Timestamp,
    /// The earliest expiry of any role that was used.
    pub expires: Timestamp,
    /// The new floors: the version of each role by its name without `.json`, `root` included.
    pub versions: BTreeMap<String, u64>,
    /// Whether the fleet's root took the key away that signed the times that were trusted so far: the
    /// lower bound begins again at `signed_at`, which is how a fleet undoes what a wrong clock signed.
    pub time_restarts: bool,
    /// Whether a role has expired. Blocks a new install; the running bundle is not affected, and the state is kept.
    pub expired: bool,
}

impl Acceptance {
    /// What is known of the time once this was accepted: `now`, or from `signed_at` on when time restarts.
    pub fn policy(&self, now: TimePolicy) -> TimePolicy {
        restarted(now, self.time_restarts, self.signed_at)
    }
}

fn restarted(now: TimePolicy, restarts: bool, signed_at: Timestamp) -> TimePolicy {
    if restarts {
        TimePolicy {
            lower_bound: signed_at,
            ..now
        }
    } else {
        now
    }
}

/// Checks what `source` offers for the stream `role` against what the site accepted.
///
/// The same metadata again is accepted again. `floors` may hold more than `trusted` remembers: a store
/// that was rolled back or replaced is caught by them. A floor falls only when a newer root (or, for
/// the stream's own, newer targets metadata) takes a key away from its role, which is how a fleet
/// recovers from versions that a stolen key drove up.
///
/// # Errors
/// [`TrustError`]; nothing was changed then.
pub fn verify(
    trusted: &TrustedMetadata,
    floors: &BTreeMap<String, u64>,
    source: &dyn MetadataSource,
    role: &str,
    now: TimePolicy,
) -> Result<Acceptance, TrustError> {
    stream::verify(trusted, floors, source, role, now)
}
