//! Files of our own, and files that a person names, as they are read: bounded, and only what is a file.
//!
//! What comes in: a path, and how many bytes may be there. What goes out: an open regular file, or all of its bytes. A FIFO, socket, device or
//! folder in the place of a file is an error that states what it is: nothing is waited for. Links are followed: secrets are mounted by them.
//! What shells hand over below `/dev` and `/proc` is read to its end, be it a pipe or a terminal.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use super::unexpected::{ENTRY, Unexpected, found};
use super::{FileError, at};

/// A FIFO or a terminal is opened without waiting for anybody, and found to be one.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A file with a secret that everyone on this machine may read or replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exposed {
    mode: u32,
}

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = self.mode;
        write!(
            f,
            "it holds a secret, and others on this machine may open it (mode {mode:03o}): `chmod 600` it; it was not read"
        )
    }
}

impl std::error::Error for Exposed {}

/// Whether a secret was not read because others may open it.
pub(super) fn is_exposed(error: &io::Error) -> bool {
    let cause = error.get_ref();
    cause.is_some_and(|why| why.downcast_ref::<Exposed>().is_some())
}

/// Opens a regular file for reading.
///
/// # Errors
/// [`FileError`] when it cannot be opened or is something else; that is not waited for.
pub fn open(path: &Path) -> Result<File, FileError> {
    open_file(path).map_err(at("open", path))
}

/// As [`open`], where the path is named by who asks.
///
/// # Errors
/// The error of the system, or what is there instead of a file.
pub fn open_file(path: &Path) -> io::Result<File> {
    opened(path, false)
}

/// Opens what is there, which is not waited for, and tells what it is.
pub(crate) fn opened_as(path: &Path, flags: OFlags, mode: Mode) -> io::Result<(File, FileType)> {
    let file = match rustix::fs::open(path, flags | OFlags::NONBLOCK, mode) {
        Ok(file) => File::from(file),
        // A socket cannot be opened at all, nor a folder for writing.
        Err(error) => match path.metadata() {
            Ok(there) if there.file_type().is_socket() => return Err(not_a_file(FileType::Socket)),
            Ok(there) if there.is_dir() && error == rustix::io::Errno::ISDIR => {
                return Err(not_a_file(FileType::Directory));
            }
            _ => return Err(error.into()),
        },
    };
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    Ok((file, kind))
}

/// What a person may name as a pipe, too: what a shell hands over.
fn opened(path: &Path, may_be_pipe: bool) -> io::Result<File> {
    let (file, kind) = opened_as(path, READ, Mode::empty())?;
    if kind == FileType::RegularFile {
        return Ok(file);
    }
    let is_stream = matches!(kind, FileType::Fifo | FileType::CharacterDevice);
    if !(may_be_pipe && is_stream && (path.starts_with("/dev") || path.starts_with("/proc"))) {
        return Err(not_a_file(kind));
    }
    // Whoever writes into it may be slower than this program.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

pub(crate) fn not_a_file(kind: FileType) -> io::Error {
    io::Error::other(Unexpected {
        found: found(kind),
        expected: ENTRY,
    })
}

/// Reads a file of at most `max_bytes`; a larger one is an error, not a part.
///
/// # Errors
/// [`FileError`] when it cannot be read, is not a file, or is larger (`FileTooLarge`).
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    let file = opened(path, true).map_err(at("open", path))?;
    read_bounded(file, max_bytes).map_err(at("read", path))
}

/// Reads a file that holds a secret. One that everyone may open is refused, as keys are: its owner's group may read it, which is how
/// a service reads what root wrote, and systemd's credentials are. A pipe has no such mode.
///
/// # Errors
/// As [`read`], and when others may open it.
pub fn read_secret(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    read_unexposed(path, max_bytes, 0o007)
}

/// Like [`read_secret`], for a private key: its owner's group may not open it either.
///
/// # Errors
/// As [`read_secret`].
pub fn read_private_key(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    read_unexposed(path, max_bytes, 0o077)
}

/// Reads a regular file that has none of the permissions in `refused`.
fn read_unexposed(path: &Path, max_bytes: u64, refused: u32) -> Result<Vec<u8>, FileError> {
    let file = opened(path, true).map_err(at("open", path))?;
    let found = file.metadata().map_err(at("look at", path))?;
    let mode = found.permissions().mode() & 0o777;
    if found.is_file() && mode & refused != 0 {
        let exposed = io::Error::new(io::ErrorKind::PermissionDenied, Exposed { mode });
        return Err(at("use", path)(exposed));
    }
    read_bounded(file, max_bytes).map_err(at("read", path))
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

/// All bytes of an open file, when there are at most `max_bytes` of them.
pub(crate) fn read_bounded(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(too_large(max_bytes));
    }
    Ok(bytes)
}

/// A file that is larger than it may be.
pub(crate) fn too_large(max_bytes: u64) -> io::Error {
    let large = format!("it is larger than the {max_bytes} bytes that it may have");
    io::Error::new(io::ErrorKind::FileTooLarge, large)
}

/// Makes what is no file in `folder`: the names, and what each is.
#[cfg(test)]
pub(crate) fn no_files(folder: &Path) -> [(&'static str, &'static str); 4] {
    let at = |name: &str| folder.join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    // It stays when nobody listens any more.
    drop(std::os::unix::net::UnixListener::bind(at("socket")).unwrap());
    std::fs::create_dir(at("folder")).unwrap();
    // The name is not below /dev, so that it is nothing that a shell handed over.
    std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
    [
        ("fifo", "a FIFO"),
        ("socket", "a socket"),
        ("folder", "a folder"),
        ("device", "a device"),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn what_is_not_a_file_is_named_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, said) in no_files(folder.path()) {
            for error in [
                read(&at(name), 9).unwrap_err(),
                read_secret(&at(name), 9).unwrap_err(),
                open(&at(name)).unwrap_err(),
            ] {
                let text = error.to_string();
                assert!(
                    text.contains(&format!("it is {said}, not a regular file")),
                    "{text}"
                );
            }
        }
        fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        assert_eq!(read(&at("link"), 9).unwrap(), b"text");
    }

    #[test]
    fn what_a_shell_hands_over_is_read_to_its_end_and_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let file = opened(Path::new(&path), true).unwrap();
        // Else what is written later would not be read.
        let flags = rustix::fs::fcntl_getfl(&file).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
        writer.write_all(b"password").unwrap();
        drop(writer);
        assert_eq!(read_bounded(file, 9).unwrap(), b"password");
        assert_eq!(read_secret(Path::new(&path), 9).unwrap(), b"");
        assert_eq!(read(Path::new("/dev/null"), 9).unwrap(), b"");
        assert!(open(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn a_secret_that_others_may_open_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, is_read) in [(0o644, false), (0o602, false), (0o640, true), (0o400, true)] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            let found = read_secret(file.path(), 9);
            assert_eq!(found.is_ok(), is_read, "{mode:o}: {found:?}");
            assert!(found.is_ok() || found.unwrap_err().help().contains("chmod 600"));
            let key = read_private_key(file.path(), 9);
            assert_eq!(key.is_ok(), mode == 0o400, "{mode:o}: {key:?}");
        }
    }
}
