//! Writing on a medium: a file holds the old or the new content, never a part, and what was written is read back.
//!
//! What comes in: a name below the medium, and bytes or whoever writes them. What goes out: a whole file on the
//! medium, or what was there before: beside it first, synced, renamed, the folder synced. What an interrupted or
//! pulled-out write left beside it is removed by the next one of the same name. It follows no link.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Media, kind, unexpected};
use crate::durable::{FileError, at};
use crate::interrupt;

const CREATE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Media {
    /// Writes a file so that it holds the old or the new content, never a part; makes its folders, and takes
    /// those that it made away again when it fails.
    ///
    /// # Errors
    /// [`FileError`] for a full or read-only medium, or when something else stands where the file or one
    /// of its folders must go. Nothing outside is touched.
    pub fn write(&self, relative: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
        self.write_with(relative, mode, |file| file.write_all(bytes))
    }

    /// The same with what `fill` writes, so that memory does not grow with it.
    ///
    /// # Errors
    /// As [`Media::write`], and the errors of `fill`.
    pub fn write_with(
        &self,
        relative: &Path,
        mode: u32,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let missing = |folder: &&Path| matches!(self.folder(folder, false), Ok(None));
        let made: Vec<_> = relative.ancestors().skip(1).take_while(missing).collect();
        self.write_below(relative, mode, fill).inspect_err(|_| {
            for folder in made {
                if let Ok(Some((parent, name))) = self.parent(folder, false) {
                    // One that someone else put something into meanwhile stays.
                    let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
                }
            }
        })
    }

    fn write_below(
        &self,
        relative: &Path,
        mode: u32,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let mut new = self.begin(relative, mode)?;
        fill(new.file()).map_err(|source| at("write", &self.path.join(relative))(source))?;
        new.commit()
    }

    /// Begins a file beside the place that it takes with [`NewFile::commit`]; makes its folders.
    ///
    /// # Errors
    /// As [`Media::write`].
    pub fn begin(&self, relative: &Path, mode: u32) -> Result<NewFile, FileError> {
        let path = self.path.join(relative);
        let fail = |error: Errno| at("write", &path)(error.into());
        let Some((folder, name)) = self.parent(relative, true)? else {
            return Err(fail(Errno::NOENT));
        };
        if let Ok(there) = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
            && kind(&there) != FileType::RegularFile
        {
            return Err(unexpected("write", &path, &there, "a regular file"));
        }
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(".tmp");
        let beside = path.with_file_name(&temporary);
        // The leftover of a stick that was pulled; a link of this name goes, and is not followed.
        match rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(at("remove", &beside)(error.into())),
        }
        let registered = interrupt::temporary(&beside);
        let mode = Mode::from_raw_mode(mode);
        let file = rustix::fs::openat(&folder, &temporary, CREATE, mode).map_err(fail)?;
        // The next machine has other users; FAT knows no modes, which is no reason to fail.
        let _ = rustix::fs::fchmod(&file, mode);
        let name = name.to_owned();
        Ok(NewFile {
            folder,
            temporary,
            name,
            path,
            file: File::from(file),
            is_placed: false,
            _registered: registered,
        })
    }

    /// Opens a regular file so that its bytes come from the medium and not from memory, as far as the system
    /// lets go of what was synced; `None` when there is nothing of this name.
    ///
    /// # Errors
    /// As [`Media::open_file`].
    pub fn open_uncached(&self, relative: &Path) -> Result<Option<File>, FileError> {
        let file = self.open_file(relative)?;
        if let Some(file) = &file {
            // A file system without a medium (tmpfs) keeps it in memory: there is nothing else to read.
            let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        }
        Ok(file)
    }

    /// Removes a regular file; one that is not there is no error.
    ///
    /// # Errors
    /// [`FileError`] for a read-only medium, or when the folder is not there.
    pub fn remove(&self, relative: &Path) -> Result<(), FileError> {
        let Some((folder, name)) = self.parent(relative, false)? else {
            return Ok(());
        };
        let path = self.path.join(relative);
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => sync_folder(&folder),
            Err(error) => Err(error),
        }
        .or_else(|error| match error {
            Errno::NOENT => Ok(()),
            error => Err(at("remove", &path)(error.into())),
        })
    }

    /// Makes everything on the medium durable: after this it can be pulled.
    ///
    /// # Errors
    /// [`FileError`]
    pub fn sync(&self) -> Result<(), FileError> {
        rustix::fs::syncfs(&self.root).map_err(|error| at("sync", &self.path)(error.into()))
    }
}

/// A file that is being written, beside the place that it is to take. Dropped before that, it goes.
#[derive(Debug)]
pub struct NewFile {
    folder: OwnedFd,
    temporary: OsString,
    name: OsString,
    path: PathBuf,
    file: File,
    is_placed: bool,
    _registered: interrupt::Temporary,
}

impl NewFile {
    /// Where its bytes go.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Syncs it and puts it into its place, in the stead of what was there.
    ///
    /// # Errors
    /// [`FileError`]; what was there is then as it was.
    pub fn commit(mut self) -> Result<(), FileError> {
        let mut place = || {
            self.file.sync_all()?;
            rustix::fs::renameat(&self.folder, &self.temporary, &self.folder, &self.name)?;
            self.is_placed = true;
            sync_folder(&self.folder)?;
            Ok::<(), io::Error>(())
        };
        place().map_err(|source| at("write", &self.path)(source))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = rustix::fs::unlinkat(&self.folder, &self.temporary, AtFlags::empty());
        }
    }
}

pub(super) fn sync_folder(folder: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::fsync(folder) {
        // Some drivers of FAT and network file systems have no fsync for folders, but one for all they hold.
        Err(Errno::INVAL) => match rustix::fs::syncfs(folder) {
            Err(Errno::INVAL | Errno::NOSYS) => Ok(()),
            other => other,
        },
        other => other,
    }
}
