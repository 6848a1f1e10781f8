//! The archives of layers in a generation, in the places of the layers.
//!
//! What comes in: an archive in the store, and the layer that it is in the place of. What goes out: a link to the archive in the image layout, and
//! a file that states which layer it is in the place of, by which the mirror and the import into containerd find it.

use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;

use super::link_or_copy;
use crate::blobs::{Blobs, twins};
use crate::durable::{FileError, at};
use crate::serving;

/// Places the archive of `layer` below `folder`.
pub(super) fn place(
    folder: &Path,
    blobs: &Blobs,
    layer: &Digest,
    archive: &Content,
) -> Result<(), FileError> {
    let path = folder.join(serving::archive_path(&archive.digest));
    // Two layers may have one archive. What is there is a link to the blob, and must not be written to.
    if !path.exists() {
        link_or_copy(&blobs.path(&archive.digest), &path)?;
    }
    let stated = folder.join(serving::twin_path(layer));
    if let Some(parent) = stated.parent() {
        std::fs::create_dir_all(parent).map_err(at("create", parent))?;
    }
    twins::state(&stated, archive)
}
