//! Blobs that bundles made before hold already: the same contents give the same bytes, so that they are not encoded twice.
//!
//! What comes in: bundle files that this fleet keeps, with the digest that was signed of each index. What goes out: for some contents
//! the blob that holds them, and where it lies. What is sealed is not found: no two seals are alike. Whoever uses the bytes of a blob
//! compares them with its digest.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::{BundleReader, ReadError};
use outhaul_bundle::{Digest, Index};
use outhaul_kit::media;

/// Bytes of a block of a bundle's tar.
const BLOCK: u64 = outhaul_bundle::BLOCK as u64;

/// Where a blob lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolPlace {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
}

/// A blob without the list of what is in it, which its key stands for.
#[derive(Debug, Clone)]
struct EncodedBlob {
    digest: Digest,
    size: u64,
    encoding: Encoding,
    place: SpoolPlace,
}

/// What was encoded before.
#[derive(Debug, Default)]
pub struct EncodedBefore(RefCell<BTreeMap<Digest, EncodedBlob>>);

impl EncodedBefore {
    /// Adds the blobs of the bundle at `path`, of which `index` was signed; one that is not that bundle adds nothing.
    pub fn add(&self, path: &Path, index: &Content) {
        let Ok((index, offset)) = read(path, index) else {
            return;
        };
        let mut known = self.0.borrow_mut();
        let mut at = offset;
        for blob in index.blobs {
            let offset = at + BLOCK;
            at = offset + blob.size.next_multiple_of(BLOCK);
            if blob.sealed.is_some() {
                continue;
            }
            let place = SpoolPlace {
                path: path.to_owned(),
                offset,
            };
            known.insert(
                key(&blob.contents),
                EncodedBlob {
                    digest: blob.digest,
                    size: blob.size,
                    encoding: blob.encoding,
                    place,
                },
            );
        }
    }

    /// The blob that holds `contents`, of which `key` is the key.
    pub(super) fn find(&self, key: &Digest, contents: &[Content]) -> Option<(Blob, SpoolPlace)> {
        let known = self.0.borrow();
        let found = known.get(key)?;
        let blob = Blob {
            digest: found.digest,
            size: found.size,
            encoding: found.encoding,
            contents: contents.to_vec(),
            sealed: None,
        };
        Some((blob, found.place.clone()))
    }
}

fn read(path: &Path, expected: &Content) -> Result<(Index, u64), ReadError> {
    let failed = |error: std::io::Error| ReadError::Io {
        member: "the bundle".to_owned(),
        offset: 0,
        error,
    };
    let file = media::open_file(path).map_err(|error| failed(error.source))?;
    let mut reader = BundleReader::new(file, Limits::default());
    reader.read_metadata()?;
    let (index, _) = reader.read_index(expected)?;
    Ok((index, reader.offset()))
}

/// What stands for a list of contents.
pub(super) fn key(contents: &[Content]) -> Digest {
    let mut hasher = Hasher::new();
    for content in contents {
        hasher.update(content.digest.as_bytes());
        hasher.update(&content.size.to_le_bytes());
    }
    hasher.finish().0
}

#[cfg(test)]
mod tests;
