//! An assembled bundle on disk, while it waits for someone's signature.
//!
//! What comes in: an [`UnsignedBundle`] and a folder. What goes out: its index and encoded blobs there, and
//! later the very same bundle again. What is sealed cannot be made a second time with the same bytes, and the
//! control plane moves on meanwhile: what was signed is what ships. It checks the index against the digest
//! that was signed; every blob is checked against the index when the bundle is written.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use outhaul_bundle::limits::Limits;
use outhaul_bundle::{Digest, Index, index};
use outhaul_signer::durable;

use super::{AssembleError, Spool, SpoolError, UnsignedBundle};

impl UnsignedBundle {
    /// Keeps it in `folder`, which appears whole or not at all; what was there is replaced.
    ///
    /// # Errors
    /// [`AssembleError::Spool`] when it cannot be written.
    pub fn keep(&self, folder: &Path) -> Result<(), AssembleError> {
        let new = folder.with_extension("new");
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| SpoolError::at(&path, source)
        };
        remove(&new)?;
        fs::create_dir_all(&new).map_err(at(&new))?;
        for blob in &self.index.blobs {
            let to = new.join(blob.digest.hex());
            let mut file = File::create(&to).map_err(at(&to))?;
            io::copy(&mut self.spool.open_blob(blob)?, &mut file).map_err(at(&to))?;
            file.sync_all().map_err(at(&to))?;
        }
        let path = new.join(index::FILE);
        durable::write(&path, &self.index_bytes, durable::SECRET_MODE)
            .map_err(|error| SpoolError::at(&path, error.source))?;
        remove(folder)?;
        fs::rename(&new, folder).map_err(at(folder))?;
        if let Some(parent) = folder.parent() {
            let parent_file = File::open(parent).map_err(at(parent))?;
            parent_file.sync_all().map_err(at(parent))?;
        }
        Ok(())
    }

    /// The bundle that was kept in `folder` and whose index has the digest `expected`; `None` when it is
    /// not there, or is another one.
    ///
    /// # Errors
    /// [`AssembleError`] when it cannot be read.
    pub fn kept(folder: &Path, expected: &Digest) -> Result<Option<Self>, AssembleError> {
        let limits = Limits::default();
        let path = folder.join(index::FILE);
        let found = durable::read_if_present(&path, limits.max_index_bytes)
            .map_err(|error| SpoolError::at(&path, error.source))?;
        let Some(index_bytes) = found.filter(|bytes| Digest::of(bytes) == *expected) else {
            return Ok(None);
        };
        let index = Index::from_bytes(&index_bytes, &limits)?;
        let mut spool = Spool::new(&std::env::temp_dir())?;
        for blob in &index.blobs {
            // Read where it is: it is compared with its digest when the bundle is written.
            spool.keep_blob(blob.clone(), folder.join(blob.digest.hex()));
        }
        Ok(Some(Self {
            index,
            index_bytes,
            spool,
        }))
    }
}

/// Removes a folder that was kept; none there is well.
///
/// # Errors
/// [`SpoolError`]
pub fn remove(folder: &Path) -> Result<(), SpoolError> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(SpoolError::at(folder, source))
        }
        _ => Ok(()),
    }
}
