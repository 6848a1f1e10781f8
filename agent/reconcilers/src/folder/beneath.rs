//! File operations that cannot leave one folder: every part of a path is opened without following links.
//!
//! What comes in: a target folder and relative paths. What goes out: files read, written whole or removed
//! below that folder. A symbolic link anywhere below it is an error, never a way out: somebody may have
//! put it there to make a root agent write elsewhere.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use outhaul_kit::durable::{self, FileError, at};

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::RDONLY);

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// Nothing.
    Nothing,
    /// A file with this content, executable or not.
    File(Digest, bool),
    /// A file of another size, in bytes, than was asked for. Its content was not read.
    OfSize(u64),
    /// A link, a folder, a device: nothing of ours.
    Other,
}

/// The folder.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
    path: PathBuf,
}

impl Beneath {
    /// Opens the folder; the folder itself may be reached through links, what is below may not.
    pub fn open(path: &Path, create: bool) -> Result<Option<Self>, FileError> {
        if create && !path.is_dir() {
            std::fs::create_dir_all(path).map_err(at("create", path))?;
            path.parent().map_or(Ok(()), durable::sync_folder)?;
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(root) => Ok(Some(Self {
                root,
                path: path.to_owned(),
            })),
            Err(Errno::NOENT) if !create => Ok(None),
            Err(error) => Err(at("open", path)(error.into())),
        }
    }

    fn fail(&self, doing: &'static str, relative: &str, error: Errno) -> FileError {
        let source = match error {
            Errno::LOOP | Errno::NOTDIR => io::Error::other(
                "a link or file stands where a folder is expected; it is not followed",
            ),
            other => other.into(),
        };
        FileError {
            doing,
            path: self.path.join(relative),
            source,
        }
    }

    /// The folder that holds `relative`, and its last part.
    fn parent<'a>(
        &self,
        relative: &'a str,
        create: bool,
    ) -> Result<Option<(OwnedFd, &'a str)>, FileError> {
        let (folders, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        let fail = |error| self.fail("open", relative, error);
        let mut at = rustix::fs::openat(&self.root, ".", FOLDER, Mode::empty()).map_err(fail)?;
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            at = match rustix::fs::openat(&at, part, FOLDER, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) if create => {
                    let made = rustix::fs::mkdirat(&at, part, Mode::from_raw_mode(0o755));
                    made.or_else(|error| {
                        if error == Errno::EXIST {
                            Ok(())
                        } else {
                            Err(error)
                        }
                    })
                    .and_then(|()| rustix::fs::fsync(&at))
                    .and_then(|()| rustix::fs::openat(&at, part, FOLDER, Mode::empty()))
                    .map_err(fail)?
                }
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(fail(error)),
            };
        }
        Ok(Some((at, name)))
    }

    /// What lies at `relative`. Only a file of `size` bytes is read, and no more of it: one that somebody made
    /// larger than the disk is known by its size.
    pub fn look(&self, relative: &str, size: Option<u64>) -> Result<PathState, FileError> {
        let (folder, name) = match self.parent(relative, false) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(PathState::Nothing),
            Err(error) => return Err(error),
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(PathState::Nothing),
            Err(Errno::LOOP) => return Ok(PathState::Other),
            Err(error) => return Err(self.fail("read", relative, error)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|e| self.fail("read", relative, e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(PathState::Other);
        }
        let there = u64::try_from(stat.st_size).unwrap_or_default();
        if size != Some(there) {
            return Ok(PathState::OfSize(there));
        }
        let mut hasher = Hasher::new();
        let mut file = File::from(file).take(there.saturating_add(1));
        io::copy(&mut file, &mut hasher).map_err(|source| FileError {
            doing: "read",
            path: self.path.join(relative),
            source,
        })?;
        Ok(PathState::File(
            hasher.finish().0,
            stat.st_mode & 0o111 != 0,
        ))
    }

    /// Writes a file of this mode: afterwards the whole new content is there, or what was there before.
    pub fn write(
        &self,
        relative: &str,
        mut content: impl Read,
        mode: u32,
    ) -> Result<(), FileError> {
        let fail = |error| self.fail("write", relative, error);
        let Some((folder, name)) = self.parent(relative, true)? else {
            return Err(fail(Errno::NOENT));
        };
        let temporary = temporary(name);
        // A leftover of a cut-off write; a link there is removed, not followed.
        let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        let fd = rustix::fs::openat(&folder, &temporary, flags, mode).map_err(fail)?;
        let written = (|| {
            rustix::fs::fchmod(&fd, mode)?;
            let mut file = File::from(fd);
            io::copy(&mut content, &mut file)?;
            file.flush()?;
            file.sync_all()?;
            rustix::fs::renameat(&folder, &temporary, &folder, name)?;
            rustix::fs::fsync(&folder)?;
            Ok::<(), io::Error>(())
        })();
        written.map_err(|source| {
            let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
            FileError {
                doing: "write",
                path: self.path.join(relative),
                source,
            }
        })
    }

    /// Removes a file, then the folders that this leaves empty, up to but without the target.
    pub fn remove(&self, relative: &str) -> Result<(), FileError> {
        let fail = |error| self.fail("remove", relative, error);
        let Some((folder, name)) = self.parent(relative, false)? else {
            return Ok(());
        };
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => rustix::fs::fsync(&folder).map_err(fail)?,
            Err(error) => return Err(fail(error)),
        }
        let mut below = relative;
        while let Some((folders, _)) = below.rsplit_once('/') {
            let Some((parent, name)) = self.parent(folders, false)? else {
                break;
            };
            if rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).is_err() {
                break;
            }
            rustix::fs::fsync(&parent).map_err(fail)?;
            below = folders;
        }
        Ok(())
    }
}

/// The name under which file `name` is written before it gets its own: as long for a name of 255 bytes, to
/// which nothing can be added.
fn temporary(name: &str) -> String {
    let digest = Digest::of(name.as_bytes()).hex();
    let digest = digest.get(..16).unwrap_or_default();
    format!(".{digest}.outhaul-new")
}
