//! 6. DELIVER: a signed bundle becomes a file, and a file becomes what a web server hands out.
//!
//! What comes in: an [`UnsignedBundle`] with its signed metadata, or a bundle file. What goes out: one
//! `.outhaul` file, or a folder with the same members unpacked for connected sites. A file appears
//! whole and on disk, or not at all; in a published folder the timestamp comes last, so that a site
//! that pulls meanwhile sees the old state or the new one, never half of each.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::{Blob, Content};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::{BlobSink, BundleReader, ReadError};
use outhaul_bundle::write::{self, WriteError};
use outhaul_kit::interrupt;
use outhaul_signer::durable::FileError;
use outhaul_signer::media;

use crate::assemble::UnsignedBundle;

pub mod medium;

pub use medium::{copy_file, copy_verified};

/// Why a bundle was not delivered. Nothing half-written is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliverError {
    /// The file system refused.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The bundle is not whole.
    #[error("`{}` is not a bundle that can be published", path.display())]
    Read {
        /// The bundle.
        path: PathBuf,
        /// What is wrong.
        source: ReadError,
    },
    /// It could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file to be.
        path: PathBuf,
        /// Why.
        source: WriteError,
    },
    /// A medium could not be opened, written or read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file system there holds no file as large as that.
    #[error(
        "`{}` would be {bytes} bytes, and the file system there (FAT) holds files of at most {max} bytes; it was \
         not begun",
        path.display()
    )]
    FileLimit {
        /// The file to be.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The most that fits into a file there.
        max: u64,
    },
    /// There is no room for it.
    #[error(
        "`{}` needs {bytes} bytes, and {free} bytes are free there; it was not begun", path.display()
    )]
    Full {
        /// The file to be.
        path: PathBuf,
        /// What it needs.
        bytes: u64,
        /// What is free.
        free: u64,
    },
    /// What was verified is another file by now.
    #[error(
        "`{}` was changed while it was copied: what was written is not what was verified, and replaced no file", path.display()
    )]
    Changed {
        /// The file that was copied.
        path: PathBuf,
    },
    /// What was written is not what is read back.
    #[error(
        "`{}` was written, and the medium gives back other bytes; the file was removed from it", path.display()
    )]
    ReadBack {
        /// The file.
        path: PathBuf,
    },
}

/// Writes the bundle to `path`, durably: beside it first, then renamed. Returns its size in bytes.
///
/// # Errors
/// [`DeliverError`]; `path` is then as it was before.
pub fn write_file(
    path: &Path,
    metadata: &[(String, Vec<u8>)],
    mut bundle: UnsignedBundle,
) -> Result<u64, DeliverError> {
    let index_bytes = bundle.index_bytes.clone();
    let index = bundle.index.clone();
    put(path, |file| {
        write::write_bundle(
            BufWriter::new(file),
            metadata,
            &index_bytes,
            &index,
            &mut bundle,
        )
        .map(drop)
        .map_err(|source| DeliverError::Write {
            path: path.to_path_buf(),
            source,
        })
    })?;
    let size = fs::metadata(path).map_err(io_error("look at", path))?.len();
    Ok(size)
}

/// The digest of a file, however large.
///
/// # Errors
/// [`DeliverError`] when it cannot be read.
pub fn digest_of(path: &Path) -> Result<Digest, DeliverError> {
    let mut file = open(path)?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let read = file.read(&mut buffer).map_err(io_error("read", path))?;
        if read == 0 {
            return Ok(hasher.finish().0);
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
}

/// Unpacks the bundle file `bundle` into `folder`, beside what other streams have there.
///
/// `expected` is what verified metadata says of the index, `index_target` where clients look for it
/// (`<role>/<sha256>.index.json`).
///
/// # Errors
/// [`DeliverError`]; what sites see is then as it was before.
pub fn publish_folder(
    bundle: &Path,
    expected: &Content,
    index_target: &str,
    folder: &Path,
) -> Result<(), DeliverError> {
    let unreadable = |source| DeliverError::Read {
        path: bundle.to_path_buf(),
        source,
    };
    let file = open(bundle)?;
    let mut reader = BundleReader::new(file, Limits::default());
    let metadata = reader.read_metadata().map_err(unreadable)?;
    let (index, index_bytes) = reader.read_index(expected).map_err(unreadable)?;
    let mut sink = FolderSink {
        folder: folder.join("blobs/sha256"),
        incoming: None,
    };
    create(&sink.folder)?;
    reader.read_blobs(&index, &mut sink).map_err(unreadable)?;
    put_bytes(&folder.join("targets").join(index_target), &index_bytes)?;
    let (timestamp, rest): (Vec<_>, Vec<_>) = metadata
        .iter()
        .partition(|(name, _)| name.as_str() == "timestamp.json");
    for (name, bytes) in rest.into_iter().chain(timestamp) {
        put_bytes(&folder.join("metadata").join(name), bytes)?;
    }
    Ok(())
}

fn put_bytes(path: &Path, bytes: &[u8]) -> Result<(), DeliverError> {
    // Where it goes may be a stick: what lies there is looked at as on one.
    if media::read_file(path, bytes.len() as u64).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    put(path, |file| {
        file.write_all(bytes).map_err(io_error("write", path))
    })
}

/// Temporary file beside `path`, filled, fsynced, renamed, folder fsynced.
fn put(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), DeliverError>,
) -> Result<(), DeliverError> {
    let folder = folder_of(path);
    create(folder)?;
    let (mut temporary, _registered) =
        temporary_in(folder).map_err(io_error("write in", folder))?;
    fill(temporary.as_file_mut())?;
    interrupt::here();
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    temporary
        .as_file()
        .set_permissions(readable)
        .map_err(io_error("write", path))?;
    temporary
        .as_file()
        .sync_all()
        .map_err(io_error("write", path))?;
    temporary
        .persist(path)
        .map_err(|error| io_error("write", path)(error.error))?;
    sync(folder)
}

/// The folder in which `path` lies.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Begins the names of files that are being written.
pub(crate) const TEMPORARY: &str = ".outhaul-";

fn temporary_in(folder: &Path) -> io::Result<(tempfile::NamedTempFile, interrupt::Temporary)> {
    let new = || {
        tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempfile_in(folder)
    };
    interrupt::make(new, tempfile::NamedTempFile::path)
}

/// Makes a folder if it is missing.
///
/// # Errors
/// [`DeliverError`]
pub fn create(folder: &Path) -> Result<(), DeliverError> {
    fs::create_dir_all(folder).map_err(io_error("create", folder))
}

fn sync(folder: &Path) -> Result<(), DeliverError> {
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(io_error("write in", folder))
}

/// A regular file; where bundles go may be a stick that somebody prepared.
fn open(path: &Path) -> Result<File, DeliverError> {
    media::open_file(path).map_err(|error| io_error(error.doing, path)(error.source))
}

pub(crate) fn io_error(
    doing: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> DeliverError + use<> {
    let path = path.to_path_buf();
    move |source| DeliverError::Io {
        doing,
        path,
        source,
    }
}

/// Blobs as files named by their digest.
struct FolderSink {
    folder: PathBuf,
    incoming: Option<(tempfile::NamedTempFile, interrupt::Temporary)>,
}

impl BlobSink for FolderSink {
    fn begin(&mut self, blob: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        if self.folder.join(blob.digest.hex()).exists() {
            return Ok(None);
        }
        let incoming = temporary_in(&self.folder)?;
        let (file, _) = self.incoming.insert(incoming);
        Ok(Some(Box::new(BufWriter::new(file.as_file_mut()))))
    }

    fn commit(&mut self, blob: &Blob) -> io::Result<()> {
        if let Some((file, _registered)) = self.incoming.take() {
            let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            file.as_file().set_permissions(readable)?;
            file.as_file().sync_all()?;
            file.persist(self.folder.join(blob.digest.hex()))
                .map_err(|error| error.error)?;
            File::open(&self.folder)?.sync_all()?;
        }
        Ok(())
    }

    fn discard(&mut self, _blob: &Blob) {
        self.incoming = None;
    }
}
