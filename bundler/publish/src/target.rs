//! What a place must be able to do, so that bundles can be published there.
//!
//! What comes in: relative paths and the bytes that belong there. What goes out: sizes, bytes, digests of what is there. An
//! implementation appears whole or not at all under a path; it decides nothing about what is sent.

use outhaul_bundle::Digest;

use crate::error::{PublicationError, TargetError};
use crate::publication::Object;

/// A place of files with `/` in their names.
pub trait Target {
    /// What people know the place of `path` by: a URL, or a file.
    fn place(&self, path: &str) -> String;

    /// Bytes of what lies at `path`; `None` when nothing does.
    ///
    /// # Errors
    /// [`TargetError`]
    fn size(&mut self, path: &str) -> Result<Option<u64>, TargetError>;

    /// What lies at `path`, at most `max_bytes`; `None` when nothing does.
    ///
    /// # Errors
    /// [`TargetError`], also for more than that.
    fn read(&mut self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, TargetError>;

    /// The digest of what lies at `path`, read back from there; `None` when nothing does.
    ///
    /// # Errors
    /// [`TargetError`]
    fn digest(&mut self, path: &str) -> Result<Option<Digest>, TargetError>;

    /// Puts `object` there in the place of what was, whole or not at all. `sent` is called with bytes while they go.
    ///
    /// # Errors
    /// [`TargetError`]; what was at its path is then as it was.
    fn put(&mut self, object: &Object, sent: &dyn Fn(u64)) -> Result<(), TargetError>;

    /// Makes what was put durable, where the place needs to be asked.
    ///
    /// # Errors
    /// [`TargetError`]
    fn sync(&mut self) -> Result<(), TargetError> {
        Ok(())
    }
}

/// Sees that the bundle's file still holds an object, before a server gets its digest.
///
/// # Errors
/// [`TargetError`]
pub(crate) fn unchanged(object: &Object) -> Result<(), TargetError> {
    if object.here().is_some() {
        return Ok(());
    }
    let path = object.origin();
    match object.digest_of(0, object.content.size) {
        Ok(found) if found == object.content.digest => Ok(()),
        Ok(_) => Err(PublicationError::Changed { path }.into()),
        Err(source) => Err(TargetError::Read { path, source }),
    }
}
