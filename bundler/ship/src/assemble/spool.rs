//! Where contents wait between being collected and being packed, and blobs between being packed and being written.
//!
//! What comes in: bytes, in any order. What goes out: each distinct content once, by its digest, to be read again when the bundle is
//! written, and each encoded blob by what is in it. Small contents lie together in one file, larger ones each in its own, what lies
//! elsewhere stays there. It exists so that memory does not grow with a payload and nothing is encoded twice; it keeps nothing
//! after it is dropped.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use outhaul_bundle::digest::{Digest, Hasher, HashingWriter};
use outhaul_bundle::encode::{self, BlobPlan, ContentSource, MAX_SMALL_BYTES};
use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_kit::console::progress::Meter;
use outhaul_kit::{interrupt, working_folder};

use super::encoded::{EncodedBefore, SpoolPlace, key};

/// Bytes copied at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// Contents and blobs in a temporary folder.
#[derive(Debug)]
pub struct Spool {
    contents: Contents,
    _folder: tempfile::TempDir,
    _lock: File,
    _temporary: interrupt::Temporary,
    small_bytes: u64,
    /// Blobs by what is in them.
    blobs: BTreeMap<Digest, SpooledBlob>,
    before: Rc<EncodedBefore>,
    /// Whether the bytes of blobs are going to be used.
    confirms: bool,
}

/// Contents alone: several may read them at once.
#[derive(Debug)]
pub struct Contents {
    folder: PathBuf,
    places: BTreeMap<Digest, ContentPlace>,
    /// All small ones, one behind the other.
    small: File,
}

/// An encoded blob.
#[derive(Debug)]
struct SpooledBlob {
    blob: Blob,
    place: SpoolPlace,
    /// Whether it is an earlier bundle's, and was not compared with its digest yet.
    is_from_before: bool,
}

/// Where a content lies.
#[derive(Debug)]
enum ContentPlace {
    /// In a file of its own here.
    Own,
    /// Among the small ones: offset and size.
    Small(u64, u64),
    /// Elsewhere, and not copied.
    Lent(PathBuf),
}

/// The temporary folder could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the temporary {} `{}`", if path.is_dir() || self.is_no_folder() { "folder" } else { "file" }, path.display())]
pub struct SpoolError {
    path: PathBuf,
    source: io::Error,
}

impl SpoolError {
    pub(crate) fn at(path: &Path, source: io::Error) -> Self {
        Self {
            path: path.to_path_buf(),
            source,
        }
    }

    fn is_no_folder(&self) -> bool {
        let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        kinds.contains(&self.source.kind())
    }

    /// What to do about it.
    pub(crate) fn help(&self) -> String {
        match self.is_no_folder() {
            true => "`TMPDIR` names the folder for temporary files (`/tmp` where it is not set): set it to a folder that is there, such as \
                     `TMPDIR=/var/tmp`, and run it again"
                .to_owned(),
            false => "make room there, or name another folder for temporary files in `TMPDIR`, and run it again; it needs as much as the \
                      contents of the largest bundle"
                .to_owned(),
        }
    }
}

impl Spool {
    /// An empty spool in a new folder below `parent`.
    ///
    /// # Errors
    /// [`SpoolError`] when the folder cannot be made.
    pub fn new(parent: &Path) -> Result<Self, SpoolError> {
        working_folder::remove_left(parent, PREFIX);
        let new = || {
            // What a bundle is sealed for passes through it unsealed.
            tempfile::Builder::new()
                .prefix(PREFIX)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(parent)
        };
        let (folder, temporary) = interrupt::make(new, tempfile::TempDir::path)
            .map_err(|source| SpoolError::at(parent, source))?;
        let lock = working_folder::in_use(folder.path())
            .map_err(|source| SpoolError::at(folder.path(), source))?;
        interrupt::here();
        let path = folder.path().join("small");
        let small = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|source| SpoolError::at(&path, source))?;
        Ok(Self {
            contents: Contents {
                folder: folder.path().to_owned(),
                places: BTreeMap::new(),
                small,
            },
            _folder: folder,
            _lock: lock,
            _temporary: temporary,
            small_bytes: 0,
            blobs: BTreeMap::new(),
            before: Rc::default(),
            confirms: false,
        })
    }

    /// The same, which takes blobs out of bundles that were made before.
    #[must_use]
    pub fn with_encoded(mut self, before: Rc<EncodedBefore>) -> Self {
        self.before = before;
        self
    }

    /// Keeps `bytes`; what is there already is not written twice.
    ///
    /// # Errors
    /// [`SpoolError`] when the disk is full or fails.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(Digest, u64), SpoolError> {
        let digest = Digest::of(bytes);
        let size = bytes.len() as u64;
        if self.is_here(&digest) {
            return Ok((digest, size));
        }
        if size <= MAX_SMALL_BYTES {
            let at = self.small_bytes;
            let written = self.contents.small.write_all_at(bytes, at);
            written.map_err(|source| SpoolError::at(&self.folder().join("small"), source))?;
            self.small_bytes += size;
            let place = ContentPlace::Small(at, size);
            self.contents.places.insert(digest, place);
            return Ok((digest, size));
        }
        self.add_with(|out| out.write_all(bytes))
    }

    /// Keeps all that `from` gives, in memory that does not grow with it.
    ///
    /// # Errors
    /// [`SpoolError`] when the disk is full or fails, or `from` does.
    pub fn add_from(&mut self, from: &mut dyn Read) -> Result<(Digest, u64), SpoolError> {
        let mut first = Vec::new();
        let read = from.take(MAX_SMALL_BYTES + 1).read_to_end(&mut first);
        read.map_err(|source| SpoolError::at(self.folder(), source))?;
        if first.len() as u64 <= MAX_SMALL_BYTES {
            return self.add(&first);
        }
        self.add_with(|out| {
            out.write_all(&first)?;
            let mut buffer = vec![0; BUFFER_BYTES];
            loop {
                match from.read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(count) => out.write_all(buffer.get(..count).unwrap_or_default())?,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// Keeps what `fill` writes, and says its digest and size.
    ///
    /// # Errors
    /// [`SpoolError`] when the disk is full or fails, or `fill` does.
    pub fn add_with(
        &mut self,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(Digest, u64), SpoolError> {
        let path = self.folder().join("incoming");
        let at = |source| SpoolError::at(&path, source);
        let mut out = HashingWriter::new(File::create(&path).map_err(at)?);
        fill(&mut out).map_err(at)?;
        interrupt::here();
        let (_, digest, size) = out.finish();
        std::fs::rename(&path, self.folder().join(digest.hex())).map_err(at)?;
        self.contents.places.insert(digest, ContentPlace::Own);
        Ok((digest, size))
    }

    /// Adds a content that lies at `path` and stays there; it is compared with its digest when it is read.
    pub fn lend(&mut self, content: Content, path: PathBuf) {
        if !self.is_here(&content.digest) {
            let place = ContentPlace::Lent(path);
            self.contents.places.insert(content.digest, place);
        }
    }

    /// Where a content lies that is only read from elsewhere.
    pub fn lent(&self, digest: &Digest) -> Option<&Path> {
        match self.contents.places.get(digest)? {
            ContentPlace::Lent(path) => Some(path),
            _ => None,
        }
    }

    fn is_here(&self, digest: &Digest) -> bool {
        let place = self.contents.places.get(digest);
        matches!(place, Some(ContentPlace::Own | ContentPlace::Small(..)))
    }

    /// The folder, for what else belongs to the same bundle.
    pub fn folder(&self) -> &Path {
        &self.contents.folder
    }

    /// What is here, for those who read it at once.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Opens the content with this digest.
    ///
    /// # Errors
    /// [`SpoolError`] when it was never added or cannot be read.
    pub fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send + '_>, SpoolError> {
        self.contents.open(digest)
    }

    /// The blob that `plan` comes to, when it was encoded before.
    ///
    /// # Errors
    /// [`SpoolError`] when its content cannot be read.
    pub(super) fn encoded(&mut self, plan: &BlobPlan) -> Result<Option<Blob>, SpoolError> {
        let key = key(&plan.contents);
        let found = match self.blobs.get(&key) {
            Some(kept) => Some(kept.blob.clone()),
            None => {
                let found = self.before.find(&key, &plan.contents);
                let found = found.filter(|(blob, place)| !self.confirms || place.holds(blob));
                found.map(|(blob, place)| {
                    let kept = SpooledBlob {
                        blob: blob.clone(),
                        place,
                        is_from_before: !self.confirms,
                    };
                    self.blobs.insert(key, kept);
                    blob
                })
            }
        };
        let Some(blob) = found else { return Ok(None) };
        // How it is stored also follows from its name, which may be another one now.
        let is_same = blob.encoding == plan.encoding
            || (plan.encoding, blob.encoding) == (Encoding::Zstd, Encoding::Identity)
                && self.is_compressed(&plan.contents)?;
        Ok(is_same.then_some(blob))
    }

    /// Whether a content alone is compressed already, by how it begins.
    pub(super) fn is_compressed(&self, contents: &[Content]) -> Result<bool, SpoolError> {
        let [content] = contents else {
            return Ok(false);
        };
        let mut first = Vec::new();
        let from = self.open(&content.digest)?;
        let read = from.take(MAX_SMALL_BYTES).read_to_end(&mut first);
        read.map_err(|source| SpoolError::at(self.folder(), source))?;
        Ok(encode::is_compressed(&first))
    }

    /// Where the content lies that is a blob as it is; small ones are none.
    pub(super) fn file_of(&self, content: &Content) -> Option<PathBuf> {
        match self.contents.places.get(&content.digest)? {
            ContentPlace::Own => Some(self.folder().join(content.digest.hex())),
            ContentPlace::Lent(path) => Some(path.clone()),
            ContentPlace::Small(..) => None,
        }
    }

    /// Keeps an encoded blob that lies at `path`.
    pub(super) fn keep_blob(&mut self, blob: Blob, path: PathBuf) {
        let place = SpoolPlace { path, offset: 0 };
        let kept = SpooledBlob {
            place,
            is_from_before: false,
            blob,
        };
        self.blobs.insert(key(&kept.blob.contents), kept);
    }

    /// From now on the bytes of blobs count: forgets those of earlier bundles that are not what they should be, so that
    /// they are encoded again.
    pub fn confirm(&mut self) {
        self.confirms = true;
        self.blobs
            .retain(|_, kept| !kept.is_from_before || kept.place.holds(&kept.blob));
        for kept in self.blobs.values_mut() {
            kept.is_from_before = false;
        }
    }

    /// Opens an encoded blob.
    ///
    /// # Errors
    /// [`SpoolError`] when it is not here or cannot be read.
    pub(super) fn open_blob(&self, blob: &Blob) -> Result<Box<dyn Read>, SpoolError> {
        let nothing = || SpoolError::at(self.folder(), io::ErrorKind::NotFound.into());
        let kept = self.blobs.get(&key(&blob.contents)).ok_or_else(nothing)?;
        let opened = kept.place.open(blob.size);
        opened.map_err(|source| SpoolError::at(&kept.place.path, source))
    }
}

impl Contents {
    /// The folder that they are in.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send + '_>, SpoolError> {
        let own = || self.folder.join(digest.hex());
        let path = match self.places.get(digest) {
            Some(ContentPlace::Small(at, size)) => {
                return Ok(Box::new(Piece {
                    file: &self.small,
                    at: *at,
                    left: *size,
                }));
            }
            Some(ContentPlace::Lent(path)) => path.clone(),
            Some(ContentPlace::Own) | None => own(),
        };
        match File::open(&path) {
            Ok(file) => Ok(Box::new(file)),
            Err(source) => Err(SpoolError::at(&path, source)),
        }
    }
}

/// Contents for an encoder, counted while they are read.
#[derive(Debug)]
pub struct CountedContents<'a>(pub &'a Contents, pub &'a Meter);

impl ContentSource for CountedContents<'_> {
    fn open(&mut self, content: &Content) -> io::Result<Box<dyn Read + '_>> {
        let file = self.0.open(&content.digest).map_err(io::Error::other)?;
        Ok(Box::new(self.1.counts(file)))
    }
}

/// A small content.
struct Piece<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Piece<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let count = self
            .file
            .read_at(buffer.get_mut(..most).unwrap_or_default(), self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

impl SpoolPlace {
    /// Opens what lies there, in a bundle `size` bytes of it.
    fn open(&self, size: u64) -> io::Result<Box<dyn Read>> {
        let mut file = File::open(&self.path)?;
        if self.offset == 0 {
            // A file of its own: one that grew is seen by whoever compares it.
            return Ok(Box::new(file));
        }
        file.seek(SeekFrom::Start(self.offset))?;
        Ok(Box::new(file.take(size)))
    }

    /// Whether `blob` lies there.
    fn holds(&self, blob: &Blob) -> bool {
        let mut hasher = Hasher::new();
        let copied = self
            .open(blob.size)
            .and_then(|mut from| io::copy(&mut from, &mut hasher));
        copied.is_ok() && hasher.finish() == (blob.digest, blob.size)
    }
}

/// Begins the names of the folders.
const PREFIX: &str = "outhaul-spool-";
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_reads_a_spool_and_what_a_killed_run_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let spool = Spool::new(parent.path()).unwrap();
        let folder = spool.contents.folder.clone();
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        // As a killed process leaves it: the folder is there, and nobody holds its lock.
        let left = parent.path().join(format!("{PREFIX}left"));
        std::fs::create_dir(&left).unwrap();
        // Not only closed: programs that other tests are starting have a copy of it.
        working_folder::in_use(&left).unwrap().unlock().unwrap();
        let other = parent.path().join("outhaul-other");
        std::fs::create_dir(&other).unwrap();
        let second = Spool::new(parent.path()).unwrap();
        assert!(!left.exists() && other.exists() && folder.exists());
        drop((spool, second));
        assert!(!folder.exists());
    }

    #[test]
    fn every_way_in_gives_the_same_content_once() {
        let parent = tempfile::tempdir().unwrap();
        let large = vec![7; 100_000];
        for bytes in [&b"payload"[..], &large] {
            let mut spool = Spool::new(parent.path()).unwrap();
            let (digest, size) = spool.add(bytes).unwrap();
            let with = spool.add_with(|out| out.write_all(bytes)).unwrap();
            assert_eq!(with, (digest, size));
            assert_eq!(spool.add_from(&mut &*bytes).unwrap(), (digest, size));
            let mut found = Vec::new();
            spool
                .open(&digest)
                .unwrap()
                .read_to_end(&mut found)
                .unwrap();
            assert_eq!((found.as_slice(), size), (bytes, bytes.len() as u64));
        }
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
