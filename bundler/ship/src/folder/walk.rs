//! Walk: every file below a folder, and what shows whether someone touched it since.
//!
//! What comes in: a folder. What goes out: its files by path, each with a [`FileStamp`]: the facts by which
//! git's index knows that a file is as it was. Links and whatever else is not a regular file have none. No
//! file is opened, and no link is followed.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{OutputError, io_error};

/// A regular file, as the file system knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, i64, i64, u64)", into = "(u64, i64, i64, u64)")]
pub struct FileStamp {
    /// Length in bytes.
    pub size: u64,
    /// When its content changed, in nanoseconds since 1970.
    pub modified: i64,
    /// When anything about it changed, in nanoseconds since 1970; 0 when that is no proof.
    pub changed: i64,
    /// Its number in the file system.
    pub inode: u64,
}

impl From<(u64, i64, i64, u64)> for FileStamp {
    fn from((size, modified, changed, inode): (u64, i64, i64, u64)) -> Self {
        Self {
            size,
            modified,
            changed,
            inode,
        }
    }
}

impl From<FileStamp> for (u64, i64, i64, u64) {
    fn from(seen: FileStamp) -> Self {
        (seen.size, seen.modified, seen.changed, seen.inode)
    }
}

impl FileStamp {
    /// What `metadata` says; `None` for anything but a regular file.
    pub fn of(metadata: &Metadata) -> Option<Self> {
        let at = |seconds: i64, nanoseconds: i64| {
            let seconds = seconds.saturating_mul(1_000_000_000);
            seconds.saturating_add(nanoseconds)
        };
        metadata.is_file().then(|| Self {
            size: metadata.len(),
            modified: at(metadata.mtime(), metadata.mtime_nsec()),
            changed: at(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        })
    }

    /// Whether the content is the same, as long as nobody set the time back.
    pub fn has_content_of(&self, other: &Self) -> bool {
        (self.size, self.modified, self.inode) == (other.size, other.modified, other.inode)
    }

    /// The same, for who looked at `at`: what changed at that very moment may change once more without
    /// another time, so that then the time is no proof.
    pub fn as_proof(self, at: i64) -> Self {
        let changed = match self.changed < at && self.modified < at {
            true => self.changed,
            false => 0,
        };
        Self { changed, ..self }
    }
}

/// Files by path, with `/` between parts.
pub type FilesFound = BTreeMap<String, Option<FileStamp>>;

/// All files below `folder` and its subfolder `below`; an empty `below` is `folder` itself. Nothing, when
/// there is no such folder.
///
/// # Errors
/// [`OutputError`] when a folder cannot be listed.
pub fn walk(folder: &Path, below: &str) -> Result<FilesFound, OutputError> {
    let mut found = FilesFound::new();
    let mut waiting = vec![match below {
        "" => (folder.to_path_buf(), String::new()),
        below => (folder.join(below), format!("{below}/")),
    }];
    while let Some((at, below)) = waiting.pop() {
        let entries = match fs::read_dir(&at) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(io_error("list", &at)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(io_error("list", &at))?;
            let path = format!("{below}{}", entry.file_name().to_string_lossy());
            let looked_at = |error| io_error("look at", &entry.path())(error);
            if entry.file_type().map_err(looked_at)?.is_dir() {
                waiting.push((entry.path(), format!("{path}/")));
                continue;
            }
            match entry.metadata() {
                Ok(metadata) => drop(found.insert(path, FileStamp::of(&metadata))),
                // It went away in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(looked_at(error)),
            }
        }
    }
    Ok(found)
}
