//! Output: a rendered tree on disk, whole or as it was.
//!
//! What comes in: the tree of a [`crate::Rendering`] and a folder. What goes out: that folder, holding
//! exactly the tree and whatever else people put there, swapped in by one rename. Beside it lies
//! `<folder>.outhaul.json`: which files Outhaul wrote and from which commits. A file that this record
//! does not list is never removed and never overwritten.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;
use outhaul_signer::durable::{self, FileError};
use serde::{Deserialize, Serialize};

use crate::guard::Removal;
use crate::isolation::Kept;

mod settle;
mod verify;

pub use settle::{Settled, settle};
pub use verify::{Comparison, verify};

/// The record's format.
const FORMAT: &str = "outhaul.dev/render/v1";
/// Largest record in bytes: some 500,000 files.
const MAX_RECORD_BYTES: u64 = 64 * 1024 * 1024;

/// What was rendered, from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    format: String,
    /// The commits that the tree was rendered from.
    pub snapshot: Snapshot,
    /// Digest of every file by path.
    pub files: BTreeMap<String, Digest>,
    /// Assignments whose files are those of an earlier snapshot, because the newest does not render to
    /// any; by `<cluster type>/<target>`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<String, Kept>,
}

/// Why nothing was written. The folder is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// Every assignment is broken, and none was good before.
    #[error("nothing was written: every assignment is broken, and none has a last good output")]
    AllBroken,
    /// Somebody else's file is where one of ours must go.
    #[error(
        "`{}` is in the way: Outhaul did not write it (there are {count} such files)\nhelp: choose a new \
         or empty folder, or move the file away; nothing was changed", path.display()
    )]
    Foreign {
        /// The first of them.
        path: PathBuf,
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
pub struct Changes {
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

/// Makes `folder` hold `tree`.
///
/// # Errors
/// [`OutputError`]; the folder is then as it was.
pub fn write<B: AsRef<[u8]>>(
    folder: &Path,
    tree: &BTreeMap<String, B>,
    snapshot: &Snapshot,
    kept: BTreeMap<String, Kept>,
) -> Result<Changes, OutputError> {
    let folder = &absolute(folder)?;
    let record_path = record_path(folder);
    let old = read_record(&record_path)?
        .map(|record| record.files)
        .unwrap_or_default();
    let there = list(folder)?;
    let in_the_way: Vec<&String> = there
        .iter()
        .filter(|path| tree.contains_key(*path) && !old.contains_key(*path))
        .filter(|path| {
            let new = tree.get(*path).map(AsRef::as_ref);
            fs::read(folder.join(path)).ok().as_deref() != new
        })
        .collect();
    if let Some(first) = in_the_way.first() {
        return Err(OutputError::Foreign {
            path: folder.join(first),
            count: in_the_way.len(),
        });
    }
    let mut record = Record {
        format: FORMAT.to_owned(),
        snapshot: snapshot.clone(),
        files: tree
            .iter()
            .map(|(path, bytes)| (path.clone(), Digest::of(bytes.as_ref())))
            .collect(),
        kept,
    };
    let foreign: Vec<&String> = there
        .iter()
        .filter(|p| !old.contains_key(*p) && !tree.contains_key(*p))
        .collect();
    let changes = compare(&old, &record.files, &there, foreign.len());

    let parent = folder.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(io_error("create", parent))?;
    let staged = tempfile::Builder::new()
        .prefix(".outhaul-")
        .tempdir_in(parent)
        .map_err(io_error("write in", parent))?;
    let fresh = staged.path().join("tree");
    make_folder(&fresh)?;
    for (path, bytes) in tree {
        put(&fresh.join(path), bytes.as_ref())?;
    }
    for path in foreign {
        let (from, to) = (folder.join(path), fresh.join(path));
        make_folder(to.parent().unwrap_or(&fresh))?;
        fs::hard_link(&from, &to).map_err(io_error("keep", &from))?;
    }
    sync_folders(&fresh)?;
    // A crash between the swap and the last record must leave nothing that looks like somebody else's.
    let exact = record.files.clone();
    record.files.extend(
        old.into_iter()
            .filter(|(path, _)| !exact.contains_key(path)),
    );
    write_record(&record_path, &record)?;
    swap(&fresh, folder)?;
    sync(parent)?;
    record.files = exact;
    write_record(&record_path, &record)?;
    Ok(changes)
}

/// The record beside `folder`, if there is one.
///
/// # Errors
/// [`OutputError`] when it cannot be read.
pub fn record(folder: &Path) -> Result<Option<Record>, OutputError> {
    read_record(&record_path(&absolute(folder)?))
}

/// Every file below `folder`: path and content; empty when there is no folder.
///
/// # Errors
/// [`OutputError`] when a file cannot be read.
pub fn read_tree(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, OutputError> {
    let mut tree = BTreeMap::new();
    for path in list(folder)? {
        let file = folder.join(&path);
        let bytes = fs::read(&file).map_err(io_error("read", &file))?;
        tree.insert(path, bytes);
    }
    Ok(tree)
}

fn compare(
    old: &BTreeMap<String, Digest>,
    new: &BTreeMap<String, Digest>,
    there: &BTreeSet<String>,
    foreign: usize,
) -> Changes {
    let mut changes = Changes {
        foreign,
        ..Changes::default()
    };
    for (path, digest) in new {
        match old.get(path) {
            _ if !there.contains(path) => changes.added += 1,
            Some(before) if before != digest => changes.changed += 1,
            _ => changes.unchanged += 1,
        }
    }
    let gone = |path: &&String| !new.contains_key(*path) && there.contains(*path);
    changes.removed = old.keys().filter(gone).count();
    changes
}

fn absolute(folder: &Path) -> Result<PathBuf, OutputError> {
    std::path::absolute(folder).map_err(io_error("find", folder))
}

fn record_path(folder: &Path) -> PathBuf {
    let mut name = folder
        .file_name()
        .map_or_else(|| OsString::from("out"), OsString::from);
    name.push(".outhaul.json");
    folder.with_file_name(name)
}

fn read_record(path: &Path) -> Result<Option<Record>, OutputError> {
    let bad = |problem: String| OutputError::Record {
        path: path.to_path_buf(),
        problem,
    };
    let Some(bytes) = durable::read_if_present(path, MAX_RECORD_BYTES)? else {
        return Ok(None);
    };
    let record: Record = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    if record.format != FORMAT {
        return Err(bad(format!(
            "its format is `{}`, not `{FORMAT}`",
            record.format
        )));
    }
    Ok(Some(record))
}

fn write_record(path: &Path, record: &Record) -> Result<(), OutputError> {
    let bytes = serde_json::to_vec_pretty(record).map_err(|error| OutputError::Record {
        path: path.to_path_buf(),
        problem: error.to_string(),
    })?;
    durable::write(path, &bytes, durable::PUBLIC_MODE)?;
    Ok(())
}

/// Paths of all regular files, with `/` between parts.
fn list(folder: &Path) -> Result<BTreeSet<String>, OutputError> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![(folder.to_path_buf(), String::new())];
    while let Some((at, below)) = waiting.pop() {
        let entries = match fs::read_dir(&at) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(io_error("list", &at)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(io_error("list", &at))?;
            let path = format!("{below}{}", entry.file_name().to_string_lossy());
            let kind = entry
                .file_type()
                .map_err(io_error("look at", &entry.path()))?;
            if kind.is_dir() {
                waiting.push((entry.path(), format!("{path}/")));
            } else {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    make_folder(path.parent().unwrap_or(path))?;
    let write = || -> io::Result<()> {
        let mut file = File::create_new(path)?;
        io::Write::write_all(&mut file, bytes)?;
        file.sync_all()
    };
    write().map_err(io_error("write", path))
}

fn make_folder(path: &Path) -> Result<(), OutputError> {
    fs::create_dir_all(path).map_err(io_error("create", path))
}

fn sync_folders(folder: &Path) -> Result<(), OutputError> {
    for entry in fs::read_dir(folder).map_err(io_error("list", folder))? {
        let entry = entry.map_err(io_error("list", folder))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sync_folders(&entry.path())?;
        }
    }
    sync(folder)
}

fn sync(folder: &Path) -> Result<(), OutputError> {
    File::open(folder)
        .and_then(|opened| opened.sync_all())
        .map_err(io_error("sync", folder))
}

/// One rename: with a folder in place, the two change names, and the old one goes with the temporary.
fn swap(fresh: &Path, folder: &Path) -> Result<(), OutputError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let flags = if folder.exists() {
        RenameFlags::EXCHANGE
    } else {
        RenameFlags::NOREPLACE
    };
    renameat_with(CWD, fresh, CWD, folder, flags)
        .map_err(|error| io_error("replace", folder)(error.into()))
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
