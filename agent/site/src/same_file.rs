//! Whether a path still leads to the file that it led to.
//!
//! What comes in: a path, when its file is opened and later. What goes out: how that changed, or nothing; and whether the file has no name
//! any more, anywhere. It reads and changes no file, and what it keeps open is none for SQLite: closing it ends no lock of another opening.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat, fstat};

/// A file, by what no other file has while it is open.
#[derive(Debug)]
pub struct SameFile {
    path: PathBuf,
    /// Opened for its name only: the system then gives its number to no other file.
    file: OwnedFd,
}

impl SameFile {
    /// The file at `path`, which is not followed where it is a link.
    ///
    /// # Errors
    /// [`io::Error`] where there is none.
    pub fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self {
            path: path.to_owned(),
            file: rustix::fs::open(path, flags, Mode::empty())?,
        })
    }

    /// The same file, once more.
    ///
    /// # Errors
    /// [`io::Error`] where this process may open no more files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            path: self.path.clone(),
            file: self.file.try_clone()?,
        })
    }

    /// Where it was.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What became of the path, in words; `None` while it leads to this file.
    ///
    /// # Errors
    /// [`io::Error`] where that cannot be known.
    pub fn changed(&self) -> io::Result<Option<&'static str>> {
        let own = fstat(&self.file)?;
        match fs::symlink_metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == id(&own) => Ok(None),
            Ok(_) => Ok(Some("is another file now")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some("is gone")),
            Err(error) => Err(error),
        }
    }

    /// Whether it has no name any more: it is gone with the processes that have it open.
    pub fn is_removed(&self) -> bool {
        fstat(&self.file).is_ok_and(|own| own.st_nlink == 0)
    }
}

fn id(own: &Stat) -> (u64, u64) {
    (own.st_dev, own.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_moved_replaced_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("one"), "1").unwrap();
        let one = SameFile::at(&at("one")).unwrap();
        assert_eq!(one.changed().unwrap(), None);
        fs::rename(at("one"), at("two")).unwrap();
        assert_eq!(one.changed().unwrap(), Some("is gone"));
        assert!(!one.is_removed());
        fs::write(at("one"), "1").unwrap();
        assert_eq!(one.changed().unwrap(), Some("is another file now"));
        fs::remove_file(at("two")).unwrap();
        assert!(one.is_removed());
        // Its number is nobody else's while it is open.
        for _ in 0..3 {
            fs::remove_file(at("one")).unwrap();
            fs::write(at("one"), "1").unwrap();
            assert_eq!(one.changed().unwrap(), Some("is another file now"));
        }
        assert!(SameFile::at(&at("none")).is_err());
    }
}
