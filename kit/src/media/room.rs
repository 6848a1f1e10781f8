//! How much fits on a medium: what is free, and how large one file may be.
//!
//! What comes in: an open medium. What goes out: two numbers that the file system states. It writes nothing.

use rustix::io::Errno;

use super::Media;
use crate::durable::{FileError, at};

/// FAT's number (`statfs`).
const FAT: i128 = 0x4d44;

/// What fits on a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaSpace {
    /// Bytes that may still be written.
    pub free_bytes: u64,
    /// Largest file, in bytes; [`u64::MAX`] where the file system has no limit that anybody meets.
    pub max_file_bytes: u64,
}

impl Media {
    /// What fits on it now.
    ///
    /// # Errors
    /// [`FileError`] when the file system does not say.
    pub fn room(&self) -> Result<MediaSpace, FileError> {
        let fail = |error: Errno| at("look at", &self.path)(error.into());
        let space = rustix::fs::fstatvfs(&self.root).map_err(fail)?;
        let kind = rustix::fs::fstatfs(&self.root).map_err(fail)?.f_type;
        Ok(MediaSpace {
            free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
            max_file_bytes: match i128::from(kind) {
                FAT => u64::from(u32::MAX),
                _ => u64::MAX,
            },
        })
    }
}
