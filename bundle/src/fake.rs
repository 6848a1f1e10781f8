//! Whole bundles in memory: for tests of every crate, for benchmarks and fuzzing.
//!
//! What comes in: a few files. What goes out: a consistent index, its blobs and the bytes of a bundle,
//! the same on every call. The metadata is a placeholder that no key signed, so that nothing made here
//! can ever be accepted by an agent.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use crate::digest::Digest;
use crate::encode::{ContentSource, ContentToEncode, EncodeError, encode_blob, plan_blobs};
use crate::index::{
    Assignment, Blob, Content, DriftPolicy, FORMAT, File, Index, ReconcilerSettings, Served,
    Snapshot, Source, Stream,
};
use crate::name::{Name, NameError, RelativePath};
use crate::read::BlobSink;
use crate::write::{BlobSource, WriteError, write_bundle};

/// Bytes by digest: a source of contents and blobs, and a sink of blobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryBlobs {
    /// What is there.
    pub by_digest: BTreeMap<Digest, Vec<u8>>,
    /// What a blob that is begun got so far.
    pub unfinished: Vec<u8>,
    /// Blobs that had to be thrown away.
    pub discarded: Vec<Digest>,
}

impl MemoryBlobs {
    /// Keeps `bytes`.
    pub fn put(&mut self, bytes: Vec<u8>) -> Digest {
        let digest = Digest::of(&bytes);
        self.by_digest.insert(digest, bytes);
        digest
    }

    fn open(&self, digest: Digest) -> io::Result<Box<dyn Read + '_>> {
        match self.by_digest.get(&digest) {
            Some(bytes) => Ok(Box::new(bytes.as_slice())),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }
}

impl BlobSource for MemoryBlobs {
    fn open(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        Self::open(self, blob.digest)
    }
}

impl ContentSource for MemoryBlobs {
    fn open(&mut self, content: &Content) -> io::Result<Box<dyn Read + '_>> {
        Self::open(self, content.digest)
    }
}

impl BlobSink for MemoryBlobs {
    fn begin(&mut self, blob: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        if self.by_digest.contains_key(&blob.digest) {
            return Ok(None);
        }
        self.unfinished.clear();
        Ok(Some(Box::new(&mut self.unfinished)))
    }

    fn commit(&mut self, blob: &Blob) -> io::Result<()> {
        self.by_digest
            .insert(blob.digest, std::mem::take(&mut self.unfinished));
        Ok(())
    }

    fn discard(&mut self, blob: &Blob) {
        self.unfinished.clear();
        self.discarded.push(blob.digest);
    }
}

/// A bundle in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeBundle {
    /// Placeholder metadata.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// The index.
    pub index: Index,
    /// The blobs that it lists.
    pub blobs: MemoryBlobs,
}

/// Why a fake could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FakeError {
    /// A name or path is not one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A blob could not be made.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The bundle could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl FakeBundle {
    /// Bundle `number` of the stream `dev`/`drone` with one assignment, `hello-world-test`, that has
    /// these rendered files.
    ///
    /// # Errors
    /// [`FakeError`] when a path is not safe.
    pub fn new(number: u64, files: &[(&str, &[u8])]) -> Result<Self, FakeError> {
        let mut contents = MemoryBlobs::default();
        let mut candidates = Vec::new();
        let mut entries = Vec::new();
        for (path, bytes) in files {
            let digest = contents.put(bytes.to_vec());
            let size = bytes.len() as u64;
            candidates.push(ContentToEncode {
                digest,
                size,
                path: (*path).to_owned(),
            });
            let path: RelativePath = path.parse()?;
            entries.push(File {
                path,
                content: digest,
                size,
                executable: false,
            });
        }
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut blobs = MemoryBlobs::default();
        let mut listed = Vec::new();
        for plan in plan_blobs(&candidates) {
            let (blob, bytes) = encode_blob(&plan, &mut contents, Vec::new())?;
            blobs.put(bytes);
            listed.push(blob);
        }
        let mut index = index(number)?;
        index.blobs = listed;
        index.assignments = vec![Assignment {
            name: "hello-world-test".parse()?,
            workload: "hello-world".to_owned(),
            workspace: "kaizen".to_owned(),
            policies: vec!["default".to_owned()],
            config_version: Digest::of(b"config"),
            files: entries,
            payload: Vec::new(),
            sites: None,
            overlays: Vec::new(),
            site_values: None,
            bootstrap: None,
        }];
        let metadata = ["1.root.json", "timestamp.json"].map(|name| {
            (
                name.to_owned(),
                format!("{{\"fake\":\"{name}\"}}").into_bytes(),
            )
        });
        Ok(Self {
            metadata: metadata.to_vec(),
            index,
            blobs,
        })
    }

    /// What metadata would list: size and digest of `index.json`.
    pub fn expected_index(&self) -> Content {
        let bytes = self.index.to_bytes();
        Content {
            digest: Digest::of(&bytes),
            size: bytes.len() as u64,
        }
    }

    /// The bundle's bytes.
    ///
    /// # Errors
    /// [`FakeError`] when index and blobs were changed to what no reader would take.
    pub fn to_bytes(&self) -> Result<Vec<u8>, FakeError> {
        let (index, mut blobs) = (self.index.to_bytes(), self.blobs.clone());
        Ok(write_bundle(
            Vec::new(),
            &self.metadata,
            &index,
            &self.index,
            &mut blobs,
        )?)
    }
}

/// An index without assignments and blobs.
fn index(number: u64) -> Result<Index, NameError> {
    let name = |text: &str| text.parse::<Name>();
    let source = |name: &str| Source {
        name: name.to_owned(),
        repo: format!("https://example.org/{name}"),
        commit: "0123456789abcdef0123456789abcdef01234567".to_owned(),
    };
    Ok(Index {
        format: FORMAT.to_owned(),
        fleet: name("00112233aabbccdd")?,
        stream: Stream {
            role: name("s-0011223344556677")?,
            environment: name("dev")?,
            cluster_type: name("drone")?,
        },
        number,
        requires: None,
        snapshot: Snapshot {
            environment: source("control-plane"),
            base: source("main"),
            workloads: vec![source("hello-world")],
            digest: Digest::of(b"snapshot"),
        },
        reconciler: ReconcilerSettings {
            kind: name("folder")?,
            settings: BTreeMap::new(),
            drift: DriftPolicy::Report,
        },
        recipients: std::collections::BTreeSet::new(),
        assignments: Vec::new(),
        served: Served::default(),
        kept: BTreeMap::new(),
        orders: Vec::new(),
        waves: None,
        agent: None,
        attestations: Vec::new(),
        blobs: Vec::new(),
    })
}
