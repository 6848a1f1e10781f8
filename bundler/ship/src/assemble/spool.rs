//! Where contents wait between being collected and being packed: one file each, in a temporary folder.
//!
//! What comes in: bytes, in any order. What goes out: each distinct content once, by its digest, to
//! be read again when the bundle is written. It exists so that memory does not grow with a payload;
//! it keeps nothing after it is dropped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use outhaul_bundle::digest::{Digest, Hasher};
use outhaul_bundle::index::Content;
use outhaul_kit::interrupt;

/// Contents in a temporary folder.
#[derive(Debug)]
pub struct Spool {
    folder: tempfile::TempDir,
    _temporary: interrupt::Temporary,
    sizes: BTreeMap<Digest, u64>,
    /// Contents that lie elsewhere, and are not copied.
    lent: BTreeMap<Digest, PathBuf>,
}

/// The temporary folder could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("temporary file `{}`", path.display())]
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
}

impl Spool {
    /// An empty spool in a new folder below `parent`.
    ///
    /// # Errors
    /// [`SpoolError`] when the folder cannot be made.
    pub fn new(parent: &Path) -> Result<Self, SpoolError> {
        let new = || {
            tempfile::Builder::new()
                .prefix("outhaul-")
                .tempdir_in(parent)
        };
        let (folder, temporary) =
            interrupt::make(new, tempfile::TempDir::path).map_err(|source| SpoolError {
                path: parent.to_path_buf(),
                source,
            })?;
        interrupt::here();
        Ok(Self {
            folder,
            _temporary: temporary,
            sizes: BTreeMap::new(),
            lent: BTreeMap::new(),
        })
    }

    /// Keeps `bytes`; what is there already is not written twice.
    ///
    /// # Errors
    /// [`SpoolError`] when the disk is full or fails.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(Digest, u64), SpoolError> {
        let digest = Digest::of(bytes);
        let size = bytes.len() as u64;
        if !self.sizes.contains_key(&digest) {
            let path = self.folder.path().join(digest.hex());
            let mut file = File::create_new(&path).map_err(|source| SpoolError {
                path: path.clone(),
                source,
            })?;
            file.write_all(bytes)
                .map_err(|source| SpoolError { path, source })?;
            interrupt::here();
            self.sizes.insert(digest, size);
        }
        Ok((digest, size))
    }

    /// Keeps what `fill` writes, and says its digest and size.
    ///
    /// # Errors
    /// [`SpoolError`] when the disk is full or fails, or `fill` does.
    pub fn add_with(
        &mut self,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(Digest, u64), SpoolError> {
        let path = self.folder.path().join("incoming");
        let at = |source| SpoolError {
            path: path.clone(),
            source,
        };
        let mut out = Tee {
            file: File::create(&path).map_err(at)?,
            hasher: Hasher::new(),
        };
        fill(&mut out).map_err(at)?;
        let (digest, size) = out.hasher.finish();
        std::fs::rename(&path, self.folder.path().join(digest.hex())).map_err(at)?;
        self.sizes.insert(digest, size);
        Ok((digest, size))
    }

    /// Adds a content that lies at `path` and stays there; it is compared with its digest when it is read.
    pub fn lend(&mut self, content: Content, path: PathBuf) {
        if !self.sizes.contains_key(&content.digest) {
            self.lent.insert(content.digest, path);
        }
    }

    /// Where a content lies that is only read from elsewhere.
    pub fn lent(&self, digest: &Digest) -> Option<&Path> {
        self.lent.get(digest).map(PathBuf::as_path)
    }

    /// The folder, for what else belongs to the same bundle.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Opens the content with this digest.
    ///
    /// # Errors
    /// [`SpoolError`] when it was never added or cannot be read.
    pub fn open(&self, digest: &Digest) -> Result<File, SpoolError> {
        let path = self.path(digest);
        File::open(&path).map_err(|source| SpoolError { path, source })
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        let own = || self.folder.path().join(digest.hex());
        match self.sizes.contains_key(digest) {
            true => own(),
            false => self.lent.get(digest).cloned().unwrap_or_else(own),
        }
    }
}

struct Tee {
    file: File,
    hasher: Hasher,
}

impl Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn both_ways_in_give_the_same_content_once() {
        let parent = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(parent.path()).unwrap();
        let (digest, size) = spool.add(b"payload").unwrap();
        assert_eq!(
            spool.add_with(|out| out.write_all(b"payload")).unwrap(),
            (digest, size)
        );
        let mut text = String::new();
        spool
            .open(&digest)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!((text.as_str(), size), ("payload", 7));
        drop(spool);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
