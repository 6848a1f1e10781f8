//! Files that are replaced: by what is of the same kind alone.
//!
//! What comes in: the path of a file. What goes out: a refusal where something else has that name. It reads at most one file.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use outhaul_kit::durable;

use crate::refused::{NoPlace, PlaceRefused};

/// Largest file that is looked at before it is replaced: more than any that Outhaul writes to a place that was named.
const MAX_REPLACED_BYTES: u64 = 4 << 20;

/// Refuses to replace what is there as `file`, unless `is_same` says that it is of the kind that is written. `what` is that kind, with
/// its article.
///
/// # Errors
/// [`PlaceRefused`]
pub fn refuse_other_kind(
    file: &Path,
    what: &str,
    is_same: impl FnOnce(&[u8]) -> bool,
) -> Result<(), PlaceRefused> {
    let Ok(found) = std::fs::symlink_metadata(file) else {
        return Ok(());
    };
    let found = if found.is_symlink() {
        "a symbolic link".to_owned()
    } else if found.is_dir() {
        "a folder".to_owned()
    } else if let Some(kind) = not_a_folder(file).filter(|_| !found.is_file()) {
        kind.to_owned()
    } else {
        let there = durable::read(file, MAX_REPLACED_BYTES);
        if there.is_ok_and(|there| is_same(&there)) {
            return Ok(());
        }
        format!("a file that is there already and is not {what}")
    };
    let instead = format!("a file that is not there yet, or {what} that is to be replaced");
    Err(NoPlace::new(file, found, &instead).into())
}

/// What lies in the place of `folder` and is no folder.
pub(crate) fn not_a_folder(folder: &Path) -> Option<&'static str> {
    let kind = folder.metadata().ok()?.file_type();
    match kind {
        kind if kind.is_dir() => None,
        kind if kind.is_file() => Some("a file"),
        kind if kind.is_fifo() => Some("a FIFO"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}
