//! A path as the system would follow it.
//!
//! What comes in: a path. What goes out: the same place without links in the part of it that is there. It changes nothing.

use std::path::{Path, PathBuf};

/// `path` without links in the part of it that is there.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let Ok(real) = above.canonicalize() {
            let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
            // A `/` at the end would make a folder of it.
            return real.join(rest).components().collect();
        }
    }
    path
}
