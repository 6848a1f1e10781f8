//! Output: a rendered tree on disk, whole or as it was.
//!
//! What comes in: the tree of a [`outhaul_plane::Rendering`] and a folder. What goes out: that folder, holding
//! exactly the tree and whatever else people put there, swapped in at once. Beside it lies
//! `<folder>.outhaul.json`: which files Outhaul wrote and from which commits. A file that this record
//! does not list is never removed and never overwritten. A second file, `<folder>.outhaul.memory.json`,
//! lets the next run leave alone what nobody touched; it says nothing that cannot be found out again.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_signer::durable::{self, FileError};

use outhaul_record::guard::Removal;
use outhaul_record::record::Record;

mod exchange;
mod remembered;
mod rendered;
mod walk;
mod write;
mod write_rendering;

pub use remembered::{Remembered, remembered};
pub use rendered::RenderedBefore;
pub use walk::walk;
pub use write_rendering::{ReusedOutput, WrittenRendering, write_rendering};

/// Largest record in bytes: some 500,000 files.
const MAX_RECORD_BYTES: u64 = 64 * 1024 * 1024;
/// Largest file in bytes that is compared.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Why nothing was written. The folder is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// Every assignment is broken, and none was good before.
    #[error("nothing was written: every assignment is broken, and none has a last good output")]
    AllBroken,
    /// Someone else's file is where one of ours must go.
    #[error(
        "`{}` already exists, and Outhaul did not write it (there are {count} such files)\nhelp: choose a new \
         or empty folder, or move the file away; nothing was changed", path.display()
    )]
    Foreign {
        /// The first of them.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// What was written there is not known any more.
    #[error(
        "`{}` {}, and `{}` has {count} files of assignments that are not rendered now, the first of them `{first}`: whether they were \
         written by Outhaul and are to be removed is not known; nothing was changed\nhelp: restore the record from a backup; if there is \
         none, compare the folder, remove what is not wanted, or choose a new folder", record.display(),
        incomplete(*is_there), folder.display()
    )]
    Lost {
        /// The record.
        record: PathBuf,
        /// Whether it is there, and lists other files.
        is_there: bool,
        /// The folder.
        folder: PathBuf,
        /// The first of the files.
        first: String,
        /// How many.
        count: usize,
    },
    /// The file system refused.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder holds the rendering of another environment, whose place it would take.
    #[error(
        "`{}` holds the rendering of environment `{held}`, and `{wanted}` would take its place\nhelp: give each \
         environment its own folder with `--out`", path.display()
    )]
    OtherEnvironment {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        held: String,
        /// What was to be written.
        wanted: String,
    },
    /// A record that cannot be read.
    #[error("`{}` is not a record of Outhaul: {problem}\nhelp: restore it, or choose a new folder", path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// It would remove too much.
    #[error(transparent)]
    Removal(#[from] Removal),
    /// A file cannot be written or read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What writing changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderChanges {
    /// Files that were not there.
    pub added: usize,
    /// Files with other content now.
    pub changed: usize,
    /// Files that are gone.
    pub removed: usize,
    /// Files as they were.
    pub unchanged: usize,
    /// Files of others, untouched.
    pub foreign: usize,
}

/// The record beside `folder`, if there is one.
///
/// # Errors
/// [`OutputError`] when it cannot be read.
pub fn record(folder: &Path) -> Result<Option<Record>, OutputError> {
    let read = read_record(&record_path(&absolute(folder)?))?;
    Ok(read.map(|(record, _)| record))
}

/// Every file below `folder`: path and content; empty when there is no folder.
///
/// # Errors
/// [`OutputError`] when a file cannot be read.
pub fn read_tree(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, OutputError> {
    let mut tree = BTreeMap::new();
    for path in walk::walk(folder, "")?.into_keys() {
        let file = folder.join(&path);
        let bytes = read_file(&file)?;
        tree.insert(path, bytes);
    }
    Ok(tree)
}

/// What is wrong with a record that does not list the files of an assignment, which lie there.
pub(crate) fn incomplete(is_there: bool) -> &'static str {
    match is_there {
        true => "does not list every file of an assignment",
        false => "is gone",
    }
}

fn absolute(folder: &Path) -> Result<PathBuf, OutputError> {
    std::path::absolute(folder).map_err(io_error("find", folder))
}

fn record_path(folder: &Path) -> PathBuf {
    beside(folder, ".outhaul.json")
}

/// The file beside `folder` that has its name with this ending.
fn beside(folder: &Path, ending: &str) -> PathBuf {
    let name = folder.file_name().map(OsString::from);
    let mut name = name.unwrap_or_else(|| OsString::from("out"));
    name.push(ending);
    folder.with_file_name(name)
}

/// The record at `path` and its digest.
fn read_record(path: &Path) -> Result<Option<(Record, Digest)>, OutputError> {
    let bad = |problem: String| OutputError::Record {
        path: path.to_path_buf(),
        problem,
    };
    let Some(bytes) = durable::read_if_present(path, MAX_RECORD_BYTES)? else {
        return Ok(None);
    };
    let record = Record::parse(&bytes).map_err(bad)?;
    Ok(Some((record, Digest::of(&bytes))))
}

/// Returns the digest of what it wrote.
fn write_record(path: &Path, record: &Record) -> Result<Digest, OutputError> {
    let bytes = record.bytes().map_err(|problem| OutputError::Record {
        path: path.to_path_buf(),
        problem,
    })?;
    durable::write(path, &bytes, durable::PUBLIC_MODE)?;
    Ok(Digest::of(&bytes))
}

/// A file of a folder that is written to; what is not a file is not waited for.
///
/// # Errors
/// [`FileError`] when it cannot be read, or is larger than a rendered file may be.
pub fn read_file(path: &Path) -> Result<Vec<u8>, FileError> {
    durable::read(path, MAX_FILE_BYTES)
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OutputError + use<> {
    let path = path.to_path_buf();
    move |source| OutputError::Io {
        doing,
        path,
        source,
    }
}

#[cfg(test)]
mod tests;
