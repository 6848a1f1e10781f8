//! Folders that a process works in for a while, side by side with those of others, and what killed processes left of them.
//!
//! What comes in: a folder that this process has just made, or the folder above it, which anybody may write to (`/tmp`, `/dev/shm`).
//! What goes out: a lock that says that the folder is in use; and of the folders above which nobody uses any more those are gone that
//! are this user's own. Nothing of another user is opened.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// The file in each whose lock says that its process, or one that it started, is at work.
const LOCK: &str = ".in-use";

/// Says that `folder` is in use for as long as the returned file is open. The lock has its name only once it is held: nobody takes the
/// folder away before.
///
/// # Errors
/// [`io::Error`] when the lock cannot be made.
pub fn in_use(folder: &Path) -> io::Result<File> {
    let new = folder.join(".in-use.new");
    let lock = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    lock.try_lock().map_err(io::Error::from)?;
    fs::rename(&new, folder.join(LOCK))?;
    Ok(lock)
}

/// Removes the folders in `parent` whose names begin with `prefix`, which are this user's, and which nobody uses any more. What cannot be
/// removed is tried again by the next one.
pub fn remove_left(parent: &Path, prefix: &str) {
    let me = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)) {
        // A link is none, and of another user's folder nothing is opened: a FIFO there would keep this process waiting.
        let found = entry.metadata();
        if !found.is_ok_and(|found| found.is_dir() && found.uid() == me) {
            continue;
        }
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let lock = File::options()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(entry.path().join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the end of its process does. A file that is only closed stays locked while another test is starting a program, which has a
    /// copy of it until then.
    fn end(lock: &File) {
        lock.unlock().unwrap();
    }

    #[test]
    fn what_nobody_uses_goes_and_what_is_used_begun_or_somebody_elses_stays() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let used = folder("x-used");
        let lock = in_use(&used).unwrap();
        let left = folder("x-left");
        end(&in_use(&left).unwrap());
        // Made, and its lock is not there yet.
        let begun = folder("x-begun");
        let other = folder("y-other");
        drop(in_use(&other).unwrap());
        std::os::unix::fs::symlink(&other, parent.path().join("x-link")).unwrap();
        // What would keep whoever opens it waiting.
        let fifo = folder("x-fifo");
        let made = std::process::Command::new("mkfifo")
            .arg(fifo.join(LOCK))
            .status();
        assert!(made.unwrap().success());
        remove_left(parent.path(), "x-");
        assert!(!left.exists());
        assert!(used.exists() && begun.exists() && other.exists());
        end(&lock);
        remove_left(parent.path(), "x-");
        assert!(!used.exists());
    }

    #[test]
    fn a_folder_of_another_user_is_not_looked_into() {
        if !rustix::process::geteuid().is_root() {
            return outhaul_tests::skipped("only root makes a folder of another user");
        }
        let parent = tempfile::tempdir().unwrap();
        let theirs = parent.path().join("x-theirs");
        fs::create_dir(&theirs).unwrap();
        drop(in_use(&theirs).unwrap());
        std::os::unix::fs::chown(&theirs, Some(65_534), None).unwrap();
        remove_left(parent.path(), "x-");
        assert!(theirs.exists());
    }
}
