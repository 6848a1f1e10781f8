//! Files of a generation that share their bytes with the stored blob, where the file system can do that (Btrfs, XFS, bcachefs).
//!
//! What comes in: open files. What goes out: one with the other's bytes. What is shared takes no space of its own until one
//! of the two is written to, which the other one does not see: a file that someone edits in place damages nothing else,
//! which a hard link would. That is why what is applied is never a hard link to a blob.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use outhaul_bundle::index::Content;

use super::create;
use crate::blobs::digest_of;
use crate::durable::{self, FileError, at};

/// Gives a file the bytes of another one: shares them, or copies them.
pub(super) fn share_or_copy(from: &mut File, to: &mut File) -> io::Result<()> {
    match rustix::fs::ioctl_ficlone(&*to, &*from) {
        Ok(()) => Ok(()),
        Err(_) => io::copy(from, to).map(drop),
    }
}

/// Makes a file of a blob whose bytes are those of its content, without a copy. `false`: the file system cannot do that, or the
/// bytes are not those of the content, so that the blob has to be read as any other one.
///
/// # Errors
/// [`FileError`] of the file that is made.
pub(super) fn share(
    blob: &Path,
    content: &Content,
    (path, executable): &(PathBuf, bool),
) -> Result<bool, FileError> {
    let Ok(from) = durable::open_file(blob) else {
        return Ok(false);
    };
    let to = create(path, *executable)?;
    if rustix::fs::ioctl_ficlone(&to, &from).is_err() {
        return Ok(false);
    }
    drop(to);
    // What is shared is what is compared: the same bytes on the disk.
    let found = digest_of(path).map_err(at("read", path))?;
    Ok(found == content.digest)
}
