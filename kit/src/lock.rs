//! The right to work in a folder: one process has it at a time.
//!
//! What comes in: the path of a lock file. What goes out: the file while this process holds the lock, or nothing
//! when another one does. The lock ends with the process, however it ends; the file stays.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;
use std::path::Path;

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
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    locked(file)
}

/// Takes the folder `path` itself, so that no file of it comes to be; `None` when another process has it.
///
/// # Errors
/// [`io::Error`] when the folder cannot be opened or locked.
pub fn take_folder(path: &Path) -> io::Result<Option<Held>> {
    locked(File::open(path)?)
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
        drop(whole);
        assert!(take_folder(folder.path()).unwrap().is_some());
    }
}
