//! 6. DELIVER: a signed bundle becomes a file, and a file becomes what a web server hands out.
//!
//! What comes in: an [`UnsignedBundle`] with its signed metadata, or a bundle file. What goes out: one
//! `.outhaul` file, or a folder with the same members unpacked for connected sites. A file appears
//! whole and on disk, or not at all; in a published folder the timestamp comes last, so that a site
//! that pulls meanwhile sees the old state or the new one, never half of each.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::{Blob, Content};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::{BlobSink, BundleReader, ReadError};
use outhaul_bundle::write::{self, WriteError};
use outhaul_kit::durable::PUBLIC_MODE;
use outhaul_kit::interrupt;
use outhaul_kit::media::{Media, NewFile};
use outhaul_signer::durable::FileError;
use outhaul_signer::media;

use crate::assemble::UnsignedBundle;

pub mod medium;
pub mod published;

pub use medium::{copy_file, copy_verified};

/// Why a bundle was not delivered. Nothing half-written is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliverError {
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
    /// The file system, or a medium, refused.
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

impl DeliverError {
    /// Whether it is about one file outside `fleet`: something stands in its place, or it is too large for the file system there.
    pub(crate) fn is_of_one_file(&self, fleet: &Path) -> bool {
        match self {
            Self::File(error) => is_in_the_way(error, fleet),
            Self::FileLimit { path, .. } => !path.starts_with(fleet),
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Full { .. }
            | Self::Changed { .. }
            | Self::ReadBack { .. } => false,
        }
    }
}

/// Whether what refused a file outside `fleet` is what stands there: not the disk, nor a path or a permission that is missing.
pub(crate) fn is_in_the_way(error: &FileError, fleet: &Path) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied};
    !error.path.starts_with(fleet)
        && !error.is_of_the_disk()
        && !matches!(error.source.kind(), NotFound | PermissionDenied)
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
/// (`<role>/<sha256>.index.json`). With `is_newest`, which was signed just now, its timestamp replaces any other; without, one that
/// is newer stays.
///
/// # Errors
/// [`DeliverError`], also for a link in the place of a file or folder; what sites see is then as it was before.
pub fn publish_folder(
    bundle: &Path,
    expected: &Content,
    index_target: &str,
    folder: &Path,
    is_newest: bool,
) -> Result<(), DeliverError> {
    let unreadable = |source| DeliverError::Read {
        path: bundle.to_path_buf(),
        source,
    };
    let file = open(bundle)?;
    let mut reader = BundleReader::new(file, Limits::default());
    let metadata = reader.read_metadata().map_err(unreadable)?;
    let (index, index_bytes) = reader.read_index(expected).map_err(unreadable)?;
    create(folder)?;
    let media = Media::open(folder)?;
    let mut sink = FolderSink {
        media: &media,
        incoming: None,
        failed: None,
    };
    let read = reader.read_blobs(&index, &mut sink);
    match (sink.failed, read) {
        (Some(error), _) => return Err(error.into()),
        (None, read) => read.map(drop).map_err(unreadable)?,
    }
    let target = Path::new("targets").join(index_target);
    if let Some(bytes) = reader.index_compressed() {
        put_bytes(&media, &target.with_extension("json.zst"), &bytes)?;
    }
    put_bytes(&media, &target, &index_bytes)?;
    let (timestamp, rest): (Vec<_>, Vec<_>) = metadata
        .iter()
        .partition(|(name, _)| name.as_str() == "timestamp.json");
    for (name, bytes) in rest {
        put_bytes(&media, &Path::new("metadata").join(name), bytes)?;
    }
    for (_, bytes) in timestamp {
        // Another stream's bundle or a slip may have brought a newer one, which leads to this one as well.
        if is_newest || version_of(bytes) >= version_there(&media)? {
            put_bytes(&media, &timestamp_path(), bytes)?;
        }
    }
    Ok(())
}

/// Where clients look for what leads to everything else.
pub(crate) fn timestamp_path() -> PathBuf {
    Path::new("metadata").join("timestamp.json")
}

/// The version of the timestamp that a published folder has.
fn version_there(media: &Media) -> Result<Option<u64>, DeliverError> {
    let bytes = media.read(&timestamp_path(), MAX_TIMESTAMP_BYTES)?;
    Ok(bytes.and_then(|bytes| version_of(&bytes)))
}

/// The largest timestamp that is read of what lies in a folder, in bytes.
const MAX_TIMESTAMP_BYTES: u64 = 64 << 10;

/// The version of signed metadata; `None` for what is none.
fn version_of(bytes: &[u8]) -> Option<u64> {
    let document: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    document.get("signed")?.get("version")?.as_u64()
}

/// The folder may lie on a disk that someone else prepared: links in it are not followed.
fn put_bytes(media: &Media, path: &Path, bytes: &[u8]) -> Result<(), DeliverError> {
    let there = media.read(path, bytes.len() as u64);
    if there.is_ok_and(|there| there.is_some_and(|there| there == bytes)) {
        return Ok(());
    }
    Ok(media.write(path, bytes, PUBLIC_MODE)?)
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

/// A regular file; where bundles go may be a stick that someone prepared.
fn open(path: &Path) -> Result<File, DeliverError> {
    Ok(media::open_file(path)?)
}

pub fn io_error(
    doing: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> DeliverError + use<> {
    let path = path.to_path_buf();
    move |source| {
        DeliverError::File(FileError {
            doing,
            path,
            source,
        })
    }
}

/// Blobs as files named by their digest.
struct FolderSink<'m> {
    media: &'m Media,
    incoming: Option<NewFile>,
    /// Why the folder could not be written.
    failed: Option<FileError>,
}

impl FolderSink<'_> {
    fn fail(&mut self, error: FileError) -> io::Error {
        self.failed = Some(error);
        io::Error::other("the folder cannot be written")
    }
}

/// A file of the folder that is being written: what refuses its bytes is the disk there, and not the bundle that they are read from.
struct PlacedFile<'f> {
    file: &'f mut File,
    place: PathBuf,
    failed: &'f mut Option<FileError>,
}

impl PlacedFile<'_> {
    fn kept<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|source| {
            let kind = source.kind();
            // Another error than the first may only follow from it.
            if kind != io::ErrorKind::Interrupted && self.failed.is_none() {
                *self.failed = Some(FileError {
                    doing: "write",
                    path: self.place.clone(),
                    source,
                });
            }
            kind.into()
        })
    }
}

impl Write for PlacedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        self.kept(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.kept(flushed)
    }
}

fn blob_path(blob: &Blob) -> PathBuf {
    Path::new("blobs/sha256").join(blob.digest.hex())
}

/// Whether a file holds a blob, read to its end.
fn is_of(file: File, blob: &Blob) -> io::Result<bool> {
    if file.metadata()?.len() != blob.size {
        return Ok(false);
    }
    let mut hasher = Hasher::new();
    io::copy(&mut BufReader::new(file), &mut hasher)?;
    Ok(hasher.finish().0 == blob.digest)
}

impl BlobSink for FolderSink<'_> {
    fn begin(&mut self, blob: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        let path = blob_path(blob);
        let there = match self.media.open_file(&path) {
            Ok(there) => there,
            Err(error) => return Err(self.fail(error)),
        };
        let place = self.media.path().join(&path);
        // What lies there under this name may be anything: someone may have put it there, or a disk may have lost it.
        if let Some(there) = there {
            match is_of(there, blob) {
                Ok(true) => return Ok(None),
                Ok(false) => {}
                Err(source) => {
                    let (doing, path) = ("read", place);
                    return Err(self.fail(FileError {
                        doing,
                        path,
                        source,
                    }));
                }
            }
        }
        match self.media.begin(&path, PUBLIC_MODE) {
            Ok(new) => Ok(Some(Box::new(BufWriter::new(PlacedFile {
                file: self.incoming.insert(new).file(),
                place,
                failed: &mut self.failed,
            })))),
            Err(error) => Err(self.fail(error)),
        }
    }

    fn commit(&mut self, _blob: &Blob) -> io::Result<()> {
        match self.incoming.take().map(NewFile::commit) {
            Some(Err(error)) => Err(self.fail(error)),
            Some(Ok(())) | None => Ok(()),
        }
    }

    fn discard(&mut self, _blob: &Blob) {
        self.incoming = None;
    }
}
