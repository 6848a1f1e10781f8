//! The metadata that a site read last, checked again without any source: what it may still install.
//!
//! What comes in: the metadata that the site stored. What goes out: the acceptance of that very
//! metadata, dates checked now. For a bundle of which the own metadata is older than what the site knows, for
//! example because a freshness slip came in between: its content may be installed when it is exactly what
//! the newer metadata lists. It raises nothing.

use std::collections::BTreeMap;

use super::{
    Acceptance, MetadataSource, SourceError, TimePolicy, TrustError, TrustedMetadata, stream,
};

/// The stored metadata as a source: nothing newer than itself.
struct Stored<'a> {
    trusted: &'a TrustedMetadata,
    /// A stream's own file of the version that the stored snapshot lists, where the store has none.
    carried: Option<(String, &'a dyn MetadataSource)>,
}

impl MetadataSource for Stored<'_> {
    fn fetch(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError> {
        // All else is taken up from the store itself; further roots there are none.
        if name == "timestamp.json" {
            return Ok(self.trusted.0.get(name).cloned());
        }
        match &self.carried {
            Some((own, carried)) if name.ends_with(own) => carried.fetch(name, max_bytes),
            _ => Ok(None),
        }
    }
}

/// What the stored metadata lists, as [`super::verify`] would accept it again.
///
/// # Errors
/// [`TrustError`]; [`TrustError::Missing`] on a site that has accepted nothing yet.
pub fn remembered(
    trusted: &TrustedMetadata,
    floors: &BTreeMap<String, u64>,
    role: &str,
    now: TimePolicy,
) -> Result<Acceptance, TrustError> {
    let stored = Stored {
        trusted,
        carried: None,
    };
    stream::verify(trusted, floors, &stored, role, now)
}

/// The same, with the stream's own file from `carried` where the store has not the one that its snapshot
/// lists: a site that moved to another stream of the fleet knows the fleet's newest snapshot and no file of
/// that stream yet.
///
/// # Errors
/// As [`remembered`].
pub fn remembered_with(
    trusted: &TrustedMetadata,
    floors: &BTreeMap<String, u64>,
    carried: &dyn MetadataSource,
    role: &str,
    now: TimePolicy,
) -> Result<Acceptance, TrustError> {
    let stored = Stored {
        trusted,
        carried: Some((format!(".{role}.json"), carried)),
    };
    stream::verify(trusted, floors, &stored, role, now)
}
