//! Which project files their user agreed to.
//!
//! What comes in: a project file's path and text. What goes out: whether this very text was agreed to at
//! this very place, or the record that it is now. A file that came with someone's repository would
//! otherwise choose what is rendered, signed and promoted by whoever stands in its folder. Records lie in
//! the user's own state folder, never beside the file.

use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_signer::durable;

/// Longest record, in bytes.
const MAX_RECORD_BYTES: u64 = 8 * 1024;

/// The records of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    folder: PathBuf,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The state folder cannot be written.
    #[error("cannot record that `{}` is trusted", path.display())]
    Io {
        /// The project file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Records {
    /// The records in `$XDG_STATE_HOME`, or `.local/state` of the home folder; none without either.
    pub fn of_user() -> Option<Self> {
        let base = std::env::var_os("XDG_STATE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| {
                std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"))
            })?;
        Some(Self::at(&base.join("outhaul").join("projects")))
    }

    /// The records in `folder`.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Whether `text` was agreed to at `path`.
    pub fn has(&self, path: &Path, text: &str) -> bool {
        let found = durable::read(&self.record(path), MAX_RECORD_BYTES);
        found.is_ok_and(|bytes| bytes == content(path, text))
    }

    /// Records that `text` is agreed to at `path`.
    ///
    /// # Errors
    /// [`TrustError::Io`]
    pub fn add(&self, path: &Path, text: &str) -> Result<(), TrustError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| TrustError::Io {
            path: path.to_owned(),
            source,
        };
        std::fs::create_dir_all(&self.folder).map_err(|error| failed(error.into()))?;
        durable::write(
            &self.record(path),
            &content(path, text),
            durable::SECRET_MODE,
        )
        .map_err(|error| failed(error.into()))
    }

    fn record(&self, path: &Path) -> PathBuf {
        let name = Digest::of(path.as_os_str().as_encoded_bytes());
        self.folder.join(name.to_string().replace(':', "-"))
    }
}

fn content(path: &Path, text: &str) -> Vec<u8> {
    format!("{} {}\n", Digest::of(text.as_bytes()), path.display()).into_bytes()
}
