//! Files that survive a power cut: the only place in the agent that writes, renames or removes.
//!
//! What comes in: bytes and paths below the state folder or on a stick. What goes out: a file that is
//! either the old one or the whole new one, whatever happens meanwhile (temporary file, fsync, rename,
//! fsync of the folder). Every error names the path and says what was being done to it.
//! It never follows a caller's half-finished write: a leftover `.tmp` is just overwritten.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file operation that failed, with its path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{}`: {source}", path.display())]
pub struct FileError {
    /// What was being done, as a verb: `write`, `read` …
    pub doing: &'static str,
    /// To which file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    /// What helps, by the kind of error.
    pub fn help(&self) -> String {
        match self.source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some space on that file system and repeat the command".into()
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                "it is read-only: use another stick or folder, or mount it writable".into()
            }
            io::ErrorKind::PermissionDenied => {
                "run the command as the user that owns the state folder (usually with sudo)".into()
            }
            io::ErrorKind::NotFound => "check the path".into(),
            _ => "look at `dmesg` for errors of the disk, then repeat the command".into(),
        }
    }
}

/// Attaches verb and path to an I/O error.
pub fn at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |source| FileError {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// Makes a folder that only its owner may enter, with all its parents, durably.
pub fn make_folder(path: &Path) -> Result<(), FileError> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(at("create", path))?;
    if let Some(parent) = path.parent() {
        sync_folder(parent)?;
    }
    Ok(())
}

/// Makes the names inside `path` durable.
pub fn sync_folder(path: &Path) -> Result<(), FileError> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let folder = File::open(path).map_err(at("open", path))?;
    match folder.sync_all() {
        // FAT and some network file systems have no fsync for folders.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other.map_err(at("sync", path)),
    }
}

/// Makes everything on the file system of `path` durable: one call instead of one per file.
pub fn sync_file_system(path: &Path) -> Result<(), FileError> {
    let folder = File::open(path).map_err(at("open", path))?;
    rustix::fs::syncfs(&folder).map_err(|error| at("sync", path)(error.into()))
}

/// Writes `bytes` to `path` so that it holds the old or the new content, never a part.
/// `mode` is the file's permission bits, for example `0o600`.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let temporary = temporary_beside(path);
    let result = write_then_rename(&temporary, path, bytes, mode);
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn write_then_rename(temp: &Path, path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let mut file = create(temp, mode)?;
    file.write_all(bytes).map_err(at("write", path))?;
    file.sync_all().map_err(at("sync", path))?;
    drop(file);
    rename(temp, path)
}

/// Creates or truncates a file.
pub fn create(path: &Path, mode: u32) -> Result<File, FileError> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)
        .map_err(at("create", path))
}

/// Moves `from` to `to` and makes the new name durable.
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(at("rename to", to))?;
    to.parent().map_or(Ok(()), sync_folder)
}

/// Removes a file; one that is not there is fine.
pub fn remove_file(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes a folder with all that is in it; one that is not there is fine.
pub fn remove_tree(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Reads a file of at most `max` bytes; a larger one is an error, not a part.
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>, FileError> {
    let file = File::open(path).map_err(at("open", path))?;
    let mut bytes = Vec::new();
    file.take(max + 1)
        .read_to_end(&mut bytes)
        .map_err(at("read", path))?;
    if bytes.len() as u64 > max {
        let large = io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("more than {max} bytes"),
        );
        return Err(at("read", path)(large));
    }
    Ok(bytes)
}

/// Like [`read`], but a file that is not there is `None`.
pub fn read_if_there(path: &Path, max: u64) -> Result<Option<Vec<u8>>, FileError> {
    match read(path, max) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Names in a folder, sorted; a folder that is not there has none.
pub fn list(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(at("list", path))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(at("list", path))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Bytes that this process may still write on the file system of `path`.
pub fn free_bytes(path: &Path) -> Result<u64, FileError> {
    let stat = rustix::fs::statvfs(path).map_err(|error| at("measure", path)(error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The name under which a file is written before it gets its own: in the same folder, hidden.
fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_write_leaves_the_whole_new_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write(&path, b"old", 0o600).unwrap();
        write(&path, b"new", 0o600).unwrap();
        assert_eq!(read(&path, 10).unwrap(), b"new");
        assert_eq!(list(folder.path()).unwrap(), vec![path]);
    }

    #[test]
    fn a_file_beyond_its_bound_is_an_error_and_not_a_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"12345", 0o600).unwrap();
        assert!(
            read(&path, 4)
                .unwrap_err()
                .to_string()
                .contains("more than 4 bytes")
        );
        assert_eq!(read_if_there(&folder.path().join("b"), 4).unwrap(), None);
    }
}
