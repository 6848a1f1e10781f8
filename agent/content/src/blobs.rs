//! The store of blobs as carried, by digest: `blobs/sha256/<hex>`.
//!
//! What comes in: bytes that the bundle reader hashes while it hands them over. What goes out: files
//! whose name is their digest. Bytes lie in `blobs/partial` until the reader says that they are right;
//! nothing unverified gets a digest for a name, and the stick is read once.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::Blob;
use outhaul_bundle::{BlobSink, Digest};

use crate::cut;
use crate::durable::{self, FileError, at};
use crate::state_folder::StateFolder;

mod patched;
mod rebuilt;
mod sealed_values;
mod sources;
mod stored;
mod tried;
pub mod twins;

use patched::Patching;
pub use rebuilt::RebuildError;
pub use stored::Stored;
use tried::Trial;

/// Writes go to the disk in pieces of this many bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// The store, and the sink of a bundle reader.
#[derive(Debug)]
pub struct Blobs {
    whole: PathBuf,
    partial: PathBuf,
    identities: PathBuf,
    /// The files that this copy added: taken back when the bundle is refused after all.
    added: Vec<PathBuf>,
    /// What blobs are tried for when they are only looked at: nothing is kept.
    trial: Option<Trial>,
    /// What blobs are made of that a copy carries as patches.
    patching: Patching,
}

impl Blobs {
    /// The store of `state_folder`.
    pub fn new(state_folder: &StateFolder) -> Self {
        Self {
            whole: state_folder.blobs(),
            partial: state_folder.partial_blobs(),
            identities: state_folder.identities(),
            added: Vec::new(),
            trial: None,
            patching: Patching::default(),
        }
    }

    /// Where a whole blob lies.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.whole.join(digest.hex())
    }

    /// Where a blob lies while it is copied.
    pub fn partial_path(&self, digest: &Digest) -> PathBuf {
        self.partial.join(digest.hex())
    }

    /// Whether a blob is there with its full size, as it is carried or as its contents, or the archive that is in the place of a layer.
    pub fn has(&self, blob: &Blob) -> bool {
        self.is_carried(blob) || self.is_plain(blob) || self.twin(blob).is_some()
    }

    /// Whether a blob is there with the bytes that its digest names, or with those that the digests of its contents
    /// name.
    pub fn is_whole(&self, blob: &Blob) -> bool {
        let found = digest_of(&self.path(&blob.digest));
        found.is_ok_and(|found| found == blob.digest)
            || self.is_plain_and_whole(blob)
            || self.is_twin_and_whole(blob)
    }

    /// Removes each of `blobs` that is damaged, so that it is copied again, and returns how many. One that a generation links to
    /// and that was not written since that generation was `checked` is not read again.
    ///
    /// # Errors
    /// [`FileError`] of the disk.
    pub fn drop_damaged<'b>(
        &self,
        blobs: impl IntoIterator<Item = &'b Blob>,
        checked: Option<SystemTime>,
    ) -> Result<usize, FileError> {
        let mut dropped = 0;
        for blob in blobs.into_iter().filter(|blob| self.has(blob)) {
            let archive = self.twin(blob);
            let stored = archive.as_ref().map_or(blob.digest, |twin| twin.digest);
            let meta = std::fs::metadata(self.path(&stored)).ok();
            let is_older = |at: SystemTime| checked.is_some_and(|checked| at < checked);
            let is_known =
                meta.is_some_and(|meta| meta.nlink() > 1 && meta.modified().is_ok_and(is_older));
            if !is_known && !self.is_whole(blob) {
                if let Some(archive) = archive {
                    durable::remove_file(&self.path(&archive.digest))?;
                }
                self.remove(&blob.digest)?;
                dropped += 1;
            }
        }
        Ok(dropped)
    }

    /// The folder of the keys that open what is sealed.
    pub fn identities(&self) -> &Path {
        &self.identities
    }

    /// Bytes of `blobs` that are not there yet.
    pub fn missing_bytes(&self, blobs: &[Blob]) -> u64 {
        blobs
            .iter()
            .filter(|blob| !self.has(blob))
            .map(|blob| blob.size)
            .sum()
    }

    /// Gives a verified partial blob its name.
    ///
    /// # Errors
    /// [`FileError`] of what it reads or writes.
    pub fn keep(&mut self, digest: &Digest) -> Result<(), FileError> {
        let (from, to) = (self.partial_path(digest), self.path(digest));
        self.keep_as(&from, &to)
    }

    fn keep_as(&mut self, from: &Path, to: &Path) -> Result<(), FileError> {
        durable::open_file(from)
            .and_then(|file| file.sync_all())
            .map_err(at("sync", from))?;
        std::fs::rename(from, to).map_err(at("rename to", to))?;
        self.added.push(to.to_owned());
        cut::here("blob-written");
        Ok(())
    }

    /// Makes all names durable: once per bundle, before anything refers to them.
    ///
    /// # Errors
    /// [`FileError`] of what it reads or writes.
    pub fn sync(&self) -> Result<(), FileError> {
        durable::sync_folder(&self.whole)
    }

    /// Takes back what this copy added: a refused bundle leaves nothing. Other forms of the same blobs were here before, and stay.
    ///
    /// # Errors
    /// [`FileError`] of what it reads or writes.
    pub fn take_back(&mut self) -> Result<(), FileError> {
        for path in std::mem::take(&mut self.added) {
            durable::remove_file(&path)?;
        }
        self.clear_partial()
    }

    /// Removes everything half-copied.
    ///
    /// # Errors
    /// [`FileError`] of what it reads or writes.
    pub fn clear_partial(&self) -> Result<(), FileError> {
        durable::list(&self.partial)?
            .iter()
            .try_for_each(|path| durable::remove_file(path))
    }

    /// Removes every blob that is not in `wanted`, and the archives of layers that are here themselves.
    ///
    /// # Errors
    /// [`FileError`] of what it reads or writes.
    pub fn retain(&self, wanted: &BTreeSet<String>) -> Result<(), FileError> {
        let archives = self.archives_of(wanted)?;
        for path in durable::list(&self.whole)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_wanted = wanted.contains(stored::digest_in(&name)) && !self.is_replaced(&name);
            if !is_wanted && !archives.contains(&*name) {
                durable::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

impl BlobSink for Blobs {
    fn begin(&mut self, blob: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        // A layer that comes as it is takes the place of its archive: with it the mirror serves the image to other machines.
        if self.has(blob) && self.twin(blob).is_none() {
            return Ok(None);
        }
        if let Some(trial) = &mut self.trial {
            let file = trial.begin(&self.partial)?;
            return Ok(Some(Box::new(BufWriter::with_capacity(BUFFER_BYTES, file))));
        }
        let path = self.partial_path(&blob.digest);
        let file = durable::create(&path, 0o600).map_err(|error| error.source)?;
        Ok(Some(Box::new(BufWriter::with_capacity(BUFFER_BYTES, file))))
    }

    fn commit(&mut self, blob: &Blob) -> io::Result<()> {
        if let Some(trial) = &mut self.trial {
            return trial.verified(blob);
        }
        self.keep(&blob.digest).map_err(|error| error.source)
    }

    fn discard(&mut self, blob: &Blob) {
        self.patching.discard();
        if self.trial.is_none() {
            let _ = durable::remove_file(&self.partial_path(&blob.digest));
        }
    }

    fn begin_patch(&mut self, blob: &Blob, bytes: u64) -> io::Result<Option<Box<dyn Write + '_>>> {
        if self.has(blob) {
            return Ok(None);
        }
        let file = self.patching.begin(&self.partial, bytes)?;
        Ok(Some(Box::new(BufWriter::with_capacity(BUFFER_BYTES, file))))
    }

    fn commit_patch(&mut self, blob: &Blob) -> io::Result<()> {
        self.make(blob)
    }
}

/// Digest of a file's content.
///
/// # Errors
/// When it cannot be read or written.
pub fn digest_of(path: &Path) -> io::Result<Digest> {
    let mut hasher = Hasher::new();
    io::copy(&mut durable::open_file(path)?, &mut hasher)?;
    Ok(hasher.finish().0)
}
