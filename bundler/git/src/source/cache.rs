//! Where repositories that were fetched are kept.
//!
//! What comes in: a folder, or the user's own by convention. What goes out: where in it the mirror of a
//! URL lies. Nothing is made or read here.

use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;

use super::normal_url;

/// Where fetched repositories are kept, as bare mirrors that hold only what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// A cache in `folder`, made when it is first needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The user's own cache: `$XDG_CACHE_HOME/outhaul/git`, or below `~/.cache`.
    pub fn of_user() -> Self {
        let base = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
            .unwrap_or_else(std::env::temp_dir);
        Self::at(base.join("outhaul").join("git"))
    }

    /// Where images lie beside the repositories.
    pub fn images(&self) -> PathBuf {
        self.folder.join("images")
    }

    pub fn repository(&self, url: &str) -> PathBuf {
        self.folder.join(format!(
            "{}.git",
            Digest::of(normal_url(url).as_bytes()).short()
        ))
    }
}
