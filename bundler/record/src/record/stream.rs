//! What only the record of a stream has: its destination, a bundle, does not show its content again.
//!
//! What comes in: the assignments of a bundle, each with the commit of its payload. What goes out: the [`Record`] of the
//! stream, and from it the same assignments when the next bundle is made. Files that are not what their digests say are an
//! error. It reads and writes no files.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;
use outhaul_plane::render::RenderedAssignment;
use serde::{Deserialize, Serialize};

use super::Record;
use crate::isolation::Kept;

/// What a stream shipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamContents {
    cluster_type: String,
    /// Digest of the index of the bundle that it is of; absent until that is signed, and in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<Digest>,
    /// The fleet's envelope around the digest of the record without it: what nobody else can write. Absent in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    /// By `<cluster type>/<target>`.
    pub(super) assignments: BTreeMap<String, ShippedAssignment>,
}

/// One assignment as it was shipped last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShippedAssignment {
    /// The commit of its payload; absent when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_commit: Option<String>,
    pub rendered: RenderedAssignment,
}

impl Record {
    /// The record of a stream that shipped `assignments`, by target.
    pub fn of_stream(
        environment: &str,
        cluster_type: &str,
        snapshot: &Snapshot,
        kept: BTreeMap<String, Kept>,
        assignments: impl Iterator<Item = (String, ShippedAssignment)>,
    ) -> Self {
        let named = |(target, one)| (format!("{cluster_type}/{target}"), one);
        let stream = StreamContents {
            cluster_type: cluster_type.to_owned(),
            index: None,
            signature: None,
            assignments: assignments.map(named).collect(),
        };
        Self {
            files: stream.files(),
            stream: Some(stream),
            ..Self::new(environment, snapshot, None, kept)
        }
    }

    /// The same, as the record of the bundle with this index.
    #[must_use]
    pub fn with_index(&self, index: Digest) -> Self {
        let mut record = self.clone();
        if let Some(stream) = &mut record.stream {
            stream.index = Some(index);
        }
        record
    }

    /// The digest of it without its signature.
    ///
    /// # Errors
    /// A text, should it ever not be possible.
    pub fn unsigned_digest(&self) -> Result<Digest, String> {
        let mut record = self.clone();
        if let Some(stream) = &mut record.stream {
            stream.signature = None;
        }
        Ok(Digest::of(&record.bytes()?))
    }

    /// The same with the fleet's signature.
    #[must_use]
    pub fn with_signature(mut self, envelope: String) -> Self {
        if let Some(stream) = &mut self.stream {
            stream.signature = Some(envelope);
        }
        self
    }

    /// The envelope that states its digest; `None` in records of before.
    pub fn signature(&self) -> Option<&str> {
        self.stream.as_ref()?.signature.as_deref()
    }

    /// The index of the bundle that it is of, where it says so.
    pub fn index(&self) -> Option<Digest> {
        self.stream.as_ref()?.index
    }

    /// The stream that it is of, as `<environment>/<cluster type>`.
    pub fn stream_name(&self) -> Option<String> {
        let stream = self.stream.as_ref()?;
        Some(format!("{}/{}", self.environment, stream.cluster_type))
    }

    /// One as a stream shipped it.
    pub fn shipped(&self, id: &str) -> Option<&ShippedAssignment> {
        self.stream.as_ref()?.assignments.get(id)
    }
}

impl StreamContents {
    fn files(&self) -> BTreeMap<String, Digest> {
        let all = self.assignments.iter().flat_map(|(id, one)| {
            let files = one.rendered.files.iter();
            files.map(move |(name, bytes)| (format!("{id}/{name}"), Digest::of(bytes)))
        });
        all.collect()
    }

    /// Compares it with the record's `files`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn check(&self, files: &BTreeMap<String, Digest>) -> Result<(), String> {
        let within = format!("{}/", self.cluster_type);
        if let Some(id) = (self.assignments.keys()).find(|id| !id.starts_with(&within)) {
            return Err(format!("`{id}` is of another stream"));
        }
        match self.files() == *files {
            true => Ok(()),
            false => Err("its files are not what their digests say".to_owned()),
        }
    }
}
