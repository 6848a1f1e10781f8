//! The forms of a stored blob: `<hex>`, as it is carried, and `<hex>.plain`, its contents end to end; of a layer also [`twins`].
//!
//! What comes in: a blob's entry in a signed index. What goes out: its contents, by the same checks for both forms. A patch
//! makes contents and not the bytes that were carried: how those were compressed is nothing that a site needs, so that
//! the digests of the contents, which the same index states, are what such a blob is held against.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use outhaul_bundle::decode::{self, DecodeError};
use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::seal::Unseal;
use outhaul_bundle::{Digest, Limits};

use super::{Blobs, twins};
use crate::durable::{self, FileError};

const PLAIN: &str = ".plain";

/// The digest in the name of a stored blob's file.
pub(super) fn digest_in(name: &str) -> &str {
    let stem = name.strip_suffix(PLAIN);
    let stem = stem.or_else(|| name.strip_suffix(twins::ENDING));
    stem.unwrap_or(name)
}

/// An opened blob.
#[derive(Debug)]
pub enum Stored {
    /// As it is carried.
    Carried(File),
    /// Its contents, end to end.
    Plain(File),
}

impl Stored {
    /// Writes the contents of `blob` to the writers that `each` gives, as [`decode::decode_sealed`] does.
    ///
    /// # Errors
    /// [`DecodeError`]
    #[expect(clippy::type_complexity, reason = "as in the crate of the formats")]
    pub fn decode(
        self,
        blob: &Blob,
        limits: &Limits,
        keys: &dyn Unseal,
        each: &mut dyn FnMut(&Content) -> io::Result<Option<Box<dyn Write>>>,
    ) -> Result<(), DecodeError> {
        match self {
            Self::Carried(file) => decode::decode_sealed(blob, file, limits, keys, each),
            Self::Plain(file) => decode::decode_plain(blob, file, each),
        }
    }
}

impl Blobs {
    /// Opens a blob that is there.
    ///
    /// # Errors
    /// [`FileError`] of what it reads.
    pub fn open(&self, blob: &Blob) -> Result<Stored, FileError> {
        if !self.is_carried(blob) && self.is_plain(blob) {
            let path = self.plain_path(&blob.digest);
            return durable::open(&path).map(Stored::Plain);
        }
        let path = self.path(&blob.digest);
        durable::open(&path).map(Stored::Carried)
    }

    /// Where the contents of a blob lie, end to end, when a patch made them.
    pub fn plain_path(&self, digest: &Digest) -> PathBuf {
        self.whole.join(format!("{}{PLAIN}", digest.hex()))
    }

    /// Where they lie while they are made.
    pub fn partial_plain_path(&self, digest: &Digest) -> PathBuf {
        self.partial.join(format!("{}{PLAIN}", digest.hex()))
    }

    pub(super) fn is_carried(&self, blob: &Blob) -> bool {
        std::fs::metadata(self.path(&blob.digest)).is_ok_and(|meta| meta.len() == blob.size)
    }

    /// Whether a blob is there as its contents. What is stored as it is has no other form.
    pub(super) fn is_plain(&self, blob: &Blob) -> bool {
        let path = self.plain_path(&blob.digest);
        let has_form = blob.encoding != Encoding::Identity && blob.sealed.is_none();
        has_form && std::fs::metadata(path).is_ok_and(|meta| meta.len() == blob.plain_bytes())
    }

    pub(super) fn is_plain_and_whole(&self, blob: &Blob) -> bool {
        let file = || durable::open_file(&self.plain_path(&blob.digest)).ok();
        let file = self.is_plain(blob).then(file).flatten();
        file.is_some_and(|file| decode::decode_plain(blob, file, &mut |_| Ok(None)).is_ok())
    }

    /// Gives the contents of a blob, made and compared with their digests, their name.
    ///
    /// # Errors
    /// [`FileError`] of what it reads or writes.
    pub fn keep_plain(&mut self, digest: &Digest) -> Result<(), FileError> {
        let (from, to) = (self.partial_plain_path(digest), self.plain_path(digest));
        self.keep_as(&from, &to)
    }

    /// Removes a blob in each form.
    pub(super) fn remove(&self, digest: &Digest) -> Result<(), FileError> {
        let forms = [
            self.path(digest),
            self.plain_path(digest),
            self.twin_path(digest),
        ];
        for path in forms {
            if path.exists() {
                durable::remove_file(&path)?;
            }
        }
        Ok(())
    }
}
