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
use outhaul_bundle::index::Content;
use outhaul_bundle::read::{BundleReader, ReadError};
use outhaul_bundle::{Digest, Index, Limits};
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::media;
use serde::Deserialize;

/// Where clients look for what leads to everything else.
pub(crate) const TIMESTAMP: &str = "metadata/timestamp.json";
/// Bytes of a block of the bundle's tar.
const BLOCK: u64 = outhaul_bundle::BLOCK as u64;

/// Why something cannot be published at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublicationError {
    /// A bundle's file is not the bundle that was signed.
    #[error("`{}` is not the bundle that was signed as {stream}, number {number}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
        /// What is wrong with it.
        source: ReadError,
    },
    /// A bundle's file changed.
    #[error("`{}` was changed since it was signed; what is published of it stays as it is", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A bundle's file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The fleet's metadata does not lead anywhere.
    #[error("the fleet's `{file}` cannot be used: {problem}")]
    Metadata {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The fleet keeps no bundle of what it has signed.
    #[error(
        "number {number} of {stream} was signed and the fleet keeps no copy of its bundle, so that its sites would find a number \
         and no content; nothing was sent"
    )]
    NoBundle {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
    },
}

impl Classified for PublicationError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Bundle { .. } | Self::Changed { .. } | Self::Metadata { .. } => {
                FailureClass::Trust
            }
            Self::Read { .. } => FailureClass::Environment,
            Self::NoBundle { .. } => FailureClass::Refused,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Read { .. } => None,
            _ => Some(
                "make the stream's bundle anew with `outhaul bundle`: where its copy is gone or was changed it takes a \
                 new number"
                    .to_owned(),
            ),
        }
    }
}

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
    /// Its index, at the place where clients look for it.
    pub index: Object,
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
        Ok(OpenedBundle {
            metadata: metadata
                .into_iter()
                .map(|(name, bytes)| Object::small(format!("metadata/{name}"), &bytes))
                .collect(),
            index: Object::small(index_path, &bytes),
            blobs,
        })
    }
}

type ReadIndex = (Vec<(String, Vec<u8>)>, Index, Vec<u8>, u64);

fn read_index(file: File, expected: &Content) -> Result<ReadIndex, ReadError> {
    let mut reader = BundleReader::new(file, Limits::default());
    let mut metadata: Vec<_> = reader.read_metadata()?.into_iter().collect();
    metadata.sort_by_key(|(name, _)| in_the_tar(name));
    let (index, bytes) = reader.read_index(expected)?;
    let offset = reader.offset();
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

#[derive(Deserialize)]
struct Signed {
    signed: Versions,
}

#[derive(Deserialize)]
struct Versions {
    version: u64,
    #[serde(default)]
    meta: std::collections::BTreeMap<String, Pinned>,
}

#[derive(Deserialize)]
struct Pinned {
    version: u64,
}

fn versions(file: &str, bytes: &[u8]) -> Result<Versions, PublicationError> {
    let parsed: Result<Signed, _> = serde_json::from_slice(bytes);
    parsed
        .map(|found| found.signed)
        .map_err(|error| PublicationError::Metadata {
            file: file.to_owned(),
            problem: error.to_string(),
        })
}

/// The version that a `timestamp.json` has; `None` for what is none.
pub(crate) fn version_of(bytes: &[u8]) -> Option<u64> {
    versions(TIMESTAMP, bytes).ok().map(|found| found.version)
}

impl Publication {
    /// Of `bundles`, one a stream, and the published metadata of which `read` gives each file. Every stream that the metadata leads to must be
    /// among `bundles`; `name_of` names the stream of a role.
    ///
    /// # Errors
    /// [`PublicationError`]
    #[expect(clippy::type_complexity, reason = "used once")]
    pub fn of(
        bundles: &[BundleFile],
        read: &dyn Fn(&str) -> Result<Option<Vec<u8>>, PublicationError>,
        name_of: &dyn Fn(&str) -> String,
    ) -> Result<Self, PublicationError> {
        let needed = |name: &str| {
            read(name)?.ok_or_else(|| PublicationError::Metadata {
                file: name.to_owned(),
                problem: "it is not there".to_owned(),
            })
        };
        let lacks = |file: &str, problem: &str| PublicationError::Metadata {
            file: file.to_owned(),
            problem: problem.to_owned(),
        };
        let mut metadata = Vec::new();
        for version in 1u64.. {
            let name = format!("{version}.root.json");
            match read(&name)? {
                Some(bytes) => metadata.push((name, bytes)),
                None => break,
            }
        }
        let timestamp = needed("timestamp.json")?;
        let found = versions("timestamp.json", &timestamp)?;
        let snapshot = found.meta.get("snapshot.json");
        let snapshot = snapshot.ok_or_else(|| lacks("timestamp.json", "it names no snapshot"))?;
        let name = format!("{}.snapshot.json", snapshot.version);
        let bytes = needed(&name)?;
        let listed = versions(&name, &bytes)?;
        metadata.push((name, bytes));
        for (role, pinned) in &listed.meta {
            let name = format!("{}.{role}", pinned.version);
            metadata.push((name.clone(), needed(&name)?));
            let role = role.trim_end_matches(".json");
            let number = pinned.version;
            let has = |one: &BundleFile| one.role == role && one.number == number;
            if role != "targets" && !bundles.iter().any(has) {
                let stream = name_of(role);
                return Err(PublicationError::NoBundle { stream, number });
            }
        }
        let (mut objects, mut indexes, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
        for bundle in bundles {
            let opened = bundle.open()?;
            let new = |blob: &Object| known.insert(blob.content.digest);
            objects.extend(opened.blobs.into_iter().filter(new));
            indexes.push(opened.index);
        }
        objects.append(&mut indexes);
        let last = ("timestamp.json".to_owned(), timestamp);
        let all = metadata.into_iter().chain([last]);
        objects.extend(all.map(|(name, bytes)| Object::small(format!("metadata/{name}"), &bytes)));
        Ok(Self {
            objects,
            version: found.version,
        })
    }

    /// `timestamp.json`.
    pub(crate) fn timestamp(&self) -> Option<&Object> {
        self.objects.last()
    }
}
