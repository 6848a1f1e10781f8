//! The right to work in a folder: one process has it at a time.
//!
//! What comes in: the path of a lock file. What goes out: the file while this process holds the lock, or nothing
//! when another one does. The lock ends with the process, however it ends; the file stays. A FIFO, socket or device in its place is an error
//! that says so: nothing is waited for.

use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use crate::durable::{SECRET_MODE, not_a_file, opened_as};

/// A lock that this process holds, and its file. It ends with this value, not only when the file is closed: a program that another
/// thread is just starting has a copy of every open file until it is the other program.
#[derive(Debug)]
pub struct Held(File);

impl Deref for Held {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Closing does it too, a moment later.
        let _ = self.0.unlock();
    }
}

/// Takes the lock at `path` for as long as the returned value is there; `None` when another process holds it.
///
/// # Errors
/// [`io::Error`] when the file cannot be opened or locked.
pub fn take(path: &Path) -> io::Result<Option<Held>> {
    locked(open(path, MODE)?)
}

/// The same, with a file that only its owner may open; that of an older program is tightened.
///
/// # Errors
/// As [`take`].
pub fn take_own(path: &Path) -> io::Result<Option<Held>> {
    let file = open(path, SECRET_MODE)?;
    if file.metadata()?.permissions().mode() & 0o777 != SECRET_MODE {
        file.set_permissions(Permissions::from_mode(SECRET_MODE))?;
    }
    locked(file)
}

/// Who may open a lock's file that is made.
const MODE: u32 = 0o666;

/// Opens the file of a lock at `path`, and makes it with `mode` where it is missing. Nothing is written over.
///
/// # Errors
/// [`io::Error`] when it cannot be opened, or is no file.
pub fn open(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOCTTY | OFlags::CLOEXEC;
    match opened_as(path, flags, Mode::from_raw_mode(mode))? {
        (file, FileType::RegularFile) => Ok(file),
        (_, kind) => Err(not_a_file(kind)),
    }
}

/// Takes the folder `path` itself, so that no file of it comes to be; `None` when another process has it.
///
/// # Errors
/// [`io::Error`] when the folder cannot be opened or locked.
pub fn take_folder(path: &Path) -> io::Result<Option<Held>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    locked(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Whether a process has the folder `path`, as [`take_folder`] takes it. One that cannot be opened is nobody's.
pub fn folder_is_taken(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty());
    folder.is_ok_and(|folder| {
        let asked = File::from(folder).try_lock_shared();
        matches!(asked, Err(TryLockError::WouldBlock))
    })
}

fn locked(file: File) -> io::Result<Option<Held>> {
    match file.try_lock() {
        Ok(()) => Ok(Some(Held(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_the_value_also_where_a_program_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = take(&path).unwrap().unwrap();
        // As a program that is being started has it.
        let copy = held.try_clone().unwrap();
        drop(held);
        assert!(take(&path).unwrap().is_some());
        drop(copy);
    }

    #[test]
    fn what_is_no_file_is_named_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, said) in crate::durable::no_files(folder.path()) {
            let error = take(&at(name)).unwrap_err().to_string();
            assert!(error.contains(said), "{name}: {error}");
        }
        // The system's own words are enough.
        assert!(take_folder(&at("fifo")).is_err());
        // What is there is not written over.
        std::fs::write(at("file"), "17").unwrap();
        assert!(take(&at("file")).unwrap().is_some());
        assert_eq!(std::fs::read(at("file")).unwrap(), b"17");
    }

    #[test]
    fn only_one_holds_it_and_it_ends_with_the_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = take(&path).unwrap();
        assert!(first.is_some());
        assert!(take(&path).unwrap().is_none());
        drop(first);
        assert!(take(&path).unwrap().is_some());
        assert!(take(&folder.path().join("none/lock")).is_err());
        let whole = take_folder(folder.path()).unwrap();
        assert!(whole.is_some());
        assert!(take_folder(folder.path()).unwrap().is_none());
        assert!(folder_is_taken(folder.path()));
        drop(whole);
        assert!(!folder_is_taken(folder.path()));
        assert!(!folder_is_taken(&folder.path().join("none")));
        assert!(take_folder(folder.path()).unwrap().is_some());
    }
}
