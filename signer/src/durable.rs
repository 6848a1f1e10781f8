//! Files that are whole or not there, whenever the power goes.
//!
//! What comes in: a path and all of its new bytes. What goes out: the file with these bytes, synced,
//! or the file as it was. Written as temp, fsync, rename, fsync of the folder. Reading is bounded.
//! It never truncates a file in place.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Mode of files that hold secrets.
pub const SECRET_MODE: u32 = 0o600;
/// Mode of files that anyone may read.
pub const PUBLIC_MODE: u32 = 0o644;

/// A file operation that failed, with its path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{}`", path.display())]
pub struct FileError {
    /// What was being done, for example `write`.
    pub doing: &'static str,
    /// Where.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    /// Whether the file is simply not there.
    pub fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Puts `bytes` at `path` so that a power cut leaves the old file or the new one, never a part.
///
/// # Errors
/// [`FileError`] when the folder is missing, full or read-only; the old file is then untouched.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    let temp = path.with_file_name(name);
    let written = write_new(&temp, bytes, mode)
        .map_err(FileError::at("write", &temp))
        .and_then(|()| fs::rename(&temp, path).map_err(FileError::at("rename into place", path)));
    if written.is_err() {
        // The error that counts is the one that is returned; a left-over is overwritten next time.
        drop(fs::remove_file(&temp));
        return written;
    }
    sync_folder_of(path)
}

/// Makes `folder` and its parents, synced.
///
/// # Errors
/// [`FileError`] when it cannot be made.
pub fn create_folder(folder: &Path) -> Result<(), FileError> {
    fs::create_dir_all(folder).map_err(FileError::at("create the folder", folder))?;
    sync_folder_of(folder)
}

/// Makes `folder` for its owner only, synced.
///
/// # Errors
/// [`FileError`] when it cannot be made.
pub fn create_private_folder(folder: &Path) -> Result<(), FileError> {
    create_folder(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
        .map_err(FileError::at("set the mode of", folder))
}

/// All bytes of `path`, when there are at most `max_bytes` of them.
///
/// # Errors
/// [`FileError`] when it cannot be read, or is larger (`InvalidData`).
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    let file = File::open(path).map_err(FileError::at("open", path))?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(FileError::at("read", path))?;
    if bytes.len() as u64 > max_bytes {
        let too_large = format!("larger than the {max_bytes} bytes that it may have");
        let source = io::Error::new(io::ErrorKind::InvalidData, too_large);
        return Err(FileError {
            doing: "read",
            path: path.to_owned(),
            source,
        });
    }
    Ok(bytes)
}

/// Like [`read`], with `None` for a file that is not there.
///
/// # Errors
/// As [`read`], except for a missing file.
pub fn read_if_present(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, FileError> {
    match read(path, max_bytes) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_new(temp: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // A left-over of a crash may have another mode; `mode` below only counts for a new file.
    match fs::remove_file(temp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(temp)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_folder_of(path: &Path) -> Result<(), FileError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(FileError::at("sync", folder))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_secret_is_never_readable_by_others_and_no_temporary_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        write(&path, b"one", SECRET_MODE).unwrap();
        write(&path, b"two", SECRET_MODE).unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"two");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_larger_file_than_expected_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        write(&path, &[0; 11], PUBLIC_MODE).unwrap();
        assert!(read(&path, 10).is_err());
        assert_eq!(read(&path, 11).unwrap().len(), 11);
        assert!(
            read_if_present(&dir.path().join("none"), 1)
                .unwrap()
                .is_none()
        );
    }
}
