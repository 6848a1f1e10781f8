//! Contents by digest, in a folder: `sha256/<hex>`, and beside them what has come in part.
//!
//! What comes in: bytes from a registry. What goes out: a file whose bytes match its digest. A part that broke
//! off stays and is gone on with; what turns out to be wrong is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::Content;

use crate::error::RegistryError;

/// The folder.
#[derive(Debug, Clone)]
pub struct ImageCache {
    folder: PathBuf,
}

/// A content that has come in part.
#[derive(Debug)]
pub(crate) struct Part {
    path: PathBuf,
    file: File,
    hasher: Hasher,
    content: Content,
    /// Bytes that are there.
    pub(crate) there: u64,
}

impl ImageCache {
    /// A cache in `folder`, made when it is first needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into().join("sha256"),
        }
    }

    /// Where a content lies when it is there.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(digest.hex())
    }

    /// Whether a content is there, by its name and size; its bytes are compared when they are used.
    pub fn has(&self, content: &Content) -> bool {
        fs::metadata(self.path(&content.digest)).is_ok_and(|found| found.len() == content.size)
    }

    /// The bytes of a small content, where they are there and match.
    pub fn read(&self, digest: &Digest, max: u64) -> Option<Vec<u8>> {
        let bytes = outhaul_kit::durable::read(&self.path(digest), max).ok()?;
        (Digest::of(&bytes) == *digest).then_some(bytes)
    }

    /// Keeps a small content.
    ///
    /// # Errors
    /// [`RegistryError::Cache`]
    pub fn keep(&self, digest: &Digest, bytes: &[u8]) -> Result<(), RegistryError> {
        let path = self.path(digest);
        self.make()?;
        let kept = outhaul_kit::durable::write(&path, bytes, 0o644);
        kept.map_err(|error| failed(&path, io::Error::other(error.to_string())))
    }

    fn make(&self) -> Result<(), RegistryError> {
        // What is private at its registry is private here.
        let mut folder = fs::DirBuilder::new();
        folder.recursive(true).mode(0o700);
        folder
            .create(&self.folder)
            .map_err(|source| failed(&self.folder, source))
    }

    /// Goes on with what came before.
    pub(crate) fn part(&self, content: Content) -> Result<Part, RegistryError> {
        self.make()?;
        let path = self.folder.join(format!("{}.part", content.digest.hex()));
        let at = |source| failed(&path, source);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(at)?;
        // Two that bring the same would write into one another.
        file.try_lock()
            .map_err(|error| at(io::Error::other(error.to_string())))?;
        let mut hasher = Hasher::new();
        let there = io::copy(&mut file, &mut hasher).map_err(at)?;
        let mut part = Part {
            path,
            file,
            hasher,
            content,
            there,
        };
        if there > content.size {
            part.restart()?;
        }
        Ok(part)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A program that another thread is starting has a copy of the file until it runs: closing alone would end the lock later.
        let _ = self.file.unlock();
    }
}

impl Part {
    /// Forgets what came.
    pub(crate) fn restart(&mut self) -> Result<(), RegistryError> {
        let emptied = self
            .file
            .set_len(0)
            .and_then(|()| io::Seek::rewind(&mut self.file));
        emptied.map_err(|source| failed(&self.path, source))?;
        self.hasher = Hasher::new();
        self.there = 0;
        Ok(())
    }

    /// Says that what came is all of it.
    pub(crate) fn ends(&mut self) {
        self.content.size = self.there;
    }

    /// Adds what comes, as far as it belongs; says why it ended early.
    pub(crate) fn fill(&mut self, from: &mut dyn Read) -> Result<Option<io::Error>, RegistryError> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = match from.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Some(error)),
            };
            self.there += count as u64;
            if self.there > self.content.size {
                return Ok(None);
            }
            self.hasher.update(&buffer[..count]);
            let written = self.file.write_all(&buffer[..count]);
            written.map_err(|source| failed(&self.path, source))?;
        }
    }

    /// Gives it its name, or says what is wrong with it and removes it.
    pub(crate) fn finish(self, to: &Path) -> Result<Result<(), String>, RegistryError> {
        let at = |source| failed(&self.path, source);
        let (digest, _) = self.hasher.clone().finish();
        let Content { size, .. } = self.content;
        let problem = match self.there {
            there if there > size => Some(format!("is longer than its {size} bytes")),
            there if there < size => Some(format!("ends after {there} of its {size} bytes")),
            _ if digest != self.content.digest => Some(format!("has the digest {digest}")),
            _ => None,
        };
        if let Some(problem) = problem {
            fs::remove_file(&self.path).map_err(at)?;
            return Ok(Err(problem));
        }
        self.file.sync_all().map_err(at)?;
        fs::rename(&self.path, to).map_err(at)?;
        Ok(Ok(()))
    }
}

fn failed(path: &Path, source: io::Error) -> RegistryError {
    RegistryError::Cache {
        path: path.to_owned(),
        source,
    }
}
