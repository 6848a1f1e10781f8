//! Files of our own that survive a power cut: the only place that writes, renames or removes them.
//!
//! What comes in: bytes, and paths below a folder that only this program's user may write. What goes out:
//! a file that is either the old one or the whole new one, whatever happens meanwhile (temporary file,
//! fsync, rename, fsync of the folder). Reading is bounded. Every error names the path and states what was
//! being done to it. It is not for sticks and other folders from untrusted sources: that is [`crate::media`].

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::interrupt;
use crate::text;

mod leftovers;
mod reading;
mod unexpected;

pub use leftovers::remove_leftovers;
#[cfg(test)]
pub(crate) use reading::no_files;
pub(crate) use reading::{not_a_file, opened_as, read_bounded, too_large};
pub use reading::{open, open_file, read, read_if_present, read_private_key, read_secret};
pub(crate) use unexpected::found;
pub use unexpected::{
    LINK, OWN_ENTRY, OWN_FILE, OWN_USERS, OWN_WORKING_FILE, OWN_WORKING_FOLDER, Unexpected, kind_of,
};

/// Mode of files that hold secrets.
pub const SECRET_MODE: u32 = 0o600;
/// Mode of files that anyone may read.
pub const PUBLIC_MODE: u32 = 0o644;

/// A file operation that failed, with its path. Its text ends with the error of the system, so that it has
/// no further source.
#[derive(Debug)]
pub struct FileError {
    /// What was being done, as a verb: `write`, `read` …
    pub doing: &'static str,
    /// To which file.
    pub path: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            doing,
            path,
            source,
        } = self;
        write!(f, "cannot {doing} `{}`: {source}", text::path(path))
    }
}

impl std::error::Error for FileError {}

impl FileError {
    /// Whether the file is simply not there.
    pub fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Whether the disk is the reason, and not what was to be written: it is full, read-only or broken, or
    /// the machine has no file or memory left to open it with.
    pub fn is_of_the_disk(&self) -> bool {
        use io::ErrorKind as Kind;
        use rustix::io::Errno;
        let broken = [Errno::IO, Errno::NFILE, Errno::MFILE, Errno::NOMEM];
        matches!(
            self.source.kind(),
            Kind::StorageFull
                | Kind::QuotaExceeded
                | Kind::ReadOnlyFilesystem
                | Kind::StaleNetworkFileHandle
        ) || self
            .source
            .raw_os_error()
            .is_some_and(|code| broken.iter().any(|errno| errno.raw_os_error() == code))
    }

    /// What helps: space, permission, absence and damage each have their own way out.
    pub fn help(&self) -> String {
        use io::ErrorKind as Kind;
        let cause = self.source.get_ref();
        if let Some(what) = cause.and_then(|why| why.downcast_ref::<Unexpected>()) {
            return what.help(self.doing, &self.path);
        }
        if reading::is_exposed(&self.source) {
            let path = text::quoted(&self.path);
            return format!(
                "run `chmod 600 {path}`; if others use this machine, replace the secret"
            );
        }
        match self.source.kind() {
            Kind::StorageFull | Kind::QuotaExceeded => {
                "free some space on that file system (`df -h` shows it) and repeat the command".into()
            }
            Kind::ReadOnlyFilesystem => {
                "it is read-only: use another stick or folder, or mount it writable".into()
            }
            Kind::PermissionDenied => self.permission_help(),
            Kind::NotFound => self.absence_help(),
            Kind::NotADirectory => "it is not a folder: name one, such as the mount point of a stick".into(),
            Kind::IsADirectory => "it is a folder: name a file in it".into(),
            Kind::FileTooLarge => "it is not a file that this program wrote: check which file it is".into(),
            _ => "the disk or stick may be damaged: look at `dmesg` for its errors, then repeat the command"
                .into(),
        }
    }

    /// Who may do it: the owner of the nearest folder that can be looked at.
    fn permission_help(&self) -> String {
        let owner = self
            .path
            .ancestors()
            .find_map(|path| fs::metadata(path).ok());
        match owner.map(|found| found.uid()) {
            Some(0) | None => "run the command as root: put `sudo` in front of it".into(),
            Some(uid) => format!(
                "run the command as the user that owns it: put `sudo -u '#{uid}'` in front of it"
            ),
        }
    }

    fn absence_help(&self) -> String {
        let there = self.path.ancestors().skip(1).find(|path| path.exists());
        // Often it is not the last part of a path that is wrong.
        let missing = first_missing(&self.path);
        let missing = text::path(missing.as_deref().unwrap_or(&self.path));
        let what = match there {
            Some(path) if !path.as_os_str().is_empty() => {
                format!("`{}` exists, `{missing}` does not", text::path(path))
            }
            _ => format!("`{missing}` does not exist"),
        };
        format!(
            "{what}: if it is a stick, check that it is plugged in and mounted (`findmnt`), and check the \
             spelling"
        )
    }
}

/// The first part of a path that is not there: the path itself, or the topmost folder on the way to it.
pub fn first_missing(path: &Path) -> Option<PathBuf> {
    let absent = |path: &&Path| !path.as_os_str().is_empty() && fs::symlink_metadata(path).is_err();
    let missing = path.ancestors().take_while(absent).last();
    missing.map(Path::to_owned)
}

/// Whether the file system of `path` is mounted read-only. Where that cannot be known, no.
pub fn is_read_only(path: &Path) -> bool {
    let mounted = rustix::fs::statvfs(path);
    mounted.is_ok_and(|stat| stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Attaches verb and path to an I/O error.
pub fn at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |source| FileError {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// Makes a folder that only its owner may enter, with all its parents, durably. One that is there stays
/// as it is.
///
/// # Errors
/// [`FileError`] when it cannot be made.
pub fn make_folder(path: &Path) -> Result<(), FileError> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(at("create", path))?;
    sync_folder_of(path)
}

/// Makes a folder and its parents with ordinary permissions, durably.
///
/// # Errors
/// [`FileError`] when it cannot be made.
pub fn create_folder(folder: &Path) -> Result<(), FileError> {
    fs::create_dir_all(folder).map_err(at("create the folder", folder))?;
    sync_folder_of(folder)
}

/// Makes a folder for its owner only, durably; one that is there becomes that.
///
/// # Errors
/// [`FileError`] when it cannot be made.
pub fn create_private_folder(folder: &Path) -> Result<(), FileError> {
    create_folder(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
        .map_err(at("set the mode of", folder))
}

/// Makes the names inside `path` durable.
///
/// # Errors
/// [`FileError`]
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

fn sync_folder_of(path: &Path) -> Result<(), FileError> {
    path.parent().map_or(Ok(()), sync_folder)
}

/// Makes everything on the file system of `path` durable: one call instead of one per file.
///
/// # Errors
/// [`FileError`]
pub fn sync_file_system(path: &Path) -> Result<(), FileError> {
    let folder = File::open(path).map_err(at("open", path))?;
    rustix::fs::syncfs(&folder).map_err(|error| at("sync", path)(error.into()))
}

/// Writes `bytes` to `path` so that it holds the old or the new content, never a part.
/// `mode` is the file's permission bits, for example `0o600`.
///
/// # Errors
/// [`FileError`] when the folder is missing, full or read-only; the old file is then untouched.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let temporary = temporary_beside(path);
    let _registered = interrupt::temporary(&temporary);
    let result = write_then_rename(&temporary, path, bytes, mode);
    if result.is_err() {
        // The error that counts is the one that is returned; a leftover is removed next time.
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn write_then_rename(temp: &Path, path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    // A leftover of a crash may have another mode, and a link there is removed, never followed.
    remove_file(temp)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(temp)
        .map_err(at("write", path))?;
    file.write_all(bytes).map_err(at("write", path))?;
    file.sync_all().map_err(at("sync", path))?;
    drop(file);
    interrupt::here();
    rename(temp, path)
}

/// Creates or truncates a file in our own folder.
///
/// # Errors
/// [`FileError`]
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
///
/// # Errors
/// [`FileError`]
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(at("rename to", to))?;
    sync_folder_of(to)
}

/// Removes a file; one that is not there is fine.
///
/// # Errors
/// [`FileError`]
pub fn remove_file(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes a folder with all that is in it; one that is not there is fine.
///
/// # Errors
/// [`FileError`]
pub fn remove_tree(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Names in our own folder, sorted; a folder that is not there has none.
///
/// # Errors
/// [`FileError`]
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
///
/// # Errors
/// [`FileError`]
pub fn free_bytes(path: &Path) -> Result<u64, FileError> {
    let stat = rustix::fs::statvfs(path).map_err(|error| at("measure", path)(error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Longest name in bytes that is part of its temporary one: 255 without what is added.
const MAX_EXTENDED: usize = 255 - 16;

/// The name under which a file is written before it gets its own: in the same folder, hidden, and of
/// this process, so that two processes never write the same one.
fn temporary_beside(path: &Path) -> PathBuf {
    let own = path.file_name().unwrap_or_default();
    let mut name = OsString::from(".");
    // Nothing can be added to a name that is as long as file systems allow.
    if own.len() <= MAX_EXTENDED {
        name.push(own);
    } else {
        let mut hasher = std::hash::DefaultHasher::new();
        own.hash(&mut hasher);
        name.push(format!("{:016x}", hasher.finish()));
    }
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_leaves_the_whole_new_file_for_its_owner_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write(&path, b"old", SECRET_MODE).unwrap();
        write(&path, b"new", SECRET_MODE).unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(list(folder.path()).unwrap(), vec![path]);
    }

    #[test]
    fn a_name_as_long_as_a_file_system_allows_is_written() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [MAX_EXTENDED, MAX_EXTENDED + 1, 255] {
            let path = folder.path().join("n".repeat(bytes));
            write(&path, b"new", PUBLIC_MODE).unwrap();
            assert_eq!(read(&path, 3).unwrap(), b"new");
        }
    }

    #[test]
    fn a_temporary_name_that_is_a_link_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::write(&outside, "kept").unwrap();
        let path = folder.path().join("a.json");
        std::os::unix::fs::symlink(&outside, temporary_beside(&path)).unwrap();
        write(&path, b"new", PUBLIC_MODE).unwrap();
        assert_eq!(fs::read(&outside).unwrap(), b"kept");
        assert_eq!(read(&path, 3).unwrap(), b"new");
    }

    #[test]
    fn a_file_beyond_its_bound_is_an_error_and_not_a_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"12345", PUBLIC_MODE).unwrap();
        let error = read(&path, 4).unwrap_err().to_string();
        assert!(error.contains("larger than the 4 bytes"), "{error}");
        assert_eq!(read_if_present(&folder.path().join("b"), 4).unwrap(), None);
    }

    #[test]
    fn absence_permission_and_space_have_each_their_own_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("no/stick");
        let help = read(&gone, 1).unwrap_err().help();
        let there = folder.path().display();
        let there = format!("`{there}` exists, `{there}/no` does not");
        assert!(
            help.starts_with(&there) && help.contains("mounted"),
            "{help}"
        );
        let helped = |kind: io::ErrorKind| at("write", &gone)(kind.into()).help();
        assert!(helped(io::ErrorKind::PermissionDenied).contains("sudo"));
        assert!(helped(io::ErrorKind::StorageFull).contains("free some space"));
        assert!(helped(io::ErrorKind::Other).contains("dmesg"));
    }
}
