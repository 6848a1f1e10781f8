//! Untrusted folders: sticks, watched folders, whatever travels.
//!
//! What comes in: the path that a person or a configuration names, and relative names below it. What goes
//! out: regular files, whole or not there, and bounded listings. Every part of a name is opened without
//! following links; a link, FIFO, socket or device is an error that names it, found before it is opened,
//! so that nothing here leaves the folder, waits for an untrusted party or wakes a device. The folder itself may
//! be reached through links: it is what the person named.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::durable::{self, FileError, at, read_bounded, too_large};

mod names;
mod ranked;
mod room;
mod write;

pub use crate::durable::Unexpected;
pub use names::is_named;
use ranked::Ranked;
pub use room::MediaSpace;
pub use write::NewFile;
use write::sync_folder;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// What lies there may have become a FIFO or a terminal since it was looked at: neither is waited for.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// How much of a medium is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Folders below the one named.
    pub depth: usize,
    /// Entries looked at, of any kind.
    pub entries: usize,
    /// Entries kept of each kind: files found, files that cannot be used, and folders still to be looked at.
    pub kept: usize,
}

/// Most folders that are too deep and are named.
pub const MAX_DEEPER: usize = 3;

/// What a listing found.
#[derive(Debug, Default)]
pub struct Listing {
    /// Regular files with a wanted name, relative to the medium, sorted.
    pub files: Vec<PathBuf>,
    /// What has a wanted name and is not a regular file, and folders that could not be read.
    pub unusable: Vec<FileError>,
    /// How many regular files have another name.
    pub ignored: usize,
    /// Whether a bound left something out: entries not looked at, or files not kept.
    pub incomplete: bool,
    /// Folders that are deeper than what is looked at, relative to the medium, the first [`MAX_DEEPER`] by name; nobody knows what is in them.
    pub deeper: Vec<PathBuf>,
    /// How many such folders there are.
    pub too_deep: usize,
    /// The first by name of those that have a wanted name, in the place of a file.
    pub folder_wanted: Option<PathBuf>,
    /// Links that have no wanted name, relative to the medium, the first [`MAX_DEEPER`] that were found; none is followed, so that what they lead to is not
    /// known.
    pub links: Vec<PathBuf>,
}

/// By what a changed file shows. What unpacks or synchronises files sets their time as it likes: the time
/// of the change itself is the kernel's. Not the inode: on FAT its number is made up again whenever the
/// file was out of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What a person named: one file, or a folder.
#[derive(Debug)]
pub enum FileOrFolder {
    /// A regular file, open for reading.
    File(File),
    /// A folder.
    Folder(Media),
}

impl FileOrFolder {
    /// Opens what lies at `path`. A link to a folder is followed, a link in the place of a file is not.
    ///
    /// # Errors
    /// [`FileError`] when it is not there, cannot be opened, or is neither a regular file nor a folder.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let fail = |error: Errno| at("open", path)(error.into());
        let named = rustix::fs::lstat(path).map_err(fail)?;
        if kind(&named) == FileType::Symlink {
            return match rustix::fs::stat(path) {
                Ok(behind) if kind(&behind) == FileType::Directory => {
                    Media::open(path).map(Self::Folder)
                }
                _ => Err(unexpected(
                    "open",
                    path,
                    &named,
                    "a regular file or a folder",
                )),
            };
        }
        match kind(&named) {
            FileType::Directory => Media::open(path).map(Self::Folder),
            FileType::RegularFile => {
                let file = rustix::fs::open(path, READ, Mode::empty()).map_err(fail)?;
                regular(file, path).map(Self::File)
            }
            _ => Err(unexpected(
                "open",
                path,
                &named,
                "a regular file or a folder",
            )),
        }
    }
}

/// Opens a regular file that a person named on a medium.
///
/// # Errors
/// [`FileError`] for anything else.
pub fn open_file(path: &Path) -> Result<File, FileError> {
    match FileOrFolder::open(path)? {
        FileOrFolder::File(file) => Ok(file),
        FileOrFolder::Folder(_) => Err(at("open", path)(io::Error::other(Unexpected {
            found: "a folder",
            expected: "a regular file",
        }))),
    }
}

/// Reads a regular file of at most `max_bytes` that a person named on a medium.
///
/// # Errors
/// [`FileError`], also when it is larger.
pub fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    read_bounded(open_file(path)?, max_bytes).map_err(at("read", path))
}

/// A reader of an open file that has at most `max_bytes` when it is opened; it gives no more of what is added later.
///
/// # Errors
/// One of the kind `FileTooLarge`, or that of the system.
pub fn bounded(file: File, max_bytes: u64) -> io::Result<io::Take<File>> {
    match file.metadata()?.len() <= max_bytes {
        true => Ok(file.take(max_bytes)),
        false => Err(too_large(max_bytes)),
    }
}

/// The marks of an open file.
///
/// # Errors
/// The error of the system.
pub fn marks(file: &File) -> io::Result<Marks> {
    let found = file.metadata()?;
    Ok(Marks {
        size: found.len(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

/// An open folder of an untrusted party.
#[derive(Debug)]
pub struct Media {
    root: OwnedFd,
    path: PathBuf,
    /// Folders in it that are not listed.
    apart: Vec<PathBuf>,
}

impl Media {
    /// Opens the folder at `path`, which must be there.
    ///
    /// # Errors
    /// [`FileError`] when it is not there or not a folder.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| at("open", path)(error.into()))?;
        Ok(Self {
            root,
            path: path.to_owned(),
            apart: Vec::new(),
        })
    }

    /// The same, whose listings leave out these folders: what lies in them is looked at by itself. Each is named by its whole path.
    #[must_use]
    pub fn without(self, folders: &[PathBuf]) -> Self {
        let below = folders.iter().filter_map(|folder| {
            let below = folder.strip_prefix(&self.path).ok()?;
            (!below.as_os_str().is_empty()).then(|| below.to_owned())
        });
        Self {
            apart: below.collect(),
            ..self
        }
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a folder of this name is there.
    ///
    /// # Errors
    /// [`FileError`] for something else of that name.
    pub fn has_folder(&self, name: &str) -> Result<bool, FileError> {
        self.subfolder(name).map(|found| found.is_some())
    }

    /// Opens the folder of this name, `None` when there is none, whatever is put in its place later.
    ///
    /// # Errors
    /// [`FileError`] for something else of that name, a link included.
    pub fn subfolder(&self, name: &str) -> Result<Option<Self>, FileError> {
        let path = self.path.join(name);
        let root = self.folder(Path::new(name), false)?;
        let apart = Vec::new();
        Ok(root.map(|root| Self { root, path, apart }))
    }

    /// Opens a regular file; `None` when there is nothing of this name.
    ///
    /// # Errors
    /// [`FileError`] for anything else that lies there, or stands for one of its folders.
    pub fn open_file(&self, relative: &Path) -> Result<Option<File>, FileError> {
        let Some((folder, name)) = self.parent(relative, false)? else {
            return Ok(None);
        };
        let path = self.path.join(relative);
        let fail = |error: Errno| at("open", &path)(error.into());
        match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(fail(error)),
            Ok(stat) if kind(&stat) != FileType::RegularFile => {
                return Err(unexpected("open", &path, &stat, "a regular file"));
            }
            Ok(_) => {}
        }
        match rustix::fs::openat(&folder, name, READ, Mode::empty()) {
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(fail(error)),
            Ok(file) => regular(file, &path).map(Some),
        }
    }

    /// Reads a regular file of at most `max_bytes`; `None` when there is nothing of this name.
    ///
    /// # Errors
    /// As [`Media::open_file`], and for a larger one.
    pub fn read(&self, relative: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, FileError> {
        let Some(file) = self.open_file(relative)? else {
            return Ok(None);
        };
        let bytes = read_bounded(file, max_bytes);
        bytes
            .map(Some)
            .map_err(at("read", &self.path.join(relative)))
    }

    /// The marks of whatever lies there, opened or not; `None` when there is nothing.
    pub fn marks(&self, relative: &Path) -> Option<Marks> {
        let (folder, name) = self.parent(relative, false).ok()??;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let there = rustix::fs::openat(&folder, name, flags, Mode::empty()).ok()?;
        marks(&File::from(there)).ok()
    }

    /// Regular files of which the name is `wanted`, folder by folder from the top, so that a folder full of
    /// something else hides nothing above it. Hidden entries are left out.
    ///
    /// # Errors
    /// [`FileError`] when the medium itself cannot be listed.
    pub fn files(
        &self,
        bounds: Bounds,
        wanted: impl Fn(&OsStr) -> bool,
    ) -> Result<Listing, FileError> {
        self.files_by_rank(bounds, wanted, |_| 0)
    }

    /// The same; of more files than are kept, those whose name has the highest rank, and of one rank those found first.
    ///
    /// # Errors
    /// As [`Media::files`].
    pub fn files_by_rank(
        &self,
        bounds: Bounds,
        wanted: impl Fn(&OsStr) -> bool,
        rank: impl Fn(&OsStr) -> u64,
    ) -> Result<Listing, FileError> {
        let mut found = Listing::default();
        let mut files = Ranked::new(bounds.kept);
        let mut entries = bounds.entries;
        let mut waiting = VecDeque::from([(PathBuf::new(), 0)]);
        while let Some((folder, depth)) = waiting.pop_front() {
            let listed = self.entries(&folder, |name, kind| {
                if entries == 0 {
                    found.incomplete = true;
                    return false;
                }
                entries -= 1;
                let path = folder.join(name);
                match kind {
                    _ if name.as_bytes().starts_with(b".") => {}
                    FileType::Directory if self.apart.contains(&path) => {}
                    FileType::Directory if depth == bounds.depth => {
                        found.too_deep += 1;
                        let first = found.folder_wanted.as_ref();
                        if wanted(name) && first.is_none_or(|first| path < *first) {
                            found.folder_wanted = Some(path.clone());
                        }
                        found.deeper.push(path);
                        found.deeper.sort();
                        found.deeper.truncate(MAX_DEEPER);
                    }
                    FileType::Directory if waiting.len() >= bounds.kept => found.incomplete = true,
                    FileType::Directory => waiting.push_back((path, depth + 1)),
                    FileType::RegularFile if wanted(name) => files.add(rank(name), path),
                    FileType::RegularFile => found.ignored += 1,
                    _ if wanted(name) && found.unusable.len() >= bounds.kept => {
                        found.incomplete = true;
                    }
                    // Where it leads is not asked: that may be another file system, one that does not answer.
                    FileType::Symlink if !wanted(name) && found.links.len() < MAX_DEEPER => {
                        found.links.push(path);
                    }
                    other if wanted(name) => {
                        let path = self.path.join(path);
                        found
                            .unusable
                            .push(not_a(other, "read", &path, "a regular file"));
                    }
                    _ => {}
                }
                true
            });
            match listed {
                Err(error) if folder.as_os_str().is_empty() => return Err(error),
                Err(_) if found.unusable.len() >= bounds.kept => found.incomplete = true,
                Err(error) => found.unusable.push(error),
                Ok(()) => {}
            }
        }
        found.incomplete |= files.dropped();
        found.files = files.sorted();
        found.unusable.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Hands each entry of a folder to `each` until it returns `false`; nothing is collected.
    fn entries(
        &self,
        folder: &Path,
        mut each: impl FnMut(&OsStr, FileType) -> bool,
    ) -> Result<(), FileError> {
        let path = self.path.join(folder);
        let fail = |error: Errno| at("list", &path)(error.into());
        let Some(folder) = self.folder(folder, false)? else {
            return Ok(());
        };
        for entry in Dir::read_from(&folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say; an entry that is gone meanwhile is none.
                FileType::Unknown => {
                    match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => kind(&stat),
                        Err(_) => continue,
                    }
                }
                known => known,
            };
            if !each(name, kind) {
                break;
            }
        }
        Ok(())
    }

    /// The folder that holds `relative`, and its last part.
    fn parent<'a>(
        &self,
        relative: &'a Path,
        create: bool,
    ) -> Result<Option<(OwnedFd, &'a OsStr)>, FileError> {
        let Some(name) = relative.file_name() else {
            return Err(at("open", &self.path.join(relative))(Errno::INVAL.into()));
        };
        let folder = relative.parent().unwrap_or(Path::new(""));
        Ok(self.folder(folder, create)?.map(|folder| (folder, name)))
    }

    /// A folder below the medium, each part opened without following links.
    fn folder(&self, relative: &Path, create: bool) -> Result<Option<OwnedFd>, FileError> {
        let mut path = self.path.clone();
        let mut here = rustix::fs::openat(&self.root, ".", FOLDER, Mode::empty())
            .map_err(|error| at("open", &path)(error.into()))?;
        for part in relative.components() {
            let Component::Normal(part) = part else {
                return Err(at("open", &self.path.join(relative))(Errno::INVAL.into()));
            };
            path.push(part);
            let mut next = rustix::fs::openat(&here, part, FOLDER, Mode::empty());
            if create && matches!(next, Err(Errno::NOENT)) {
                next = make_folder(&here, part);
            }
            here = match next {
                Ok(next) => next,
                Err(Errno::NOENT) if !create => return Ok(None),
                Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                    let there = rustix::fs::statat(&here, part, AtFlags::SYMLINK_NOFOLLOW);
                    return Err(match there {
                        Ok(there) => unexpected("open", &path, &there, "a folder"),
                        Err(_) => at("open", &path)(error.into()),
                    });
                }
                Err(error) => return Err(at("open", &path)(error.into())),
            };
        }
        Ok(Some(here))
    }
}

/// Makes a folder that the next machine's users can read, too.
fn make_folder(here: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let mode = Mode::from_raw_mode(0o755);
    match rustix::fs::mkdirat(here, name, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    let made = rustix::fs::openat(here, name, FOLDER, Mode::empty())?;
    let _ = rustix::fs::fchmod(&made, mode);
    sync_folder(here)?;
    Ok(made)
}

/// What was opened, when it is a regular file after all.
fn regular(file: OwnedFd, path: &Path) -> Result<File, FileError> {
    let stat = rustix::fs::fstat(file.as_fd()).map_err(|error| at("open", path)(error.into()))?;
    if kind(&stat) == FileType::RegularFile {
        Ok(File::from(file))
    } else {
        Err(unexpected("open", path, &stat, "a regular file"))
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn unexpected(doing: &'static str, path: &Path, there: &Stat, expected: &'static str) -> FileError {
    not_a(kind(there), doing, path, expected)
}

fn not_a(found: FileType, doing: &'static str, path: &Path, expected: &'static str) -> FileError {
    let found = durable::found(found);
    at(doing, path)(io::Error::other(Unexpected { found, expected }))
}

#[cfg(test)]
mod tests;
