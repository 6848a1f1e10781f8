//! What a site was told last, judged again without any source: what it may still install.
//!
//! What comes in: the metadata that the site stored. What goes out: the acceptance of that very
//! metadata, dates judged now. For a bundle whose own metadata is older than what the site knows, for
//! example because a freshness slip came in between: its content may be installed when it is exactly what
//! the newer metadata vouches for. It fetches nothing and raises nothing.

use std::collections::BTreeMap;

use super::{
    Acceptance, MetadataSource, SourceError, TimePolicy, TrustError, TrustedMetadata, stream,
};

/// The stored metadata as a source: nothing newer than itself.
struct Stored<'a>(&'a TrustedMetadata);

impl MetadataSource for Stored<'_> {
    fn fetch(&self, name: &str, _max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError> {
        // All else is taken up from the store itself; further roots there are none.
        let bytes = (name == "timestamp.json")
            .then(|| self.0.0.get(name))
            .flatten();
        Ok(bytes.cloned())
    }
}

/// What the stored metadata vouches for, as [`super::verify`] would accept it again.
///
/// # Errors
/// [`TrustError`]; [`TrustError::Missing`] on a site that has accepted nothing yet.
pub fn remembered(
    trusted: &TrustedMetadata,
    floors: &BTreeMap<String, u64>,
    role: &str,
    now: TimePolicy,
) -> Result<Acceptance, TrustError> {
    stream::verify(trusted, floors, &Stored(trusted), role, now)
}
