//! What is to be published: which bytes belong under which name.
//!
//! What comes in: bundle files with what the fleet's record says of them, and the fleet's published metadata. What goes out:
//! [`Object`]s in the order in which they must appear. Where a blob lies in its bundle's file is computed from the index, which is compared
//! with its signed digest; nothing is unpacked.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::{Content, IndexBytes};
use outhaul_bundle::read::{BundleReader, ReadError};
use outhaul_bundle::{Digest, Index, Limits};
use outhaul_kit::media;

use crate::error::PublicationError;
use crate::listed::{PublishedMetadata, ReadMetadata, needed};

/// Bytes of a block of the bundle's tar.
const BLOCK: u64 = outhaul_bundle::BLOCK as u64;

/// A bundle that the fleet keeps.
#[derive(Debug, Clone)]
pub struct BundleFile {
    /// Environment and cluster type, for messages.
    pub stream: String,
    /// The role of its stream.
    pub role: String,
    /// Its number.
    pub number: u64,
    /// The file.
    pub path: PathBuf,
    /// What the fleet has signed of its index.
    pub index: Content,
}

/// A bundle's file that a fleet keeps, whatever it has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// Environment and cluster type, for messages.
    pub stream: String,
    /// The role of its stream.
    pub role: String,
    /// Its number.
    pub number: u64,
    /// The file.
    pub path: PathBuf,
}

impl KeptFile {
    /// What is published of it, where the fleet has signed `last` last of its stream, a number and an index: it, when it is that number.
    /// Of what was never signed, or under another number, nothing is published.
    pub fn published(self, last: Option<(u64, Content)>) -> Option<BundleFile> {
        let (_, index) = last.filter(|(number, _)| *number == self.number)?;
        Some(BundleFile {
            stream: self.stream,
            role: self.role,
            number: self.number,
            path: self.path,
            index,
        })
    }
}

/// One file at a target.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its name there, with `/` between parts.
    pub path: String,
    /// What it must be.
    pub content: Content,
    bytes: Bytes,
}

#[derive(Debug, Clone)]
enum Bytes {
    Here(Arc<[u8]>),
    /// In a file, from an offset on.
    In(Arc<Path>, u64),
}

impl Object {
    /// A small one.
    pub fn small(path: String, bytes: &[u8]) -> Self {
        Self {
            path,
            content: Content {
                digest: Digest::of(bytes),
                size: bytes.len() as u64,
            },
            bytes: Bytes::Here(bytes.into()),
        }
    }

    /// One in a file, for tests.
    #[cfg(test)]
    pub(crate) fn in_file(path: &str, content: Content, file: &Path, offset: u64) -> Self {
        Self {
            path: path.to_owned(),
            content,
            bytes: Bytes::In(file.into(), offset),
        }
    }

    /// Its bytes, when it is a small one.
    pub fn here(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Here(bytes) => Some(bytes),
            Bytes::In(..) => None,
        }
    }

    /// Opens `size` of its bytes, from its byte `from` on.
    ///
    /// # Errors
    /// Of the bundle's file.
    pub fn open(&self, from: u64, size: u64) -> io::Result<Box<dyn Read + Send>> {
        match &self.bytes {
            Bytes::Here(bytes) => {
                let mut reader = io::Cursor::new(Arc::clone(bytes));
                reader.set_position(from);
                Ok(Box::new(reader.take(size)))
            }
            Bytes::In(path, offset) => {
                let mut file = media::open_file(path).map_err(|error| error.source)?;
                file.seek(SeekFrom::Start(offset + from))?;
                Ok(Box::new(io::BufReader::with_capacity(
                    256 * 1024,
                    file.take(size),
                )))
            }
        }
    }

    /// The digest of `size` of its bytes, from its byte `from` on.
    ///
    /// # Errors
    /// Of the bundle's file.
    pub fn digest_of(&self, from: u64, size: u64) -> io::Result<Digest> {
        let mut hasher = Hasher::new();
        io::copy(&mut self.open(from, size)?, &mut hasher)?;
        Ok(hasher.finish().0)
    }

    /// The file that it lies in, for messages.
    pub(crate) fn origin(&self) -> PathBuf {
        match &self.bytes {
            Bytes::Here(_) => PathBuf::from(&self.path),
            Bytes::In(path, _) => path.to_path_buf(),
        }
    }
}

/// One bundle as it is read from its file.
#[derive(Debug)]
pub struct OpenedBundle {
    /// The metadata files that it carries, by name.
    pub metadata: Vec<Object>,
    /// Its index, at the place where clients look for it, and beside it its compressed form where it has one.
    pub index: Vec<Object>,
    /// Its blobs, in the order of the index.
    pub blobs: Vec<Object>,
}

impl BundleFile {
    /// Reads what is in it; blobs stay where they lie.
    ///
    /// # Errors
    /// [`PublicationError`] when it is not the bundle that was signed.
    pub fn open(&self) -> Result<OpenedBundle, PublicationError> {
        let wrong = |source| PublicationError::Bundle {
            path: self.path.clone(),
            stream: self.stream.clone(),
            number: self.number,
            source,
        };
        let file = media::open_file(&self.path).map_err(|error| PublicationError::Read {
            path: self.path.clone(),
            source: error.source,
        })?;
        let (metadata, index, bytes, offset) = read_index(file, &self.index).map_err(wrong)?;
        let IndexBytes {
            canonical,
            compressed,
        } = bytes;
        let here: Arc<Path> = self.path.as_path().into();
        let mut at = offset;
        let mut blobs = Vec::new();
        for blob in &index.blobs {
            let begins = at + BLOCK;
            at = begins + blob.size.next_multiple_of(BLOCK);
            blobs.push(Object {
                path: format!("blobs/sha256/{}", blob.digest.hex()),
                content: Content {
                    digest: blob.digest,
                    size: blob.size,
                },
                bytes: Bytes::In(Arc::clone(&here), begins),
            });
        }
        let index_path = format!(
            "targets/{}/{}.index.json",
            self.role,
            self.index.digest.hex()
        );
        let mut index_objects = Vec::new();
        if let Some(bytes) = compressed {
            index_objects.push(Object::small(format!("{index_path}.zst"), &bytes));
        }
        index_objects.push(Object::small(index_path, &canonical));
        Ok(OpenedBundle {
            metadata: metadata
                .into_iter()
                .map(|(name, bytes)| Object::small(format!("metadata/{name}"), &bytes))
                .collect(),
            index: index_objects,
            blobs,
        })
    }
}

type ReadIndex = (Vec<(String, Vec<u8>)>, Index, IndexBytes, u64);

fn read_index(file: File, expected: &Content) -> Result<ReadIndex, ReadError> {
    let mut reader = BundleReader::new(file, Limits::default());
    let mut metadata: Vec<_> = reader.read_metadata()?.into_iter().collect();
    metadata.sort_by_key(|(name, _)| in_the_tar(name));
    let (index, bytes) = reader.read_index(expected)?;
    let offset = reader.offset();
    let bytes = IndexBytes::new(bytes, reader.index_compressed());
    Ok((metadata, index, bytes, offset))
}

/// Where a metadata file stands in a bundle: roots by version, timestamp, snapshot, targets, the stream's role.
fn in_the_tar(name: &str) -> (usize, u64) {
    let (version, role) = name.split_once('.').unwrap_or_default();
    let kinds = ["root.json", "json", "snapshot.json", "targets.json"];
    let kind = kinds.iter().position(|kind| *kind == role);
    (
        kind.unwrap_or(kinds.len()),
        version.parse().unwrap_or_default(),
    )
}

/// Everything that a fleet has signed last.
#[derive(Debug)]
pub struct Publication {
    /// Each blob once, then each index, then metadata, `timestamp.json` last.
    pub objects: Vec<Object>,
    /// The version of `timestamp.json`.
    pub version: u64,
}

impl Publication {
    /// Of `bundles`, one a stream, and the published metadata of which `read` gives each file. Every stream that the metadata leads to must be
    /// among `bundles`; `name_of` names the stream of a role.
    ///
    /// # Errors
    /// [`PublicationError`]
    pub fn of(
        bundles: &[BundleFile],
        read: ReadMetadata<'_>,
        name_of: &dyn Fn(&str) -> String,
    ) -> Result<Self, PublicationError> {
        let mut metadata = Vec::new();
        for version in 1u64.. {
            let name = format!("{version}.root.json");
            match read(&name)? {
                Some(bytes) => metadata.push((name, bytes)),
                None => break,
            }
        }
        let listed = PublishedMetadata::read(read)?;
        listed.refuse_lost(&has(bundles), name_of)?;
        metadata.push(listed.snapshot);
        for (role, version) in &listed.versions {
            let name = format!("{version}.{role}.json");
            metadata.push((name.clone(), needed(read, &name)?));
        }
        let (mut objects, mut indexes, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
        for bundle in bundles {
            let opened = bundle.open()?;
            let new = |blob: &Object| known.insert(blob.content.digest);
            objects.extend(opened.blobs.into_iter().filter(new));
            indexes.extend(opened.index);
        }
        objects.append(&mut indexes);
        let last = ("timestamp.json".to_owned(), listed.timestamp);
        let all = metadata.into_iter().chain([last]);
        objects.extend(all.map(|(name, bytes)| Object::small(format!("metadata/{name}"), &bytes)));
        Ok(Self {
            objects,
            version: listed.version,
        })
    }

    /// `timestamp.json`.
    pub(crate) fn timestamp(&self) -> Option<&Object> {
        self.objects.last()
    }
}

/// Refuses `bundles` when one of a stream that the published metadata leads to is not among them: its sites would look in vain for what was
/// signed, and nobody would be told. `read` and `name_of` as for [`Publication::of`], which does the same.
///
/// # Errors
/// [`PublicationError`]
pub fn refuse_lost(
    bundles: &[BundleFile],
    read: ReadMetadata<'_>,
    name_of: &dyn Fn(&str) -> String,
) -> Result<(), PublicationError> {
    PublishedMetadata::read(read)?.refuse_lost(&has(bundles), name_of)
}

fn has(bundles: &[BundleFile]) -> impl Fn(&str, u64) -> bool {
    |role, number| {
        let mut bundles = bundles.iter();
        bundles.any(|one| one.role == role && one.number == number)
    }
}

#[cfg(test)]
mod tests {
    use outhaul_kit::failure::{Classified as _, FailureClass};

    use super::*;

    #[test]
    fn only_what_was_signed_last_is_published() {
        let kept = || KeptFile {
            stream: "dev/edge".to_owned(),
            role: "dev-edge".to_owned(),
            number: 3,
            path: PathBuf::from("3.outhaul"),
        };
        let index = Content {
            digest: Digest::of(b"index"),
            size: 5,
        };
        let published = |last| kept().published(last).map(|one| (one.number, one.index));
        assert_eq!(published(Some((3, index))), Some((3, index)));
        assert_eq!(published(Some((4, index))), None);
        assert_eq!(published(None), None);
    }

    #[test]
    fn a_bundle_that_was_signed_and_is_lost_is_refused() {
        let files = |name: &str| {
            let text = match name {
                "timestamp.json" => {
                    r#"{"signed": {"version": 9, "meta": {"snapshot.json": {"version": 7}}}}"#
                }
                "7.snapshot.json" => {
                    r#"{"signed": {"version": 7, "meta": {"targets.json": {"version": 1}, "s-1.json": {"version": 3}}}}"#
                }
                _ => return Ok(None),
            };
            Ok(Some(text.as_bytes().to_vec()))
        };
        let bundle = |role: &str, number| BundleFile {
            stream: "dev/edge".to_owned(),
            role: role.to_owned(),
            number,
            path: PathBuf::from("3.outhaul"),
            index: Content {
                digest: Digest::of(b"index"),
                size: 5,
            },
        };
        let refused =
            |bundles: &[BundleFile]| refuse_lost(bundles, &files, &|_| "dev/edge".to_owned());
        assert!(refused(&[bundle("s-1", 3)]).is_ok());
        for bundles in [vec![], vec![bundle("s-1", 2)], vec![bundle("s-2", 3)]] {
            let error = refused(&bundles).unwrap_err();
            assert_eq!(error.class(), FailureClass::Environment, "{error}");
            assert!(
                error
                    .to_string()
                    .starts_with("number 3 of dev/edge was signed"),
                "{error}"
            );
        }
    }
}
