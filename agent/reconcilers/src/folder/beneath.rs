//! File operations that cannot leave one folder: every part of a path is opened without following links.
//!
//! What comes in: a target folder and relative paths. What goes out: files read, written whole or removed
//! below that folder; what is written or removed is durable after [`Beneath::sync`]. A symbolic link anywhere below it is an
//! error, never a way out: someone may have put it there to make a root agent write elsewhere.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use outhaul_kit::durable::{self, FileError, at};

use crate::marks::Stamp;

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::RDONLY);

/// A file that is only asked what it is.
const UNOPENED: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// Nothing.
    Nothing,
    /// A file with this content, and what `stat` says of it.
    File(Digest, FileMode),
    /// A file of another size, in bytes, than was asked for. Its content was not read.
    OfSize(u64),
    /// A file that this process may not read.
    Unreadable(FileMode),
    /// Nothing of ours, and what it is: `a symbolic link`, `a folder`, `a FIFO` …
    Other(&'static str),
}

/// The permission bits of a file, and whether its file system keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode {
    bits: u32,
    kept: bool,
}

/// File systems that make the permission bits up, or may: FAT, exFAT, NTFS in two drivers, shares of the SMB protocol (two versions), those that
/// a program serves (FUSE: NTFS, exFAT, SSH), and shares of the host of a virtual machine (9p, `vboxsf`).
const MODELESS: [u64; 9] = [
    0x4d44,
    0x2011_bab0,
    0x5346_544e,
    0x7366_746e,
    0xff53_4d42,
    0xfe53_4d42,
    0x6573_5546,
    0x0102_1997,
    0x786f_4256,
];

impl FileMode {
    fn of(file: impl AsFd, mode: u32) -> Self {
        let kind = rustix::fs::fstatfs(file).map(|about| about.f_type);
        // The type's width and sign differ between architectures; the numbers have 32 bits.
        let magic = kind.map(|kind| i128::from(kind) & 0xffff_ffff);
        Self {
            bits: mode & 0o7777,
            kept: !magic.is_ok_and(|magic| MODELESS.iter().any(|one| i128::from(*one) == magic)),
        }
    }

    /// Whether a file that was written with the mode `applied` still has it.
    pub fn is(self, applied: u32) -> bool {
        match self.kept {
            true => self.bits == applied,
            false => (self.bits & 0o111 != 0) == (applied & 0o111 != 0),
        }
    }
}

impl std::fmt::Display for FileMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04o}", self.bits)
    }
}

/// The folder.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
    path: PathBuf,
    /// The file system that one sync of the folder makes durable.
    device: u64,
    /// Whether a folder was made that is not durable yet.
    made: Cell<bool>,
}

/// What a file is to hold.
#[derive(Debug)]
pub enum NewContent<'c> {
    /// The bytes of this file: shared with it where the file system can do that, and copied elsewhere.
    OfFile(File),
    /// These bytes.
    Bytes(&'c [u8]),
}

/// A file that was written beside its name.
#[derive(Debug)]
pub struct Beside {
    relative: String,
    /// Whether a sync of the target's file system does not cover it: another one is mounted below the target.
    elsewhere: bool,
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
                device: device_of(&root).map_err(|error| at("open", path)(error.into()))?,
                root,
                path: path.to_owned(),
                made: Cell::new(false),
            })),
            Err(Errno::NOENT) if !create => Ok(None),
            Err(error) => Err(at("open", path)(error.into())),
        }
    }

    fn fail(&self, doing: &'static str, relative: &str, error: Errno) -> FileError {
        self.of(doing, relative, error.into())
    }

    /// What keeps `part` of the path `relative` from being opened as a folder.
    fn no_folder(&self, at: &OwnedFd, part: &str, relative: &str, error: Errno) -> FileError {
        let stat = rustix::fs::statat(at, part, AtFlags::SYMLINK_NOFOLLOW);
        let kind = stat.map(|stat| FileType::from_raw_mode(stat.st_mode));
        let Ok(kind) = kind.map_err(|_| ()).and_then(|kind| match kind {
            FileType::Directory => Err(()),
            other => Ok(other),
        }) else {
            return self.fail("open", relative, error);
        };
        let what = in_words(kind);
        let why = format!("{what} is where the folder `{part}` was; it is not followed");
        self.of("open", relative, io::Error::other(why))
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
                    .inspect(|()| self.made.set(true))
                    .and_then(|()| self.sync_elsewhere(&at))
                    .and_then(|()| rustix::fs::openat(&at, part, FOLDER, Mode::empty()))
                    .map_err(fail)?
                }
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(self.no_folder(&at, part, relative, error)),
            };
        }
        Ok(Some((at, name)))
    }

    /// What the file system says of the file at `relative`. `None`: no file that can be looked at.
    pub fn stamp(&self, relative: &str) -> Option<(Stamp, FileMode)> {
        let (folder, name) = self.parent(relative, false).ok()??;
        let file = File::from(rustix::fs::openat(&folder, name, UNOPENED, Mode::empty()).ok()?);
        let meta = file.metadata().ok()?;
        meta.is_file()
            .then(|| (Stamp::of(&meta), FileMode::of(&file, meta.mode())))
    }

    /// What lies at `relative`. Only a file of `size` bytes is read, and no more of it: one that someone made
    /// larger than the disk is known by its size. What is not a file is not opened: that alone makes some devices do something.
    pub fn look(&self, relative: &str, size: Option<u64>) -> Result<PathState, FileError> {
        let (folder, name) = match self.parent(relative, false) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(PathState::Nothing),
            Err(error) => return Err(error),
        };
        let fail = |error| self.fail("read", relative, error);
        let unopened = match rustix::fs::openat(&folder, name, UNOPENED, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(PathState::Nothing),
            Err(error) => return Err(fail(error)),
        };
        let stat = rustix::fs::fstat(&unopened).map_err(fail)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::RegularFile {
            return Ok(PathState::Other(in_words(kind)));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(PathState::Nothing),
            Err(Errno::ACCESS) => {
                return Ok(PathState::Unreadable(FileMode::of(&unopened, stat.st_mode)));
            }
            Err(error) => return Err(fail(error)),
        };
        // Someone may have replaced it since.
        let stat = rustix::fs::fstat(&file).map_err(fail)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::RegularFile {
            return Ok(PathState::Other(in_words(kind)));
        }
        let there = u64::try_from(stat.st_size).unwrap_or_default();
        if size != Some(there) {
            return Ok(PathState::OfSize(there));
        }
        let mode = FileMode::of(&file, stat.st_mode);
        let mut hasher = Hasher::new();
        let mut file = File::from(file).take(there.saturating_add(1));
        io::copy(&mut file, &mut hasher).map_err(|source| self.of("read", relative, source))?;
        Ok(PathState::File(hasher.finish().0, mode))
    }

    /// Writes a file of this mode beside its name, where nobody looks for it. It is not durable yet.
    pub fn write_beside(
        &self,
        relative: &str,
        content: NewContent<'_>,
        mode: u32,
    ) -> Result<Beside, FileError> {
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
        let elsewhere = device_of(&folder).map_err(fail)? != self.device;
        let file = rustix::fs::openat(&folder, &temporary, flags, mode).map_err(fail)?;
        let file = File::from(file);
        let written = rustix::fs::fchmod(&file, mode)
            .map_err(io::Error::from)
            .and_then(|()| fill(&file, content));
        match written {
            Ok(()) => Ok(Beside {
                relative: relative.to_owned(),
                elsewhere,
            }),
            Err(source) => {
                let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
                Err(self.of("write", relative, source))
            }
        }
    }

    /// Gives a file that was written beside its name this name: the whole new content is there afterwards, or what was there
    /// before. With `now` it is durable; otherwise [`Beneath::sync`] makes what it holds durable before this, and its name after it.
    pub fn give_name(&self, beside: &Beside, now: bool) -> Result<(), FileError> {
        let fail = |error| self.fail("write", &beside.relative, error);
        let Some((folder, name)) = self.parent(&beside.relative, false)? else {
            return Err(fail(Errno::NOENT));
        };
        let temporary = temporary(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_synced = now || beside.elsewhere;
        let one = || {
            if is_synced {
                let file = rustix::fs::openat(&folder, &temporary, flags, Mode::empty())?;
                rustix::fs::fsync(&file)?;
            }
            rustix::fs::renameat(&folder, &temporary, &folder, name)?;
            if is_synced {
                rustix::fs::fsync(&folder)?;
            }
            Ok(())
        };
        one().map_err(fail)
    }

    /// Removes a file that was written beside its name: its name keeps what it had.
    pub fn discard(&self, beside: &Beside) {
        self.discard_left(&beside.relative);
    }

    /// Removes what a power cut left beside `relative` of a file that never got its name.
    pub fn discard_left(&self, relative: &str) {
        if let Ok(Some((folder, name))) = self.parent(relative, false) {
            let _ = rustix::fs::unlinkat(&folder, temporary(name), AtFlags::empty());
        }
    }

    /// Whether a folder was made that is not durable yet.
    pub fn has_made_folders(&self) -> bool {
        self.made.get()
    }

    /// Makes durable what was written to or removed from the file system of this folder.
    pub fn sync(&self) -> Result<(), FileError> {
        let synced = rustix::fs::syncfs(&self.root);
        synced.map_err(|error| at("sync", &self.path)(error.into()))?;
        self.made.set(false);
        Ok(())
    }

    /// Makes durable the names in a folder that [`Beneath::sync`] does not cover.
    fn sync_elsewhere(&self, folder: &OwnedFd) -> Result<(), Errno> {
        match device_of(folder)? == self.device {
            true => Ok(()),
            false => rustix::fs::fsync(folder),
        }
    }

    fn of(&self, doing: &'static str, relative: &str, source: io::Error) -> FileError {
        FileError {
            doing,
            path: self.path.join(relative),
            source,
        }
    }

    /// Removes a file, then the folders that this leaves empty, up to but without the target. It is durable after
    /// [`Beneath::sync`].
    pub fn remove(&self, relative: &str) -> Result<(), FileError> {
        let fail = |error| self.fail("remove", relative, error);
        let Some((folder, name)) = self.parent(relative, false)? else {
            return Ok(());
        };
        let _ = rustix::fs::unlinkat(&folder, temporary(name), AtFlags::empty());
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => self.sync_elsewhere(&folder).map_err(fail)?,
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
            self.sync_elsewhere(&parent).map_err(fail)?;
            below = folders;
        }
        Ok(())
    }
}

impl Beside {
    /// Its path below the target.
    pub fn path(&self) -> &str {
        &self.relative
    }
}

/// What is not a plain file, for people.
fn in_words(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something that is not a file",
    }
}

fn device_of(folder: &OwnedFd) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(folder)?.st_dev)
}

/// Writes what a new file is to hold.
fn fill(mut file: &File, content: NewContent<'_>) -> io::Result<()> {
    match content {
        NewContent::Bytes(bytes) => file.write_all(bytes),
        // What is shared takes no space of its own until one of the two is changed, which the other one does not see.
        NewContent::OfFile(from) if rustix::fs::ioctl_ficlone(file, &from).is_ok() => Ok(()),
        NewContent::OfFile(mut from) => io::copy(&mut from, &mut file).map(drop),
    }
}

/// The name under which file `name` is written before it gets its own: as long for a name of 255 bytes, to
/// which nothing can be added.
fn temporary(name: &str) -> String {
    let digest = Digest::of(name.as_bytes()).hex();
    let digest = digest.get(..16).unwrap_or_default();
    format!(".{digest}.outhaul-new")
}
