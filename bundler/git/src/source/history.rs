//! What came before the commit that a source is opened at.
//!
//! What comes in: an [`Opened`] source and how far to look back. What goes out: commits, the newest
//! first. Only comparisons with the past need it: a render reads one commit.

use super::{Opened, SourceError, Storage};

impl Opened {
    /// Its commit and those before it, the newest first, at most `max`; empty for a plain folder.
    ///
    /// # Errors
    /// [`SourceError`] when git fails.
    pub fn history(&self, max: usize) -> Result<Vec<String>, SourceError> {
        match &self.at {
            Storage::Folder(..) => Ok(Vec::new()),
            Storage::Git(repository) => repository.history(&self.commit, max, self.remote()),
        }
    }
}
