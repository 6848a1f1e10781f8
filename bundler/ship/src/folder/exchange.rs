//! Exchange: new folders take the places of old ones, all of them or, after a power cut, all of them later.
//!
//! What comes in: new folders, each made beside the old one and synced. What goes out: each in its place. A single one
//! takes one rename. Before several, `<folder>.outhaul.exchange.json` says what is about to be done, and
//! whoever next looks at the folder does the rest of it first, so that no two results are ever mixed but
//! for as long as the machine is down. It moves folders and never writes into one.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use outhaul_signer::durable;
use serde::{Deserialize, Serialize};

use super::{OutputError, beside, io_error};

/// How the names of folders with new folders begin.
pub const STAGED: &str = ".outhaul-";
/// Largest list of folders in bytes.
const MAX_INTENT_BYTES: u64 = 64 * 1024 * 1024;

/// What is about to be done.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Intent {
    /// Name of the folder, beside the output, that holds the new folders as `0`, `1` and so on.
    staged: String,
    /// The place of each within the output, and its number in the file system, by which a folder that is
    /// in its place is known.
    folders: Vec<(String, u64)>,
}

/// Puts `staged/0`, `staged/1` … into the places `below`, where the old ones are or nothing is.
///
/// # Errors
/// [`OutputError`] when the file system refuses.
pub fn all(folder: &Path, staged: &Path, below: &[String]) -> Result<(), OutputError> {
    if let [only] = below {
        let target = place(folder, only);
        swap(&staged.join("0"), &target)?;
        return sync(target.parent().unwrap_or(folder));
    }
    let mut folders = Vec::new();
    for (number, below) in below.iter().enumerate() {
        let fresh = staged.join(number.to_string());
        let found = fs::symlink_metadata(&fresh).map_err(io_error("look at", &fresh))?;
        folders.push((below.clone(), found.ino()));
    }
    let name = staged.file_name().unwrap_or_default();
    let intent = Intent {
        staged: name.to_string_lossy().into_owned(),
        folders,
    };
    let path = intent_path(folder);
    let bytes = serde_json::to_vec(&intent).map_err(|error| OutputError::Record {
        path: path.clone(),
        problem: error.to_string(),
    })?;
    durable::write(&path, &bytes, durable::PUBLIC_MODE)?;
    let done = carry_out(folder, &intent);
    if done.is_err() {
        undo(folder, &intent);
    }
    fs::remove_file(&path).map_err(io_error("remove", &path))?;
    done
}

/// Does the rest of what a power cut interrupted, if there is any.
///
/// # Errors
/// [`OutputError`] when the file system refuses.
pub fn finish(folder: &Path) -> Result<(), OutputError> {
    let path = intent_path(folder);
    let Some(bytes) = durable::read_if_present(&path, MAX_INTENT_BYTES)? else {
        return Ok(());
    };
    // It was written at once: what cannot be read is not of a power cut, and says nothing to do.
    if let Ok(intent) = serde_json::from_slice::<Intent>(&bytes)
        && intent.staged.starts_with(STAGED)
        && !intent.staged.contains('/')
    {
        carry_out(folder, &intent)?;
        drop(fs::remove_dir_all(folder.with_file_name(&intent.staged)));
    }
    fs::remove_file(&path).map_err(io_error("remove", &path))
}

/// Does what was not done yet.
fn carry_out(folder: &Path, intent: &Intent) -> Result<(), OutputError> {
    let staged = folder.with_file_name(&intent.staged);
    for (number, (below, inode)) in intent.folders.iter().enumerate() {
        let fresh = staged.join(number.to_string());
        let is_new = fs::symlink_metadata(&fresh).is_ok_and(|found| found.ino() == *inode);
        if is_new {
            swap(&fresh, &place(folder, below))?;
        }
    }
    for (below, _) in &intent.folders {
        sync(place(folder, below).parent().unwrap_or(folder))?;
    }
    Ok(())
}

/// Puts the old folders back, as far as that can be done.
fn undo(folder: &Path, intent: &Intent) {
    let staged = folder.with_file_name(&intent.staged);
    for (number, (below, inode)) in intent.folders.iter().enumerate() {
        let place = place(folder, below);
        if fs::symlink_metadata(&place).is_ok_and(|found| found.ino() == *inode) {
            // The error that counts is the first one.
            drop(swap(&staged.join(number.to_string()), &place));
        }
    }
}

fn place(folder: &Path, below: &str) -> PathBuf {
    match below {
        "" => folder.to_path_buf(),
        below => folder.join(below),
    }
}

fn intent_path(folder: &Path) -> PathBuf {
    beside(folder, ".outhaul.exchange.json")
}

/// Makes a file or a folder outlast a power cut.
pub fn sync(path: &Path) -> Result<(), OutputError> {
    File::open(path)
        .and_then(|opened| opened.sync_all())
        .map_err(io_error("sync", path))
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
