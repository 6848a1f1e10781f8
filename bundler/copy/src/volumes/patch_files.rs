//! The patches of a copy, as they are written and as they are compared with those of a copy that is there.
//!
//! What comes in: a blob. What goes out: its patch, or whether a copy has the same. It makes no patch, and writes nothing.

use std::io::{self, Read, Write};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::Blob;
use outhaul_bundle::read::BlobSink;

/// The patches of a copy.
pub(crate) trait PatchFiles {
    /// Opens the patch for a blob.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    fn open(&self, blob: &Blob) -> io::Result<Box<dyn Read + '_>>;

    /// The digest of the patch for a blob.
    fn digest(&self, blob: &Blob) -> Option<Digest>;
}

/// Of parts.
pub(super) struct NoPatches;

impl PatchFiles for NoPatches {
    fn open(&self, _: &Blob) -> io::Result<Box<dyn Read + '_>> {
        Err(io::Error::from(io::ErrorKind::NotFound))
    }

    fn digest(&self, _: &Blob) -> Option<Digest> {
        None
    }
}

/// Checks every blob, and sees that the patches of a copy that is there are these.
#[expect(clippy::struct_field_names, reason = "one name per meaning")]
pub(super) struct Same<'a> {
    patches: &'a dyn PatchFiles,
    hasher: Hasher,
    pub(super) is_same: bool,
}

impl<'a> Same<'a> {
    pub(super) fn new(patches: &'a dyn PatchFiles) -> Self {
        Self {
            patches,
            hasher: Hasher::new(),
            is_same: true,
        }
    }
}

impl BlobSink for Same<'_> {
    fn begin(&mut self, _: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        Ok(None)
    }

    fn commit(&mut self, _: &Blob) -> io::Result<()> {
        Ok(())
    }

    fn discard(&mut self, _: &Blob) {}

    fn begin_patch(&mut self, _: &Blob, _: u64) -> io::Result<Option<Box<dyn Write + '_>>> {
        self.hasher = Hasher::new();
        Ok(Some(Box::new(&mut self.hasher)))
    }

    fn commit_patch(&mut self, blob: &Blob) -> io::Result<()> {
        let (found, _) = std::mem::take(&mut self.hasher).finish();
        self.is_same &= self.patches.digest(blob) == Some(found);
        Ok(())
    }
}
