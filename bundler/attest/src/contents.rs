//! The contents of a bundle, opened: every blob decompressed and hashed, in bounded memory.
//!
//! What comes in: a bundle file, its index (already verified), and keys where it is sealed. What goes out: the attestations in it; the
//! digests of all contents hold then. It installs and keeps nothing.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek as _, Write};
use std::path::PathBuf;

use outhaul_bundle::Digest;
use outhaul_bundle::decode::{self, DecodeError, InMemory};
use outhaul_bundle::index::{Blob, Content};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::{BlobSink, BundleReader, ReadError};
use outhaul_bundle::seal::{Sealed, Unseal, UnsealError};
use outhaul_seal::Identities;

/// Largest attestation that is read, in bytes.
const MAX_ATTESTATION_BYTES: u64 = 64 * 1024 * 1024;

/// Opens every blob of the bundle in `input`; the digests of all contents hold afterwards. Returns the
/// attestations by file name.
///
/// # Errors
/// [`ContentsError`] for the first blob that is damaged, sealed for others, or not what the index says.
pub fn contents(
    input: impl Read,
    expected: &Content,
    keys: &Keys,
) -> Result<BTreeMap<String, Vec<u8>>, ContentsError> {
    let mut reader = BundleReader::new(input, Limits::default());
    reader.read_metadata()?;
    let (index, _) = reader.read_index(expected)?;
    let wanted = index
        .attestations
        .iter()
        .filter(|file| file.size <= MAX_ATTESTATION_BYTES);
    let wanted: BTreeMap<Digest, String> = wanted
        .map(|file| (file.content, file.path.to_string()))
        .collect();
    let mut sink = Decoding {
        keys,
        wanted: &wanted,
        blob: None,
        found: InMemory::default(),
        wrong: None,
        no_room: None,
    };
    let read = reader.read_blobs(&index, &mut sink);
    if let Some(error) = sink.no_room {
        let folder = std::env::temp_dir();
        return Err(ContentsError::Temporary { folder, error });
    }
    if let Some(error) = sink.wrong {
        return Err(error.into());
    }
    read?;
    Ok(sink.found.take())
}

/// Why the contents of a bundle are not what its index says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentsError {
    /// A blob does not yield what it should, or is sealed for others.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The file is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// This machine has no place for what a blob is decoded from: nothing is known of the bundle.
    #[error("cannot keep a part of the bundle in `{}` while it is checked", folder.display())]
    Temporary {
        /// The folder for temporary files.
        folder: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

impl ContentsError {
    /// Whether only a key is missing.
    pub fn is_for_others(&self) -> bool {
        matches!(self, Self::Decode(error) if error.rule() == "recipient")
    }
}

/// Decodes each blob from a temporary file, once its carried bytes are known to be right.
struct Decoding<'a> {
    keys: &'a Keys,
    wanted: &'a BTreeMap<Digest, String>,
    blob: Option<std::fs::File>,
    found: InMemory<String>,
    wrong: Option<DecodeError>,
    /// Why a temporary file could not be made, written or read again.
    no_room: Option<io::Error>,
}

/// A temporary file; that it cannot be written is a matter of this machine, and no damage of what is read.
struct Temporary<'a> {
    file: &'a std::fs::File,
    failed: &'a mut Option<io::Error>,
}

impl Temporary<'_> {
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| noted(self.failed, error))
    }
}

impl Write for Temporary<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.file.write(bytes);
        self.noted(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.file.flush();
        self.noted(done)
    }
}

/// Keeps `error`, and gives what the reader is to end with.
fn noted(kept: &mut Option<io::Error>, error: io::Error) -> io::Error {
    let reported = io::Error::from(error.kind());
    if error.kind() != io::ErrorKind::Interrupted {
        *kept = Some(error);
    }
    reported
}

impl BlobSink for Decoding<'_> {
    fn begin(&mut self, _: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        let file = match tempfile::tempfile() {
            Ok(file) => self.blob.insert(file),
            Err(error) => return Err(noted(&mut self.no_room, error)),
        };
        let failed = &mut self.no_room;
        Ok(Some(Box::new(Temporary { file, failed })))
    }

    fn commit(&mut self, blob: &Blob) -> io::Result<()> {
        let Some(mut file) = self.blob.take() else {
            return Ok(());
        };
        file.rewind()
            .map_err(|error| noted(&mut self.no_room, error))?;
        let mut each = |content: &Content| {
            let name = self.wanted.get(&content.digest).cloned();
            Ok(name.map(|name| self.found.writer(name)))
        };
        decode::decode_sealed(blob, file, &Limits::default(), self.keys, &mut each).map_err(
            |error| {
                let reported = io::Error::other(error.to_string());
                self.wrong = Some(error);
                reported
            },
        )
    }

    fn discard(&mut self, _: &Blob) {
        self.blob = None;
    }
}

/// Keys that open sealed blobs, at the centre: for inspecting and verifying.
#[derive(Debug, Default)]
pub struct Keys(pub Identities);

impl Unseal for Keys {
    fn unseal<'a>(
        &self,
        _: &Blob,
        sealed: &Sealed,
        carried: Box<dyn Read + 'a>,
    ) -> Result<Box<dyn Read + 'a>, UnsealError> {
        match outhaul_seal::reader(carried, &self.0) {
            Ok(opened) => Ok(Box::new(opened)),
            Err(error) => Err(UnsealError::new(sealed, error.keys_tried(), &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::fake::FakeBundle;

    use super::*;

    #[test]
    fn contents_that_are_not_what_the_index_says_are_found_behind_right_carried_bytes() {
        let mut bundle = FakeBundle::new(1, &[("a.yaml", b"a"), ("b.yaml", b"b")]).unwrap();
        let bytes = bundle.to_bytes().unwrap();
        let keys = Keys::default();
        assert!(
            contents(&*bytes, &bundle.expected_index(), &keys)
                .unwrap()
                .is_empty()
        );
        // Both sizes are 1: the two contents of the pack change places.
        bundle.index.blobs[0].contents.swap(0, 1);
        let bytes = bundle.to_bytes().unwrap();
        assert!(contents(&*bytes, &bundle.expected_index(), &keys).is_err());
    }
}
