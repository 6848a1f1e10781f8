//! A bundle in a file: an `.outhaul` bundle, read once from its first byte to its last.
//!
//! What comes in: an open file of a stick or a disk. What goes out: the three steps of the bundle reader, with
//! the reader's words for what is wrong. The file is never opened for writing and never sought in.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

use outhaul_bundle::index::Content;
use outhaul_bundle::{BundleReader, Index, Limits, ReadError, Volume};
use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_signer::MetadataSource;

use super::BundleSource;
use crate::blobs::Blobs;
use crate::error::AgentError;
use outhaul_kit::heartbeat::Heartbeat;

/// A file that is being read.
#[derive(Debug)]
pub struct BundleFile {
    name: String,
    heartbeat: Heartbeat,
    reader: BundleReader<Beating>,
    metadata: Option<BTreeMap<String, Vec<u8>>>,
    /// Whether its blobs were read: a part's are read before it is known whether anything is missing.
    is_read: bool,
}

/// A file whose reading is a heartbeat.
#[derive(Debug)]
struct Beating {
    file: File,
    heartbeat: Heartbeat,
    meter: Meter,
}

impl Read for Beating {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.heartbeat.beat();
        if self.heartbeat.is_cancelled() {
            return Err(io::Error::other("it was stopped on request"));
        }
        let count = self.file.read(buffer)?;
        self.meter.add(count as u64);
        Ok(count)
    }
}

impl BundleFile {
    /// Reads `file`, which is called `name` in messages.
    pub fn new(name: String, file: File, limits: Limits, heartbeat: &Heartbeat) -> Self {
        let bytes = file.metadata().map(|found| found.len()).ok();
        let meter = Meter::new(&format!("reading {name}"), Unit::Bytes, bytes);
        Self {
            name,
            heartbeat: heartbeat.clone(),
            reader: BundleReader::new(
                Beating {
                    file,
                    heartbeat: heartbeat.clone(),
                    meter,
                },
                limits,
            ),
            metadata: None,
            is_read: false,
        }
    }

    /// For whom the bundle says it is, unverified: for messages about bundles that are not ours.
    pub fn claims(&self) -> Option<String> {
        let metadata = self.metadata.as_ref()?;
        let common = [
            "root.json",
            "timestamp.json",
            "snapshot.json",
            "targets.json",
        ];
        let role = metadata.iter().find(|(name, _)| {
            let bare = name.split_once('.').map_or(name.as_str(), |(first, rest)| {
                if first.bytes().all(|b| b.is_ascii_digit()) {
                    rest
                } else {
                    name
                }
            });
            !common.contains(&bare)
        })?;
        let value: serde_json::Value = serde_json::from_slice(role.1).ok()?;
        let targets = value.get("signed")?.get("targets")?.as_object()?;
        let custom = targets.values().next()?.get("custom")?;
        let word = |key| {
            custom
                .get(key)
                .and_then(|value: &serde_json::Value| value.as_str())
        };
        let plain = |text: &str| {
            text.chars()
                .filter(|c| !c.is_control())
                .take(60)
                .collect::<String>()
        };
        Some(format!(
            "{}/{}",
            plain(word("environment")?),
            plain(word("cluster_type")?)
        ))
    }
}

/// What reading said, unless it was only asked to stop.
fn failed(name: &str, heartbeat: &Heartbeat, error: &ReadError) -> AgentError {
    match heartbeat.is_cancelled() && error.is_environment() {
        true => AgentError::Stopped,
        false => AgentError::from_read(name, error),
    }
}

impl BundleSource for BundleFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn metadata(&mut self) -> Result<&dyn MetadataSource, AgentError> {
        let metadata = match self.metadata.take() {
            Some(metadata) => metadata,
            None => self
                .reader
                .read_metadata()
                .map_err(|error| failed(&self.name, &self.heartbeat, &error))?,
        };
        Ok(self.metadata.insert(metadata))
    }

    fn brings(&self, role: &str) -> bool {
        let own = format!(".{role}.json");
        self.metadata
            .as_ref()
            .is_some_and(|files| files.keys().any(|name| name.ends_with(&own)))
    }

    fn is_on_media(&self) -> bool {
        true
    }

    fn index(&mut self, expected: &Content) -> Result<(Index, Vec<u8>), AgentError> {
        self.reader
            .read_index(expected)
            .map_err(|error| failed(&self.name, &self.heartbeat, &error))
    }

    fn volume(&mut self, index: &Index) -> Result<Option<Volume>, AgentError> {
        self.reader
            .read_volume(index)
            .map_err(|error| failed(&self.name, &self.heartbeat, &error))
    }

    fn blobs(&mut self, index: &Index, store: &mut Blobs) -> Result<(), AgentError> {
        if self.is_read {
            return Ok(());
        }
        self.reader
            .read_blobs(index, store)
            .map_err(|error| failed(&self.name, &self.heartbeat, &error))?;
        self.is_read = true;
        Ok(())
    }
}
