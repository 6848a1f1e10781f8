//! Files written to the target in batches: one sync of the file system for many, in an order that no power cut turns around.
//!
//! What comes in: files in order. What goes out: the same files in the target, each whole or as it was before. A batch is
//! written beside its names, synced, and then gets its names, so that no name ever has a content that is not on the disk. It
//! is bounded in files and bytes: so much space is needed beside what is replaced, and so much is written again after a cut.

use outhaul_kit::durable::{self, FileError, at};

use super::DesiredFile;
use super::beneath::{Beneath, Beside, NewContent};

/// Most files of a batch.
const MAX_FILES: usize = 2048;
/// Up to so many files are made durable one by one, more by one sync of the file system: whoever writes few does not wait for
/// what other programs wrote.
const FEW: usize = 8;
/// Bytes after which a batch ends.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Writing into a target.
#[derive(Debug)]
pub struct Writing<'t> {
    target: &'t Beneath,
    batch: Vec<Beside>,
    bytes: u64,
    /// Whether files have names that are not durable yet.
    unsynced: bool,
    /// Files that were written and have no name: they keep what they had.
    unnamed: Vec<Beside>,
}

impl<'t> Writing<'t> {
    /// Nothing is written yet.
    pub fn into(target: &'t Beneath) -> Self {
        Self {
            target,
            batch: Vec::new(),
            bytes: 0,
            unsynced: false,
            unnamed: Vec::new(),
        }
    }

    /// Writes one more file; `passed` gets the instants of a batch that this completes, at which a test cuts the power.
    ///
    /// # Errors
    /// [`FileError`]; a file that has no name yet then keeps what it had.
    pub fn add(
        &mut self,
        path: &str,
        file: &DesiredFile,
        passed: &mut dyn FnMut(&'static str),
    ) -> Result<(), FileError> {
        let content = match &file.opened {
            Some(text) => NewContent::Bytes(text.as_bytes()),
            None => {
                let from = durable::open_file(&file.from).map_err(at("open", &file.from))?;
                NewContent::OfFile(from)
            }
        };
        let written = self.target.write_beside(path, content, file.mode())?;
        self.batch.push(written);
        self.bytes = self.bytes.saturating_add(file.size_in_target());
        if self.batch.len() < MAX_FILES && self.bytes < MAX_BYTES {
            return Ok(());
        }
        self.give_names(passed)
    }

    /// Whether a file was written and has no name.
    pub fn lacks_name(&self, path: &str) -> bool {
        let mut all = self.batch.iter().chain(&self.unnamed);
        all.any(|beside| beside.path() == path)
    }

    /// Gives the last files their names; afterwards all of it is durable.
    ///
    /// # Errors
    /// As [`Writing::add`].
    pub fn finish(&mut self, passed: &mut dyn FnMut(&'static str)) -> Result<(), FileError> {
        self.give_names(passed)?;
        if self.unsynced || self.target.has_made_folders() {
            self.target.sync()?;
        }
        self.unsynced = false;
        Ok(())
    }

    fn give_names(&mut self, passed: &mut dyn FnMut(&'static str)) -> Result<(), FileError> {
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            passed("batch-written");
        }
        self.bytes = 0;
        let is_few = batch.len() <= FEW;
        let mut done = match is_few {
            true => Ok(()),
            false => self.target.sync(),
        };
        for beside in batch {
            if done.is_ok() {
                done = self.target.give_name(&beside, is_few);
            }
            match done {
                Ok(()) => {
                    self.unsynced |= !is_few;
                    passed("file-written");
                }
                Err(_) => self.unnamed.push(beside),
            }
        }
        done
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let unnamed = self.batch.iter().chain(&self.unnamed);
        unnamed.for_each(|beside| self.target.discard(beside));
    }
}
