//! A blob as far as it came over a network.
//!
//! What comes in: the file of what came before, and bytes from where it ends. What goes out: the digest of all of them, from the first to the
//! last byte. Nothing is believed for having come before.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;

use crate::durable::{FileError, at};

/// A blob as far as it is there.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    file: File,
    hasher: Hasher,
    have: u64,
    /// Whether the server was not asked for it yet: an empty blob is asked for, too.
    is_untouched: bool,
}

impl Partial {
    /// What is at `path` of a blob of `size` bytes.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be read or made.
    pub fn open(path: &Path, size: u64) -> Result<Self, FileError> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(at("open", path))?;
        let mut hasher = Hasher::new();
        let have = io::copy(&mut (&file).take(size), &mut hasher).map_err(at("read", path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            hasher,
            have,
            is_untouched: size == 0,
        })
    }

    /// Bytes that are there.
    pub fn have(&self) -> u64 {
        self.have
    }

    /// Whether all of `size` bytes are there, and were asked for.
    pub fn is_whole(&self, size: u64) -> bool {
        self.have >= size && !self.is_untouched
    }

    /// Says that a server answered for it.
    pub fn is_asked_for(&mut self) {
        self.is_untouched = false;
    }

    /// Begins again.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn restart(&mut self) -> Result<(), FileError> {
        self.file.set_len(0).map_err(at("write", &self.path))?;
        self.file
            .seek(SeekFrom::Start(0))
            .map_err(at("write", &self.path))?;
        self.hasher = Hasher::new();
        self.have = 0;
        Ok(())
    }

    /// Adds what came.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.hasher.update(bytes);
        self.file
            .write_all(bytes)
            .map_err(at("write", &self.path))?;
        self.have += bytes.len() as u64;
        Ok(())
    }

    /// The digest of all that came, which is `size` bytes.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be written.
    pub fn finish(self, size: u64) -> Result<Digest, FileError> {
        self.file.set_len(size).map_err(at("write", &self.path))?;
        Ok(self.hasher.finish().0)
    }
}
